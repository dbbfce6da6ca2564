"""The commands learn and report, and what they show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from typer import Option

from stamo.cli.output import AsJson, Console, bare_table, print_json, print_table
from stamo.cli.workspaces import Folders, KbOption, ModelOption, for_each, open_all
from stamo.errors import SettingsError
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.workspace.folder import Workspace
    from stamo.workspace.learn import LearnedPack, OnProgress, SlotRecord
    from stamo.workspace.verdict import Verdict

N_SLOTS_SHOWN = 12
"""Slots in a table, the last ones."""
HEADINGS = {"relatedness": "rel", "embedding": "emb"}
"""Short headings of groups of θ(e*); the evidence has one for all of its views."""


def learn(
    workspaces: Folders,
    method: str = Option("default", help="default, paper, or a variant of the paper."),
    slots: int | None = Option(None, help="Slots at most."),
    folds: int = Option(5, help="Parts for cross-validation; 0 for none."),
    decision: str = Option(
        "", help="even: link what is more probable than not; f1: for the best F1."
    ),
    encoder: str = Option(
        "installed", help="A folder with a sentence encoder, installed, or none."
    ),
    strict: bool = Option(
        False,
        "--strict",
        help="End with 10 (ship with care), 11 (label more), 12 (do not ship) by verdict.",
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Learn entities from their labels and their piles; write their packs, say if they are fit."""
    from stamo.workspace import learn as learning
    from stamo.workspace.folder import open_artifacts, verify_unchanged

    spaces = open_all(workspaces)
    artifacts = open_artifacts(spaces, kb, model)
    settings = learning.LearnSettings(
        method=method,
        n_slots=slots,
        n_folds=folds,
        encoder=None if encoder == "none" else encoder,
        decision=decision,
    )

    def run(space: Workspace) -> LearnedPack:
        with learn_view(Console(stderr=True)) as show:
            return learning.learn_pack(
                space, artifacts.kb, artifacts.trained, settings, on_progress=show
            )

    learned = for_each(spaces, run)
    fingerprints = verify_unchanged(spaces, artifacts)
    if as_json:
        print_json([learned_record(space, outcome) for space, outcome in learned])
    else:
        show_learned(learned, fingerprints, Console(highlight=False))
    if len(learned) < len(spaces):
        raise typer.Exit(1)
    if strict:
        raise typer.Exit(max(outcome.verdict.exit_code for _, outcome in learned))


def report(
    workspaces: Folders,
    reference: list[str] | None = Option(
        None, "--reference", help="Documents to look for collisions in; the pile if none."
    ),
    out: Path | None = Option(
        None, help="Where to write one report; report.html in the workspace if not given."
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file for each entity about what was learned, and what it changes."""
    from stamo.system.files import check_writable
    from stamo.workspace.folder import open_artifacts
    from stamo.workspace.report import Written, write_report

    spaces = open_all(workspaces)
    if out is not None:
        if len(spaces) > 1:
            raise SettingsError("--out names one file; write one report at a time with it.")
        check_writable(out)
    artifacts = open_artifacts(spaces, kb, model)

    def run(space: Workspace) -> Written:
        with Console(stderr=True).status(f"Writing the report on {escape(space.entity.id)}"):
            return write_report(
                space, artifacts.kb, artifacts.trained, reference=reference or (), out_path=out
            )

    console = Console(highlight=False)
    written = for_each(spaces, run)
    records = []
    for space, one in written:
        verdict = one.verdict.to_json() if one.verdict else None
        found = {"report": str(one.path), "verdict": verdict}
        records.append({"workspace": str(space.path), **found})
        if one.verdict is not None and not as_json:
            console.print(verdict_view(one.verdict, space.entity.id if len(written) > 1 else ""))
        if not as_json:
            console.print(str(one.path), soft_wrap=True)
    if as_json:
        print_json(records)
    if len(written) < len(spaces):
        raise typer.Exit(1)


def slots_table(records: Sequence[SlotRecord]) -> Table:
    """Show what the slots did: θ's movement, flipped pseudo-labels, left-out precision.

    Slot 0 is the labels alone.
    """
    moved = [_by_heading(record.moved) for record in records]
    groups = list(dict.fromkeys(group for by_heading in moved for group in by_heading))
    headings = (">slot", ">share", ">flips", *(f">{group}" for group in groups), ">P", ">R", ">F1")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    table.columns[-1].style = "bold"
    for record, by_heading in list(zip(records, moved, strict=True))[-N_SLOTS_SHOWN:]:
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
def learn_view(console: Console) -> Iterator[OnProgress]:
    """Show how far learning is while it runs; nothing of it stays."""
    columns = (TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, text: bar.update(task, completed=share, description=text)


def outcome_lines(outcome: LearnedPack) -> list[Text]:
    """Say what learning gave, and what to worry about."""
    lines = []
    if outcome.n_stale:
        one, many = "was left out: its mention is", "were left out: their mentions are"
        text = f"{count_of(outcome.n_stale, 'label')} {one if outcome.n_stale == 1 else many} gone."
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
    rates = {name: getattr(record.left_out, name, None) for name in ("precision", "recall", "f1")}
    return {
        "workspace": str(workspace.path),
        "entity": workspace.entity.id,
        "id": workspace.entity.external_id or None,
        "pack": str(outcome.path),
        "fingerprint": outcome.pack.fingerprint,
        "labels": workspace.status().labels.n_labelled,
        "slot": outcome.used_slot,
        "share": record.share,
        **rates,
        "pile_helped": outcome.pile_helped,
        "alarm": outcome.findings.alarm,
        "doubtful": list(outcome.findings.doubtful),
        "stale_labels": outcome.n_stale,
        "verdict": outcome.verdict.to_json(),
    }
