"""Run by pytest, or by itself: python3 test_conformance.py [golden/v1]"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "examples")]
GOLDEN = HERE.parents[3] / "golden" / "v1"

import numpy_attention  # noqa: E402

import bdlm_conformance as bdlm  # noqa: E402
from bdlm_conformance.vectors import intervals_of  # noqa: E402

VECTORS = bdlm.attention_vectors(GOLDEN)


def stored_bytes(name, values, entry):
    """An input as its file has it."""
    dtype = {t["name"]: t["dtype"] for t in entry["inputs"]}[name]
    if dtype == "BF16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    return values.astype({"F32": "<f4", "F64": "<f8", "I64": "<i8"}[dtype]).tobytes()


class Inputs(unittest.TestCase):
    def test_philox(self):
        words = [int(w[0]) for w in bdlm.philox4x32([np.zeros(1)] * 4, (0, 0))]
        self.assertEqual(words, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])

    def test_rounding(self):
        x = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, -1 - 2.0**-9, 0.0])
        right = [1, 1 + 2.0**-6, 1 + 2.0**-7, -1, 0]
        self.assertEqual(bdlm.round_to_bf16(x).tolist(), right)

    def test_every_bit(self):
        """Inputs made anew are the stored ones, bit for bit, and so are their digests."""
        for vector in VECTORS:
            made = bdlm.make_attention_inputs(vector.entry)
            made["intervals"] = intervals_of(vector.entry["mask"])
            digest = hashlib.sha256()
            for tensor in vector.entry["inputs"]:
                name = tensor["name"]
                body = stored_bytes(name, made[name], vector.entry)
                stored = stored_bytes(name, vector.inputs[name], vector.entry)
                self.assertEqual(body, stored, f"{vector.id} {name}")
                digest.update(body)
            self.assertEqual(digest.hexdigest(), vector.entry["inputs_sha256"], vector.id)

    def test_runs_of_intervals(self):
        for vector in VECTORS:
            table = np.zeros_like(vector.inputs["intervals"])
            for stream, first, end, key, begin, stop in vector.entry["intervals"]:
                table[stream, first:end, key] = begin, stop
            self.assertTrue((table == vector.inputs["intervals"]).all(), vector.id)


def attention_outputs(vector):
    """What the NumPy example makes of a vector, in the vector's shapes."""
    outputs = {}

    def spy(*arguments):
        o, lse, dq, grads = numpy_attention.attention(*arguments)
        both = {"o": o, "lse": lse, "dq": dq}
        for name, values in both.items():
            outputs[name] = values.reshape(2, len(values) // 2, *values.shape[1:])
        outputs["dk"], outputs["dv"] = (np.stack([g[i] for g in grads]) for i in (0, 1))
        return o, lse, dq, grads

    bdlm.judge_attention(spy, vector)
    return outputs


class Judging(unittest.TestCase):
    def wrong(self, ids, attention):
        """(tensor, reason) of what fails."""
        out = set()
        for vector in bdlm.attention_vectors(GOLDEN, ids):
            for result in bdlm.judge_attention(attention, vector):
                if result.verdict == "FAIL":
                    out.add((result.tensor, result.reason))
        return out

    def test_right(self):
        """Two vectors cannot tell right gradients of scores from zeros, and say so."""
        vacuous = set()
        for vector in VECTORS:
            for result in bdlm.judge_attention(numpy_attention.attention, vector):
                if result.verdict == "MISTRUSTED":
                    vacuous.add((vector.entry["data"], result.tensor))
                else:
                    self.assertTrue(result, str(result))
        self.assertEqual(
            vacuous, {(data, d) for data in ("equalmaxima", "scores1e4") for d in ("dq", "dk")}
            - {("equalmaxima", "dk")}
        )

    def test_forward_alone(self):
        results = bdlm.judge_attention(lambda *a: numpy_attention.attention(*a)[:2], VECTORS[0])
        self.assertEqual([r.verdict for r in results], ["PASS"] * 2 + ["UNSUPPORTED"] * 3)

    def test_wrong_window(self):
        def wider(q, key_sets, intervals, scale, d_o):
            intervals[0] = np.stack([np.maximum(intervals[0][:, 0] - 1, 0), intervals[0][:, 1]], 1)
            return numpy_attention.attention(q, key_sets, intervals, scale, d_o)

        self.assertIn(("o", "bound"), self.wrong("*-w6-*", wider))

    def test_wrong_numbers(self):
        def larger(*arguments):
            o, lse, dq, grads = numpy_attention.attention(*arguments)
            return o, lse, dq, [(1.01 * dk, dv) for dk, dv in grads]

        ids = VECTORS[0].id
        self.assertEqual(self.wrong(ids, larger), {("dk", "scale")})

        def broken(*arguments):
            o, lse, dq, grads = numpy_attention.attention(*arguments)
            o[3, 1, 2] = np.nan
            return o, lse, dq, grads

        self.assertEqual(self.wrong(ids, broken), {("o", "nonfinite")})

        def short(*arguments):
            o, lse, dq, grads = numpy_attention.attention(*arguments)
            return o[..., :-1], lse, dq, grads

        self.assertEqual(self.wrong(ids, short), {("o", "shape")})

    def test_factors_are_named_in_every_format(self):
        def larger(*arguments):
            o, lse, dq, grads = numpy_attention.attention(*arguments)
            return o, lse, dq, [(1.01 * dk, dv) for dk, dv in grads]

        for format in ("-fp32-gauss", "-f64-gauss", "-bf16-gauss"):
            vectors = bdlm.attention_vectors(GOLDEN, f"*{format}*")
            for vector in vectors:
                dk = bdlm.judge_attention(larger, vector)[3]
                self.assertEqual((dk.verdict, dk.reason), ("FAIL", "scale"), str(dk))
                self.assertRegex(dk.detail, r"^the right result times 1 \+ 0\.0(1|099)")
                self.assertGreater(dk.max_z, 1)
                self.assertGreater(dk.rms_z, 0.1)

    def test_places_are_those_of_the_arrays(self):
        vector = VECTORS[0]
        length = vector.expected["o"].shape[1]

        def broken(*arguments):
            o, lse, dq, grads = numpy_attention.attention(*arguments)
            o[length + 3, 1, 2] += 1
            grads[1][0][4, 0, 5] += 1
            return o, lse, dq, grads

        o, _, _, dk, _ = bdlm.judge_attention(broken, vector)
        place = f"corrupted stream, token 3, head 1, channel 2 (row {length + 3})"
        self.assertIn(place, o.detail)
        self.assertIn("(key set 1, [4, 0, 5])", dk.detail)

    def test_what_is_returned_wrongly_is_named(self):
        vector = VECTORS[0]

        def returns(edit):
            return lambda *a: edit(*numpy_attention.attention(*a))

        def detail(edit, index):
            result = bdlm.judge_attention(returns(edit), vector)[index]
            self.assertEqual((result.verdict, result.reason), ("FAIL", "shape"), str(result))
            self.assertIn("max z -", str(result))
            return result.detail

        self.assertEqual(detail(lambda o, z, dq, g: (None, z, dq, g), 0), "it is None")
        self.assertEqual(
            detail(lambda o, z, dq, g: (o, z[:-1], dq, g), 1),
            "its shape is (63, 4); it has to be (64, 4)",
        )
        self.assertIn("complex", detail(lambda o, z, dq, g: (o, z, dq + 1j, g), 2))
        self.assertEqual(
            detail(lambda o, z, dq, g: (o, z, dq, [g[0], (g[1][0].T, g[1][1])]), 3),
            "of key set 1: its shape is (16, 2, 32); it has to be (32, 2, 16)",
        )
        for edit in (
            lambda o, z, dq, g: (o, z, dq),
            lambda o, z, dq, g: o,
            lambda o, z, dq, g: None,
            lambda o, z, dq, g: (o, z, dq, g[:1]),
            lambda o, z, dq, g: (o, z, dq, [g[0], g[1][:1]]),
        ):
            with self.assertRaisesRegex(TypeError, "has to return"):
                bdlm.judge_attention(returns(edit), vector)

    def test_nothing_to_judge_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "no attention vector of .* matches 'x\\*'; there are"):
            bdlm.attention_vectors(GOLDEN, "x*")
        with self.assertRaisesRegex(FileNotFoundError, "manifest.json does not exist"):
            bdlm.load_vectors("/nowhere")

    def test_the_program_agrees(self):
        """bdlm verify --outputs on the same outputs, right and wrong ones."""
        program = os.environ.get("BDLM_PROGRAM")
        if not program:
            self.skipTest("BDLM_PROGRAM names no bdlm")

        def plain(outputs):
            return outputs

        def larger(outputs):
            return outputs | {"dk": outputs["dk"] * 1.01}

        def one_element(outputs):
            dv = outputs["dv"].copy()
            dv[0, 2, 0, 1] *= 1.05
            return outputs | {"dv": dv}

        def truncated(outputs):
            bits = outputs["o"].astype(np.float32).view(np.uint32) & 0xFFFF0000
            return outputs | {"o": bits.view(np.float32)}

        for edit in (plain, larger, one_element, truncated):
            with tempfile.TemporaryDirectory() as folder:
                mine = {}
                for vector in VECTORS:
                    outputs = edit(attention_outputs(vector))
                    bdlm.write_safetensors(f"{folder}/{vector.id}.safetensors", outputs)
                    for result in bdlm.judge_outputs(vector, outputs):
                        mine[vector.id, result.tensor] = result.verdict, result.reason
                command = [program, "verify", "--outputs", folder, "--golden", str(GOLDEN)]
                run = subprocess.run([*command, "--jsonl", "-"], capture_output=True, check=False)
                theirs = {}
                for line in run.stdout.decode().splitlines():
                    case = json.loads(line)
                    for tensor in case.get("tensors", []):
                        name = tensor["tensor"].lower()
                        theirs[case["id"], name] = tensor["verdict"], tensor["reason"]
            self.assertEqual(len(theirs), 5 * len(VECTORS))
            self.assertEqual(mine, theirs, edit.__name__)

    def test_missing_output(self):
        results = bdlm.judge_outputs(VECTORS[0], {"o": VECTORS[0].expected["o"]})
        self.assertEqual([r.verdict for r in results if r.tensor == "lse"], ["FAIL"])


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


class OtherFamilies(unittest.TestCase):
    def check(self, family, judge, call):
        vectors = bdlm.load_vectors(GOLDEN, family=family)
        self.assertGreater(len(vectors), 5)
        return [r for v in vectors for r in judge(call, v) if r.verdict == "FAIL"]

    def test_merge(self):
        with np.errstate(all="ignore"):
            self.assertEqual([str(r) for r in self.check("merge", bdlm.judge_merge, merge)], [])

        def average(o_a, lse_a, o_b, lse_b):
            return (o_a + o_b) / 2, merge(o_a, lse_a, o_b, lse_b)[1]

        with np.errstate(all="ignore"):
            wrong = self.check("merge", bdlm.judge_merge, average)
        self.assertEqual(len({r.vector for r in wrong}), 8)

    def test_cross_entropy(self):
        right = self.check("cross_entropy", bdlm.judge_cross_entropy, cross_entropy)
        self.assertEqual([str(r) for r in right], [])

        def unweighted(hidden, head, labels, weights, *rest):
            return cross_entropy(hidden, head, labels, np.ones_like(weights), *rest)

        wrong = self.check("cross_entropy", bdlm.judge_cross_entropy, unweighted)
        self.assertEqual(len({r.vector for r in wrong}), 7)


class Files(unittest.TestCase):
    def test_round_trip(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/x.safetensors"
            tensors = {
                "a": np.arange(6, dtype=np.float32).reshape(2, 3),
                "b": np.array(3, np.int64),
                "c": np.zeros((0, 2)),
            }
            bdlm.write_safetensors(path, tensors, {"key": "value"})
            read, metadata = bdlm.read_safetensors(path)
            self.assertEqual(metadata, {"key": "value"})
            for name, values in tensors.items():
                self.assertEqual(read[name].shape, values.shape)
                self.assertTrue((read[name] == values).all())

    def test_malformed(self):
        corpus = HERE.parents[2] / "fuzz" / "corpus" / "safetensors"
        seen = 0
        # What only strictness about text and names tells from a right file is left to the C++.
        lenient = ("space_first", "metadata", "name", "key", "dims", "fraction", "half_utf8", "truth")
        for path in sorted(corpus.glob("wrong_*")):
            if any(word in path.name for word in lenient):
                continue
            seen += 1
            with self.assertRaises(bdlm.SafetensorsError, msg=path.name):
                bdlm.read_safetensors(str(path))
        self.assertGreater(seen, 8)
        for path in sorted(corpus.glob("right_*")):
            bdlm.read_safetensors(str(path))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        GOLDEN = pathlib.Path(sys.argv.pop(1))
    unittest.main()
