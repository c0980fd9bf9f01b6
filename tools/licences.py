#!/usr/bin/env python3
"""Writes the table of crates and their licences into docs/dependencies.md, from `cargo metadata`.

    tools/licences.py [--check]

--check only says whether the table is what it should be. A crate without a licence, or with one that is not known to go
with Apache-2.0, is an error.
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "dependencies.md")
TARGET = "x86_64-unknown-linux-gnu"
FREE = {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "Zlib", "Unlicense", "0BSD", "ISC", "Unicode-3.0"}


def acceptable(expression):
    """True if some choice of an OR has only known licences in its ANDs."""
    words = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    words = words.replace("WITH LLVM-exception", "").split()
    python = " ".join({"OR": "or", "AND": "and", "(": "(", ")": ")"}.get(word, str(word in FREE)) for word in words)
    return eval(python, {"__builtins__": {}})  # only True, False, and, or, ( and ) can stand here


def main():
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", TARGET]
    command += ["--manifest-path", os.path.join(ROOT, "src", "text", "bridge", "Cargo.toml")]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    linked = {node["id"] for node in metadata["resolve"]["nodes"]}
    rows = []
    for package in metadata["packages"]:
        if package["source"] is None or package["id"] not in linked:
            continue
        licence = package["license"] or ""
        if not acceptable(licence):
            raise SystemExit(f"{package['name']} {package['version']}: licence {licence!r} has to be looked at")
        rows.append((package["name"], package["version"], licence))
    table = "| crate | version | licence |\n|---|---|---|\n" + "".join("| {} | {} | {} |\n".format(*row) for row in sorted(rows))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    updated = re.sub(r"(<!-- crates:begin -->\n).*?(<!-- crates:end -->)", lambda m: m[1] + table + m[2], page, flags=re.S)
    if updated == page:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/dependencies.md: the table of crates is not that of Cargo.lock (tools/licences.py)")
        return 1
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(updated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
