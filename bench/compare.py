#!/usr/bin/env python3
"""bench compare: what moved between two runs of the attention benchmarks.

    python3 bench/compare.py OLD.json NEW.json [--threshold 3%]

Either file is of the form of reports/data/attention_<device>.json, or what bench_attention wrote.
Rows are joined by name and peer. Printed are speeds and ratios that moved by more than the
threshold, accuracy figures that moved by more than half a percent, verdicts that changed, what
appeared, what vanished, and in what the devices and versions differ.

Exit status: 1 where a verdict got worse or a speed fell by more than the threshold, 2 where the input
is wrong, 0 otherwise.
"""

import argparse
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import join  # noqa: E402

# From best to worst, as conformance/report/verdict.h has them.
VERDICTS = ("PASS", "MARGINAL", "UNSUPPORTED", "SKIPPED", "MISTRUSTED", "FAIL", "TIMEOUT", "CRASH")
BY_CLASS = ("rms_z_by_class", "err_over_h_by_class")
ACCURACY = ("err_over_h_", "max_z_", "rms_z_")
# Inputs are the same in every run: what moves an accuracy figure further than this is another order
# of sums at least.
ACCURACY_MOVED = 0.005
# So many figures that a row gained or lost are named one by one.
NAMED_ALONE = 3


class InputError(Exception):
    """One line: what is wrong, where, and what is allowed."""


def need(condition, *words):
    if not condition:
        raise InputError("".join(str(word) for word in words))


# --- reading ----------------------------------------------------------------------------------
def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None


def check_raw(document, path):
    """What join.own_results takes for granted."""
    runs, context = document["benchmarks"], document.get("context", {})
    need(isinstance(runs, list), path, ": benchmarks is no list")
    need(isinstance(context, dict), path, ": context is no object")
    seen = set()
    for i, run in enumerate(runs):
        need(isinstance(run, dict), f"{path}: benchmarks[{i}] is no object")
        if run.get("run_type") == "aggregate":
            continue
        name = run.get("name")
        need(
            isinstance(name, str) and name.split("/")[1:2] in (["forward"], ["backward"]),
            f"{path}: benchmarks[{i}].name is {name!r}, no SHAPE/forward or SHAPE/backward",
        )
        need(run.get("error_occurred") or "label" in run, f"{path}: {name} has no label: no verdict")
        for figure in BY_CLASS:
            need(figure not in run, f"{path}: {name} has {figure}, which is no counter's name")
        need("tflops" not in run or "median_ms" in run, f"{path}: {name} has no median_ms")
        key = "/".join(name.split("/")[:2])
        need(key not in seen, f"{path}: {key} is there twice")
        seen.add(key)


def report_of_raw(document, path):
    """A raw file in the form of a report, whose rows have no peer."""
    check_raw(document, path)
    context = document.get("context", {})
    about = context.get("about")
    rows = [{"name": name, "peer": None, **r} for name, r in join.own_results(document).items()]
    device = about.split(",")[0] if isinstance(about, str) else None
    return {**context, "device": device, "rows": rows}


def flattened(figures, start=""):
    """{"a": {"b": 1}} as {"a.b": 1}."""
    out = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            out.update(flattened(value, f"{start}{key}."))
        else:
            out[start + key] = value
    return out


def check_figure(where, key, value):
    need(
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
        f"{where}: {key} is {value!r}, no finite number",
    )
    need(
        value > 0 or not key.startswith(("tflops_", "ratio_")),
        f"{where}: {key} is {value!r}; it has to be above 0",
    )
    return float(value)


def figures_of(where, row):
    """The figures of a row that are compared; those that are null are none."""
    for key in BY_CLASS:
        tensors = row.get(key, {})
        need(
            isinstance(tensors, dict) and all(isinstance(t, dict) for t in tensors.values()),
            f"{where}: {key} is no object of objects",
        )
    return {
        key: check_figure(where, key, value)
        for key, value in flattened(row).items()
        if key.startswith(("tflops_", "ratio_", *ACCURACY)) and value is not None
    }


class Run:
    """A file: rows[(name, peer)] = (verdict, figures); context, flat; whether it knows peers."""

    def __init__(self, path):
        document = read_json(path)
        need(
            isinstance(document, dict) and ("rows" in document or "benchmarks" in document),
            f"{path} has neither rows[], as a report, nor benchmarks[], as bench_attention's output",
        )
        self.path = path
        self.has_peers = "rows" in document
        if not self.has_peers:
            document = report_of_raw(document, path)
        need(isinstance(document["rows"], list), f"{path}: rows is no list")
        for key in ("device", "date"):
            value = document.get(key)
            need(value is None or isinstance(value, str), f"{path}: {key} is {value!r}, no text")
        self.title = ", ".join(document.get(key) or f"no {key}" for key in ("device", "date"))
        self.context = self.context_of(document)
        self.rows = {}
        for i, row in enumerate(document["rows"]):
            self.add(f"{path}: rows[{i}]", row)

    @staticmethod
    def context_of(document):
        keys = ("device", "backend", "about", "contract", "peer_versions")
        return flattened({k: document[k] for k in keys if document.get(k) is not None})

    def add(self, where, row):
        need(isinstance(row, dict), where, " is no object")
        name, peer, verdict = row.get("name"), row.get("peer"), row.get("verdict")
        need(isinstance(name, str), f"{where}: its name is {name!r}, no text")
        where += f" ({name}, peer {peer})"
        need(peer is None or isinstance(peer, str), where, ": its peer is no text")
        need(verdict in VERDICTS, f"{where}: its verdict is {verdict!r}; known are {VERDICTS}")
        need((name, peer) not in self.rows, where, ": this name and peer are there twice")
        self.rows[name, peer] = (verdict, figures_of(where, row))

    def forget_peers(self):
        """One row a name, without ratios: for a comparison with a file that knows no peers."""
        rows = {}
        for (name, _), (verdict, figures) in self.rows.items():
            own = {k: v for k, v in figures.items() if not k.startswith("ratio_")}
            rows.setdefault((name, None), (verdict, own))
        self.rows = rows


def threshold_of(text):
    """'3%' or '0.03' as a number."""
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        number = math.nan
    need(0 <= number < 1, f"the threshold is {text!r}; allowed are 0% to below 100%, or 0.03 for 3%")
    return number


# --- comparing --------------------------------------------------------------------------------
def line(key, figure, old, new, remark):
    name, peer = key
    return f"{name:34} {peer or '-':15} {figure:36} {old:>9} {new:>9}  {remark}"


def group_of(figure):
    """'rms_z' of rms_z_dQ, 'rms_z_by_class' of rms_z_by_class.O.block_0."""
    first = figure.split(".")[0]
    return next((a[:-1] for a in ACCURACY if first == figure and figure.startswith(a)), first)


def number(value):
    return f"{value:.4g}"


class Difference:
    """The lines to print, and how many of them are errors."""

    def __init__(self, threshold):
        self.threshold = threshold
        self.lines = []
        self.worse = self.slower = self.moved = 0

    def say(self, key, figure, old, new, remark):
        # A row stands there once for each peer; what concerns the backend alone is said once.
        if not figure.startswith("ratio_"):
            key = (key[0], None)
        text = line(key, figure, old, new, remark)
        if text in self.lines:
            return False
        self.lines.append(text)
        self.moved += 1
        return True

    def verdict(self, key, old, new):
        if old == new:
            return
        worse = VERDICTS.index(new) > VERDICTS.index(old)
        if self.say(key, "verdict", old, new, "WORSE" if worse else "better"):
            self.worse += worse

    def lone(self, key, figures, word):
        if len(figures) > NAMED_ALONE:
            figures = {group_of(name) for name in figures}
        if figures:
            self.say(key, ", ".join(sorted(figures)), "", "", word)

    def figure(self, key, name, old, new):
        change = (new - old) / old if old != 0 else math.copysign(math.inf, new) if new else 0.0
        least = ACCURACY_MOVED if name.startswith(ACCURACY) else self.threshold
        if abs(change) <= least:
            return
        slower = name.startswith("tflops_") and change < 0
        remark = f"{100 * change:+.1f} %" + (" SLOWER" if slower else "")
        if self.say(key, name, number(old), number(new), remark):
            self.slower += slower

    def row(self, key, old, new):
        self.verdict(key, old[0], new[0])
        for name in sorted(old[1].keys() & new[1].keys()):
            self.figure(key, name, old[1][name], new[1][name])
        self.lone(key, new[1].keys() - old[1].keys(), "appeared")
        self.lone(key, old[1].keys() - new[1].keys(), "vanished")


def print_context(old, new):
    print(f"old: {old.path}: {old.title}")
    print(f"new: {new.path}: {new.title}")
    for key in sorted(old.context.keys() & new.context.keys()):
        if old.context[key] != new.context[key]:
            print(f"differs: {key}: {old.context[key]} -> {new.context[key]}")


def print_lone(word, rows, others):
    for name, peer in rows:
        if (name, peer) not in others:
            print(f"{word}: {name}, peer {peer or '-'}")


def compare(old, new, threshold):
    """Prints the differences; the exit status."""
    if old.has_peers != new.has_peers:
        old.forget_peers()
        new.forget_peers()
    difference = Difference(threshold)
    common = [key for key in old.rows if key in new.rows]
    for key in common:
        difference.row(key, old.rows[key], new.rows[key])
    print_context(old, new)
    if difference.lines:
        print(line(("row", "peer"), "figure", "old", "new", "change"))
        print("\n".join(difference.lines))
    print_lone("appeared", new.rows, old.rows)
    print_lone("vanished", old.rows, new.rows)
    moved = f"{difference.moved} figures" if difference.moved else "nothing"
    print(
        f"{moved} moved in {len(common)} rows: {difference.worse} verdicts worse, "
        f"{difference.slower} speeds down by more than {100 * threshold:g} %"
    )
    return 1 if difference.worse or difference.slower else 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="bench compare", description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--threshold", default="3%", help="3%% unless given")
    options = parser.parse_args(arguments)
    try:
        threshold = threshold_of(options.threshold)
        return compare(Run(options.old), Run(options.new), threshold)
    except InputError as error:
        print(f"bench compare: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
