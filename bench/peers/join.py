#!/usr/bin/env python3
"""Joins what bench_attention and attention_peers.py wrote in one job into the data of a report.

    join.py --own attention.json --peers peers.json --shapes bench/attention_shapes.json \\
            --out reports/data

writes reports/data/attention_<device>.json, whose rows[] have name, shape, tflops_forward,
tflops_backward, peer, peer_forward, peer_backward, ratio_forward, ratio_backward and verdict: a row
for every peer. Without --peers there is one row a shape, and its peer is null. Prints the rows as a
table.
"""

import argparse
import json
import os
import re
import sys

# As bench_attention names its counters by tensor and class of rows (bench/row_class.h).
BY_CLASS = re.compile(r"((?:rms_z|err_over_h)_by_class)\.(\w+)\.(\w+)")
NO_PEERS = {"device": None, "versions": None, "rows": []}


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def own_results(document):
    """By shape: verdict, distances, those by class as objects, and TFLOP/s of the passes that were
    timed."""
    results = {}
    for run in document["benchmarks"]:
        if run.get("run_type") == "aggregate":
            continue
        name, direction = run["name"].split("/")[:2]
        result = results.setdefault(name, {})
        result["verdict"] = "FAIL" if run.get("error_occurred") else run["label"]
        for key, value in run.items():
            if key.startswith(("distance_", "err_over_h_", "max_z_", "rms_z_")):
                by_class = BY_CLASS.fullmatch(key)
                if by_class:
                    figure, tensor, row_class = by_class.groups()
                    result.setdefault(figure, {}).setdefault(tensor, {})[row_class] = value
                else:
                    result[key] = value
        if "tflops" in run:
            result[f"tflops_{direction}"] = run["tflops"]
            result[f"ms_{direction}"] = run["median_ms"]
    return results


def joined(own, peers, shapes):
    results = own_results(own)
    rows = []
    for shape in shapes:
        result = results.get(shape["name"])
        if result is None:
            continue
        others = [p for p in peers["rows"] if p["name"] == shape["name"]] or [None]
        for other in others:
            row = {
                "name": shape["name"],
                "shape": {k: v for k, v in shape.items() if k != "name"},
                **{k: v for k, v in result.items() if k != "verdict"},
                "peer": None if other is None else other["peer"],
            }
            for direction in ("forward", "backward"):
                mine = result.get(f"tflops_{direction}")
                theirs = None if other is None else other[f"tflops_{direction}"]
                row[f"peer_{direction}"] = theirs
                row[f"ratio_{direction}"] = mine / theirs if mine and theirs else None
            row["verdict"] = result["verdict"]
            rows.append(row)
    context = own["context"]
    return {
        "device": peers["device"] or context["about"].split(",")[0],
        "backend": context.get("backend"),
        "about": context.get("about"),
        "contract": json.loads(context["contract"]) if "contract" in context else None,
        "date": context.get("date"),
        "peer_versions": peers["versions"],
        "rows": rows,
    }


def print_table(document):
    def number(x, form):
        return "-" if x is None else format(x, form)

    print(f"{'shape':34}{'verdict':>8}{'fwd':>7}{'bwd':>7}  {'peer':15}{'fwd':>7}{'bwd':>7}{'ratios':>14}")
    for row in document["rows"]:
        print(
            f"{row['name']:34}{row['verdict']:>8}"
            f"{number(row.get('tflops_forward'), '.0f'):>7}"
            f"{number(row.get('tflops_backward'), '.0f'):>7}"
            f"  {row['peer'] or '-':15}"
            f"{number(row['peer_forward'], '.0f'):>7}{number(row['peer_backward'], '.0f'):>7}"
            f"{number(row['ratio_forward'], '.2f'):>7}{number(row['ratio_backward'], '.2f'):>7}"
        )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", required=True)
    parser.add_argument("--peers")
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--out", required=True, help="a folder")
    arguments = parser.parse_args(arguments)
    peers = read(arguments.peers) if arguments.peers else NO_PEERS
    document = joined(read(arguments.own), peers, read(arguments.shapes))
    device = re.sub(r"[^a-z0-9]+", "_", document["device"].lower()).strip("_")
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, f"attention_{device}.json")
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(path + ".tmp", path)
    print_table(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
