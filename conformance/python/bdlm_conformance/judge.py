"""The verdict on outputs, by the limits of golden/README.md."""

import math
from dataclasses import dataclass

import numpy as np

_UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24, "f64": 2.0**-53}
# Which sites of the contract lie behind an output.
_SITES = {
    "o": ("p", "o", "partial_o"),
    "lse": (),
    "dq": ("p", "ds", "o", "partial_o", "gradient"),
    "dk": ("p", "ds", "o", "partial_o", "gradient", "reduce"),
    "dv": ("p", "gradient", "reduce"),
    "d_hidden": ("ds", "gradient"),
    "d_head": ("ds",),
}
_OUTLIER = 8
_NOISE = 1.5
_NOISE_ELEMENTS = 256
_GAIN_SHARE = 8
_GAIN_MEASURABLE = 0.1


@dataclass
class Result:
    """One tensor: PASS, FAIL or UNSUPPORTED, why, and its figures."""

    vector: str
    tensor: str
    verdict: str
    reason: str = ""
    detail: str = ""
    err_over_h: float = 0.0
    max_z: float = 0.0
    rms_z: float = 0.0
    gain_minus_1: float = 0.0

    def __bool__(self):
        return self.verdict == "PASS"

    def __str__(self):
        figures = (
            f"err/H {self.err_over_h:.3g}  max z {self.max_z:.3g}  RMS z {self.rms_z:.3g}  "
            f"gain-1 {self.gain_minus_1:.1e}"
        )
        return f"{self.vector} {self.tensor}: {self.verdict} {self.reason}  {figures}  {self.detail}"


def to_numpy(values):
    """float64 from NumPy, from PyTorch on any device, or from anything with DLPack."""
    if hasattr(values, "detach"):  # PyTorch, whose bfloat16 NumPy does not know
        return values.detach().double().cpu().numpy()
    if isinstance(values, np.ndarray) or np.isscalar(values):
        return np.asarray(values, np.float64)
    if hasattr(values, "__dlpack__"):
        return np.asarray(np.from_dlpack(values), np.float64)
    return np.asarray(values, np.float64)


def _unit(name, contract):
    sites = [contract["accumulate"], *(contract[s] for s in _SITES.get(name, ()))]
    return max(_UNIT[s] for s in sites)


def judge_values(vector, name, values):
    """One output against what is expected."""
    x = vector.expected[name]
    h = vector.h[name].astype(np.float64)
    sigma = vector.sigma.get(name)
    result = Result(vector.id, name, "PASS")

    def fail(reason, at, text):
        result.verdict, result.reason = "FAIL", reason
        index = tuple(int(i) for i in np.unravel_index(int(at), x.shape))
        result.detail = f"{text} at {list(index)}: {values[index]!r} for {x[index]!r}"
        return result

    values = to_numpy(values)
    if values.shape != x.shape:
        result.verdict, result.reason = "FAIL", "coverage"
        result.detail = f"its shape is {values.shape}; the vector's is {x.shape}"
        return result
    same = (values == x) | (np.isnan(values) & np.isnan(x))
    wrong = (~np.isfinite(values) | ~np.isfinite(x)) & ~same
    if wrong.any():
        return fail("nonfinite", np.argmax(wrong), f"{wrong.sum()} values are NaN or infinite")
    wrong = (h == 0) & ~same
    if wrong.any():
        return fail("coverage", np.argmax(wrong), f"{wrong.sum()} values are not exact")
    live = (h > 0) & np.isfinite(x)
    if not live.any():
        return result
    error = np.where(live, np.abs(np.where(live, values, 0) - np.where(live, x, 0)), 0)
    ratio = np.where(live, error / np.where(live, h, 1), 0)
    result.err_over_h = float(ratio.max())
    right, got = x[live], values[live]
    norm = float(np.dot(right, right))
    if norm > 0:
        result.gain_minus_1 = float(np.dot(got, right)) / norm - 1
    if result.err_over_h > 1:
        return fail("bound", ratio.argmax(), f"off by {result.err_over_h:.3g} times the bound")
    if sigma is None or name in ("lse", "row_loss"):
        return result
    deviation = sigma.astype(np.float64)
    z = np.where(live & (deviation > 0), error / np.where(deviation > 0, deviation, 1), 0)
    result.max_z = float(z.max())
    result.rms_z = math.sqrt(float((z[live] ** 2).mean()))
    gauss = vector.entry["data"] == "gauss"
    unit = _unit(name, vector.contract)
    accumulate = _UNIT[vector.contract["accumulate"]]
    spread = math.sqrt(float((deviation[live] ** 2 * right**2).sum())) / norm if norm > 0 else 0
    limit = max(unit / (_GAIN_SHARE if gauss else 1), 8 * spread, 8 * accumulate)
    if limit < _GAIN_MEASURABLE and abs(result.gain_minus_1) > limit:
        return fail("scale", z.argmax(), f"the right result times {1 + result.gain_minus_1:.6g}")
    if unit > accumulate:
        if result.max_z > _OUTLIER:
            return fail("outlier", z.argmax(), f"off by {result.max_z:.3g} predicted deviations")
        if gauss and live.sum() >= _NOISE_ELEMENTS and result.rms_z > _NOISE:
            return fail("noise", z.argmax(), f"errors are {result.rms_z:.3g} times the predicted")
    return result


def judge_outputs(vector, outputs):
    """Every expected output; one that `outputs` lacks fails."""
    results = []
    for name in vector.expected:
        if name in outputs:
            results.append(judge_values(vector, name, outputs[name]))
        else:
            results.append(Result(vector.id, name, "FAIL", "coverage", "it is missing"))
    return results


def judge_merge(merge, vector):
    """Calls `merge(o_a, lse_a, o_b, lse_b)` -> o, lse part by part: o (R, H, D), lse (R, H)."""
    o_parts, lse_parts = (vector.inputs[name] for name in ("o_parts", "lse_parts"))
    o, lse = o_parts[0], lse_parts[0]
    for o_next, lse_next in zip(o_parts[1:], lse_parts[1:]):
        o, lse = merge(o, lse, o_next, lse_next)
    return judge_outputs(vector, {"o": o, "lse": lse})


def judge_cross_entropy(cross_entropy, vector):
    """Calls `cross_entropy(hidden, head, labels, row_weights, softcap, excluded, upstream)`.

    Returns row_loss (R), d_hidden (R, E), d_head (V, E), as golden/README.md defines them.
    """
    tensors = [vector.inputs[name] for name in ("hidden", "head", "labels", "row_weights")]
    numbers = [vector.entry[name] for name in ("softcap", "excluded", "upstream")]
    returned = cross_entropy(*tensors, *numbers)
    return judge_outputs(vector, dict(zip(("row_loss", "d_hidden", "d_head"), returned)))


def judge_attention(attention, vector, convert=lambda array: array):
    """Calls `attention(q, key_sets, intervals, scale, d_o)` on a vector and judges what it returns.

    q, d_o (2L, Hq, D): the rows of both streams, the clean ones first. key_sets: (k, v) of the clean
    keys, then of the corrupted ones, each (L, Hkv, D). intervals: for each key set (2L, 2) integers;
    row i sees its keys [begin, end). All are NumPy arrays, float32 where the vector has bfloat16
    (the values fit), unless `convert` makes something else of them, for instance
    torch.from_dlpack.

    Returns o (2L, Hq, D) and lse (2L, Hq), or o, lse, dq, and (dk, dv) of each key set. Without
    gradients these are UNSUPPORTED.
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
    returned = attention(
        convert(both["q"]), key_sets, intervals, vector.entry["scale"], convert(both["d_o"])
    )
    outputs = {}
    for name, values in zip(("o", "lse", "dq"), returned):
        values = to_numpy(values)
        outputs[name] = values.reshape(2, rows // 2, *values.shape[1:])
    results = []
    if len(returned) > 3:
        for index, name in enumerate(("dk", "dv")):
            outputs[name] = np.stack([to_numpy(pair[index]) for pair in returned[3]])
    else:
        outputs.pop("dq", None)
        results = [
            Result(vector.id, name, "UNSUPPORTED", "", "no gradients were returned")
            for name in ("dq", "dk", "dv")
        ]
    return [judge_values(vector, name, values) for name, values in outputs.items()] + results
