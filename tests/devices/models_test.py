#!/usr/bin/env python3
"""The shapes in models/: complete, without two of one name, and with the parameters that are published for them."""

import csv
import importlib.util
import json
import os
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
spec = importlib.util.spec_from_file_location("check", os.path.join(ROOT, "tools/models/check.py"))
check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check)

MODELS = {}
for file_name in sorted(os.listdir(os.path.join(ROOT, "models"))):
    if file_name.endswith(".json"):
        with open(os.path.join(ROOT, "models", file_name), encoding="utf-8") as model_file:
            MODELS[file_name[:-5]] = json.load(model_file)
BY_NAME = {name.lower(): config for config in MODELS.values() for name in [config["knapsack"]["name"], *config["knapsack"]["aliases"]]}
# The planner's issue names these at the least.
EXPECTED = """deepseek-r1-distill-qwen-1.5b deepseek-r1-distill-qwen-7b deepseek-r1-distill-qwen-14b deepseek-r1-distill-llama-8b
    deepseek-v2-lite qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b qwen2.5-14b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b
    qwen3-30b-a3b llama-3.2-1b llama-3.2-3b llama-3.1-8b gemma-3-270m gemma-3-1b gemma-3-4b gemma-3-12b phi-3-mini phi-4-mini
    smollm2-135m smollm2-360m smollm2-1.7b minicpm-2b minicpm4-0.5b tinyllama-1.1b chatglm3-6b"""
# The table has another conversion's vocabulary there, padded by 128.
PADDED = {"Gemma-2B"}


class Models(unittest.TestCase):
    def test_expected_names_and_no_two_alike(self):
        for name in EXPECTED.split():
            self.assertIn(name, MODELS)
        seen = set()
        for name, config in MODELS.items():
            about = config["knapsack"]
            self.assertLessEqual(about.keys(), {"name", "aliases", "parameters", "note", "shape_only"}, name)
            for alias in {name, *(alias.lower() for alias in [about["name"], *about["aliases"]])}:
                self.assertNotIn(alias, seen, name)
                seen.add(alias)

    def test_the_shapes_have_the_published_parameters(self):
        for name, config in MODELS.items():
            stated = config["knapsack"]["parameters"]
            slack = 1e-4 * stated if "shape_only" in config["knapsack"] else 0
            self.assertAlmostEqual(check.parameters(config), stated, delta=slack, msg=name)

    def test_they_agree_with_the_table_of_the_facts(self):
        met = 0
        with open(os.path.join(ROOT, "tools/devices/facts/models.csv"), encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["layers"]]
        for row in rows:
            config = BY_NAME.get(row["model"].lower())
            if config is None:
                continue
            met += 1
            self.assertEqual(config["num_hidden_layers"], int(row["layers"]), row["model"])
            self.assertEqual(config["tie_word_embeddings"], row["tied"] == "1", row["model"])
            self.assertEqual(check.kv_elements(config), int(row["kv_elems_per_token"]), row["model"])
            if row["model"] not in PADDED:
                self.assertEqual(config["vocab_size"], int(row["vocab"]), row["model"])
            for active, column in ((False, "params_b"), (True, "read_params_b")):  # rounded, and without norms and biases
                billions = check.parameters(config, active) / 1e9
                self.assertAlmostEqual(billions, float(row[column]), delta=0.0006 + 2e-4 * billions, msg=row["model"])
        self.assertGreater(met, 40)

    def test_active_parameters_of_mixtures(self):
        # As their makers round them; the input table is not multiplied with and left out here.
        for name, billions in (("qwen3-30b-a3b", 3.3), ("deepseek-v2-lite", 2.4), ("olmoe-1b-7b", 1.3), ("qwen1.5-moe-a2.7b", 2.7)):
            config = MODELS[name]
            with_table = check.parameters(config, active=True) + config["vocab_size"] * config["hidden_size"]
            self.assertTrue(check.parameters(config, active=True) - 1e8 < billions * 1e9 < with_table + 1e8, name)

    def test_heads_and_widths_fit(self):
        for name, config in MODELS.items():
            self.assertEqual(config["num_attention_heads"] % config["num_key_value_heads"], 0, name)
            if "head_dim" not in config:
                self.assertEqual(config["hidden_size"] % config["num_attention_heads"], 0, name)
            self.assertGreaterEqual(config["max_position_embeddings"], 2048, name)


if __name__ == "__main__":
    unittest.main()
