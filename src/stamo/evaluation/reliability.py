"""The reliability curve as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stamo.evaluation.linking import Confidence


def save_reliability(curves: Sequence[Confidence], path: Path) -> None:
    """Draw how often links of a confidence are right, beside what a perfect model would show."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="perfect")
    for curve in curves:
        confidence, right, sizes = zip(*curve.curve, strict=True) if curve.curve else ((), (), ())
        largest = max(sizes, default=1)
        (line,) = axes.plot(confidence, right, label=f"{curve.name}, ECE {curve.ece:.3f}")
        areas = [10 + 90 * size / largest for size in sizes]
        axes.scatter(confidence, right, areas, color=line.get_color())
    axes.set(xlabel="confidence", ylabel="share of right links", xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=150, metadata={"Software": None} if path.suffix == ".png" else None)
