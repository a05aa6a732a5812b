"""Attention over intervals in NumPy, forward and backward, judged by the golden vectors.

    python3 conformance/python/examples/numpy_attention.py [golden/v1]

Where NumPy is missing this says so and ends with 77.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

try:
    from bdlm_conformance import judge_folder
    import numpy as np
except ModuleNotFoundError as error:
    print(f"{error} ({sys.executable}): nothing was judged")
    sys.exit(77)


def attention(q, key_sets, intervals, scale, d_o):
    """Dense, one head at a time, in the dtype of q (float32 or float64)."""
    rows, heads, _ = q.shape
    keys = np.concatenate([k for k, _ in key_sets])
    values = np.concatenate([v for _, v in key_sets])
    lengths = [len(k) for k, _ in key_sets]
    seen = np.concatenate(
        [
            (i[:, :1] <= np.arange(n)) & (np.arange(n) < i[:, 1:])
            for i, n in zip(intervals, lengths)
        ],
        axis=1,
    )
    some = seen.any(axis=1)
    o, dq = np.zeros_like(q), np.zeros_like(q)
    lse = np.full((rows, heads), -np.inf, q.dtype)
    dk, dv = np.zeros_like(keys), np.zeros_like(values)
    group = heads // keys.shape[1]
    scale = q.dtype.type(scale)
    for h in range(heads):
        k, v = keys[:, h // group], values[:, h // group]
        s = np.where(seen, scale * (q[:, h] @ k.T), -np.inf)
        most = np.where(some, s.max(axis=1), 0)[:, None]
        p = np.exp(s - most)
        total = np.where(some, p.sum(axis=1), 1)[:, None]
        p /= total
        lse[some, h] = (most + np.log(total))[some, 0]
        o[:, h] = p @ v
        delta = (d_o[:, h] * o[:, h]).sum(axis=1, keepdims=True)
        ds = scale * p * (d_o[:, h] @ v.T - delta)
        dq[:, h] = ds @ k
        dk[:, h // group] += ds.T @ q[:, h]
        dv[:, h // group] += p.T @ d_o[:, h]
    cut = lengths[0]
    return o, lse, dq, [(dk[:cut], dv[:cut]), (dk[cut:], dv[cut:])]


if __name__ == "__main__":
    sys.exit(judge_folder(attention, *sys.argv[1:2]))
