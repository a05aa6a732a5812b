#!/usr/bin/env python3
"""Tests of bench/compare.py: its exit status and what it prints."""

import contextlib
import copy
import io
import json
import os
import tempfile
import unittest

import compare


def row(name="causal-L64", peer="cudnn", **figures):
    out = {
        "name": name,
        "peer": peer,
        "verdict": "PASS",
        "tflops_forward": 500.0,
        "tflops_backward": 400.0,
        "ratio_forward": 0.9,
        "ratio_backward": 0.8,
        "err_over_h_O": 0.5,
        "rms_z_O": 0.95,
        "rms_z_by_class": {"O": {"block_0": 0.96, "others": 0.95}},
    }
    out.update(figures)
    return out


def report(*rows, **context):
    out = {"device": "NVIDIA H200", "about": "CUDA 13.0", "peer_versions": {"torch": "2.11"}}
    out.update(context)
    out["rows"] = list(rows)
    return out


def raw(verdict="PASS", tflops=500.0, **counters):
    runs = []
    for direction in ("forward", "backward"):
        runs.append(
            {
                "name": f"causal-L64/{direction}/iterations:20/manual_time",
                "run_type": "iteration",
                "label": verdict,
                "tflops": tflops,
                "median_ms": 1.5,
                "rms_z_O": 0.95,
                "rms_z_by_class.O.block_0": 0.96,
                **counters,
            }
        )
    return {"context": {"about": "NVIDIA H200, CUDA 13.0", "date": "today"}, "benchmarks": runs}


class Compared:
    """The exit status, what went to standard output and what to standard error."""

    def __init__(self, old, new, *options):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, content in (("old.json", old), ("new.json", new)):
                paths.append(os.path.join(folder, name))
                if content is not None:
                    with open(paths[-1], "wb") as file:
                        file.write(
                            content if isinstance(content, bytes) else json.dumps(content).encode()
                        )
            out, error = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                try:
                    self.status = compare.main([*paths, *options])
                except SystemExit as end:
                    self.status = end.code
        self.out, self.error = out.getvalue(), error.getvalue()

    def line(self, *words):
        """The only line of the output that has all the words."""
        found = [l for l in self.out.splitlines() if all(w in l for w in words)]
        assert len(found) == 1, (words, found, self.out)
        return found[0]


class Comparison(unittest.TestCase):
    def test_the_same_file_twice_moves_nothing(self):
        same = report(row(), row(peer="flex_attention"), row("full-L64", None))
        got = Compared(same, same)
        self.assertEqual(got.status, 0)
        self.assertIn("nothing moved in 3 rows", got.out)
        self.assertNotIn("differs", got.out)

    def test_a_speed_that_fell_is_an_error_beyond_the_threshold_only(self):
        old = report(row(tflops_forward=500.0))
        for tflops, options, status in (
            (486.0, (), 0),  # -2.8 %
            (484.0, (), 1),  # -3.2 %
            (484.0, ("--threshold", "5%"), 0),
            (484.0, ("--threshold", "0.05"), 0),
            (494.0, ("--threshold", "1%"), 1),
            (600.0, (), 0),
        ):
            with self.subTest(tflops=tflops, options=options):
                got = Compared(old, report(row(tflops_forward=tflops)), *options)
                self.assertEqual(got.status, status, got.out)
        got = Compared(old, report(row(tflops_forward=450.0)))
        line = got.line("causal-L64", "tflops_forward", "500", "450", "-10.0 %")
        self.assertIn("SLOWER", line)
        self.assertNotIn("tflops_backward", got.out)

    def test_a_verdict_that_got_worse_is_an_error(self):
        for old, new, status in (
            ("PASS", "MARGINAL", 1),
            ("MARGINAL", "FAIL", 1),
            ("PASS", "CRASH", 1),
            ("FAIL", "PASS", 0),
            ("MARGINAL", "PASS", 0),
        ):
            with self.subTest(old=old, new=new):
                got = Compared(report(row(verdict=old)), report(row(verdict=new)))
                self.assertEqual(got.status, status)
                self.assertEqual("WORSE" in got.line("causal-L64", "verdict", old, new), status == 1)

    def test_ratios_and_accuracy_are_printed_and_are_no_error(self):
        new = row(ratio_forward=0.6, err_over_h_O=0.9, rms_z_O=0.99)
        new["rms_z_by_class"]["O"]["block_0"] = 1.4
        got = Compared(report(row()), report(new))
        self.assertEqual(got.status, 0)
        got.line("ratio_forward", "0.9", "0.6")
        got.line("err_over_h_O", "0.5", "0.9")
        got.line("rms_z_O", "0.95", "0.99")
        got.line("rms_z_by_class.O.block_0", "0.96", "1.4")
        self.assertNotIn("by_class.O.others", got.out)

    def test_what_concerns_the_backend_alone_is_printed_once_for_all_peers(self):
        old = report(row(), row(peer="flex_attention"))
        slower = {"tflops_forward": 400.0, "ratio_forward": 0.72}
        got = Compared(old, report(row(**slower), row(peer="flex_attention", **slower)))
        self.assertEqual(got.out.count("tflops_forward"), 1)
        self.assertEqual(got.out.count("ratio_forward"), 2)

    def test_rows_and_figures_that_appear_or_vanish_are_named(self):
        old = report(row(), row("old-L64", None))
        new = report(row(max_z_O=4.5), row("new-L64", "cudnn"))
        del new["rows"][0]["rms_z_O"]
        got = Compared(old, new)
        self.assertEqual(got.status, 0)
        self.assertEqual(got.line("vanished", "old-L64").split()[0], "vanished:")
        got.line("appeared", "new-L64", "cudnn")
        got.line("causal-L64", "rms_z_O", "vanished")
        got.line("causal-L64", "max_z_O", "appeared")

    def test_many_figures_that_vanish_take_one_line(self):
        new = row()
        for key in ("rms_z_O", "err_over_h_O", "rms_z_by_class", "tflops_forward"):
            del new[key]
        got = Compared(report(row()), report(new))
        line = got.line("causal-L64", "vanished")
        for word in ("err_over_h,", "rms_z,", "rms_z_by_class,", "tflops_forward"):
            self.assertIn(word, line)

    def test_another_device_or_version_is_said(self):
        new = report(row(), device="NVIDIA H100", peer_versions={"torch": "2.12"})
        got = Compared(report(row()), new)
        self.assertEqual(got.status, 0)
        got.line("differs", "device", "NVIDIA H200", "NVIDIA H100")
        got.line("differs", "peer_versions.torch", "2.11", "2.12")
        self.assertNotIn("differs: about", got.out)

    def test_raw_files_are_read_and_compared_with_reports(self):
        self.assertEqual(Compared(raw(), raw()).status, 0)
        got = Compared(raw(), raw(tflops=400.0))
        self.assertEqual(got.status, 1)
        got.line("causal-L64", "tflops_backward", "400", "SLOWER")
        # A raw file knows no peers: the rows of a report count once each shape.
        own = {"tflops_backward": 500.0, "ms_forward": 1.5, "ms_backward": 1.5}
        both = report(row(**own), row(peer="flex_attention", **own))
        got = Compared(both, raw(tflops=400.0))
        self.assertEqual(got.status, 1)
        self.assertNotIn("vanished: ", got.out)
        self.assertNotIn("ratio", got.out)
        got = Compared(raw(), raw(**{"rms_z_by_class.O.block_0": 1.3}))
        got.line("rms_z_by_class.O.block_0", "0.96", "1.3")

    def test_a_raw_run_that_failed_is_worse(self):
        failed = {"name": "causal-L64/forward", "error_occurred": True, "error_message": "FAIL"}
        got = Compared(raw(), {"context": {}, "benchmarks": [failed]})
        self.assertEqual(got.status, 1)
        got.line("verdict", "PASS", "FAIL", "WORSE")


class BadInput(unittest.TestCase):
    def refuse(self, content, *words, options=()):
        for old, new in ((content, report(row())), (report(row()), content)):
            got = Compared(old, new, *options)
            self.assertEqual(got.status, 2, got.out)
            lines = got.error.splitlines()
            self.assertEqual(len(lines), 1, got.error)
            for word in words:
                self.assertIn(word, lines[0])

    def test_files_that_are_none(self):
        self.refuse(None, ".json", "No such file")
        self.refuse(b"{", "not JSON")
        self.refuse(b"\xff\xfe\x00", "not JSON")
        self.refuse(b"[" * 100000, "not JSON")

    def test_wrong_shapes(self):
        self.refuse([], "rows", "benchmarks")
        self.refuse({"rows": 3}, "rows", "list")
        self.refuse({"rows": [3]}, "rows[0]")
        self.refuse({"benchmarks": [{"name": "a"}]}, "a", "name")
        self.refuse({"benchmarks": {}}, "benchmarks", "list")
        self.refuse({"rows": [], "device": 3}, "device")
        self.refuse(report(row(name=3)), "rows[0]", "name")
        self.refuse(report(row(peer=["x"])), "rows[0]", "peer")
        self.refuse(report(row(verdict="FINE")), "FINE", "PASS")
        self.refuse(report(row(tflops_forward="fast")), "tflops_forward", "fast")
        self.refuse(report(row(tflops_forward=0)), "tflops_forward", "0")
        self.refuse(report(row(rms_z_by_class={"O": 3})), "rms_z_by_class")
        self.refuse({**raw(), "context": []}, "context")
        self.refuse(raw(rms_z_by_class=1.0), "causal-L64", "rms_z_by_class")
        unlabelled = raw()
        del unlabelled["benchmarks"][1]["label"]
        self.refuse(unlabelled, "label")

    def test_nan(self):
        self.refuse(report(row(rms_z_O=float("nan"))), "causal-L64", "rms_z_O", "nan")
        self.refuse(report(row(tflops_forward=float("inf"))), "tflops_forward", "inf")
        self.refuse(raw(rms_z_O=float("nan")), "rms_z_O", "nan")
        self.refuse(
            report(row(rms_z_by_class={"O": {"block_0": float("nan")}})), "block_0", "nan"
        )

    def test_duplicates(self):
        self.refuse(report(row(), row()), "causal-L64", "cudnn", "twice")
        twice = raw()
        twice["benchmarks"].append(copy.deepcopy(twice["benchmarks"][0]))
        self.refuse(twice, "causal-L64/forward", "twice")

    def test_thresholds(self):
        for threshold in ("3", "-1%", "x", "nan%", "100%", "1e999"):
            with self.subTest(threshold=threshold):
                got = Compared(report(row()), report(row()), "--threshold=" + threshold)
                self.assertEqual(got.status, 2)
                self.assertIn(threshold, got.error)


if __name__ == "__main__":
    unittest.main()
