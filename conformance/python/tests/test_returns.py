"""What is returned or asked for wrongly is named. Run by pytest, or by itself."""

import io
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from support import GOLDEN, HERE, VECTORS, bdlm, cross_entropy, merge, np, numpy_attention

from bdlm_conformance import pytest_support

VECTOR = VECTORS[0]  # L 32, heads 4:2, D 16


def returns(edit):
    """An attention that returns something else."""
    return lambda *arguments: edit(*numpy_attention.attention(*arguments))


class Shapes(unittest.TestCase):
    def detail(self, edit, tensor):
        """What is said of the one tensor that fails."""
        wrong = [r for r in bdlm.judge_attention(returns(edit), VECTOR) if r.verdict == "FAIL"]
        self.assertEqual([(r.tensor, r.reason) for r in wrong], [(tensor, "shape")])
        self.assertNotIn("max z", str(wrong[0]))
        self.assertIn(f"{VECTOR.id} {tensor}: FAIL shape", str(wrong[0]))
        return wrong[0].detail

    def test_shapes(self):
        self.assertEqual(
            self.detail(lambda o, z, dq, g: (o, z[:-1], dq, g), "lse"),
            "its shape is (63, 4); it has to be (64, 4)",
        )
        self.assertEqual(
            self.detail(lambda o, z, dq, g: (o.reshape(2, 32, 4, 16), z, dq, g), "o"),
            "its shape is (2, 32, 4, 16); it has to be (64, 4, 16)",
        )
        self.assertEqual(
            self.detail(lambda o, z, dq, g: (o, z, dq, [g[0], (g[1][0].T, g[1][1])]), "dk"),
            "of key set 1: its shape is (16, 2, 32); it has to be (32, 2, 16)",
        )

    def test_none(self):
        said = "it is None; it has to be an array of shape "
        self.assertEqual(self.detail(lambda o, z, dq, g: (None, z, dq, g), "o"), said + "(64, 4, 16)")
        self.assertEqual(self.detail(lambda o, z, dq, g: (o, None, dq, g), "lse"), said + "(64, 4)")
        self.assertEqual(
            self.detail(lambda o, z, dq, g: (o, z, dq, [(g[0][0], None), g[1]]), "dv"),
            f"of key set 0: {said}(32, 2, 16)",
        )

    def test_formats(self):
        for wrong, said in (
            (lambda x: x + 1j, "complex64"),
            (lambda x: x.astype(np.int64), "int64"),
            (lambda x: x > 0, "bool"),
            (lambda x: x.astype(object), "object"),
            (lambda x: "no array", "<U8"),
            (lambda x: {"o": x}, "object"),
        ):
            detail = self.detail(lambda o, z, dq, g: (wrong(o), z, dq, g), "o")
            self.assertIn(f"its elements are {said}; float16, bfloat16, float32 and", detail)
        for right in (np.float64, np.longdouble, lambda x: x.tolist()):
            convert = right if not isinstance(right, type) else lambda x: x.astype(right)
            results = bdlm.judge_attention(returns(lambda o, *rest: (convert(o), *rest)), VECTOR)
            self.assertTrue(all(results), [str(r) for r in results])

    def test_foreign_arrays(self):
        class Tensor:
            """As PyTorch's."""

            dtype = "torch.complex64"

            def detach(self):
                return self

            def is_floating_point(self):
                return False

        class Elsewhere:
            """An array that NumPy's DLPack refuses."""

            def __dlpack__(self, **_):
                raise BufferError("it is on a GPU")

            def __dlpack_device__(self):
                return (1, 0)

        class Readable(Elsewhere):
            """The same, with a way of its own."""

            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return self.values

        detail = self.detail(lambda o, *rest: (Tensor(), *rest), "o")
        self.assertIn("its elements are torch.complex64;", detail)
        detail = self.detail(lambda o, *rest: (Elsewhere(), *rest), "o")
        self.assertRegex(detail, "cannot read a Elsewhere: it is on a GPU; return it in float32 on")
        self.assertTrue(bdlm.judge_values(VECTOR, "o", Readable(VECTOR.expected["o"])))

    def test_bfloat16_of_other_packages(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        right = VECTOR.expected["o"].astype(np.float32).astype(ml_dtypes.bfloat16)
        self.assertTrue(bdlm.judge_values(VECTOR, "o", right))


class Counts(unittest.TestCase):
    def test_attention(self):
        whole = r"it has to return o \(64, 4, 16\) and lse \(64, 4\), or these, dq \(64, 4, 16\) and"
        pairs = r"it has to return \(dk, dv\) of the clean and of the corrupted keys, \(32, 2, 16\)"
        for edit, said in (
            (lambda o, z, dq, g: (o, z, dq), f"attention returned 3 values; {whole}"),
            (lambda o, z, dq, g: (o, z, dq, *g), f"attention returned 5 values; {whole}"),
            (lambda o, z, dq, g: o, f"attention returned a ndarray; {whole}"),
            (lambda o, z, dq, g: None, f"attention returned None; {whole}"),
            (lambda o, z, dq, g: (o, z, dq, g[:1]), f"fourth value, returned 1 values; {pairs}"),
            (lambda o, z, dq, g: (o, z, dq, None), f"fourth value, returned None; {pairs}"),
            (
                lambda o, z, dq, g: (o, z, dq, [g[0], g[1][:1]]),
                r"of key set 1, returned 1 values; it has to return dk \(32, 2, 16\) and dv",
            ),
        ):
            with self.assertRaisesRegex(bdlm.ReturnError, said):
                bdlm.judge_attention(returns(edit), VECTOR)

    def test_merge(self):
        vector = bdlm.load_vectors(GOLDEN, "*parts8*", family="merge")[0]
        with self.assertRaisesRegex(bdlm.ReturnError, r"merge returned a ndarray; .* return o \("):
            bdlm.judge_merge(lambda *arguments: merge(*arguments)[0], vector)
        (result,) = bdlm.judge_merge(lambda *a: (merge(*a)[0], merge(*a)[1].T), vector)
        said = "of the merge with part 1: its shape is (2, 4); it has to be (4, 2)"
        self.assertEqual((result.tensor, result.reason, result.detail), ("lse", "shape", said))

    def test_cross_entropy(self):
        vector = bdlm.load_vectors(GOLDEN, family="cross_entropy")[0]
        said = r"2 values; .*row_loss \(10,\), d_hidden \(10, 16\)"
        with self.assertRaisesRegex(bdlm.ReturnError, said):
            bdlm.judge_cross_entropy(lambda *arguments: cross_entropy(*arguments)[:2], vector)

        def mean(*arguments):
            loss, *gradients = cross_entropy(*arguments)
            return loss.mean(), *gradients

        (loss,) = [r for r in bdlm.judge_cross_entropy(mean, vector) if not r]
        self.assertEqual(loss.detail, "its shape is (); it has to be (10,)")

    def test_outputs(self):
        with self.assertRaisesRegex(TypeError, "outputs is a list; it has to be a dictionary"):
            bdlm.judge_outputs(VECTOR, [VECTOR.expected["o"]])
        with self.assertRaisesRegex(LookupError, "has no output 'dx'; it has dk, dq, dv, lse, o"):
            bdlm.judge_values(VECTOR, "dx", VECTOR.expected["o"])
        results = bdlm.judge_outputs(VECTOR, VECTOR.expected | {"dx": VECTOR.expected["o"]})
        self.assertEqual([r.tensor for r in results if r.verdict == "FAIL"], ["dx"])
        lacking = {n: x for n, x in VECTOR.expected.items() if n != "dq"}
        (wrong,) = [r for r in bdlm.judge_outputs(VECTOR, lacking) if not r]
        self.assertEqual(wrong.detail, "it is missing; it has to be an array of shape (2, 32, 4, 16)")

    def test_other_families(self):
        for judge in (bdlm.judge_merge, bdlm.judge_cross_entropy):
            with self.assertRaisesRegex(ValueError, "is of the family attention; it has to be of"):
                judge(merge, VECTOR)
        with self.assertRaisesRegex(ValueError, "is of the family step; it has to be of attention"):
            bdlm.judge_attention(merge, bdlm.load_vectors(GOLDEN, family="step")[0])


class Folders(unittest.TestCase):
    def test_nothing_matches(self):
        said = "no attention vector of .* matches 'x\\*'; there are 29, for instance monolithic"
        with self.assertRaisesRegex(LookupError, said):
            bdlm.attention_vectors(GOLDEN, "x*")
        with self.assertRaisesRegex(LookupError, "no vector of .* matches 'x\\*'; there are 52,"):
            bdlm.load_vectors(GOLDEN, "x*")
        with self.assertRaisesRegex(LookupError, "no family 'attn'; it has attention, cross_entropy,"):
            bdlm.load_vectors(GOLDEN, family="attn")
        with self.assertRaisesRegex(LookupError, "monolithic-P1-L192.* is not stored in .*golden gen"):
            bdlm.attention_vectors(GOLDEN, "*L192*")

    def test_under_pytest(self):
        """When the tests are collected, not a test that is never run."""
        with self.assertRaisesRegex(LookupError, "no attention vector"):
            pytest_support.attention_cases(GOLDEN, "x*")
        mark = types.SimpleNamespace(parametrize=lambda *a, **k: (a, k))
        with mock.patch.dict(sys.modules, pytest=types.SimpleNamespace(mark=mark)):
            (name, vectors), names = pytest_support.attention_cases(GOLDEN, "*-w6-*")
        self.assertEqual((name, [v.id for v in vectors]), ("vector", names["ids"]))
        with self.assertRaisesRegex(AssertionError, "o: FAIL shape.*\\nflags: plain"):
            pytest_support.check_attention(returns(lambda o, *rest: (None, *rest)), VECTOR)
        forward = returns(lambda o, z, *_: (o, z))
        with self.assertWarnsRegex(UserWarning, "dq: UNSUPPORTED"):
            pytest_support.check_attention(forward, VECTOR)
        with self.assertRaisesRegex(AssertionError, "dq: UNSUPPORTED"):
            pytest_support.check_attention(forward, VECTOR, strict=True)

    def test_no_manifest(self):
        with self.assertRaisesRegex(FileNotFoundError, "/nowhere/manifest.json does not exist"):
            bdlm.load_vectors("/nowhere")
        for text in ("", "[]", "{}", '{"format": "other"}'):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "manifest.json").write_text(text)
                with self.assertRaisesRegex(ValueError, f"{folder}/manifest.json"):
                    bdlm.load_vectors(folder)

    def test_a_program_says_it_in_its_status(self):
        def status(attention, *arguments, **options):
            with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
                code = bdlm.judge_folder(attention, *arguments, **options)
            return code, out.getvalue().splitlines()[-1:], err.getvalue()

        right = numpy_attention.attention
        self.assertEqual(status(right, ids="*-w6-*"), (0, ["1 vectors, 5 tensors: 5 PASS"], ""))
        self.assertEqual(status(returns(lambda o, *rest: (2 * o, *rest)), ids="*-w6-*")[0], 1)
        code, _, said = status(returns(lambda o, z, dq, g: (o, z, dq)))
        self.assertEqual((code, "attention returned 3 values" in said), (1, True))
        code, _, said = status(right, "/nowhere")
        self.assertEqual((code, "/nowhere/manifest.json does not exist" in said), (2, True))
        code, _, said = status(right, ids="x*")
        self.assertEqual((code, "matches 'x*'" in said), (2, True))


class WithoutNumPy(unittest.TestCase):
    def test_what_needs_it_says_so(self):
        """Status 77 and a line: -S leaves out the packages that are installed."""
        scripts = [*(HERE.parents[1] / "examples").glob("*.py"), *HERE.parent.glob("test_*.py")]
        self.assertGreater(len(scripts), 5)
        for script in scripts:
            run = subprocess.run(
                [sys.executable, "-S", "-E", str(script)], capture_output=True, text=True, check=False
            )
            self.assertEqual((run.returncode, run.stderr), (77, ""), script.name)
            self.assertRegex(run.stdout, r"^.*(NumPy|torch).*: nothing was (judged|tested)\n$")


if __name__ == "__main__":
    unittest.main()
