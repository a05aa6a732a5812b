"""Is an attention kernel right? Golden vectors in, verdicts out; NumPy is all that is needed.

    from bdlm_conformance import attention_vectors, judge_attention

    for vector in attention_vectors("golden/v1"):
        for result in judge_attention(my_attention, vector):
            print(result)

See `judge_attention` for what `my_attention` is called with.
"""

try:
    import numpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bdlm_conformance needs NumPy, which this Python lacks; Debian's python3-numpy gives it to "
        "/usr/bin/python3",
        name="numpy",
    ) from error

from .arrays import ReturnError
from .calls import judge_attention, judge_cross_entropy, judge_merge
from .command import judge_folder
from .judge import Result, judge_outputs, judge_values
from .philox import gaussian, philox4x32, round_to_bf16
from .safetensors import SafetensorsError, read_safetensors, write_safetensors
from .vectors import Vector, attention_vectors, load_vectors, make_attention_inputs

__all__ = [
    "Result",
    "ReturnError",
    "SafetensorsError",
    "Vector",
    "attention_vectors",
    "gaussian",
    "judge_attention",
    "judge_cross_entropy",
    "judge_folder",
    "judge_merge",
    "judge_outputs",
    "judge_values",
    "load_vectors",
    "make_attention_inputs",
    "philox4x32",
    "read_safetensors",
    "round_to_bf16",
    "write_safetensors",
]
