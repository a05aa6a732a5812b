"""Philox4x32-10 and the mapping from its words to values, bit for bit as in the C++ sources."""

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)


def philox4x32(counter, key):
    """Ten rounds. `counter`: four arrays of words (uint64 below 2^32); `key`: two integers."""
    c = [np.asarray(x, np.uint64) for x in counter]
    k0, k1 = key
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & _LOW,
        ]
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def gaussian(seed, tensor, stream, count):
    """The first `count` values of a tensor, float64: mean 0, deviation 1.155, |x| < 4, exact."""
    element = np.arange(count, dtype=np.uint64)
    fixed = [np.full(count, x, np.uint64) for x in (tensor, stream)]
    words = philox4x32(
        [element & _LOW, element >> np.uint64(32), *fixed], (seed & 0xFFFFFFFF, seed >> 32)
    )
    total = sum((w & np.uint64(0xFFFF)).astype(np.int64) for w in words) - 131070
    return total.astype(np.float64) * 2.0**-15


def round_to_bf16(values):
    """float64 to the nearest bfloat16, ties to even, as float64. For numbers in its normal range."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    dropped = np.uint64(45)  # of 52 fraction bits 7 stay
    half = np.uint64(1 << 44)
    odd = (bits >> dropped) & np.uint64(1)
    rounded = (bits + half - np.uint64(1) + odd) >> dropped << dropped
    return rounded.view(np.float64).reshape(np.shape(values))
