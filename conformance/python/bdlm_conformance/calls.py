"""Calls what is to be judged on a vector's inputs, and judges what it returns."""

import numpy as np

from .arrays import as_tuple, read_values
from .dropped_pair import BACKWARD
from .judge import (
    judge_outputs,
    judge_values,
    mistrust_missed_pairs,
    without_gradients,
    wrong_shape,
)


def _require_family(vector, family):
    if vector.family != family:
        raise ValueError(
            f"{vector.id} is of the family {vector.family}; it has to be of {family}: "
            f"load_vectors(folder, family={family!r})"
        )


def judge_merge(merge, vector):
    """Calls `merge(o_a, lse_a, o_b, lse_b)` -> o, lse part by part: o (R, H, D), lse (R, H).

    Raises ReturnError where it returns another number of values, ValueError for a vector of another
    family. A wrong shape or type fails its tensor, and ends the chain there.
    """
    _require_family(vector, "merge")
    o_parts, lse_parts = (vector.inputs[name] for name in ("o_parts", "lse_parts"))
    o, lse = o_parts[0], lse_parts[0]
    for part, (o_next, lse_next) in enumerate(zip(o_parts[1:], lse_parts[1:]), 1):
        allowed = f"o {o_next.shape}, lse {lse_next.shape}"
        o, lse = as_tuple("merge", merge(o, lse, o_next, lse_next), (2,), allowed)
        if part + 1 < len(o_parts):
            problems = [read_values(o, o_next.shape)[1], read_values(lse, lse_next.shape)[1]]
            if any(problems):
                return [
                    wrong_shape(vector, name, f"of the merge with part {part}: {problem}")
                    for name, problem in zip(("o", "lse"), problems)
                    if problem
                ]
    return judge_outputs(vector, {"o": o, "lse": lse})


def judge_cross_entropy(cross_entropy, vector):
    """Calls `cross_entropy(hidden, head, labels, row_weights, softcap, excluded, upstream)`.

    Returns row_loss (R), d_hidden (R, E), d_head (V, E), as golden/README.md defines them. Raises
    ReturnError where it returns another number of values, ValueError for a vector of another family;
    a wrong shape or type fails its tensor.
    """
    _require_family(vector, "cross_entropy")
    tensors = [vector.inputs[name] for name in ("hidden", "head", "labels", "row_weights")]
    numbers = [vector.entry[name] for name in ("softcap", "excluded", "upstream")]
    names = ("row_loss", "d_hidden", "d_head")
    allowed = ", ".join(f"{name} {vector.expected[name].shape}" for name in names)
    returned = as_tuple("cross_entropy", cross_entropy(*tensors, *numbers), (3,), allowed)
    return judge_outputs(vector, dict(zip(names, returned)))


def _arguments(vector, convert):
    """What `judge_attention` calls an attention with."""
    copies = {name: np.array(vector.inputs[name]) for name in ("q", "k", "v", "d_o", "intervals")}
    q, d_o = (convert(copies[n].reshape(-1, *copies[n].shape[2:])) for n in ("q", "d_o"))
    key_sets = [
        tuple(convert(copies[name][stream].copy()) for name in ("k", "v")) for stream in (0, 1)
    ]
    table = copies["intervals"].reshape(-1, 2, 2)
    intervals = [convert(table[:, stream].copy()) for stream in (0, 1)]
    return q, key_sets, intervals, vector.entry["scale"], d_o


def _returned(vector, returned):
    """Of what an attention returned: arrays of rows by name, and dk and dv of each key set."""
    rows = {n: (2 * x.shape[1], *x.shape[2:]) for n, x in vector.expected.items()}
    keys = vector.expected["dk"].shape[1:]
    allowed = (
        f"o {rows['o']} and lse {rows['lse']}, or these, dq {rows['dq']} and "
        f"[(dk, dv), (dk, dv)] of {keys} each"
    )
    values = as_tuple("attention", returned, (2, 4), allowed)
    of_rows = dict(zip(("o", "lse", "dq"), values))
    if len(values) == 2:
        return of_rows, None
    pairs = f"(dk, dv) of the clean and of the corrupted keys, {keys} each"
    sets = as_tuple("attention, as its fourth value,", values[3], (2,), pairs)
    one = f"dk {keys} and dv {keys}"
    return of_rows, [
        as_tuple(f"attention, as the gradients of key set {s},", pair, (2,), one)
        for s, pair in enumerate(sets)
    ]


def _of_rows(values, shape):
    """(2L, ...) as (2, L, ...), or what is wrong with it."""
    numbers, problem = read_values(values, (2 * shape[1], *shape[2:]))
    return (None, problem) if problem else (numbers.reshape(shape), "")


def _of_key_sets(pairs, index, shape):
    """dK or dV of both key sets, stacked, or what is wrong with them."""
    found = [read_values(pair[index], shape[1:]) for pair in pairs]
    problems = [f"of key set {s}: {problem}" for s, (_, problem) in enumerate(found) if problem]
    return (None, "; ".join(problems)) if problems else (np.stack([x for x, _ in found]), "")


def judge_attention(attention, vector, convert=lambda array: array):
    """Calls `attention(q, key_sets, intervals, scale, d_o)` on a vector and judges what it returns.

    q, d_o (2L, Hq, D): the rows of both streams, the clean ones first: row i of the corrupted stream
    is row L + i. key_sets: (k, v) of the clean keys, then of the corrupted ones, each (L, Hkv, D).
    intervals: for each key set (2L, 2) integers; row i sees its keys [begin, end). All are NumPy
    arrays, float32 where the vector has bfloat16 (the values fit) or float32, float64 where it has
    that, intervals int64, unless `convert` makes something else of them, for instance
    torch.from_dlpack. scale is a float.

    Returns o (2L, Hq, D) and lse (2L, Hq), or o, lse, dq (2L, Hq, D), and (dk, dv) of each key set,
    each (L, Hkv, D), in any floating-point format: under a bf16 contract float32 outputs are judged,
    too, and are closer than they need to be. Without gradients these are UNSUPPORTED.

    Raises ReturnError where it returns another number of values, ValueError for a vector of another
    family; a wrong shape or type fails its tensor.
    """
    _require_family(vector, "attention")
    of_rows, pairs = _returned(vector, attention(*_arguments(vector, convert)))
    results = []
    for name in ("o", "lse", "dq", "dk", "dv"):
        shape = vector.expected[name].shape
        if name in of_rows:
            numbers, problem = _of_rows(of_rows[name], shape)
        elif pairs is not None:
            numbers, problem = _of_key_sets(pairs, BACKWARD[1:].index(name), shape)
        else:
            results.append(without_gradients(vector, name))
            continue
        results.append(
            wrong_shape(vector, name, problem) if problem else judge_values(vector, name, numbers)
        )
    mistrust_missed_pairs(vector, results)
    return results
