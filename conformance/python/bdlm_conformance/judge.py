"""The verdict on outputs, by the limits of golden/README.md."""

import math
from dataclasses import dataclass

import numpy as np

from .limits import Measures, decide

PASSES = ("PASS", "MARGINAL")


@dataclass
class Result:
    """One tensor: PASS, MARGINAL, FAIL, MISTRUSTED or UNSUPPORTED, why, and its figures.

    MARGINAL is right, barely. MISTRUSTED is not wrong, but the vector cannot tell it from zeros or
    from 1.01 times the right values. Figures are NaN where there was nothing to measure.
    """

    vector: str
    tensor: str
    verdict: str
    reason: str = ""
    detail: str = ""
    err_over_h: float = math.nan
    max_z: float = math.nan
    rms_z: float = math.nan
    gain_minus_1: float = math.nan

    def __bool__(self):
        return self.verdict in PASSES

    def __str__(self):
        def text(label, value, form):
            return f"{label} {'-' if math.isnan(value) else format(value, form)}"

        figures = "  ".join(
            [
                text("err/H", self.err_over_h, ".3g"),
                text("max z", self.max_z, ".3g"),
                text("RMS z", self.rms_z, ".3g"),
                text("gain-1", self.gain_minus_1, ".1e"),
            ]
        )
        what = f"{self.vector} {self.tensor}: {self.verdict} {self.reason}".rstrip()
        return f"{what}  {figures}  {self.detail}".rstrip()


def to_numpy(values):
    """float64 from NumPy, from PyTorch on any device, or from anything with DLPack."""
    if hasattr(values, "detach"):  # PyTorch, whose bfloat16 NumPy does not know
        return values.detach().double().cpu().numpy()
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        values = np.from_dlpack(values)
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"its elements are {values.dtype}; real numbers are allowed")
    return values.astype(np.float64)


def _numbers(values):
    """The values as float64, or None and what is wrong with them."""
    if values is None:
        return None, "it is None"
    try:
        return to_numpy(values), ""
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        return None, str(error).splitlines()[0]


def _place(vector, name, index):
    """Where an element is, in words, and in the arrays that `judge_attention` takes."""
    if vector.family != "attention":
        return str(list(index))
    stream, token, head = index[:3]
    words = f"{('clean', 'corrupted')[stream]} stream, token {token}, head {head}"
    if len(index) > 3:
        words += f", channel {index[3]}"
    if name in ("dk", "dv"):
        return f"{words} (key set {stream}, {list(index[1:])})"
    length = vector.expected["o"].shape[1]
    return f"{words} (row {stream * length + token})"


def judge_values(vector, name, values):
    """One output, in the vector's own shape, against what is expected."""
    x = vector.expected[name]
    result = Result(vector.id, name, "PASS")
    numbers, problem = _numbers(values)
    if numbers is not None and numbers.shape != x.shape:
        problem = f"its shape is {numbers.shape}; the vector's is {x.shape}"
    if problem:
        result.verdict, result.reason, result.detail = "FAIL", "shape", problem
        return result
    measures = Measures(vector, name, numbers)
    result.err_over_h = measures.err_over_h
    if measures.statistical:
        result.max_z, result.rms_z = measures.max_z, measures.rms_z
        result.gain_minus_1 = measures.gain - 1
    finding = decide(measures)
    if finding.verdict != "PASS":
        result.verdict, result.reason = finding.verdict, finding.reason
        index = tuple(int(i) for i in np.unravel_index(int(finding.place), x.shape))
        result.detail = (
            f"{finding.text}, at {_place(vector, name, index)}: {float(numbers[index])!r} for "
            f"{float(x[index])!r}, H {float(vector.h[name][index]):.3g}"
        )
    if finding.verdict == "FAIL":
        return result
    for factor, what in ((0.0, "zeros"), (1.01, "1.01 times the right answer")):
        wrong = np.where(np.isfinite(x), factor * np.where(np.isfinite(x), x, 0), x)
        if decide(Measures(vector, name, wrong)).verdict != "FAIL":
            result.verdict, result.reason = "MISTRUSTED", ""
            result.detail = f"vacuous: {what} would pass"
            break
    return result


def judge_outputs(vector, outputs):
    """Every expected output; one that `outputs` lacks fails, and so does one that nobody expects."""
    results = []
    for name in vector.expected:
        if name in outputs:
            results.append(judge_values(vector, name, outputs[name]))
        else:
            results.append(Result(vector.id, name, "FAIL", "coverage", "it is missing"))
    for name in outputs:
        if name not in vector.expected:
            known = ", ".join(vector.expected)
            detail = f"the vector has no such output; it has {known}"
            results.append(Result(vector.id, str(name), "FAIL", "coverage", detail))
    return results


def _several(what, returned, counts, allowed):
    """`returned` as a tuple of one of these lengths. Raises TypeError."""
    if not isinstance(returned, (tuple, list)) or len(returned) not in counts:
        got = (
            f"{len(returned)} values"
            if isinstance(returned, (tuple, list))
            else f"a {type(returned).__name__}"
        )
        raise TypeError(f"{what} returned {got}; it has to return {allowed}")
    return tuple(returned)


def judge_merge(merge, vector):
    """Calls `merge(o_a, lse_a, o_b, lse_b)` -> o, lse part by part: o (R, H, D), lse (R, H)."""
    o_parts, lse_parts = (vector.inputs[name] for name in ("o_parts", "lse_parts"))
    o, lse = o_parts[0], lse_parts[0]
    for o_next, lse_next in zip(o_parts[1:], lse_parts[1:]):
        o, lse = _several("merge", merge(o, lse, o_next, lse_next), (2,), "o, lse")
    return judge_outputs(vector, {"o": o, "lse": lse})


def judge_cross_entropy(cross_entropy, vector):
    """Calls `cross_entropy(hidden, head, labels, row_weights, softcap, excluded, upstream)`.

    Returns row_loss (R), d_hidden (R, E), d_head (V, E), as golden/README.md defines them.
    """
    tensors = [vector.inputs[name] for name in ("hidden", "head", "labels", "row_weights")]
    numbers = [vector.entry[name] for name in ("softcap", "excluded", "upstream")]
    names = ("row_loss", "d_hidden", "d_head")
    returned = _several("cross_entropy", cross_entropy(*tensors, *numbers), (3,), ", ".join(names))
    return judge_outputs(vector, dict(zip(names, returned)))


def _in_streams(name, values, shape):
    """(2L, ...) as (2, L, ...), or a Result's detail where it is no such array."""
    numbers, problem = _numbers(values)
    rows = (2 * shape[1], *shape[2:])
    if numbers is not None and numbers.shape != rows:
        problem = f"its shape is {numbers.shape}; it has to be {rows}"
    return (None, problem) if problem else (numbers.reshape(shape), "")


def _of_key_sets(index, pairs, shape):
    """dK or dV of both key sets, stacked, or what is wrong with them."""
    out = []
    for number, pair in enumerate(pairs):
        numbers, problem = _numbers(pair[index])
        if numbers is not None and numbers.shape != shape[1:]:
            problem = f"its shape is {numbers.shape}; it has to be {shape[1:]}"
        if problem:
            return None, f"of key set {number}: {problem}"
        out.append(numbers)
    return np.stack(out), ""


def judge_attention(attention, vector, convert=lambda array: array):
    """Calls `attention(q, key_sets, intervals, scale, d_o)` on a vector and judges what it returns.

    q, d_o (2L, Hq, D): the rows of both streams, the clean ones first: row i of the corrupted stream
    is row L + i. key_sets: (k, v) of the clean keys, then of the corrupted ones, each (L, Hkv, D).
    intervals: for each key set (2L, 2) integers; row i sees its keys [begin, end). All are NumPy
    arrays, float32 where the vector has bfloat16 (the values fit) or float32, float64 where it has
    that, unless `convert` makes something else of them, for instance torch.from_dlpack.

    Returns o (2L, Hq, D) and lse (2L, Hq), or o, lse, dq (2L, Hq, D), and (dk, dv) of each key set,
    each (L, Hkv, D), in any real format: under a bf16 contract float32 outputs are judged, too, and
    are closer than they need to be. Without gradients these are UNSUPPORTED. Raises TypeError where
    it returns another number of values; a wrong shape or type fails its tensor.
    """
    both = {}
    for name in ("q", "d_o"):
        values = np.array(vector.inputs[name])
        both[name] = values.reshape(-1, *values.shape[2:])
    key_sets = [
        tuple(convert(np.array(vector.inputs[name][stream])) for name in ("k", "v"))
        for stream in (0, 1)
    ]
    table = vector.inputs["intervals"]
    rows = 2 * table.shape[1]
    intervals = [convert(np.array(table[:, :, stream].reshape(rows, 2))) for stream in (0, 1)]
    returned = _several(
        "attention",
        attention(
            convert(both["q"]), key_sets, intervals, vector.entry["scale"], convert(both["d_o"])
        ),
        (2, 4),
        "o, lse or o, lse, dq, [(dk, dv), (dk, dv)]",
    )
    found = {
        name: _in_streams(name, values, vector.expected[name].shape)
        for name, values in zip(("o", "lse", "dq"), returned)
    }
    if len(returned) == 4:
        allowed = "(dk, dv) of the clean and of the corrupted keys"
        pairs = _several("attention, as its gradients of keys,", returned[3], (2,), allowed)
        pairs = [_several("attention, as a key set's gradients,", p, (2,), "dk, dv") for p in pairs]
        for index, name in enumerate(("dk", "dv")):
            found[name] = _of_key_sets(index, pairs, vector.expected[name].shape)
    results = []
    for name in ("o", "lse", "dq", "dk", "dv"):
        if name not in found:
            results.append(Result(vector.id, name, "UNSUPPORTED", "", "no gradients were returned"))
            continue
        values, problem = found[name]
        results.append(
            Result(vector.id, name, "FAIL", "shape", problem)
            if problem
            else judge_values(vector, name, values)
        )
    return results
