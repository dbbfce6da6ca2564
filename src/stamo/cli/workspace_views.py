"""What the workspace commands show: tables and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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

from stamo.cli.tables import bare_table, named_values, print_table
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.corpus.types import EmergingEntity
    from stamo.packs.folder import PackEntry
    from stamo.packs.pack import EntityPack
    from stamo.workspace.collect import CollectProgress, OnCollect
    from stamo.workspace.folder import Status, Workspace
    from stamo.workspace.intake import Collected
    from stamo.workspace.learn import FoldDone, LearnedPack, OnStep
    from stamo.workspace.lifecycle import Graduation
    from stamo.workspace.slots import SlotRecord
    from stamo.workspace.verdict import Verdict
    from stamo.workspace.versions import PackVersion

HEADINGS = {"relatedness": "rel", "embedding": "emb"}
"""Short headings of groups of θ(e*); the evidence has one for all of its views."""


def entity_record(entity: EmergingEntity) -> dict[str, str | None]:
    """Return what is known of an entity, for programs."""
    identity = {"id": entity.external_id, "type": entity.type, "url": entity.url}
    given = {name: value or None for name, value in identity.items()}
    return {"entity": entity.id, **given, "about": entity.about}


def status_table(status: Status) -> Table:
    """Show where a workspace stands."""
    labels, entity = status.labels, status.entity
    mentions = count_of(status.n_mentions, "candidate mention")
    rows = [
        ("Entity", entity.id),
        *((name.capitalize(), value) for name, value in entity.identity.items()),
        *([("About", entity.about)] if entity.about else []),
        ("Aliases", ", ".join(entity.aliases)),
        ("Documents", f"{status.n_documents:,} with {mentions}"),
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


def overview_table(rows: Sequence[tuple[Workspace, Status]]) -> Table:
    """Show where many workspaces stand, one a line."""
    headings = ("Workspace", "Entity", "Id", ">Documents", ">Mentions", ">Labels", "Next")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    for workspace, status in rows:
        table.add_row(
            escape(str(workspace.path)),
            escape(status.entity.id),
            escape(status.entity.external_id),
            f"{status.n_documents:,}",
            f"{status.n_mentions:,}",
            f"{status.labels.n_labelled:,}",
            escape(status.stage),
        )
    return table


def collected_overview(rows: Sequence[tuple[Workspace, Collected]]) -> Table:
    """Show what many workspaces collected, one a line."""
    table = bare_table(
        "Workspace", "Entity", ">Kept", ">New", ">Mentions", ">Copies", padding=(0, 2, 0, 0)
    )
    from stamo.workspace.intake import COPY

    for workspace, collected in rows:
        numbers = (collected.n_kept, collected.n_new, collected.n_mentions)
        table.add_row(
            escape(str(workspace.path)),
            escape(workspace.entity.id),
            *(f"{n:,}" for n in (*numbers, collected.skipped.get(COPY, 0))),
        )
    return table


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

        def show(reached: CollectProgress) -> None:
            progress.update(task, completed=reached.share, kept=reached.n_kept, read=reached.n_read)

        yield show


def collected_table(collected: Collected) -> Table:
    """Show what was kept, and why the rest was not."""
    table = bare_table(">", "", show_header=False)
    mentions = f"kept, with {count_of(collected.n_mentions, 'candidate mention')}"
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
    moved = [_by_heading(record.moved) for record in records]
    groups = list(dict.fromkeys(group for by_heading in moved for group in by_heading))
    headings = (">slot", ">share", ">flips", *(f">{group}" for group in groups), ">P", ">R", ">F1")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    table.columns[-1].style = "bold"
    for record, by_heading in list(zip(records, moved, strict=True))[-n_shown:]:
        left_out = record.left_out
        numbers = (left_out.precision, left_out.recall, left_out.f1) if left_out else ()
        table.add_row(
            str(record.number),
            f"{record.share:.0%}",
            f"{record.n_flipped:,}" if record.number > 1 else "",
            *(f"{by_heading[group]:.2f}" if group in by_heading else "" for group in groups),
            *(f"{number:.2f}" for number in numbers),
        )
    return table


def _by_heading(moved: Mapping[str, float]) -> dict[str, float]:
    """Return how far the groups under each heading moved, the farthest of them."""
    farthest: dict[str, float] = {}
    for group, how_far in moved.items():
        is_evidence = group.startswith("evidence ")
        heading = "evidence" if is_evidence else HEADINGS.get(group, group)
        farthest[heading] = max(how_far, farthest.get(heading, how_far))
    return farthest


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

    with Live(folds, console=console, transient=True, refresh_per_second=8) as live:

        def show(step: FoldDone | SlotRecord) -> None:
            if hasattr(step, "n_folds"):
                folds.update(task, completed=step.number, total=step.n_folds)
            else:
                records.append(step)
            live.update(Group(folds, slots_table(records)) if records else folds)

        yield show


def outcome_lines(outcome: LearnedPack) -> list[Text]:
    """Say what learning gave, and what to worry about."""
    lines = []
    if outcome.n_stale:
        were = (
            "was left out: its mention is"
            if outcome.n_stale == 1
            else "were left out: their mentions are"
        )
        text = f"{count_of(outcome.n_stale, 'label')} {were} gone."
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


def verdict_view(verdict: Verdict, name: str = "") -> Group:
    """Show whether a pack is fit to be used, why, and what must not be overlooked.

    Among several the entity's name stands above its verdict.
    """
    parts: list[RenderableType] = [
        *([Text(f"\n{name}", style="bold")] if name else []),
        Text(verdict.sentence, style=DECISION_STYLES[verdict.decision.value]),
        *(Text(f"  {reason}") for reason in verdict.reasons),
    ]
    if verdict.warnings:
        title = "Warning" if len(verdict.warnings) == 1 else f"{len(verdict.warnings)} warnings"
        body = Text("\n".join(map(printable, verdict.warnings)))
        parts.append(Panel(body, title=title, title_align="left", border_style="bold red"))
    return Group(*parts)


def show_learned(
    learned: Sequence[tuple[Workspace, LearnedPack]],
    fingerprints: Mapping[str, str],
    console: Console,
) -> None:
    """Show what was learned: one entity slot by slot, many as a table, then each verdict."""
    if len(learned) == 1:
        console.print(slots_table(learned[0][1].records))
    elif learned:
        print_table(learned_table(learned))
    for _, outcome in learned:
        for line in outcome_lines(outcome):
            console.print(line, soft_wrap=True)
    kb, model = (fingerprints[name][:12] for name in ("kb", "model"))
    console.print(f"Unchanged: knowledge base {kb}, model {model}.", style="dim")
    for space, outcome in learned:
        name = space.entity.id if len(learned) > 1 else ""
        console.print(verdict_view(outcome.verdict, name))


def learned_table(rows: Sequence[tuple[Workspace, LearnedPack]]) -> Table:
    """Show what was learned in many workspaces, one a line."""
    headings = ("Workspace", "Entity", ">Labels", ">Share", ">P", ">R", ">F1", "Verdict")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    for workspace, outcome in rows:
        record = learned_record(workspace, outcome)
        rates = [record[name] for name in ("precision", "recall", "f1")]
        table.add_row(
            escape(str(workspace.path)),
            escape(workspace.entity.id),
            str(record["labels"]),
            f"{record['share']:.0%}",
            *("" if rate is None else f"{rate:.2f}" for rate in rates),
            outcome.verdict.decision.value,
        )
    return table


def learned_record(workspace: Workspace, outcome: LearnedPack) -> dict[str, Any]:
    """Return what learning gave, for programs; precision and recall are of left-out labels."""
    record = next(r for r in reversed(outcome.records) if r.number <= outcome.used_slot)
    left_out = record.left_out
    return {
        "workspace": str(workspace.path),
        "entity": workspace.entity.id,
        "id": workspace.entity.external_id or None,
        "pack": str(outcome.path),
        "fingerprint": outcome.pack.fingerprint,
        "labels": workspace.status().labels.n_labelled,
        "slot": outcome.used_slot,
        "share": record.share,
        "precision": left_out.precision if left_out else None,
        "recall": left_out.recall if left_out else None,
        "f1": left_out.f1 if left_out else None,
        "pile_helped": outcome.pile_helped,
        "alarm": outcome.findings.alarm,
        "doubtful": list(outcome.findings.doubtful),
        "stale_labels": outcome.n_stale,
        "verdict": outcome.verdict.to_json(),
    }


def packs_table(entries: Sequence[PackEntry]) -> Table:
    """Show the packs of a folder; damaged ones with their problem."""
    table = bare_table("Key", "Entity", "Id", "Aliases", "Knowledge base", "Labels")
    table.columns[0].no_wrap = True
    for entry in entries:
        if entry.pack is None:
            table.add_row(escape(entry.key), Text(entry.problem, style="red"))
            continue
        pack = entry.pack
        entity = pack.entity
        names = map(escape, (entity.id, entity.external_id, ", ".join(entity.aliases)))
        by = escape(pack.notes.get("labelled by", ""))
        table.add_row(escape(entry.key), *names, pack.kb_fingerprint[:12], by)
    return table


def versions_table(versions: Sequence[PackVersion]) -> Table:
    """Show the versions of a pack; the current one is marked."""
    table = bare_table(">Version", "", "Written", "Fingerprint", "")
    for version in versions:
        at = f"{version.written_at:%Y-%m-%d %H:%M}"
        mark = "current" if version.is_current else ""
        said = Text(version.problem, style="red") if version.problem else Text(version.description)
        table.add_row(str(version.number), mark, at, version.fingerprint[:12], said)
    return table


def pack_table(pack: EntityPack, related: Sequence[tuple[str, float]]) -> Table:
    """Show what a pack holds."""
    priors = zip(pack.entity.aliases, pack.priors.tolist(), strict=True)
    rows = [
        ("Entity", pack.entity.id),
        *((name.capitalize(), value) for name, value in pack.entity.identity.items()),
        *([("About", pack.entity.about)] if pack.entity.about else []),
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
    if compared.id:
        table.add_row("id", "", escape(compared.id))
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
