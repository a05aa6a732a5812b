"""One pytest case for every vector.

    from bdlm_conformance.pytest_support import attention_cases, check_attention

    @attention_cases("golden/v1")
    def test_attention(vector):
        check_attention(my_attention, vector)
"""

import warnings

from .calls import judge_attention
from .vectors import attention_vectors


def attention_cases(folder, ids="*"):
    """A decorator that gives a test every attention vector as `vector`, under its id.

    Raises as `load_vectors`, when the test's file is read: a glob that matches nothing is an error.
    """
    vectors = attention_vectors(folder, ids)
    import pytest

    return pytest.mark.parametrize("vector", vectors, ids=[v.id for v in vectors])


def check_attention(attention, vector, convert=lambda array: array, strict=False):
    """Fails with one line for every tensor that fails; `strict`: that does not pass.

    Without `strict` MISTRUSTED and UNSUPPORTED are warnings.
    """
    results = judge_attention(attention, vector, convert)
    wrong = [str(r) for r in results if (not r if strict else r.verdict == "FAIL")]
    assert not wrong, "\n".join([*wrong, f"flags: {', '.join(vector.entry['flags'])}"])
    for result in results:
        if not result:
            warnings.warn(str(result), stacklevel=2)
