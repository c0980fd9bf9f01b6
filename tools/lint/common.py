"""What the lints share: the list of committed files, and saying where something is wrong."""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tracked(root):
    """Paths of the files git knows or would add, relative to root; every file, where there is no git."""
    command = ["git", "-C", root, "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode == 0:
        paths = [path for path in listing.stdout.decode().split("\0") if path]
    else:
        paths = []
        for here, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", ".cache", ".venv", "models") and not f.startswith("build")]
            paths += [os.path.relpath(os.path.join(here, file), root) for file in files]
    return sorted(path for path in set(paths) if os.path.isfile(os.path.join(root, path)))


def report(name, faults, what):
    """Prints the faults and exits: 1 if there are any."""
    for fault in faults:
        print(fault)
    print(f"{name}: {len(faults)} faults in {what}" if faults else f"{name}: ok ({what})")
    sys.exit(1 if faults else 0)


def read_text(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()
