#!/usr/bin/env bash
# Installs a build into a temporary prefix, moves that elsewhere, and builds a consumer against it with find_package.
#   install_test.sh BUILD
set -euo pipefail
build=$1 here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved"  # the package must not remember where it was
# Nothing that is installed for CMake may point back to the sources or the build.
if grep -rlE "$(cd "$here/../.." && pwd)|$build" "$work/moved" --include='*.cmake'; then
  echo "the files above name the source or build folder"
  exit 1
fi
"$work/moved/bin/knapsack" version
for page in share/man/man1/knapsack.1 share/bash-completion/completions/knapsack share/zsh/site-functions/_knapsack \
  share/fish/vendor_completions.d/knapsack.fish; do
  [ -s "$work/moved/$page" ] || { echo "$page is missing or empty"; exit 1; }
done
cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release \
  >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/consumer" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
found=$("$work/consumer/consumer" "$work/build.log")
[ "$found" = "refused with exit code 3" ] || { echo "the consumer said: $found"; exit 1; }
echo "installed, moved, found, linked and run"
