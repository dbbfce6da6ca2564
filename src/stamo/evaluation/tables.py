"""A table of text, the results of linking as tables, and the reliability curve as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from stamo.evaluation.gold import GoldReport
    from stamo.evaluation.held_out import Confidence, HeldOutReport


@dataclass(frozen=True)
class Table:
    """A table of text; all columns but the first hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        head = "| " + " | ".join(self.columns) + " |"
        rule = "| --- |" + " ---: |" * (len(self.columns) - 1)
        body = ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([f"### {self.title}", "", head, rule, *body, ""])

    def rich(self) -> RichTable:
        """Return the table for a terminal."""
        from rich.table import Table as RichTable

        shown = RichTable(title=self.title, title_justify="left")
        for i, label in enumerate(self.columns):
            shown.add_column(label, justify="left" if i == 0 else "right")
        for row in self.rows:
            shown.add_row(*row)
        return shown


def held_out_tables(report: HeldOutReport) -> list[Table]:
    """Show accuracy, ablations and calibration on held-out articles."""
    title = (
        f"Held-out articles: {report.n_ambiguous} ambiguous mentions ({report.n_hard} hard) of "
        f"{report.n_mentions} in {report.n_documents} documents; candidate recall "
        f"{report.candidate_recall}"
    )
    columns = ("linking by", "accuracy", "hard mentions", "above prior alone", "hard ones")
    rows, ablations = (
        tuple(
            (r.name, f"{r.accuracy}", f"{r.hard}", f"{r.gain:+.3f}", f"{r.hard_gain:+.3f}")
            for r in some
        )
        for some in (report.rows, report.ablations)
    )
    return [
        Table(title, columns, rows),
        Table(
            f"{report.model} with one score the same for all candidates",
            ("linking by", "accuracy", "hard mentions", "change", "of hard ones"),
            ablations,
        ),
        *(
            Table(
                f"Reliability on {part.name} ({part.n_mentions}); ECE {part.ece:.3f}",
                ("mean confidence", "right", "mentions"),
                tuple((f"{c:.3f}", f"{a:.3f}", str(n)) for c, a, n in part.curve),
            )
            for part in report.confidence
        ),
    ]


def gold_tables(reports: Sequence[GoldReport]) -> list[Table]:
    """Show accuracy on given mentions and the results end to end."""
    given = tuple(
        (
            report.name,
            f"{report.n_in_kb} of {report.n_mentions}",
            str(report.candidate_recall),
            str(report.prior_alone),
            str(report.accuracy),
            str(report.gain),
        )
        for report in reports
    )
    model = reports[0].model
    columns = ("file", "in the KB", "candidate recall", "prior alone", model, "gain")
    return [
        Table("Given mentions whose entity the knowledge base knows", columns, given),
        Table(
            "End to end, with our own mention detection",
            ("file", "span", "precision", "on gold spans", "recall", "F1", "spans found"),
            tuple(
                (
                    *(report.name, kind, str(found.precision), str(found.precision_on_gold)),
                    *(str(found.recall), str(found.f1), str(found.detection_recall)),
                )
                for report in reports
                for kind, found in (("exact", report.exact), ("overlap", report.overlapping))
            ),
        ),
    ]


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
