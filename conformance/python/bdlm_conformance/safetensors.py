"""A small strict reader and writer of safetensors files.

bfloat16, which NumPy lacks, is read as float32 with the same values.
"""

import json
import math
import os
import struct

import numpy as np

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}
_MOST_HEADER = 16 << 20


class SafetensorsError(ValueError):
    """The file is no safetensors file."""


def _no_duplicates(pairs):
    out = {}
    for key, value in pairs:
        if key in out:
            raise SafetensorsError(f"key {key!r} occurs twice")
        out[key] = value
    return out


def read_safetensors(path):
    """The tensors by name, and the metadata."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        if len(head) != 8:
            raise SafetensorsError(f"{path}: shorter than 8 bytes")
        (length,) = struct.unpack("<Q", head)
        if length > _MOST_HEADER or length > size - 8:
            raise SafetensorsError(f"{path}: a header of {length} bytes does not fit")
        try:
            header = json.loads(file.read(length).decode(), object_pairs_hook=_no_duplicates)
        except (UnicodeDecodeError, json.JSONDecodeError, SafetensorsError, RecursionError) as error:
            raise SafetensorsError(f"{path}: the header is no JSON: {error}") from error
        if not isinstance(header, dict):
            raise SafetensorsError(f"{path}: the header is no object")
        metadata = header.pop("__metadata__", {})
        tensors = {}
        ranges = []
        for name, info in header.items():
            try:
                dtype = np.dtype(_DTYPES[info["dtype"]])
                shape = [int(n) for n in info["shape"]]
                begin, end = info["data_offsets"]
            except (KeyError, TypeError, ValueError) as error:
                raise SafetensorsError(f"{path}: tensor {name!r}: {error!r}") from error
            count = math.prod(shape)
            fits = 0 <= begin <= end <= size - 8 - length and all(n >= 0 for n in shape)
            if not fits or end - begin != count * dtype.itemsize:
                raise SafetensorsError(f"{path}: tensor {name!r} has {end - begin} bytes at {begin}")
            ranges.append((begin, end, name))
            file.seek(8 + length + begin)
            values = np.frombuffer(file.read(end - begin), dtype).reshape(shape)
            if info["dtype"] == "BF16":
                values = (values.astype(np.uint32) << 16).view(np.float32).reshape(shape)
            tensors[name] = values
        at = 0
        for begin, end, name in sorted(ranges):
            if begin != at:
                raise SafetensorsError(f"{path}: tensor {name!r} overlaps or leaves a hole")
            at = end
        if at != size - 8 - length:
            raise SafetensorsError(f"{path}: {size - 8 - length - at} bytes belong to no tensor")
    return tensors, metadata


def write_safetensors(path, tensors, metadata=None):
    """Writes arrays by name, in their own dtypes."""
    names = {np.dtype(code): name for name, code in _DTYPES.items() if name != "BF16"}
    header = {"__metadata__": metadata} if metadata else {}
    data = []
    at = 0
    for name in sorted(tensors):
        values = np.ascontiguousarray(tensors[name]).reshape(np.shape(tensors[name]))
        body = values.astype(values.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": names[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [at, at + len(body)],
        }
        at += len(body)
        data.append(body)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for body in data:
            file.write(body)
    os.replace(temporary, path)
