"""A program's main: every attention vector of a folder, results printed, an exit status."""

import pathlib
import sys

from .arrays import ReturnError
from .calls import judge_attention
from .vectors import attention_vectors


def default_folder():
    """golden/v1 of the checkout that holds this file, else of the working folder."""
    beside = pathlib.Path(__file__).resolve().parents[3] / "golden" / "v1"
    return beside if beside.is_dir() else pathlib.Path("golden/v1")


def judge_folder(attention, folder=None, convert=lambda array: array, ids="*", wanted=lambda v: True):
    """Prints a line for every tensor of the vectors that match `ids` and are `wanted`, and a sum.

    `attention` and `convert` are those of `judge_attention`. Returns 0, 1 where a tensor FAILs or
    `attention` returns another number of values, 2 where the vectors cannot be read.
    """
    try:
        vectors = attention_vectors(folder or default_folder(), ids)
    except (OSError, LookupError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    vectors = [vector for vector in vectors if wanted(vector)]
    verdicts = []
    for vector in vectors:
        try:
            results = judge_attention(attention, vector, convert)
        except ReturnError as error:
            print(f"{vector.id}: {error}", file=sys.stderr)
            return 1
        print(*results, sep="\n")
        verdicts += [result.verdict for result in results]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in sorted(set(verdicts)))
    print(f"{len(vectors)} vectors, {len(verdicts)} tensors: {counts}")
    return 1 if "FAIL" in verdicts else 0
