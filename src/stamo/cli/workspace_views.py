"""What the workspace commands show: tables and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from stamo.cli.tables import bare_table, named_values

if TYPE_CHECKING:
    from stamo.packs.pack import EntityPack, PackEntry
    from stamo.workspace.collect import Collected, OnCollect
    from stamo.workspace.folder import Status
    from stamo.workspace.learn import FoldDone, LearnedPack, OnStep
    from stamo.workspace.lifecycle import Graduation
    from stamo.workspace.slots import SlotRecord
    from stamo.workspace.verdict import Verdict

HEADINGS = {
    "relatedness": "rel",
    "embedding": "emb",
    "evidence words": "words",
    "evidence context": "ctx",
    "evidence entities": "ents",
    "evidence scale": "scale",
    "evidence bias": "bias",
}
"""Short headings of groups of θ(e*); the others show their names."""


def status_table(status: Status) -> Table:
    """Show where a workspace stands."""
    labels = status.labels
    rows = [
        ("Entity", status.entity.id),
        ("Aliases", ", ".join(status.entity.aliases)),
        ("Documents", f"{status.n_documents:,} with {status.n_mentions:,} candidate mentions"),
        (
            "Labels",
            f"{labels.n_labelled} ({labels.n_emerging} the entity, {labels.n_other} another, "
            f"{labels.n_none} none of these; {labels.n_skipped} skipped)",
        ),
        ("Slots", str(status.n_slots)),
        ("Packs", ", ".join(status.packs) or "none yet"),
        ("Next", status.next_step),
    ]
    return named_values(rows)


@contextmanager
def collect_view(console: Console, title: str) -> Iterator[OnCollect]:
    """Show how far collecting is, while it runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[kept]:,} kept of {task.fields[read]:,}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape(title), total=1.0, kept=0, read=0)

        def show(collected: Collected) -> None:
            progress.update(
                task, completed=collected.share, kept=collected.n_kept, read=collected.n_read
            )

        yield show


def collected_table(collected: Collected) -> Table:
    """Show what was kept, and why the rest was not."""
    from stamo.workspace.snippets import printable

    table = bare_table(">", "", show_header=False)
    mentions = f"kept, with {collected.n_mentions:,} candidate mentions"
    table.add_row(f"[bold]{collected.n_kept:,}[/]", mentions)
    for reason, count in collected.skipped.items():
        where = collected.examples.get(reason)
        text = Text(reason)
        if where is not None and reason != "contains no alias":
            text.append(f" (first: {printable(where)})", style="dim")
        table.add_row(f"{count:,}", text)
    for reason, count in collected.mended.items():
        table.add_row(f"{count:,}", Text(f"{reason} (kept)", style="dim"))
    return table


def slots_table(records: Sequence[SlotRecord], n_shown: int = 12) -> Table:
    """Show what the slots did: θ's movement, flipped pseudo-labels, left-out precision.

    Slot 0 is the labels alone.
    """
    groups = list(dict.fromkeys(group for record in records for group in record.moved))
    moves = (f">{HEADINGS.get(group, group)}" for group in groups)
    headings = (">slot", ">share", ">flips", *moves, ">P", ">R", ">F1")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    table.columns[-1].style = "bold"
    for record in records[-n_shown:]:
        left_out = record.left_out
        numbers = (left_out.precision, left_out.recall, left_out.f1) if left_out else ()
        table.add_row(
            str(record.number),
            f"{record.share:.0%}",
            f"{record.n_flipped:,}" if record.number > 1 else "",
            *(_movement(record, group) for group in groups),
            *(f"{number:.2f}" for number in numbers),
        )
    return table


def _movement(record: SlotRecord, group: str) -> str:
    moved = record.moved.get(group)
    return "" if moved is None else f"{moved:.2f}"


@contextmanager
def learn_view(console: Console) -> Iterator[OnStep]:
    """Show the folds, then the slots, while they run; nothing of it stays."""
    folds = Progress(
        TextColumn("Checking on left-out labels"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
    )
    task = folds.add_task("", total=None)
    records: list[SlotRecord] = []

    def view() -> RenderableType:
        return Group(folds, slots_table(records)) if records else folds

    with Live(view(), console=console, transient=True, refresh_per_second=8) as live:

        def show(step: FoldDone | SlotRecord) -> None:
            if hasattr(step, "n_folds"):
                folds.update(task, completed=step.number, total=step.n_folds)
            else:
                records.append(step)
            live.update(view())

        yield show


def outcome_lines(outcome: LearnedPack) -> list[Text]:
    """Say what learning gave, and what to worry about."""
    lines = []
    if outcome.n_stale:
        text = f"{outcome.n_stale} labels were left out: their mentions are gone."
        lines.append(Text(text, style="yellow"))
    if not outcome.pile_helped:
        text = "The unlabelled documents did not help: the pack holds what the labels alone say."
        lines.append(Text(text, style="yellow"))
    size = outcome.path.stat().st_size / 1000
    slot = f"slot {outcome.used_slot}" if outcome.used_slot else "the labels alone"
    lines.append(Text(f"Wrote {outcome.path} ({size:.0f} kB, from {slot})."))
    return lines


DECISION_STYLES = {
    "ship": "bold green",
    "ship with a higher threshold": "bold yellow",
    "label more": "bold yellow",
    "do not ship": "bold red",
}


def verdict_view(verdict: Verdict) -> Group:
    """Show whether a pack is fit to be used, why, and what must not be overlooked."""
    parts: list[RenderableType] = [
        Text(verdict.sentence, style=DECISION_STYLES[verdict.decision.value]),
        *(Text(f"  {reason}") for reason in verdict.reasons),
    ]
    if verdict.warnings:
        title = "Warning" if len(verdict.warnings) == 1 else f"{len(verdict.warnings)} warnings"
        body = Text("\n".join(map(_plain, verdict.warnings)))
        parts.append(Panel(body, title=title, title_align="left", border_style="bold red"))
    return Group(*parts)


def _plain(text: str) -> str:
    from stamo.workspace.snippets import printable

    return printable(text)


def packs_table(entries: Sequence[PackEntry]) -> Table:
    """Show the packs of a folder; damaged ones with their problem."""
    table = bare_table("Key", "Entity", "Aliases", "Knowledge base", "Labels")
    for entry in entries:
        if entry.pack is None:
            table.add_row(escape(entry.key), Text(entry.problem, style="red"))
            continue
        pack = entry.pack
        names = escape(pack.entity.id), escape(", ".join(pack.entity.aliases))
        by = escape(pack.notes.get("labelled by", ""))
        table.add_row(escape(entry.key), *names, pack.kb_fingerprint[:12], by)
    return table


def pack_table(pack: EntityPack, related: Sequence[tuple[str, float]]) -> Table:
    """Show what a pack holds."""
    priors = zip(pack.entity.aliases, pack.priors.tolist(), strict=True)
    rows = [
        ("Entity", pack.entity.id),
        ("Prior", ", ".join(f"{alias} {p:.2f}" for alias, p in priors)),
        ("Most related", ", ".join(f"{title} {r:.2f}" for title, r in related)),
        ("Vector", f"{len(pack.vector)} dimensions"),
        ("Knowledge base", pack.kb_fingerprint),
        ("Model", pack.model_fingerprint),
        ("Description", pack.description),
        *((name.capitalize(), note) for name, note in pack.notes.items()),
        ("Fingerprint", pack.fingerprint),
    ]
    return named_values(rows)


def graduation_table(compared: Graduation) -> Table:
    """Show what was learned beside what a later knowledge base counted."""
    table = bare_table("", ">learned", ">later")
    for prior in compared.priors:
        later = "unknown" if prior.later is None else f"{prior.later:.2f}"
        table.add_row(escape(f"P({compared.title} | {prior.alias})"), f"{prior.learned:.2f}", later)
    if compared.cosine is not None:
        table.add_row("cosine of the vectors", "", f"{compared.cosine:.2f}")
    if compared.n_related:
        shared = f"{len(compared.shared)} of {compared.n_related}"
        table.add_row("most related in both", "", shared)
        if compared.shared:
            table.add_row(Text("  " + ", ".join(compared.shared), style="dim"), "", "")
    return table
