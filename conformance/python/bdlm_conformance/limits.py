"""How far an output is from what is expected, and which limit that exceeds."""

import math
from dataclasses import dataclass

import numpy as np

UNIT = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24, "f64": 2.0**-53}
# Which sites of the contract lie behind an output.
SITES = {
    "attention": {
        "o": ("p", "o", "partial_o"),
        "dq": ("p", "ds", "o", "partial_o", "gradient"),
        "dk": ("p", "ds", "o", "partial_o", "gradient", "reduce"),
        "dv": ("p", "gradient", "reduce"),
    },
    "merge": {"o": ("o", "partial_o")},
    "cross_entropy": {"d_hidden": ("ds", "gradient"), "d_head": ("ds",)},
}
OUTLIER_MARGINAL, OUTLIER = 6.5, 8
NOISE_PASS, NOISE_SAMPLES, NOISE, NOISE_ELEMENTS = 1.08, 4, 1.5, 256
GAIN_SHARE, GAIN_DEVIATIONS, GAIN_ROW_DEVIATIONS, GAIN_EXP = 8, 8, 3, 8
GAIN_MEASURABLE, GAIN_ELEMENTS = 0.1, 32
FACTOR_ELEMENTS = 4  # where the bound alone is judged: so many make a factor worth naming
VACUOUS_FACTOR, MOST_KEYS, PROBABILITY_ROOM = 1.01, 4096, 1e-12


@dataclass
class Finding:
    """What the limits say; `place` is the flat index of the worst element."""

    verdict: str = "PASS"
    reason: str = ""
    text: str = ""
    place: int = 0


class Measures:
    """Figures of one output. `statistical`: sigma is known, and gain, outliers and noise count."""

    def __init__(self, vector, name, values):
        self.vector, self.name = vector, name
        self.x = vector.expected[name]
        self.h = vector.h[name].astype(np.float64)
        self.values = values
        sites = SITES.get(vector.family, {}).get(name)
        self.statistical = sites is not None and name in vector.sigma
        self.gaussian = vector.entry.get("data", "gauss") == "gauss"
        self.accumulate = UNIT[vector.contract["accumulate"]]
        self.unit = max([self.accumulate, *(UNIT[vector.contract[s]] for s in sites or ())])
        self.live = (self.h > 0) & np.isfinite(self.x)
        self.same = (values == self.x) | (np.isnan(values) & np.isnan(self.x))
        finite = self.live & np.isfinite(values)
        self.error = np.zeros(self.x.shape)
        np.subtract(values, self.x, out=self.error, where=finite)
        self.ratio = np.abs(self.error) / np.where(self.live, self.h, 1)
        self.err_over_h = float(self.ratio.max(initial=0))
        self.elements = int(finite.sum())
        x = np.where(finite, self.x, 0)
        self.norm = norm = float((x * x).sum())
        self.gain = 1 + (float((self.error * x).sum()) / norm if norm > 0 else 0)
        if self.statistical:
            sigma = np.where(finite, vector.sigma[name].astype(np.float64), 0)
            self._measure_statistics(x, norm, sigma)

    def _measure_statistics(self, x, norm, sigma):
        self.z = np.abs(self.error) / np.where(sigma > 0, sigma, np.inf)
        self.max_z = float(self.z.max(initial=0))
        self.rms_z = math.sqrt(float((self.z**2).sum()) / max(self.elements, 1))
        spread = np.sqrt((sigma**2 * x * x).sum()) / norm if norm > 0 else 0
        rows = (sigma * np.abs(x)).sum(axis=-1)  # the channels of a row share errors
        row_spread = np.sqrt((rows**2).sum()) / norm if norm > 0 else 0
        self.gain_limit = max(
            self.unit / (GAIN_SHARE if self.gaussian else 1),
            GAIN_DEVIATIONS * spread,
            GAIN_ROW_DEVIATIONS * row_spread,
            GAIN_EXP * self.accumulate,
        )

    def divided_by_gain(self):
        """The same of values / gain."""
        return Measures(self.vector, self.name, self.values / self.gain)

    def gain_counts(self):
        """Not where what is expected is mostly rounding errors."""
        return self.statistical and self.norm > 0 and self.gain_limit < GAIN_MEASURABLE

    def worst(self):
        """By sigma where there is one, else by H."""
        return self.z.argmax() if self.statistical and self.max_z > 0 else self.ratio.argmax()


def _of_elements(m):
    """Bound, outlier, noise."""
    if m.err_over_h > 1:
        return Finding("FAIL", "bound", f"off by {m.err_over_h:.3g} times the bound", m.ratio.argmax())
    if not m.statistical or m.unit <= m.accumulate:
        return Finding()
    outlier = f"off by {m.max_z:.3g} predicted deviations"
    if m.max_z > OUTLIER:
        return Finding("FAIL", "outlier", outlier, m.worst())
    noise = f"errors are {m.rms_z:.3g} times as large as predicted, over {m.elements} elements"
    judged = m.gaussian and m.elements >= NOISE_ELEMENTS
    limit = NOISE_PASS + NOISE_SAMPLES / math.sqrt(max(m.elements, 1))
    if judged and m.rms_z > max(NOISE, limit):
        return Finding("FAIL", "noise", noise, m.worst())
    if m.max_z > OUTLIER_MARGINAL:
        return Finding("MARGINAL", "outlier", outlier, m.worst())
    if judged and m.rms_z > limit:
        return Finding("MARGINAL", "noise", noise, m.worst())
    return Finding()


def _with_factor(m, finding):
    """The same finding; its text has the factor that explains it, which is not a limit here."""
    if finding.verdict == "FAIL" and m.elements >= FACTOR_ELEMENTS and m.gain != 0:
        if _of_elements(m.divided_by_gain()).verdict != "FAIL":
            finding.text += f" and right but for a factor of {m.gain:.6g}"
    return finding


def decide(m):
    """The worst finding; a factor is named first where it explains the rest."""
    wrong = (~np.isfinite(m.values) | ~np.isfinite(m.x)) & ~m.same
    if wrong.any():
        text = f"{wrong.sum()} values are NaN or infinite, or are not where they should be"
        return Finding("FAIL", "nonfinite", text, wrong.argmax())
    wrong = (m.h == 0) & ~m.same
    if wrong.any():
        text = f"{wrong.sum()} values are not exact where nothing is summed"
        return Finding("FAIL", "coverage", text, wrong.argmax())
    finding = _of_elements(m)
    if not m.statistical:
        return _with_factor(m, finding)
    if not m.gain_counts() or abs(m.gain - 1) <= m.gain_limit:
        return finding
    sign = "-" if m.gain < 1 else "+"
    text = (
        f"the right result times 1 {sign} {abs(m.gain - 1):.6g}, where +-{m.gain_limit:.3g} is allowed"
    )
    scale = Finding("FAIL", "scale", text, m.worst())
    alone = m.elements >= GAIN_ELEMENTS and m.gain != 0
    if alone and _of_elements(m.divided_by_gain()).verdict != "FAIL":
        return scale
    return finding if finding.verdict == "FAIL" else scale
