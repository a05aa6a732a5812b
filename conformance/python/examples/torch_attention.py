"""The same in PyTorch, in bfloat16 where the vector is, gradients by autograd.

    python3 conformance/python/examples/torch_attention.py [golden/v1]

Arrays go in and out by DLPack. Where PyTorch is not installed this says so and ends with
77.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bdlm_conformance import attention_vectors, judge_attention  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def attention(q, key_sets, intervals, scale, d_o):
    """Scores and softmax in float32 or float64; leaves give the gradients."""
    leaves = [t.detach().clone().requires_grad_() for t in (q, *(x for s in key_sets for x in s))]
    q, k0, v0, k1, v1 = leaves
    keys, values = torch.cat([k0, k1]), torch.cat([v0, v1])
    group = q.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in (keys, values))
    seen = []
    for i, k in zip(intervals, (k0, k1)):
        at = torch.arange(len(k), device=q.device)
        seen.append((i[:, :1] <= at) & (at < i[:, 1:]))
    seen = torch.cat(seen, dim=1)[:, None, :]
    some = seen.any(dim=2, keepdim=True)
    s = (scale * torch.einsum("rhd,khd->rhk", q, keys)).masked_fill(~seen, -torch.inf)
    s = s.masked_fill(~some, 0)  # a row without keys: any finite scores, weighted by nothing
    p = torch.softmax(s, dim=2) * seen
    lse = torch.logsumexp(s, dim=2).masked_fill(~some[:, :, 0], -torch.inf)
    o = torch.einsum("rhk,khd->rhd", p, values)
    dq, dk0, dv0, dk1, dv1 = torch.autograd.grad(o, leaves, d_o)
    return o, lse, dq, [(dk0, dv0), (dk1, dv1)]


def main():
    if torch is None:
        print("PyTorch is not installed: nothing was judged")
        return 77
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder = sys.argv[1] if len(sys.argv) > 1 else "golden/v1"
    wrong = 0
    for vector in attention_vectors(folder):
        convert = lambda array: torch.from_dlpack(array).to(device)  # noqa: E731
        for result in judge_attention(attention, vector, convert):
            print(result)
            wrong += result.verdict == "FAIL"
    print(f"{wrong} tensors FAIL")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
