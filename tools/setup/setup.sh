#!/usr/bin/env bash
# Brings a machine to where `make TIER` works, and does nothing where it already is.
#   tools/setup/setup.sh [build|demo|test|full|lint|fuzz|arm64]
# Debian packages come through apt when we are root or have sudo without a password; otherwise the one line to run is
# printed and we stop. Everything else lives in the repository's own .venv, .cache and models folders (and cargo's home).
set -euo pipefail
cd "$(dirname "$0")/../.."
tier=${1:-test}
say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
case $tier in build | demo | test | full | lint | fuzz | arm64) ;; *) die "unknown tier '$tier' (build, demo, test, full, lint, fuzz, arm64)" ;; esac

# One set-up at a time; a second one waits for the first and then finds nothing to do.
mkdir -p .cache
exec 9>.cache/setup.lock
flock 9

# --- What is needed: "package probe", the probe being a program on PATH or a file that proves it is there.
# A multiarch path is written with LIB for /usr/lib/<this machine's triplet>.
needs_build=(
  "g++ g++" "cmake cmake" "ninja-build ninja" "make make" "python3 python3" "ca-certificates /etc/ssl/certs/ca-certificates.crt" "git git"
  "libboost-json1.81-dev LIB/libboost_json.so" "libfmt-dev /usr/include/fmt/core.h" "libcli11-dev /usr/include/CLI/CLI.hpp" "libssl-dev /usr/include/openssl/evp.h"
  "zlib1g-dev /usr/include/zlib.h"
  "libgtest-dev /usr/include/gtest/gtest.h" "libbenchmark-dev /usr/include/benchmark/benchmark.h"
  "libsimde-dev /usr/include/simde/x86/avx512/dpbusd.h"
)
needs_full=("npm npm")
needs_lint=("clang-format-14 clang-format-14" "clang-tidy-14 clang-tidy-14")
# libclang-rt holds libFuzzer and the sanitizers' libraries; clang only recommends it.
needs_fuzz=("clang-14 clang++-14" "llvm-14 llvm-symbolizer-14" "libclang-rt-14-dev /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux")
needs_arm64=("g++-aarch64-linux-gnu aarch64-linux-gnu-g++" "qemu-user qemu-aarch64")
needs_nice=("ccache ccache")  # makes rebuilds fast; never a reason to stop
triplet=$(g++ -dumpmachine 2>/dev/null || dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")

present() {
  case $1 in
    LIB/*) [ -e "/usr/lib/$triplet/${1#LIB/}" ] ;;
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}
missing=()
want() {
  local need
  for need in "$@"; do present "${need##* }" || missing+=("${need%% *}"); done
}
want "${needs_build[@]}"
case $tier in full) want "${needs_full[@]}" ;; lint) want "${needs_lint[@]}" ;; fuzz) want "${needs_fuzz[@]}" ;; arm64) want "${needs_arm64[@]}" ;; esac
# The venv needs the interpreter's own pip; Debian keeps that in python3-venv.
python=$(command -v python3 || true)
if [ ! -x .venv/bin/pip ] && { [ -z "$python" ] || ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }; then
  missing+=(python3-venv)
fi

# Rust: any cargo on PATH that is new enough for the crates we lock, else Debian's rustc-web and cargo-web.
msrv=$(sed -n "s/^set(KNAPSACK_RUST_MINIMUM \([0-9.]*\)).*/\1/p" src/text/bridge/CMakeLists.txt | head -1)
msrv=${msrv:-1.85}
cargo_recent() {
  local found
  found=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
  [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$msrv" "$found" | sort -V | head -1)" = "$msrv" ]
}
cargo_recent || missing+=(rustc-web cargo-web)

# Runs apt-get as root, directly or through sudo. With no way to become root it returns 1.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
    sudo -n "$@"
  else
    return 1
  fi
}
apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=600 "$@" </dev/null; }

if [ ${#missing[@]} -gt 0 ]; then
  line="apt-get install -y --no-install-recommends ${missing[*]}"
  command -v apt-get >/dev/null 2>&1 ||
    die "this machine has no apt-get; please install what corresponds to Debian 12's: ${missing[*]}"
  if ! as_root true; then
    die "some Debian packages are missing and this user may not install them. Please run, then try again:
    sudo $line"
  fi
  extra=()
  for need in "${needs_nice[@]}"; do present "${need##* }" || extra+=("${need%% *}"); done
  say "installing ${missing[*]} ${extra[*]-}"
  if ! apt_get install --no-install-recommends "${missing[@]}" ${extra[@]+"${extra[@]}"} >.cache/apt.log 2>&1; then
    # Old package lists are the usual cause, an interrupted installation the next: mend both and try once more.
    as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a </dev/null >>.cache/apt.log 2>&1 || true
    apt_get update >>.cache/apt.log 2>&1 || { tail -5 .cache/apt.log >&2; die "apt-get update failed (log: .cache/apt.log)"; }
    apt_get install --no-install-recommends "${missing[@]}" ${extra[@]+"${extra[@]}"} >>.cache/apt.log 2>&1 ||
      { tail -5 .cache/apt.log >&2; die "apt-get could not install: ${missing[*]} (log: .cache/apt.log). By hand: sudo $line"; }
  fi
  hash -r
  cargo_recent || die "cargo >= $msrv is needed, found: $(cargo --version 2>/dev/null || echo none). If an older one stands
    before Debian's on PATH, put /usr/bin first or update it."
fi

# --- Things that are done once for each version of their list; a stamp names the version.
stamp_of() { sha256sum "$@" | sha256sum | cut -c1-16; }
fresh() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

# The crates, so that building is offline from here on.
if [ -f src/text/bridge/Cargo.lock ]; then
  want_stamp="$(stamp_of src/text/bridge/Cargo.lock) ${CARGO_HOME:-${HOME:-/root}/.cargo}"
  if ! fresh .cache/crates.stamp "$want_stamp" || [ ! -d "${CARGO_HOME:-${HOME:-/root}/.cargo}/registry" ]; then
    say "fetching the crates"
    cargo fetch --locked --quiet --manifest-path src/text/bridge/Cargo.toml </dev/null
    echo "$want_stamp" >.cache/crates.stamp
  fi
fi

# Python, in a venv of our own: pip itself fetches the models; tests compare with ONNX Runtime, the full tier with more.
venv_for() {  # requirements file, extra environment...
  local list=$1 name stamp
  name=$(basename "$list" .txt)
  stamp=$(stamp_of "$list")
  fresh ".venv/$name.stamp" "$stamp" && return
  say "Python packages of $list"
  .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r "$list" </dev/null
  echo "$stamp" >".venv/$name.stamp"
}
case $tier in demo | test | full)
  if ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
    say "making .venv"
    rm -rf .venv
    python3 -m venv .venv
  fi
  ;;
esac
case $tier in test | full) venv_for tools/setup/requirements.txt ;; esac
if [ "$tier" = full ]; then
  # llama.cpp is compiled here, for this very CPU: the published wheels leave its vector units unused.
  peer_stamp="$(stamp_of tools/setup/requirements-peer.txt) $(grep -m1 '^model name' /proc/cpuinfo || true)"
  if ! fresh .venv/peer.stamp "$peer_stamp"; then
    say "building llama-cpp-python for this CPU (about ten minutes on two cores)"
    CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) .venv/bin/pip install --quiet \
      --disable-pip-version-check --no-deps --require-hashes --no-binary llama-cpp-python --force-reinstall \
      -r tools/setup/requirements-peer.txt </dev/null
    echo "$peer_stamp" >.venv/peer.stamp
  fi
fi

# Libraries of another architecture, for cmake/aarch64.cmake: fetched with an apt state of their own and unpacked, so that
# neither root nor a second architecture in this machine's dpkg is needed.
if [ "$tier" = arm64 ]; then
  libraries=(libfmt9 libfmt-dev libboost-json1.81.0 libboost-json1.81-dev libboost-container1.81.0
    libboost-container1.81-dev libboost-system1.81.0 libssl3 libssl-dev zlib1g zlib1g-dev libgtest-dev)
  want_stamp=$(printf '%s\n' "${libraries[@]}" | sha256sum | cut -c1-16)
  if ! fresh .cache/arm64.stamp "$want_stamp"; then
    say "fetching Debian's libraries for arm64"
    state=$PWD/.cache/arm64-apt
    rm -rf "$state" .cache/arm64
    mkdir -p "$state/lists/partial" "$state/archives/partial" .cache/arm64
    : >"$state/status"
    foreign=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o "Dir::State::lists=$state/lists"
      -o "Dir::Cache=$state" -o "Dir::State::status=$state/status")
    { apt-get "${foreign[@]}" update && (cd "$state" && apt-get "${foreign[@]}" download "${libraries[@]}"); } </dev/null >.cache/apt.log 2>&1 ||
      { tail -5 .cache/apt.log >&2; die "apt-get could not fetch the arm64 packages ${libraries[*]} (log: .cache/apt.log)"; }
    for package in "$state"/*.deb; do dpkg-deb -x "$package" .cache/arm64; done
    rm -rf "$state"
    echo "$want_stamp" >.cache/arm64.stamp
  fi
fi

case $tier in
  demo | test) .venv/bin/python tools/setup/fetch_models.py smollm2 ;;
  full) .venv/bin/python tools/setup/fetch_models.py --all ;;
esac
