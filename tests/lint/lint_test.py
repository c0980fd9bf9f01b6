#!/usr/bin/env python3
"""The lints against planted faults: one that finds nothing anywhere would pass for ever."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DESIGN = """# A house

## The house
Words before the list.

    src/base       result, log          std, POSIX and their libraries
    src/text       tokenizer, later grammar         base
    src/graph      IR (and its text form)   base
    -- siblings
    src/import     arch/: one file an architecture   graph text
    src/runtime    session   text
    src/pipeline   the story   all of the above
    src/cli        commands/   everything

| To add | One file |
"""


class Tree:
    """A small repository in a temporary folder."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory(prefix="knapsack-lint-")
        self.root = self.folder.name
        for path, content in {"docs/design.md": DESIGN, **files}.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())

    def lint(self, name):
        command = [sys.executable, os.path.join(ROOT, "tools", "lint", name), "--root", self.root]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.folder.cleanup()
        return done.returncode, done.stdout + done.stderr


GOOD = {
    "src/base/result.h": "#pragma once\n#include <string>\n",
    "src/text/tokenizer.h": '#pragma once\n#include "base/result.h"\n',
    "src/graph/graph.h": '#pragma once\n#include "base/result.h"\n',
    "src/import/arch/llama.cc": '#include "graph/graph.h"\n#include "text/tokenizer.h"\n#include "base/result.h"\n',
    "src/runtime/session.cc": '#include "text/tokenizer.h"\n',
    "src/pipeline/pipeline.cc": '#include "import/arch/llama.cc"\n#include "runtime/session.cc"\n',
    "src/main.cc": '#include "pipeline/pipeline.cc"\n',
}


class Layers(unittest.TestCase):
    def faulty(self, files, words):
        code, out = Tree({**GOOD, **files}).lint("layers")
        self.assertEqual(code, 1, out)
        self.assertIn(words, out)

    def test_a_good_tree_passes_with_folders_that_do_not_exist_yet(self):
        code, out = Tree(GOOD).lint("layers")
        self.assertEqual(code, 0, out)

    def test_upwards(self):
        self.faulty({"src/base/log.cc": '#include "base/result.h"\n\n#include "graph/graph.h"\n'}, "src/base/log.cc:3: ")

    def test_sideways(self):
        self.faulty({"src/runtime/extra.cc": '#include "graph/graph.h"\n'}, 'src/runtime may not include "graph/graph.h"')

    def test_with_blanks_around_the_directive(self):
        self.faulty({"src/text/x.cc": '  #  include   "graph/graph.h"\n'}, "src/text/x.cc:1")

    def test_in_an_inc_file(self):
        self.faulty({"src/text/x.inc": '#include "graph/graph.h"\n'}, "src/text/x.inc:1")

    def test_in_a_subfolder(self):
        self.faulty({"src/text/deep/er/x.h": '#include "runtime/session.cc"\n'}, "src/text/deep/er/x.h:1")

    def test_ours_in_angle_brackets(self):
        self.faulty({"src/text/x.cc": "#include <graph/graph.h>\n"}, "quotes")

    def test_a_path_that_does_not_begin_with_a_folder(self):
        self.faulty({"src/text/x.cc": '#include "tokenizer.h"\n'}, "not a path below src/")
        self.faulty({"src/text/x.cc": '#include "../graph/graph.h"\n'}, "not a path below src/")

    def test_a_folder_that_is_not_in_the_list(self):
        self.faulty({"src/attic/x.cc": "\n"}, "src/attic is not in the list")

    def test_a_cmake_dependency(self):
        self.faulty({"src/CMakeLists.txt": "knap_module(text DEPS base graph LIBS Boost::json)\n"}, "text may not depend on graph")

    def test_a_list_that_names_an_unknown_folder(self):
        tree = Tree({"docs/design.md": DESIGN.replace("tokenizer, later grammar         base", "tokenizer   basement")})
        code, out = tree.lint("layers")
        self.assertNotEqual(code, 0)
        self.assertIn("basement", out)

    def test_a_circle(self):
        tree = Tree({"docs/design.md": DESIGN.replace("IR (and its text form)   base", "IR   import")})
        code, out = tree.lint("layers")
        self.assertNotEqual(code, 0)
        self.assertIn("circle", out)

    def test_the_list_of_this_repository(self):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "tools/lint/layers"), "--list"], capture_output=True, text=True, check=True
        )
        reach = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        self.assertEqual(reach["src/base"], "-")
        self.assertNotIn("graph", reach["src/runtime"].split(), "the runtime links no graph")
        self.assertNotIn("import", reach["src/export"].split(), "siblings of the toolchain never include each other")


class Complete(unittest.TestCase):
    FILES = {
        "src/ops/ops.inc": 'KNAP_OP(add, "add", elementwise, 2, 2, 1)\n',
        "src/kernels/ref/add.cc": "\n",
        "tests/kernels/ref_test.cc": "// add\n",
        "docs/graph.md": "`add`: a + b\n",
    }

    def check(self, change, words):
        code, out = Tree({**self.FILES, **change}).lint("complete")
        self.assertEqual(code, 1, out)
        self.assertIn(words, out)

    def test_complete(self):
        code, out = Tree(self.FILES).lint("complete")
        self.assertEqual(code, 0, out)

    def test_no_file_no_test_no_docs(self):
        row = {"src/ops/ops.inc": self.FILES["src/ops/ops.inc"] + 'KNAP_OP(mul, "mul", elementwise, 2, 2, 1)\n'}
        self.check(row, "mul: has no src/kernels/ref/mul.cc")
        self.check(row, "mul: nothing in tests/kernels")
        self.check(row, "mul: docs/graph.md does not describe it")

    def test_twice(self):
        self.check({"src/ops/ops.inc": self.FILES["src/ops/ops.inc"] * 2}, "twice")

    def test_a_stray_file(self):
        self.check({"src/kernels/ref/mul.cc": "\n"}, "src/kernels/ref/mul.cc: belongs to no row")

    def test_an_empty_list(self):
        self.check({"src/ops/ops.inc": "// nothing\n"}, "has no row")


class Text(unittest.TestCase):
    def check(self, content, words):
        code, out = Tree({"src/base/x.cc": content}).lint("text")
        self.assertEqual(code, 1 if words else 0, out)
        self.assertIn(words or "ok", out)

    def test_text(self):
        self.check("int x;\n\nint y;\n", "")
        self.check("int x; \n", "src/base/x.cc:1: blanks")
        self.check("int x;\r\n", "blanks or \\r")
        self.check("int x;", "without a newline")
        self.check("int x;\n\n", "empty line")
        self.check(b"// \xff\n", "not UTF-8")
        self.check(b"\xef\xbb\xbfint x;\n", "byte-order mark")


class Paths(unittest.TestCase):
    def check(self, files, words):
        code, out = Tree(files).lint("paths")
        self.assertEqual(code, 1 if words else 0, out)
        self.assertIn(words or "ok", out)

    def test_paths(self):
        home = "/" + "root/"
        self.check({"src/x.cc": "// see docs/root/x and a/work/b\n"}, "")
        self.check({"src/x.cc": f"// see {home}x\n"}, "src/x.cc:1: a path of one machine")
        self.check({"tools/x.sh": "curl https://" + "py" + "pi.org/simple\n"}, "registry's host")
        self.check({"tests/data/big.bin": b"\0" * ((2 << 20) + 1)}, "a committed file has at most")
        self.check({f"tests/data/{i}.bin": b"\0" * (2 << 20) for i in range(13)}, "bytes of test data")


if __name__ == "__main__":
    unittest.main()
