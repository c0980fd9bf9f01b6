#!/usr/bin/env python3
"""The data below devices/: against their schemas, against the facts they are made from, and against each other."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICES = os.path.join(ROOT, "devices")
sys.path.insert(0, os.path.join(ROOT, "tools/devices"))
import constraints  # noqa: E402
import facts  # noqa: E402
import json_schema  # noqa: E402
import toolchains  # noqa: E402

try:
    import jsonschema  # where it is installed, both must say the same
except ImportError:
    jsonschema = None


def load(*path):
    with open(os.path.join(DEVICES, *path), encoding="utf-8") as file:
        return json.load(file)


def folder(*path):
    names = sorted(os.listdir(os.path.join(DEVICES, *path)))
    return {name[:-5]: load(*path, name) for name in names if name.endswith(".json") and name not in HAND_WRITTEN}


HAND_WRITTEN = {"schema.json", "toolchain.schema.json", "efficiency.json"}
SCHEMA, TOOLCHAIN_SCHEMA = load("schema.json"), load("toolchain.schema.json")
PROFILES, TOOLCHAINS = folder(), folder("toolchains")
# At the least; the issue of the planner names them.
EXPECTED = """rk3588 rk3576 snapdragon-8-gen-3 snapdragon-8-elite snapdragon-x-elite sa8295p dimensity-9300 dimensity-9400 tensor-g3
    tensor-g4 exynos-2400 apple-a17-pro apple-a19-pro apple-m1 apple-m2 apple-m3 apple-m4 apple-m5 raspberry-pi-5 jetson-agx-orin
    core-ultra-7-258v ryzen-ai-7-350 ascend-310b kirin-9000 ethos-u55 ethos-u65 ethos-u85 ethos-n37 ethos-n78 SM8650 BCM2712"""


def names_of(profile):
    return [profile["id"], *profile.get("aliases", [])]


def numbers(value, path=()):
    """Every number below value, with the object that holds it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (int, float)) and not isinstance(inner, bool):
                yield (*path, key), value
            else:
                yield from numbers(inner, (*path, key))
            if isinstance(inner, list) and any(isinstance(item, (int, float)) for item in inner):
                yield (*path, key), value
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from numbers(inner, (*path, str(i)))


class Profiles(unittest.TestCase):
    def test_each_follows_its_schema(self):
        for schema, files in ((SCHEMA, PROFILES), (TOOLCHAIN_SCHEMA, TOOLCHAINS)):
            for name, content in files.items():
                self.assertEqual(list(json_schema.faults(content, schema)), [], name)
                self.assertEqual(content["id"], name)
                self.assertTrue(schema is not SCHEMA or content["vendor"], name)  # a user's own may lack it
                if jsonschema:
                    jsonschema.Draft202012Validator(schema).validate(content)

    def test_they_are_what_the_facts_give(self):
        script = os.path.join(ROOT, "tools/devices/make_profiles.py")
        run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))

    def test_a_changed_and_a_stray_file_are_found(self):
        script = os.path.join(ROOT, "tools/devices/make_profiles.py")
        with tempfile.TemporaryDirectory(prefix="knapsack-devices-") as out:
            subprocess.run([sys.executable, script, "--out", out], capture_output=True, check=True)
            with open(os.path.join(out, "rk3588.json"), "a", encoding="utf-8") as file:
                file.write("\n")
            with open(os.path.join(out, "stray.json"), "w", encoding="utf-8") as file:
                file.write("{}\n")
            run = subprocess.run([sys.executable, script, "--check", "--out", out], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertEqual([line.split(":")[0] for line in run.stdout.splitlines()], ["rk3588.json", "stray.json"])

    def test_every_number_has_a_source(self):
        count = 0
        for name, content in PROFILES.items():
            for path, holder in numbers(content):
                if path == ("units", "npu", "generation"):  # part of the NPU's name
                    continue
                count += 1
                self.assertTrue(holder.get("source"), f"{name}: {'.'.join(path)}")
        self.assertGreater(count, 1000)
        for name, content in TOOLCHAINS.items():
            for entry in content["ops"] + content["traits"]:
                self.assertTrue(entry["source"], name)

    def test_names_are_unique_and_the_expected_ones_are_there(self):
        seen = {}
        for name, content in PROFILES.items():
            for alias in names_of(content):
                self.assertNotIn(alias.lower(), seen, f"{name} and {seen.get(alias.lower())}")
                seen[alias.lower()] = name
        for name in EXPECTED.split():
            self.assertIn(name.lower(), seen)

    def test_every_device_of_the_facts_has_a_profile_or_was_left_out(self):
        known = {alias for content in PROFILES.values() for alias in names_of(content)}
        left_out = {row["key"] for row in facts.table("ids.csv") if not row["id"]}
        for row in facts.table("devices.csv"):
            key = row["key"]
            short = "ethos-" + key.lower()
            self.assertTrue(key in known or key.lower() in known or short in known or key in left_out, key)

    def test_toolchains_are_there_and_have_each_operator_once(self):
        for name, content in PROFILES.items():
            for chain in content.get("toolchains", []):
                self.assertIn(chain, TOOLCHAINS, name)
        for name, content in TOOLCHAINS.items():
            ops = [entry["op"] for entry in content["ops"]]
            self.assertEqual(len(ops), len(set(ops)), name)

    def test_figures_agree_with_each_other(self):
        for name, content in PROFILES.items():
            bandwidth = content["memory"].get("bandwidth_gb_per_s", {})
            if "sustained" in bandwidth and "theoretical" in bandwidth:
                self.assertLess(bandwidth["sustained"]["value"], bandwidth["theoretical"]["value"], name)
            npu = content["units"].get("npu", {})
            if {"macs_per_cycle", "clock_mhz"} <= npu.keys():  # two operations a multiply-add; peaks are rounded
                peak = 2 * npu["macs_per_cycle"]["value"] * npu["clock_mhz"]["value"] * 1e-6
                self.assertAlmostEqual(npu["peak_tops"]["int8"]["value"], peak, delta=0.0006 + 0.03 * peak, msg=name)
            for _, holder in numbers(content):
                if "range" in holder:
                    low, high = holder["range"]
                    self.assertTrue(low <= holder["value"] <= high, name)

    def test_unknown_stays_absent(self):
        self.assertNotIn("bandwidth_gb_per_s", PROFILES["kirin-9000"]["memory"])
        self.assertNotIn("peak_tops", PROFILES["kirin-9000"]["units"]["npu"])
        self.assertNotIn("bandwidth_gb_per_s", PROFILES["ascend-310b"]["memory"])
        self.assertNotIn("sustained", PROFILES["rk3576"]["memory"]["bandwidth_gb_per_s"])

    def test_hexagon_generations(self):
        old, new = (PROFILES[name]["units"]["npu"] for name in ("sa8295p", "snapdragon-8-gen-3"))
        for feature in ("a16w4-block", "kv-16bit", "weight-sharing", "fp16"):
            self.assertNotIn(feature, old["features"]["values"])
            self.assertIn(feature, new["features"]["values"])
        self.assertNotIn("fp16", old["dtypes"]["values"])


class Schema(unittest.TestCase):
    """What a user's own profile may get wrong."""

    def refuse(self, change, words):
        profile = copy.deepcopy(PROFILES["rk3588"])
        change(profile)
        found = list(json_schema.faults(profile, SCHEMA))
        self.assertTrue(any(words in fault for fault in found), found)
        if jsonschema:
            self.assertFalse(jsonschema.Draft202012Validator(SCHEMA).is_valid(profile))

    def test_faults(self):
        bandwidth = ("memory", "bandwidth_gb_per_s", "theoretical")

        def at(profile, path):
            for key in path:
                profile = profile[key]
            return profile

        self.refuse(lambda p: at(p, bandwidth).update(value=-1), "out of range")
        self.refuse(lambda p: at(p, bandwidth).update(value="38"), "not of type number")
        self.refuse(lambda p: at(p, bandwidth).update(value=True), "not of type number")
        self.refuse(lambda p: at(p, bandwidth).pop("source"), "'source' is missing")
        self.refuse(lambda p: at(p, bandwidth).update(kind="rumour"), "not one of")
        self.refuse(lambda p: p.update(id="RK 3588"), "does not match")
        self.refuse(lambda p: p.update(colour="green"), "$.colour: is not known")
        self.refuse(lambda p: p["units"].update(tpu={}), "is not known")
        self.refuse(lambda p: p["units"]["cpu"]["clusters"][0]["cores"].update(value=2.5), "not of type integer")
        self.refuse(lambda p: p["units"]["npu"]["peak_tops"].update(int7=p["units"]["npu"]["peak_tops"]["int8"]), "does not match")
        self.refuse(lambda p: p["links"][0].update(between=["cpu"]), "has 1 items")
        self.refuse(lambda p: p.pop("memory"), "'memory' is missing")

    def test_a_keyword_the_checker_does_not_know_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "oneOf"):
            list(json_schema.faults(1, {"oneOf": []}))


class Facts(unittest.TestCase):
    def test_what_is_not_understood_is_named(self):
        cores = facts.Cores()
        for text in ("4x Z99 2.0 GHz", "many cores", "4x A76 + fast ones"):
            with self.assertRaisesRegex(facts.FactError, "cpu: "):
                cores.clusters(text, "somewhere", "secondary", "")
        with self.assertRaisesRegex(facts.FactError, "without a source"):
            facts.fact(1, "", "secondary")
        with self.assertRaisesRegex(facts.FactError, "rumour"):
            facts.fact(1, "somewhere", "rumour")
        with self.assertRaisesRegex(facts.FactError, "npu_dtypes"):
            facts.dtypes_of("int3")

    def test_clusters(self):
        prime, rest = facts.Cores().clusters("1x X4 3.3 + 3x A720 2.8-3.2 GHz; 8 MB L3", "somewhere", "secondary", "")
        self.assertEqual((prime["core"], prime["cores"]["value"], prime["clock_mhz"]["value"]), ("Cortex-X4", 1, 3300))
        self.assertEqual((rest["clock_mhz"]["value"], rest["clock_mhz"]["range"]), (3200, [2800, 3200]))
        self.assertEqual(prime["cores"]["note"], "8 MB L3")
        self.assertIn("i8mm", prime["isa"]["values"])

    def test_every_operator_row_arrives(self):
        rows = [row for row in facts.table("npu_ops.csv") if row["toolchain"] != "HTP architecture features"]
        extra = sum(len(names) - 1 for names in toolchains.SPLIT.values()) + len(toolchains.ALSO_IN["Vela (all)"]) - 1
        self.assertEqual(sum(len(c["ops"]) + len(c["traits"]) for c in TOOLCHAINS.values()), len(rows) + extra)

    def test_every_constraint_of_what_is_taken_in_part_is_read(self):
        used = {entry.get("constraint") for content in TOOLCHAINS.values() for entry in content["ops"]}
        self.assertEqual(set(constraints.CONSTRAINTS) - used, set())
        self.assertEqual(set(constraints.DTYPES_SINCE) - {row["dtypes"] for row in facts.table("npu_ops.csv")}, set())
        row = {"toolchain": "X", "dtypes": "", "support": "partial", "constraint": "only on Sundays", "source": "x"}
        with self.assertRaisesRegex(facts.FactError, "only on Sundays"):
            toolchains.entry_of(row, "Add")


if __name__ == "__main__":
    unittest.main()
