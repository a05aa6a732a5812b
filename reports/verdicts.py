#!/usr/bin/env python3
"""What a run of `bdlm verify --jsonl` came to, small enough to be kept.

    bdlm verify --backend build/bdlm_cuda.so --level gate --jsonl - > verify.jsonl
    verdicts.py verify.jsonl --device "NVIDIA H200" --out reports/data/verify_nvidia_h200.json

Counts by tier and verdict, the cases that are neither PASS nor UNSUPPORTED, and for every output of T4
how far the largest error, outlier, noise and gain stay from the limits of conformance/judge/limits.h:
what these constants are calibrated on. Exit status 2 where the input is no such file.
"""

import argparse
import collections
import datetime
import json
import math
import sys

FIGURES = ("err_over_h", "max_z", "rms_z", "gain_minus_1")
# Data on which gradients of scores vanish.
GRADIENTLESS = ("scores1e4", "scores80", "equalmaxima")


def read_cases(path):
    """The lines of a JSON-lines report. Raises ValueError, naming the line."""
    cases = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                case = json.loads(line)
                cases.append((case["id"], case["tier"], case["verdict"], case))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: no case of a report: {error}") from error
    if not cases:
        raise ValueError(f"{path} holds no case")
    return cases


def largest_figures(cases):
    """By output of T4: how many tensors, and the largest size of each figure.

    Data that leaves next to no gradient of scores is left out: its gains say nothing.
    """
    out = {}
    for case_id, tier, _, case in cases:
        if tier != "T4" or "-step" in case_id or any(f"-{d}-" in case_id for d in GRADIENTLESS):
            continue
        for tensor in case.get("tensors", []):
            row = out.setdefault(tensor["tensor"].split()[0], collections.Counter())
            row["tensors"] += 1
            for figure in FIGURES:
                value = tensor.get(figure)
                if isinstance(value, (int, float)) and math.isfinite(value):
                    row[figure] = max(row[figure], abs(value))
    return {name: dict(row) for name, row in sorted(out.items())}


def summarize(cases, device):
    """The report."""
    tiers = collections.defaultdict(collections.Counter)
    for _, tier, verdict, _ in cases:
        tiers[tier][verdict] += 1
    unusual = [
        {"id": case_id, "tier": tier, "verdict": verdict, "detail": case.get("detail", "")}
        for case_id, tier, verdict, case in cases
        if verdict not in ("PASS", "UNSUPPORTED")
    ]
    absent = collections.Counter(
        case.get("detail", "") for _, _, verdict, case in cases if verdict == "UNSUPPORTED"
    )
    total = sum(tiers.values(), collections.Counter())
    return {
        "device": device,
        "date": datetime.date.today().isoformat(),
        "cases": len(cases),
        "verdicts": dict(total),
        "tiers": {tier: dict(counts) for tier, counts in sorted(tiers.items())},
        "unsupported": dict(absent),
        "not_pass": unusual,
        "largest_figures_of_T4": largest_figures(cases),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("jsonl", help="what bdlm verify --jsonl has written")
    parser.add_argument("--device", required=True, help="the device's name")
    parser.add_argument("--out", required=True, help="the JSON file to write")
    options = parser.parse_args()
    try:
        report = summarize(read_cases(options.jsonl), options.device)
    except (OSError, ValueError) as error:
        print(f"verdicts.py: {error}", file=sys.stderr)
        return 2
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(f"{options.out}: {report['verdicts']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
