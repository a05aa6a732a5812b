"""The same in PyTorch, in bfloat16 where the vector is, gradients by autograd.

    python3 conformance/python/examples/torch_attention.py [golden/v1]

Arrays go in and out by DLPack. Where PyTorch or NumPy is missing this says so and ends
with 77.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

try:
    import torch
    from bdlm_conformance import judge_folder
except ModuleNotFoundError as error:
    print(f"{error} ({sys.executable}): nothing was judged")
    sys.exit(77)


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
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return judge_folder(attention, *sys.argv[1:2], convert=lambda x: torch.from_dlpack(x).to(device))


if __name__ == "__main__":
    sys.exit(main())
