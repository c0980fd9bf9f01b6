"""The page of `knapsack graph --format html` in a real browser, with 10,000 nodes: what is open at first, search, a
click, a layer that opens, frame times, memory, and names that would break out. Prints "N passed, M failed".

Fetches playwright-core with npm into .cache/full; a second run needs no network. Skipped without chromium and node.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "full"
BINARY = os.environ.get("KNAPSACK_BINARY", str(ROOT / "build" / "src" / "knapsack"))
PLAYWRIGHT = "1.65.1"
SHA256 = "6f5a60be62a4fddfbe7d10c448d8fbd54547da3358f2f8a04211440471ee863e"
LAYERS, BRANCHES = 100, 49  # two nodes a branch


def fetch_playwright():
    folder = CACHE / f"playwright-core-{PLAYWRIGHT}"
    if not (folder / "package" / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", f"playwright-core@{PLAYWRIGHT}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = next(folder.glob("*.tgz"))
        if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
            raise SystemExit(f"{archive}: not the file that was tested with")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        archive.unlink()
    return folder / "package"


def ten_thousand():
    """A graph in our text form: layers of many branches, added up one after the other."""
    lines = ["knapsack-graph 1", "input %ids [T, 1] I32", "constant @table [16, 8] F32"]
    lines += [f"constant @layers.{n}.w [8, 8] F32" for n in range(LAYERS)]
    lines.append("%embed [T, 8] F32 = embed %ids, @table")
    x = "embed"
    for n in range(LAYERS):
        at = f"layers.{n}."
        lines.append(f"%{at}norm [T, 8] F32 = rms_norm %{x} {{eps=1e-06}}")
        for b in range(BRANCHES):
            lines.append(f"%{at}branch_{b} [T, 8] F32 = linear %{at}norm, @{at}w")
            lines.append(f"%{at}sum_{b} [T, 8] F32 = add %{x}, %{at}branch_{b}")
            x = f"{at}sum_{b}"
        lines.append(f"%{at}out [T, 8] F32 = scale %{x} {{scale=0.5}}")
        x = f"{at}out"
    lines += [f"%last [S, 8] F32 = select_rows %{x}", "%logits [S, 16] F32 = linear %last, @table", "output %logits"]
    return "\n".join(lines) + "\n"


def hostile():
    name = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\u5c42"
    return (
        f'knapsack-graph 1\ninput %ids [T, 1] I32\nconstant @table [16, 8] F32\n%"{name}" [T, 8] F32 = embed %ids, @table\n'
        f'%last [S, 8] F32 = select_rows %"{name}"\n%logits [S, 16] F32 = linear %last, @table\noutput %logits\n'
    )


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None or shutil.which("node") is None or shutil.which("npm") is None:
        print("no chromium, node or npm here\n0 passed, 0 failed, 1 skipped")
        return 0
    folder = CACHE / "graph_page"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("large", ten_thousand()), ("hostile", hostile())):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        subprocess.run([BINARY, "graph", str(folder / f"{name}.txt"), "-q", "-o", str(folder / f"{name}.html")], check=True)
    script = ROOT / "tests" / "full" / "_graph_page.mjs"
    return subprocess.run(["node", str(script), str(fetch_playwright()), browser, str(folder)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
