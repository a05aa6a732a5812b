"""What the tests share: the package's path, the vectors, right kernels of every family."""

import importlib.util
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve()
GOLDEN = HERE.parents[3] / "golden" / "v1"
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "examples")]

if importlib.util.find_spec("numpy") is None:
    MESSAGE = f"NumPy is missing ({sys.executable}): nothing was tested"
    if "pytest" in sys.modules:
        raise unittest.SkipTest(MESSAGE)
    print(MESSAGE)
    sys.exit(77)

import numpy as np  # noqa: E402

import bdlm_conformance as bdlm  # noqa: E402
import numpy_attention  # noqa: E402

VECTORS = bdlm.attention_vectors(GOLDEN)


def attention_outputs(vector, attention=numpy_attention.attention):
    """What an attention, the NumPy example's, makes of a vector, in the vector's shapes."""
    outputs = {}

    def spy(*arguments):
        o, lse, dq, grads = attention(*arguments)
        for name, values in {"o": o, "lse": lse, "dq": dq}.items():
            outputs[name] = values.reshape(2, len(values) // 2, *values.shape[1:])
        outputs["dk"], outputs["dv"] = (np.stack([g[i] for g in grads]) for i in (0, 1))
        return o, lse, dq, grads

    bdlm.judge_attention(spy, vector)
    return outputs


def merge(o_a, lse_a, o_b, lse_b):
    """In float32, as the document defines it."""
    lse = np.empty_like(lse_a)
    o = np.empty_like(o_a)
    for at in np.ndindex(lse_a.shape):
        (x, a), (y, b) = (o_a[at], lse_a[at]), (o_b[at], lse_b[at])
        if np.isnan(a) or np.isnan(b) or np.inf in (a, b):
            o[at], lse[at] = np.nan, np.nan
        elif -np.inf in (a, b):
            empty = a == b
            o[at] = 0 if empty else (y if a == -np.inf else x)
            lse[at] = max(a, b)
        else:
            if a < b:
                x, y, a, b = y, x, b, a
            w = np.exp(b - a)
            o[at] = x * (1 / (1 + w)) + y * (w / (1 + w))
            lse[at] = a + np.log1p(w)
    return o, lse


def cross_entropy(hidden, head, labels, weights, softcap, excluded, upstream):
    """In float32, by the formulas."""
    x = hidden @ head.T
    slope = np.ones_like(x)
    if softcap:
        x = np.float32(softcap) * np.tanh(x / np.float32(softcap))
        slope = 1 - (x / np.float32(softcap)) ** 2
    if excluded >= 0:
        x[:, excluded] = -np.inf
    rows = np.arange(len(labels))
    weights = np.where(labels >= 0, weights, 0).astype(x.dtype)
    label = np.maximum(labels, 0)
    most = x.max(axis=1, keepdims=True)
    p = np.exp(x - most)
    total = p.sum(axis=1, keepdims=True)
    loss = weights * ((most + np.log(total))[:, 0] - np.where(weights > 0, x[rows, label], 0))
    g = p / total
    g[rows, label] -= 1
    g *= slope * (np.float32(upstream) * weights)[:, None]
    return np.where(weights > 0, loss, 0), g @ head, g.T @ hidden
