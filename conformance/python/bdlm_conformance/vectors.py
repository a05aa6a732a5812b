"""The golden vectors: read from their folder, and their inputs made anew."""

import fnmatch
import hashlib
import json
import math
import os
from dataclasses import dataclass, field

import numpy as np

from .philox import gaussian, round_to_bf16
from .safetensors import read_safetensors

CLEAN, CORRUPTED = 0, 1


@dataclass
class Vector:
    """One vector: its entry of the manifest, its contract, and its tensors."""

    id: str
    entry: dict
    contract: dict
    inputs: dict
    expected: dict = field(default_factory=dict)
    h: dict = field(default_factory=dict)
    sigma: dict = field(default_factory=dict)

    @property
    def family(self):
        return self.entry["family"]

    def __repr__(self):
        return f"Vector({self.id})"


def _read_manifest(folder):
    path = os.path.join(folder, "manifest.json")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} does not exist; golden/v1 of bdlm-conformance has one")
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        format = manifest["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no manifest of golden vectors: {error!r}") from error
    if format != "bdlm-golden-1":
        raise ValueError(f"{path}: the format is {format!r}; bdlm-golden-1 is read")
    return manifest


def _nothing_matches(folder, entries, ids, family):
    """What there is instead."""
    families = sorted({entry["family"] for entry in entries})
    if family not in (None, *families):
        return f"{folder} has no family {family!r}; it has {', '.join(families)}"
    of_family = [entry for entry in entries if family in (None, entry["family"])]
    named = [entry["id"] for entry in of_family if fnmatch.fnmatchcase(entry["id"], ids)]
    if named:
        return (
            f"{named[0]} is not stored in {folder}: bdlm golden gen --case ID --out DIR makes it, "
            "bdlm verify --outputs judges it"
        )
    stored = [entry["id"] for entry in of_family if entry["file"] is not None]
    return (
        f"no {family + ' ' if family else ''}vector of {folder} matches {ids!r}; there are "
        f"{len(stored)}, for instance {' and '.join(stored[:2])}"
    )


def load_vectors(folder, ids="*", family=None):
    """The stored vectors of a folder, golden/v1, whose ids match a glob; with checked digests.

    Raises FileNotFoundError where the folder has no manifest, LookupError where no vector matches,
    ValueError where a file is not what the manifest says.
    """
    manifest = _read_manifest(folder)
    out = []
    for entry in manifest["vectors"]:
        wanted = family in (None, entry["family"]) and fnmatch.fnmatchcase(entry["id"], ids)
        if not wanted or entry["file"] is None:
            continue
        path = os.path.join(folder, entry["file"])
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        if digest != entry["sha256"]:
            raise ValueError(f"{path}: the digest is {digest}, the manifest has {entry['sha256']}")
        tensors, _ = read_safetensors(path)
        vector = Vector(entry["id"], entry, manifest["contracts"][entry["contract"]], {})
        for name, values in tensors.items():
            kind, _, rest = name.partition(".")
            place = {"expected": vector.expected, "h": vector.h, "sigma": vector.sigma}.get(kind)
            if place is None:
                vector.inputs[name] = values
            else:
                place[rest] = values
        out.append(vector)
    if not out:
        raise LookupError(_nothing_matches(folder, manifest["vectors"], ids, family))
    return out


def attention_vectors(folder, ids="*"):
    """Those of the attention family."""
    return load_vectors(folder, ids, "attention")


def intervals_of(mask):
    """(2, L, 2, 2): what row i of stream s sees of stream t, from the manifest's `mask`."""
    length = mask["length"]
    starts = mask["block_starts"]
    out = np.zeros((2, length, 2, 2), np.int64)
    block = np.repeat(np.arange(len(starts)), np.diff([*starts, length]))
    ends = [*starts[1:], length]
    window = mask["window"]
    for document, stop in mask["documents"]:
        for i in range(document, stop):
            begin, end = starts[block[i]], ends[block[i]]
            last = end if mask["clean_rule"] == "block_causal" else i + 1
            first = max(document, i + 1 - window) if window else document
            out[CLEAN, i, CLEAN] = first, last
            first = max(document, begin - (window - 1)) if window else document
            if first < begin:
                out[CORRUPTED, i, CLEAN] = first, begin
            out[CORRUPTED, i, CORRUPTED] = begin, end
    return out


def make_attention_inputs(entry):
    """q, k, v, d_o of an attention vector from its manifest entry alone, as float64."""
    shapes = {t["name"]: t["shape"] for t in entry["inputs"]}
    seed, kind = entry["seed"], entry["data"]
    low = {t["name"]: t["dtype"] for t in entry["inputs"]}["q"] == "BF16"
    out = {}
    for tensor, name in enumerate(("q", "k", "v", "d_o")):
        _, length, heads, dim = shapes[name]
        out[name] = np.stack(
            [gaussian(seed, tensor, s, length * heads * dim).reshape(length, heads, dim)
             for s in (CLEAN, CORRUPTED)]
        )
    dim = shapes["q"][3]
    if kind == "scores80":
        out["q"] *= 20
    elif kind == "scores1e4":
        out["q"] *= 2500
    elif kind in ("localabove", "localbelow"):
        out["q"][..., 0] = 8
        out["k"][CLEAN, ..., 0] = 0
        sign = 1 if kind == "localabove" else -1
        out["k"][CORRUPTED, ..., 0] = round(sign * 10 * math.sqrt(dim))
    elif kind == "equalmaxima":
        out["k"][:] = out["k"][CLEAN, 0].copy()
    elif kind == "cancelling":
        odd = out["v"][:, 1::2]
        odd[:] = -out["v"][:, 0::2][:, : odd.shape[1]]
    elif kind != "gauss":
        raise ValueError(f"{entry['id']}: unknown data {kind!r}")
    if low:
        out = {name: round_to_bf16(values) for name, values in out.items()}
    return out
