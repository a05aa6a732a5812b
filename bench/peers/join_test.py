#!/usr/bin/env python3
"""Tests of bench/peers/join.py."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import join

SHAPES = [{"name": "causal-L64", "mask": "causal", "length": 64}]
OWN = {
    "context": {"about": "NVIDIA H200, CUDA 13.0", "contract": "{}", "date": "today"},
    "benchmarks": [
        {
            "name": f"causal-L64/{direction}/iterations:20/manual_time",
            "label": "PASS",
            "tflops": 500.0,
            "median_ms": 2.0,
            "rms_z_O": 0.95,
            "rms_z_by_class.O.block_0": 0.9,
            "err_over_h_by_class.O.block_0": 0.4,
        }
        for direction in ("forward", "backward")
    ],
}
PEERS = {
    "device": "NVIDIA H200",
    "versions": {"torch": "2.11"},
    "rows": [
        {"name": "causal-L64", "peer": p, "tflops_forward": 400.0, "tflops_backward": 250.0}
        for p in ("cudnn", "flex_attention")
    ],
}


class Join(unittest.TestCase):
    def run_join(self, peers):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--out", os.path.join(folder, "out")]
            for name, content in (("own", OWN), ("peers", peers), ("shapes", SHAPES)):
                if content is not None:
                    path = os.path.join(folder, name + ".json")
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump(content, file)
                    arguments += ["--" + name, path]
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(join.main(arguments), 0)
            self.assertEqual(os.listdir(os.path.join(folder, "out")), ["attention_nvidia_h200.json"])
            return join.read(os.path.join(folder, "out", "attention_nvidia_h200.json"))

    def test_a_row_for_every_peer_with_figures_by_class(self):
        rows = self.run_join(PEERS)["rows"]
        self.assertEqual([r["peer"] for r in rows], ["cudnn", "flex_attention"])
        self.assertEqual(rows[0]["ratio_forward"], 1.25)
        self.assertEqual(rows[1]["ratio_backward"], 2.0)
        self.assertEqual(rows[0]["rms_z_by_class"], {"O": {"block_0": 0.9}})
        self.assertEqual(rows[0]["err_over_h_by_class"], {"O": {"block_0": 0.4}})
        self.assertEqual(rows[0]["rms_z_O"], 0.95)

    def test_without_peers_the_device_is_what_the_backend_says(self):
        document = self.run_join(None)
        self.assertEqual(document["device"], "NVIDIA H200")
        self.assertIsNone(document["peer_versions"])
        self.assertEqual([r["peer"] for r in document["rows"]], [None])
        self.assertIsNone(document["rows"][0]["ratio_forward"])


if __name__ == "__main__":
    unittest.main()
