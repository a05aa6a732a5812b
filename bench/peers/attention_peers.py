#!/usr/bin/env python3
"""Times attention of others on the shapes of a file: cuDNN through PyTorch's scaled dot product
attention for causal and full masks, compiled FlexAttention for every mask.

    attention_peers.py --shapes bench/attention_shapes.json --out peers.json

Inputs are random bf16, times medians of 20 by CUDA events after 3 calls, the backward alone. TFLOP/s
count allowed pairs: 4 D pairs Hq forward, 2.5 times that backward.
"""

import argparse
import json
import statistics
import sys

import torch
import torch._functorch.config
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention

SAMPLES = 20
WARM_UP = 3


def mask_of(shape):
    """The mask as FlexAttention wants it: (batch, head, query, key) -> allowed."""
    length = shape["length"]
    kind = shape["mask"]
    if kind == "causal":
        return lambda b, h, q, k: q >= k
    if kind == "sliding":
        window = shape["window"]
        return lambda b, h, q, k: (q >= k) & (q - k < window)
    if kind == "block_diffusion":
        block = shape["block"]

        def allowed(b, h, q, k):
            q_block = (q % length) // block
            k_block = (k % length) // block
            q_clean = q < length
            k_clean = k < length
            of_clean = q_clean & k_clean & (k_block <= q_block)
            of_prefix = ~q_clean & k_clean & (k_block < q_block)
            of_block = ~q_clean & ~k_clean & (k_block == q_block)
            return of_clean | of_prefix | of_block

        return allowed
    return None


def pairs_of(shape):
    """How many pairs of a query and a key are allowed."""
    length = shape["length"]
    kind = shape["mask"]
    if kind == "causal":
        return length * (length + 1) // 2
    if kind == "sliding":
        window = min(shape["window"], length)
        return window * (window + 1) // 2 + (length - window) * window
    if kind == "block_diffusion":
        block = shape["block"]
        assert length % block == 0, "only whole blocks are counted"
        blocks = length // block
        return block * block * blocks * (blocks + 1)
    return length * length


def rows_of(shape):
    return shape["length"] * (2 if shape["mask"] == "block_diffusion" else 1)


def check_masks():
    """Counts a small mask of every kind pair by pair."""
    for shape in (
        {"mask": "causal", "length": 96},
        {"mask": "sliding", "length": 96, "window": 17},
        {"mask": "block_diffusion", "length": 96, "block": 8},
    ):
        rows = rows_of(shape)
        count = int(create_mask(mask_of(shape), None, None, rows, rows, device="cuda").sum())
        assert count == pairs_of(shape), (shape, count, pairs_of(shape))


def median_seconds(call):
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(SAMPLES):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def inputs_of(shape, kv_heads):
    def tensor(heads):
        size = (1, heads, rows_of(shape), shape["head_dim"])
        return torch.randn(size, device="cuda", dtype=torch.bfloat16)

    q = tensor(shape["q_heads"]).requires_grad_()
    k = tensor(kv_heads).requires_grad_()
    v = tensor(kv_heads).requires_grad_()
    return q, k, v, tensor(shape["q_heads"])


def time_peer(shape, forward, kv_heads):
    """TFLOP/s forward and backward."""
    q, k, v, d_o = inputs_of(shape, kv_heads)
    with torch.no_grad():
        forward_seconds = median_seconds(lambda: forward(q, k, v))
    out = forward(q, k, v)

    def backward():
        torch.autograd.grad(out, (q, k, v), d_o, retain_graph=True)

    backward_seconds = median_seconds(backward)
    flop = 4 * shape["head_dim"] * shape["q_heads"] * pairs_of(shape)
    return 1e-12 * flop / forward_seconds, 1e-12 * 2.5 * flop / backward_seconds


def cudnn(shape):
    causal = shape["mask"] == "causal"

    def forward(q, k, v):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
            )

    return time_peer(shape, forward, shape["kv_heads"])


def flex(shape):
    # One compiled function a shape: sizes are constants in it.
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    mask = None
    if shape["mask"] != "full":
        rows = rows_of(shape)
        mask = create_block_mask(mask_of(shape), None, None, rows, rows, device="cuda", _compile=True)

    def forward(q, k, v):
        return compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])

    return time_peer(shape, forward, shape["kv_heads"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="", help="shapes whose names contain this")
    arguments = parser.parse_args()
    # Else a second backward of one forward finds its buffers given away.
    torch._functorch.config.donated_buffer = False
    torch.manual_seed(1)
    check_masks()
    with open(arguments.shapes, encoding="utf-8") as file:
        shapes = [s for s in json.load(file) if arguments.only in s["name"]]
    # What takes no compilation comes first, then masks that only FlexAttention has.
    plain = [s for s in shapes if s["mask"] in ("causal", "full")]
    others = [s for s in shapes if s not in plain]
    rows = []
    for name, peer, of_peer in (("cudnn", cudnn, plain), ("flex_attention", flex, others + plain)):
        for shape in of_peer:
            try:
                forward, backward = peer(shape)
            except Exception as error:  # a peer may not support a shape; the others go on
                message = str(error).strip().splitlines() or [""]
                print(f"{shape['name']} {name}: {message[0][:150]}", file=sys.stderr)
                continue
            finally:
                torch.cuda.empty_cache()
            rows.append(
                {
                    "name": shape["name"],
                    "peer": name,
                    "tflops_forward": forward,
                    "tflops_backward": backward,
                }
            )
            print(f"{shape['name']:34} {name:15} {forward:6.0f} {backward:6.0f}", flush=True)
            document = {
                "device": torch.cuda.get_device_name(),
                "versions": {
                    "torch": torch.__version__,
                    "cudnn": str(torch.backends.cudnn.version()),
                    "cuda": torch.version.cuda,
                },
                "rows": rows,
            }
            with open(arguments.out, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
