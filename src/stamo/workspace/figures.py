"""The figures of a report, as PNG bytes that depend on the numbers only."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stamo.models.calibration import expected_calibration_error, reliability
from stamo.system.arrays import Float64
from stamo.workspace.slots import SlotRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GRID = "#334155", "#e2e8f0"
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#0891b2")
LINE_STYLES = ("-", "--", ":")
N_BINS = 5


def convergence_figure(records: Sequence[SlotRecord]) -> bytes:
    """Draw what the slots did: left-out rates, the share of e*, and how far θ(e*) moved."""
    figure, (left, middle, right) = _figure(3, (9.6, 2.9))
    slots = [r.number for r in records]
    for name, colour in zip(("precision", "recall", "f1"), COLOURS, strict=False):
        points = [(r.number, getattr(r.left_out, name)) for r in records if r.left_out is not None]
        if points:
            x, y = zip(*points, strict=True)
            label = "F1" if name == "f1" else name
            left.plot(x, y, marker="o", markersize=3.5, color=colour, label=label)
    left.set_ylim(-0.03, 1.03)
    left.set_title("Left-out labels")
    middle.plot(slots, [r.share for r in records], marker="o", markersize=3.5, color=COLOURS[0])
    middle.set_ylim(-0.03, 1.03)
    middle.set_title("Share of the pile that means it")
    for i, name in enumerate(dict.fromkeys(name for r in records for name in r.moved)):
        points = [(r.number, r.moved[name]) for r in records if name in r.moved]
        x, y = zip(*points, strict=True)
        style = {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": LINE_STYLES[i // len(COLOURS) % len(LINE_STYLES)],
        }
        right.plot(x, y, marker="o", markersize=3.5, label=name, **style)
    right.set_title("Movement of θ per slot")
    for axes in (left, middle, right):
        axes.set_xlabel("slot (0: labels alone)")
        axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in (left, right):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7, frameon=False)
    return _png(figure)


def confidence_figure(odds: Sequence[float], labels: Sequence[bool], pile: Float64) -> bytes:
    """Draw how often left-out labels of a confidence are e*, and the confidences on the pile."""
    figure, (left, right) = _figure(2, (7.2, 3.1))
    left.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    p = 1 / (1 + np.exp(-np.asarray(odds, dtype=np.float64)))
    if len(p):
        rows = reliability(p, np.asarray(labels, dtype=bool), N_BINS)
        x, y, n = (list(column) for column in zip(*rows, strict=True))
        left.plot(x, y, color=COLOURS[0], linewidth=1)
        left.scatter(x, y, [20 + 12 * size for size in n], color=COLOURS[0])
        for place in zip(x, y, n, strict=True):
            left.annotate(
                f"{place[2]}", place[:2], (6, -10), textcoords="offset points", fontsize=7
            )
        error = expected_calibration_error(p, np.asarray(labels, dtype=bool))
        left.set_title(f"Left-out labels (error {error:.2f})")
    else:
        left.set_title("No left-out labels")
    left.set(xlabel="probability given", ylabel="share that means it", xlim=(0, 1), ylim=(0, 1.03))
    right.hist(pile, bins=np.linspace(0, 1, 21).tolist(), color=COLOURS[0], edgecolor="white")
    right.set(xlabel="probability that a mention means it", ylabel="mentions", xlim=(0, 1))
    right.set_title("The pile")
    return _png(figure)


def _figure(n: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, n)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GRID)
        axes.tick_params(colors=INK, labelsize=7)
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.title.set(fontsize=9, color=INK)
        axes.xaxis.label.set(fontsize=8, color=INK)
        axes.yaxis.label.set(fontsize=8, color=INK)
    return figure, panels


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    # Without the name of the software, the same numbers give the same bytes.
    figure.savefig(data, format="png", dpi=160, metadata={"Software": None})
    return data.getvalue()
