"""Arrays of any framework as float64, or what is wrong with them."""

import numpy as np

ALLOWED = "float16, bfloat16, float32 and float64 are allowed"


class ReturnError(TypeError):
    """What was called returned another number of values than it has to."""


def to_numpy(values):
    """float64 from NumPy, from PyTorch on any device, or from anything with DLPack.

    Raises TypeError for elements that are no floating-point numbers, and what NumPy raises for an
    array that it cannot read.
    """
    if hasattr(values, "detach"):  # PyTorch, whose bfloat16 NumPy does not know
        if not values.is_floating_point():
            raise TypeError(f"its elements are {values.dtype}; {ALLOWED}")
        return values.detach().double().cpu().numpy()
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        values = _from_dlpack(values)
    values = np.asarray(values)
    if values.dtype.kind != "f" and values.dtype.name != "bfloat16":  # that of ml_dtypes
        raise TypeError(f"its elements are {values.dtype}; {ALLOWED}")
    return values.astype(np.float64)


def _from_dlpack(values):
    """As NumPy has it; in bfloat16, which NumPy's DLPack lacks, by the array's own conversion."""
    try:
        return np.from_dlpack(values)
    except (BufferError, RuntimeError) as error:
        if hasattr(values, "__array__"):
            return values
        raise TypeError(
            f"NumPy cannot read a {type(values).__name__}: {error}; return it in float32 on the CPU"
        ) from error


def read_values(values, shape):
    """The values as float64 of this shape and "", or None and what is wrong with them."""
    if values is None:
        return None, f"it is None; it has to be an array of shape {shape}"
    try:
        numbers = to_numpy(values)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]
    if numbers.shape != shape:
        return None, f"its shape is {numbers.shape}; it has to be {shape}"
    return numbers, ""


def as_tuple(what, returned, counts, allowed):
    """`returned` as a tuple of one of these lengths. Raises ReturnError."""
    if isinstance(returned, (tuple, list)) and len(returned) in counts:
        return tuple(returned)
    if isinstance(returned, (tuple, list)):
        got = f"{len(returned)} values"
    else:
        got = "None" if returned is None else f"a {type(returned).__name__}"
    raise ReturnError(f"{what} returned {got}; it has to return {allowed}")
