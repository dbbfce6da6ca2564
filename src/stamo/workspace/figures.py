"""The figures of a report: what each panel draws, in data and in places of its SVG.

`report.html` draws them in the colours of the page, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stamo.evaluation.intervals import expected_calibration_error, reliability
from stamo.system.files import Float64
from stamo.workspace.learn import SlotRecord
from stamo.workspace.verdict import Findings

N_GROUPS = 5
"""Groups of θ whose movement is drawn, those that move most."""
N_BINS = 5
N_BARS = 20
WIDTH, HEIGHT = 340, 240
"""Of one panel: at the width of a phone its letters are those of the page."""
LEFT, TOP, RIGHT, BOTTOM = 44, 10, 12, 40

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    description: str
    """What a person who cannot see it should know."""
    x_name: str
    y_name: str = ""
    x_range: Point = (0.0, 1.0)
    y_range: Point = (0.0, 1.0)
    lines: tuple[tuple[str, Sequence[Point]], ...] = ()
    """Names, empty where there is one line, and points."""
    dots: tuple[tuple[float, float, int], ...] = ()
    """Points with how many labels each stands for; they are compared with the diagonal."""
    bars: tuple[tuple[float, float], ...] = ()
    """Where each of equal bars begins, and its height."""
    threshold: float | None = None
    """The confidence from which on the entity is linked."""

    def x(self, value: float) -> float:
        """Return the place of a value in the drawing."""
        low, high = self.x_range
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the place of a value in the drawing; it counts from above."""
        low, high = self.y_range
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self, low: float, high: float) -> list[tuple[float, str]]:
        """Return round values of a range as numbers and as text; slots are whole."""
        step = 10 ** math.floor(math.log10(high - low))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 6)
        step = max(step, 1.0) if high > 1 else step
        places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        return [(i * step, f"{i * step:.10g}") for i in places]


def convergence_panels(records: Sequence[SlotRecord]) -> list[Panel]:
    """Draw what the slots did: left-out rates, the share of e*, and how far θ(e*) moved."""
    shares = [(float(r.number), r.share) for r in records]
    checked = [(r.number, r.left_out) for r in records if r.left_out]
    rates = f"at the end F1 is {checked[-1][1].f1:.2f}" if checked else "nothing was left out"
    share = f"from {shares[0][1]:.0%} to {shares[-1][1]:.0%}" if shares else "no slot"
    most: dict[str, float] = {}
    for record in records:
        for name, moved in record.moved.items():
            most[name] = max(moved, most.get(name, 0.0))
    moving = sorted(most, key=lambda name: -most[name])[:N_GROUPS]
    x_name, x_range = "slot (0: labels alone)", (0.0, float(max(len(records) - 1, 1)))
    return [
        Panel(
            "Left-out labels",
            f"Precision, recall and F1 by slot: {rates}.",
            x_name,
            x_range=x_range,
            lines=tuple(
                (shown, [(float(number), getattr(found, name)) for number, found in checked])
                for name, shown in (("precision", "precision"), ("recall", "recall"), ("f1", "F1"))
            ),
        ),
        Panel(
            "Share of the pile",
            f"Share that links to it by slot: {share}.",
            x_name,
            x_range=x_range,
            lines=(("", shares),),
        ),
        Panel(
            "Movement of θ per slot",
            "How far the groups of θ moved that move most.",
            x_name,
            x_range=x_range,
            y_range=(0.0, max([*most.values(), 0.1])),
            lines=tuple(
                (name, [(float(r.number), r.moved[name]) for r in records if name in r.moved])
                for name in moving
            ),
        ),
    ]


def confidence_panels(found: Findings | None, pile: Float64, threshold: float) -> list[Panel]:
    """Draw how often left-out labels of a confidence are e*, and the confidences on the pile."""
    p = np.asarray(found.probabilities if found else (), dtype=np.float64)
    labels = np.asarray(found.labels if found else (), dtype=bool)
    title = "No left-out labels"
    if len(p):
        title = f"Left-out labels (error {expected_calibration_error(p, labels):.2f})"
    counts, edges = np.histogram(pile, bins=N_BARS, range=(0.0, 1.0))
    return [
        Panel(
            title,
            "How often left-out labels of a confidence are it.",
            "confidence",
            "how often it is right",
            dots=tuple(reliability(p, labels, N_BINS)) if len(p) else (),
            threshold=threshold,
        ),
        Panel(
            "The pile",
            f"Confidences on the pile; {int((pile >= threshold).sum())} of {len(pile)} lie above "
            f"the threshold of {threshold:.0%}.",
            "confidence that it is the entity",
            "mentions",
            y_range=(0.0, float(max(counts.max(), 1))),
            bars=tuple(zip(edges[:-1].tolist(), counts.astype(float).tolist(), strict=True)),
            threshold=threshold,
        ),
    ]
