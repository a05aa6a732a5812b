"""Would a vector notice one key that one row misses? See conformance/judge/judge_attention.h."""

from dataclasses import dataclass

import numpy as np

from .limits import MOST_KEYS, PROBABILITY_ROOM, Measures, decide

STREAMS = ("clean", "corrupted")
FORWARD, BACKWARD = ("o", "lse"), ("dq", "dk", "dv")


@dataclass
class Pair:
    """Head 0 of a row of stream s, a key of stream t, and the pair's probability."""

    s: int
    row: int
    t: int
    key: int
    p: float
    rest: float  # 1 - p

    def __str__(self):
        return f"{STREAMS[self.s]} row {self.row}, head 0 and {STREAMS[self.t]} key {self.key}"


def pair_to_drop(vector):
    """A pair of average weight in a row that sees most keys: the smallest p >= 1/n.

    None where no row sees a key, or that row sees more than MOST_KEYS.
    """
    table = vector.inputs["intervals"]
    counts = np.maximum(table[..., 1] - table[..., 0], 0).sum(axis=2)
    s, row = (int(i) for i in np.unravel_index(counts.argmax(), counts.shape))
    most = int(counts[s, row])
    if not 0 < most <= MOST_KEYS:
        return None
    q = vector.inputs["q"][s, row, 0].astype(np.float64)
    best = None
    for t in (0, 1):
        for key in range(*table[s, row, t]):
            score = vector.entry["scale"] * float(q @ vector.inputs["k"][t, key, 0])
            apart = score - vector.expected["lse"][s, row, 0]
            p = float(np.exp(apart))
            if p >= (1 - PROBABILITY_ROOM) / most and (best is None or p < best.p):
                best = Pair(s, row, t, int(key), p, -float(np.expm1(apart)))
    return best


def without_pair(vector, pair):
    """The right outputs but for one pair that the forward, and the backward, leave out."""
    q, k, v, d_o = (vector.inputs[n].astype(np.float64) for n in ("q", "k", "v", "d_o"))
    out = {name: x.copy() for name, x in vector.expected.items()}
    row, key = (pair.s, pair.row, 0), (pair.t, pair.key, 0)
    # o' = (o - p v) / (1 - p), z' = z + log(1 - p)
    alone = not pair.rest > 0
    out["o"][row] = 0 if alone else (out["o"][row] - pair.p * v[key]) / pair.rest
    out["lse"][row] = -np.inf if alone else out["lse"][row] + np.log(pair.rest)
    ds = vector.entry["scale"] * pair.p * (d_o[row] @ (v[key] - vector.expected["o"][row]))
    out["dq"][row] -= ds * k[key]
    out["dk"][key] -= ds * q[row]
    out["dv"][key] -= pair.p * d_o[row]
    return out


def missed_pair(vector, names):
    """The pair that none of these outputs would miss; None where one would, or none was tried."""
    pair = pair_to_drop(vector)
    if pair is None:
        return None
    wrong = without_pair(vector, pair)
    caught = any(decide(Measures(vector, name, wrong[name])).verdict == "FAIL" for name in names)
    return None if caught else pair
