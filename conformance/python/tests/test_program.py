"""Verdicts are those of bdlm verify --outputs, which BDLM_PROGRAM names. Run by pytest, or by itself."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from support import GOLDEN, attention_outputs, bdlm, cross_entropy, merge, np, numpy_attention

PROGRAM = os.environ.get("BDLM_PROGRAM")
EVERY = bdlm.load_vectors(GOLDEN)


def kept(names, judge, call, vector):
    """What `call` has returned last while `judge` judged it, by name."""
    outputs = {}

    def keep(*arguments):
        returned = call(*arguments)
        outputs.update(zip(names, returned))
        return returned

    judge(keep, vector)
    return outputs


def right_outputs(vector):
    """Of the kernels in NumPy; of a step the expected values, as nothing here computes one."""
    with np.errstate(all="ignore"):
        if vector.family == "attention":
            return attention_outputs(vector)
        if vector.family == "merge":
            return kept(("o", "lse"), bdlm.judge_merge, merge, vector)
        if vector.family == "cross_entropy":
            names = ("row_loss", "d_hidden", "d_head")
            return kept(names, bdlm.judge_cross_entropy, cross_entropy, vector)
    return dict(vector.expected)


RIGHT = {vector.id: right_outputs(vector) for vector in EVERY}


def right(vector):
    return RIGHT[vector.id]


def times(factor, *names):
    """Some outputs, or all, times a factor."""

    def edit(vector):
        with np.errstate(over="ignore"):
            return {
                name: x * factor if not names or name in names else x
                for name, x in right(vector).items()
            }

    edit.__name__ = f"times {factor} {names}"
    return edit


def one_element(vector):
    """The largest element of every output is 5 % larger."""
    out = {}
    for name, values in right(vector).items():
        values = np.array(values)
        sizes = np.where(np.isfinite(values), np.abs(values), 0)
        at = np.unravel_index(sizes.argmax(), values.shape)
        with np.errstate(over="ignore"):
            values[at] *= 1.05
        out[name] = values
    return out


def one_key_less(vector):
    """A row of each stream misses its last key; other families are right."""
    if vector.family != "attention":
        return right(vector)

    def attention(q, key_sets, intervals, scale, d_o):
        length = len(q) // 2
        for stream in (0, 1):
            row = stream * length + length // 2
            own = intervals[stream]
            own[row, 1] = max(own[row, 1] - 1, own[row, 0])
        return numpy_attention.attention(q, key_sets, intervals, scale, d_o)

    return attention_outputs(vector, attention)


def truncated(vector):
    """To bfloat16, not rounded."""
    out = {}
    for name, values in right(vector).items():
        bits = np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        out[name] = bits.view(np.float32)
    return out


def all_nan(vector):
    return {name: np.full_like(values, np.nan) for name, values in right(vector).items()}


def noise(vector):
    """Errors of 1.2 sigma where there is one, else of half of H: noise, MARGINAL or FAIL."""
    random = np.random.default_rng(1)
    out = {}
    for name, x in vector.expected.items():
        width = vector.sigma[name] * 1.2 if name in vector.sigma else vector.h[name] / 6
        out[name] = x + random.normal(size=x.shape) * width
    return out


def forward_alone(vector):
    gradients = ("dq", "dk", "dv") if vector.family == "attention" else ()
    return {name: x for name, x in right(vector).items() if name not in gradients}


def one_missing(vector):
    return {name: x for name, x in right(vector).items() if name not in ("lse", "d_head", "loss")}


def misshapen(vector):
    """The last output has one row less, or one too many."""
    outputs = dict(right(vector))
    name = list(outputs)[-1]
    outputs[name] = np.zeros(1) if np.ndim(outputs[name]) == 0 else outputs[name][:-1]
    return outputs


def integers(vector):
    return {name: np.zeros(np.shape(x), np.int64) for name, x in right(vector).items()}


COMPARED = (right, times(1.01, "dk", "d_head"), one_key_less, one_element, times(1.01), truncated,
            all_nan, noise)
UNUSABLE = (forward_alone, one_missing, misshapen, integers)


def as_array(values):
    return np.array(values, getattr(values, "dtype", np.float64))


def judged(edit):
    """By (id, tensor) this package's results and the program's, and by id the program's verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        mine = {}
        for vector in EVERY:
            outputs = {name: as_array(x) for name, x in edit(vector).items()}
            bdlm.write_safetensors(f"{folder}/{vector.id}.safetensors", outputs)
            for result in bdlm.judge_outputs(vector, outputs):
                mine[vector.id, result.tensor] = result
        command = [PROGRAM, "verify", "--outputs", folder, "--golden", str(GOLDEN), "--jsonl", "-"]
        run = subprocess.run(command, capture_output=True, check=False)
    theirs, cases = {}, {}
    for line in run.stdout.decode().splitlines():
        case = json.loads(line)
        cases[case["id"]] = case["verdict"]
        for tensor in case.get("tensors", []):
            name = tensor["tensor"].lower() if "step" not in case["id"] else tensor["tensor"]
            theirs[case["id"], name] = tensor
    return mine, theirs, cases


def place(detail):
    """"clean stream, block 0, token 7, head 3, channel 5"."""
    found = re.search(r"(clean|corrupted) stream, [a-z0-9, ]*[0-9]", detail)
    return found and found.group()


@unittest.skipUnless(PROGRAM, "BDLM_PROGRAM names no bdlm")
class Agreement(unittest.TestCase):
    def same_figures(self, mine, theirs):
        figures = {"err_over_h": mine.err_over_h, "max_z": mine.max_z, "rms_z": mine.rms_z,
                   "gain_minus_1": mine.gain_minus_1, "lse": mine.lse_mass}
        for name, figure in figures.items():
            theirs_is_number = isinstance(theirs.get(name), float)
            if theirs_is_number and np.isfinite(figure):
                apart = abs(figure - theirs[name])
                self.assertLess(apart, 1e-9 * abs(figure) + 1e-12, f"{mine} {name} {theirs}")

    def test_every_tensor(self):
        """Verdict, reason, place and figures, of right outputs and of wrong ones."""
        expected = {(vector.id, name) for vector in EVERY for name in vector.expected}
        for edit in COMPARED:
            mine, theirs, _ = judged(edit)
            self.assertEqual(set(theirs), expected, edit.__name__)
            for at, result in mine.items():
                other = theirs[at]
                self.assertEqual((result.verdict, result.reason), (other["verdict"], other["reason"]),
                                 f"{edit.__name__}: {result}, {other}")
                self.assertEqual(place(result.detail), place(other.get("detail", "")), str(result))
                self.same_figures(result, other)

    def test_every_vector_that_cannot_be_compared(self):
        """The program judges no tensor of an attention that lacks one; the vector FAILs for both."""
        for edit in UNUSABLE:
            mine, _, cases = judged(edit)
            failed = {id for (id, _), result in mine.items() if result.verdict == "FAIL"}
            theirs = {id for id, verdict in cases.items() if verdict == "FAIL"}
            self.assertEqual(failed, theirs, edit.__name__)


if __name__ == "__main__":
    unittest.main()
