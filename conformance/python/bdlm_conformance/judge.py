"""The verdict on outputs, by the limits of golden/README.md."""

import math
from dataclasses import dataclass

import numpy as np

from .arrays import read_values
from .dropped_pair import BACKWARD, FORWARD, STREAMS, missed_pair
from .limits import VACUOUS_FACTOR, Measures, decide

PASSES = ("PASS", "MARGINAL")


@dataclass
class Result:
    """One tensor: PASS, MARGINAL, FAIL, MISTRUSTED or UNSUPPORTED, why, and its figures.

    MARGINAL is right, barely. MISTRUSTED is not wrong, but the vector cannot tell it from zeros,
    from 1.01 times the right values, or from what one key less gives. `bool` is true where it
    passes. Figures are NaN where there is nothing to measure:

    err_over_h    max |x' - x| / H; the bound is 1
    max_z, rms_z  |x' - x| in deviations that the contract predicts
    gain_minus_1  <x' - x, x> / <x, x>: 0.01 is "1 % too large"; not of mere rounding errors
    lse_mass      of the LSE: exp(x' - x) - 1 where it is worst, probability that is gained or lost
    """

    vector: str
    tensor: str
    verdict: str
    reason: str = ""
    detail: str = ""
    err_over_h: float = math.nan
    max_z: float = math.nan
    rms_z: float = math.nan
    gain_minus_1: float = math.nan
    lse_mass: float = math.nan

    def __bool__(self):
        return self.verdict in PASSES

    def __str__(self):
        figures = (
            ("err/H", self.err_over_h, ".3g"),
            ("max z", self.max_z, ".3g"),
            ("RMS z", self.rms_z, ".3g"),
            ("gain-1", self.gain_minus_1, ".1e"),
            ("LSE", self.lse_mass, ".1e"),
        )
        words = [f"{self.vector} {self.tensor}: {self.verdict} {self.reason}".rstrip()]
        words += [f"{label} {x:{form}}" for label, x, form in figures if not math.isnan(x)]
        return "  ".join([*words, self.detail]).rstrip()


def _place(vector, name, index):
    """Where an element is, in words, and in the arrays that `judge_attention` takes."""
    if vector.family != "attention":
        return str(list(index))
    stream, token, head = index[:3]
    block = np.searchsorted(vector.entry["mask"]["block_starts"], token, "right") - 1
    words = f"{STREAMS[stream]} stream, block {block}, token {token}, head {head}"
    if len(index) > 3:
        words += f", channel {index[3]}"
    if name in ("dk", "dv"):
        return f"{words} (key set {stream}, {list(index[1:])})"
    length = vector.expected["o"].shape[1]
    return f"{words} (row {stream * length + token})"


def _element(vector, name, values, place):
    """"VALUE for REFERENCE, H and sigma" of the element of a flat index."""
    index = tuple(int(i) for i in np.unravel_index(int(place), values.shape))
    at = f"at {_place(vector, name, index)}: " if index else ""
    text = f"{at}{float(values[index])!r} for {float(vector.expected[name][index])!r}"
    text += f", H {float(vector.h[name][index]):.3g}"
    if name in vector.sigma:
        text += f", sigma {float(vector.sigma[name][index]):.3g}"
    return text


def _set_figures(result, measures):
    """What can be measured: nothing where no number is finite, no ratio where H is 0."""
    if measures.elements == 0:
        return
    result.err_over_h = measures.err_over_h
    if measures.statistical:
        result.max_z, result.rms_z = measures.max_z, measures.rms_z
    if measures.gain_counts():
        result.gain_minus_1 = measures.gain - 1
    if result.tensor == "lse":
        with np.errstate(over="ignore"):
            mass = np.expm1(measures.error).ravel()
        result.lse_mass = float(mass[np.abs(mass).argmax()])


def _vacuous(vector, name):
    """What would pass, too: zeros, or a factor."""
    x = vector.expected[name]
    for factor, what in ((0.0, "zeros"), (VACUOUS_FACTOR, f"{VACUOUS_FACTOR} times the right answer")):
        wrong = np.where(np.isfinite(x), factor * np.where(np.isfinite(x), x, 0), x)
        if decide(Measures(vector, name, wrong)).verdict != "FAIL":
            return what
    return ""


def judge_values(vector, name, values):
    """One output, in the vector's own shape, against what is expected.

    Values of another shape or type FAIL with reason "shape". Raises LookupError where the vector
    has no such output.
    """
    _require_output(vector, name)
    numbers, problem = read_values(values, vector.expected[name].shape)
    return wrong_shape(vector, name, problem) if problem else _judge_numbers(vector, name, numbers)


def wrong_shape(vector, name, problem):
    """The result for an output that cannot be compared."""
    return Result(vector.id, name, "FAIL", "shape", problem)


def _require_output(vector, name):
    if name not in vector.expected:
        known = ", ".join(vector.expected)
        raise LookupError(f"{vector.id} has no output {name!r}; it has {known}")


def _judge_numbers(vector, name, numbers):
    result = Result(vector.id, name, "PASS")
    measures = Measures(vector, name, numbers)
    finding = decide(measures)
    if finding.reason not in ("nonfinite", "coverage"):  # else the figures are of what is not wrong
        _set_figures(result, measures)
    result.verdict, result.reason = finding.verdict, finding.reason
    if finding.verdict != "PASS":
        result.detail = f"{finding.text}, {_element(vector, name, numbers, finding.place)}"
    if finding.verdict != "FAIL":
        what = _vacuous(vector, name)
        if what:
            result.verdict, result.reason = "MISTRUSTED", ""
            result.detail = f"vacuous: {what} would pass"
    return result


def mistrust_missed_pairs(vector, results):
    """O, or dQ, is MISTRUSTED where its group passes and would pass without one pair, too."""
    found = {result.tensor: result for result in results}
    for names in (FORWARD, BACKWARD):
        group = [found[name] for name in names if name in found]
        complete = len(group) == len(names)
        if not complete or any(r.verdict in ("FAIL", "UNSUPPORTED") for r in group):
            continue
        pair = missed_pair(vector, names)
        if pair is not None and group[0]:
            group[0].verdict, group[0].reason = "MISTRUSTED", ""
            group[0].detail = f"vacuous: it would pass without the pair of {pair}"


def judge_outputs(vector, outputs):
    """Every expected output, from a dictionary of arrays by name in the vector's own shapes.

    One that is missing fails, and so does one that nobody expects; the gradients of an attention
    that has none of them are UNSUPPORTED. Raises TypeError where `outputs` is no dictionary.
    """
    if not hasattr(outputs, "keys"):
        raise TypeError(f"outputs is a {type(outputs).__name__}; it has to be a dictionary by name")
    forward = vector.family == "attention" and not any(name in outputs for name in BACKWARD)
    results = []
    for name in vector.expected:
        if name in outputs:
            results.append(judge_values(vector, name, outputs[name]))
        elif forward and name in BACKWARD:
            results.append(without_gradients(vector, name))
        else:
            shape = vector.expected[name].shape
            detail = f"it is missing; it has to be an array of shape {shape}"
            results.append(Result(vector.id, name, "FAIL", "coverage", detail))
    for name in outputs:
        if name not in vector.expected:
            known = ", ".join(vector.expected)
            detail = f"the vector has no such output; it has {known}"
            results.append(Result(vector.id, str(name), "FAIL", "coverage", detail))
    if vector.family == "attention":
        mistrust_missed_pairs(vector, results)
    return results


def without_gradients(vector, name):
    """The result for a gradient of an attention that has the forward alone."""
    return Result(vector.id, name, "UNSUPPORTED", "", "no gradients were returned")
