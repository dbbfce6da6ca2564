"""A table of text, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable


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

    def rich(self, labels: Sequence[str | None] = ()) -> RichTable:
        """Return the table for a terminal.

        Args:
            labels: Heads in place of `columns`; a column whose label is None is left out.
        """
        from rich.table import Table as RichTable

        heads = list(enumerate(labels or self.columns))
        shown = RichTable(title=self.title, title_justify="left")
        for i, label in heads:
            if label is not None:
                shown.add_column(label, justify="left" if i == 0 else "right")
        for row in self.rows:
            shown.add_row(*(row[i] for i, label in heads if label is not None))
        return shown
