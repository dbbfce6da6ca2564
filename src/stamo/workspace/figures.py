"""The figures of a report: each panel by itself as SVG in the page's colours, together as PNG.

Both depend on the numbers only. In the page every panel has a place of its own, so that it stays
legible on a phone, and its colours are those of the page, light or dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stamo.models.calibration import expected_calibration_error, reliability
from stamo.system.files import Bools, Float64
from stamo.workspace.learn import SlotRecord
from stamo.workspace.verdict import Findings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GRID, PAPER = "#334155", "#e2e8f0", "#fefefe"
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#0891b2")
N_GROUPS = 5
"""Groups of θ whose movement is drawn, those that move most."""
PAGE_COLOURS = {
    INK: "var(--soft)",
    GRID: "var(--line)",
    PAPER: "var(--card)",
    **{colour: f"var(--series-{i})" for i, colour in enumerate(COLOURS)},
}
"""What the page calls the colours; `report.css` has both their light and their dark values."""
N_BINS = 5
SIZE = (3.7, 2.7)
"""Inches of one panel: at the width of a phone its letters are those of the page."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    description: str
    """What a person who cannot see it should know."""
    draw: Callable[[Any], None]


def convergence_panels(records: Sequence[SlotRecord]) -> list[Panel]:
    """Draw what the slots did: left-out rates, the share of e*, and how far θ(e*) moved."""
    shares = [r.share for r in records]
    last = records[-1].left_out if records else None
    rates = f"at the end F1 is {last.f1:.2f}" if last else "nothing was left out"
    rates = f"Precision, recall and F1 by slot: {rates}."
    share = f"from {shares[0]:.0%} to {shares[-1]:.0%}" if shares else "no slot"
    share = f"Share that links to it by slot: {share}."
    moves = "How far the groups of θ moved that move most."
    return [
        Panel("Left-out labels", rates, partial(_rates, records)),
        Panel("Share of the pile", share, partial(_share, records)),
        Panel("Movement of θ per slot", moves, partial(_moves, records)),
    ]


def _rates(records: Sequence[SlotRecord], axes: Any) -> None:
    for name, colour in zip(("precision", "recall", "f1"), COLOURS, strict=False):
        found = [(r.number, getattr(r.left_out, name)) for r in records if r.left_out]
        if found:
            _plot(axes, found, colour, "F1" if name == "f1" else name)
    axes.set_ylim(-0.03, 1.03)
    _slots(axes)


def _share(records: Sequence[SlotRecord], axes: Any) -> None:
    _plot(axes, [(r.number, r.share) for r in records], COLOURS[0])
    axes.set_ylim(-0.03, 1.03)
    _slots(axes)


def _moves(records: Sequence[SlotRecord], axes: Any) -> None:
    most: dict[str, float] = {}
    for record in records:
        for name, moved in record.moved.items():
            most[name] = max(moved, most.get(name, 0.0))
    for i, name in enumerate(sorted(most, key=lambda name: -most[name])[:N_GROUPS]):
        points = [(r.number, r.moved[name]) for r in records if name in r.moved]
        _plot(axes, points, COLOURS[i % len(COLOURS)], name)
    _slots(axes)


def _plot(
    axes: Any, points: Sequence[tuple[int, float]], colour: str, label: str | None = None
) -> None:
    x, y = zip(*points, strict=True) if points else ((), ())
    axes.plot(x, y, marker="o", markersize=3.5, color=colour, label=label)


def _slots(axes: Any) -> None:
    axes.set_xlabel("slot (0: labels alone)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, frameon=False, labelcolor=INK)


def confidence_panels(found: Findings | None, pile: Float64, line: float) -> list[Panel]:
    """Draw how often left-out labels of a confidence are e*, and the confidences on the pile."""
    p = np.asarray(found.probabilities if found else (), dtype=np.float64)
    labels = np.asarray(found.labels if found else (), dtype=bool)
    error = expected_calibration_error(p, labels) if len(p) else None
    title = "No left-out labels" if error is None else f"Left-out labels (error {error:.2f})"
    n_above = int((pile >= line).sum())
    above = f"Confidences on the pile; {n_above} of {len(pile)} lie above the line at {line:.0%}."
    right = "How often left-out labels of a confidence are it."
    return [
        Panel(title, right, partial(_curve, p, labels, line)),
        Panel("The pile", above, partial(_histogram, pile, line)),
    ]


def _curve(p: Float64, labels: Bools, line: float, axes: Any) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    if len(p):
        rows = reliability(p, labels, N_BINS)
        x, y, n = (list(column) for column in zip(*rows, strict=True))
        axes.plot(x, y, color=COLOURS[0], linewidth=1)
        sizes = [20 + 12 * size for size in n]
        axes.scatter(x, y, sizes, color=COLOURS[0], clip_on=False, zorder=3)
        for *place, size in rows:
            _note(axes, f"{size}", tuple(place), (6, -10), color=INK)
    axes.set(xlabel="confidence", ylabel="how often it is right", xlim=(0, 1), ylim=(0, 1.03))
    _draw_line(axes, line)


def _histogram(pile: Float64, line: float, axes: Any) -> None:
    axes.hist(pile, bins=np.linspace(0, 1, 21).tolist(), color=COLOURS[0], edgecolor=PAPER)
    axes.set(xlabel="confidence that it is the entity", ylabel="mentions", xlim=(0, 1))
    _draw_line(axes, line)


def _draw_line(axes: Any, line: float) -> None:
    """Mark where the decision falls."""
    axes.axvline(line, color=COLOURS[4], linewidth=1.2, linestyle="--")
    where = ("data", "axes fraction")
    _note(axes, f"line {line:.0%}", (line, 1), (3, -8), color=COLOURS[4], xycoords=where)


def _note(axes: Any, text: str, place: Any, at: tuple[int, int], **style: Any) -> None:
    axes.annotate(text, place, at, textcoords="offset points", fontsize=7, **style)


def to_svg(panel: Panel) -> str:
    """Draw a panel as an SVG element in the page's colours; its letters stay text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": panel.title}):
        figure = _figure([panel], titled=False)
        data = io.StringIO()
        figure.savefig(data, format="svg", transparent=True, metadata={"Date": None})
    text = data.getvalue()
    drawn = text[text.index("<svg") :]
    # Nothing but the picture: the page loads no font, and says itself what it shows.
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    for colour, name in PAGE_COLOURS.items():
        drawn = drawn.replace(colour, name)
    return drawn


def to_png(panels: Sequence[Panel]) -> bytes:
    """Draw panels side by side."""
    figure, data = _figure(panels, titled=True), io.BytesIO()
    # Without the name of the software, the same numbers give the same bytes.
    figure.savefig(data, format="png", dpi=160, metadata={"Software": None})
    return data.getvalue()


def _figure(panels: Sequence[Panel], *, titled: bool) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0] * len(panels), SIZE[1]), layout="constrained")
    FigureCanvasAgg(figure)
    for panel, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GRID)
        axes.tick_params(colors=INK, labelsize=8)
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.xaxis.label.set(fontsize=9, color=INK)
        axes.yaxis.label.set(fontsize=9, color=INK)
        if titled:
            axes.set_title(panel.title, fontsize=10, color=INK)
        panel.draw(axes)
    return figure
