"""One pytest case for every vector.

    from bdlm_conformance.pytest_support import attention_cases, check_attention

    @attention_cases("golden/v1")
    def test_attention(vector):
        check_attention(my_attention, vector)
"""

from .judge import judge_attention
from .vectors import attention_vectors


def attention_cases(folder, ids="*"):
    """A decorator that gives a test every attention vector as `vector`, under its id."""
    import pytest

    vectors = attention_vectors(folder, ids)
    return pytest.mark.parametrize("vector", vectors, ids=[v.id for v in vectors])


def check_attention(attention, vector, convert=lambda array: array):
    """Fails with one line for every tensor that fails."""
    results = judge_attention(attention, vector, convert)
    wrong = [str(r) for r in results if r.verdict == "FAIL"]
    assert not wrong, "\n".join([*wrong, f"flags: {', '.join(vector.entry['flags'])}"])
