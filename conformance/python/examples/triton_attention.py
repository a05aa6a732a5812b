"""A small Triton kernel, forward alone: the gradients are then UNSUPPORTED, and say so.

    python3 conformance/python/examples/triton_attention.py [golden/v1]

Where PyTorch, Triton, NumPy or a GPU is missing this says so and ends with 77. With
TRITON_INTERPRET=1 it needs no GPU.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

try:
    import torch
    import triton
    import triton.language as tl
    from bdlm_conformance import judge_folder
except ModuleNotFoundError as error:
    print(f"{error} ({sys.executable}): nothing was judged")
    sys.exit(77)


@triton.jit
def _forward(q, k, v, begin, end, o, lse, scale, sets, keys, heads, kv_heads, dim,
             BLOCK: tl.constexpr, DIM: tl.constexpr):
    """One row and head. k, v (keys, Hkv, D); begin, end (rows, sets) into the keys."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    channel = tl.arange(0, DIM)
    inside = channel < dim
    query = tl.load(q + (row * heads + head) * dim + channel, inside, 0.0).to(tl.float32)
    kv = head // (heads // kv_heads)
    most = -float("inf")
    total = 0.0
    out = tl.zeros([DIM], tl.float32)
    for s in range(sets):
        first = tl.load(begin + row * sets + s)
        last = tl.load(end + row * sets + s)
        for start in range(first, last, BLOCK):
            key = start + tl.arange(0, BLOCK)
            at = (key[:, None] * kv_heads + kv) * dim + channel[None, :]
            seen = (key < last)[:, None] & inside[None, :]
            score = tl.sum(tl.load(k + at, seen, 0.0).to(tl.float32) * query[None, :], 1)
            score = tl.where(key < last, score * scale, -float("inf"))
            larger = tl.maximum(most, tl.max(score, 0))
            weight = tl.exp(score - larger)
            shrink = tl.exp(most - larger)
            total = total * shrink + tl.sum(weight, 0)
            value = tl.load(v + at, seen, 0.0).to(tl.float32)
            out = out * shrink + tl.sum(weight[:, None] * value, 0)
            most = larger
    empty = total == 0.0
    tl.store(o + (row * heads + head) * dim + channel,
             out / tl.where(empty, 1.0, total), inside)
    tl.store(lse + row * heads + head,
             tl.where(empty, -float("inf"), most + tl.log(tl.where(empty, 1.0, total))))


def attention(q, key_sets, intervals, scale, d_o):
    """float32 in and out."""
    keys = torch.cat([k for k, _ in key_sets]).contiguous()
    values = torch.cat([v for _, v in key_sets]).contiguous()
    cut = len(key_sets[0][0])
    begin = torch.stack([intervals[0][:, 0], intervals[1][:, 0] + cut], 1).contiguous()
    end = torch.stack([intervals[0][:, 1], intervals[1][:, 1] + cut], 1).contiguous()
    rows, heads, dim = q.shape
    o = torch.empty_like(q)
    lse = torch.empty(rows, heads, dtype=q.dtype, device=q.device)
    _forward[(rows, heads)](q.contiguous(), keys, values, begin, end, o, lse, scale, 2, len(keys),
                            heads, keys.shape[1], dim, BLOCK=32,
                            DIM=max(16, triton.next_power_of_2(dim)))
    return o, lse


def main():
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if not (torch.cuda.is_available() or interpreted):
        print("there is no GPU: nothing was judged")
        return 77
    device = "cpu" if interpreted else "cuda"
    return judge_folder(
        attention,
        *sys.argv[1:2],
        convert=lambda x: torch.from_dlpack(x).to(device),
        wanted=lambda vector: vector.contract["accumulate"] != "f64",
    )


if __name__ == "__main__":
    sys.exit(main())
