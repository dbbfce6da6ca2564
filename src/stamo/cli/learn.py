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
from rich.progress import BarColumn, TextColumn
from rich.table import Table
from rich.text import Text
from typer import Option

from stamo.cli import AsJson
from stamo.cli.output import Console, bare_table, progress_view, show
from stamo.cli.workspaces import Folders, KbOption, ModelOption, for_each, open_all
from stamo.errors import SettingsError
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.workspace.folder import Workspace
    from stamo.workspace.learn import LearnedPack, OnProgress, SlotRecord
    from stamo.workspace.report import Written
    from stamo.workspace.verdict import Verdict

N_SLOTS_SHOWN = 12
"""Slots in a table, the last ones."""
DECISION_STYLES = {
    "ship": "bold green",
    "ship with a higher threshold": "bold yellow",
    "label more": "bold yellow",
    "do not ship": "bold red",
}


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
    """Learn entities from their labels and their piles; write their packs, say if they are fit.

    In Python: `stamo.learn_pack(workspace, kb, model)`.
    """
    from stamo.workspace.folder import open_artifacts, verify_unchanged
    from stamo.workspace.learn import LearnSettings, learn_pack

    spaces = open_all(workspaces)
    artifacts = open_artifacts(spaces, kb, model)
    settings = LearnSettings(
        method=method,
        n_slots=slots,
        n_folds=folds,
        encoder=None if encoder == "none" else encoder,
        decision=decision,
    )

    def run(space: Workspace) -> LearnedPack:
        with learn_view() as on_progress:
            kb, trained = artifacts.kb, artifacts.trained
            return learn_pack(space, kb, trained, settings, on_progress=on_progress)

    learned = for_each(spaces, run)
    fingerprints = verify_unchanged(spaces, artifacts)
    records = [learned_record(space, outcome) for space, outcome in learned]
    show(records, _learned_view(learned, records, fingerprints), as_json=as_json)
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
    from stamo.workspace.report import write_report

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

    written = for_each(spaces, run)
    records, view = [], list[RenderableType]()
    for space, one in written:
        records.append({"workspace": space.path, "report": one.path, "verdict": one.verdict})
        if one.verdict is not None:
            view.append(verdict_view(one.verdict, space.entity.id if len(written) > 1 else ""))
        view.append(str(one.path))
    show(records, view, as_json=as_json)
    if len(written) < len(spaces):
        raise typer.Exit(1)


@contextmanager
def learn_view(console: Console | None = None) -> Iterator[OnProgress]:
    """Show how far learning is while it runs; nothing of it stays."""
    columns = (TextColumn("{task.description}"), BarColumn())
    with progress_view(console or Console(stderr=True), "", *columns, total=1.0) as update:
        yield lambda share, text: update(share, 1.0, description=text)


def slots_table(records: Sequence[SlotRecord]) -> Table:
    """Show what the slots did: θ's movement, flipped pseudo-labels, left-out precision.

    Slot 0 is the labels alone. Of the views of the correction, the one that moved farthest counts.
    """
    moved: list[dict[str, float]] = []
    for record in records:
        farthest: dict[str, float] = {}
        for group, distance in record.moved.items():
            short = {"relatedness": "rel", "embedding": "emb"}.get(group, group)
            heading = "correction" if group.startswith("correction ") else short
            farthest[heading] = max(distance, farthest.get(heading, distance))
        moved.append(farthest)
    groups = list(dict.fromkeys(group for farthest in moved for group in farthest))
    headings = (">slot", ">share", ">flips", *(f">{group}" for group in groups), ">P", ">R", ">F1")
    table = bare_table(*headings, padding=(0, 2, 0, 0))
    table.columns[-1].style = "bold"
    for record, farthest in list(zip(records, moved, strict=True))[-N_SLOTS_SHOWN:]:
        left_out = record.left_out
        numbers = (left_out.precision, left_out.recall, left_out.f1) if left_out else ()
        table.add_row(
            str(record.number),
            f"{record.share:.0%}",
            f"{record.n_flipped:,}" if record.number > 1 else "",
            *(f"{farthest[group]:.2f}" if group in farthest else "" for group in groups),
            *(f"{number:.2f}" for number in numbers),
        )
    return table


def outcome_lines(outcome: LearnedPack) -> Iterator[Text]:
    """Say what learning gave, and what to worry about."""
    if outcome.n_stale:
        one, many = "was left out: its mention is", "were left out: their mentions are"
        text = f"{count_of(outcome.n_stale, 'label')} {one if outcome.n_stale == 1 else many} gone."
        yield Text(text, style="yellow")
    if not outcome.pile_helped:
        text = "The unlabelled documents did not help: the pack holds what the labels alone say."
        yield Text(text, style="yellow")
    size = outcome.path.stat().st_size / 1000
    slot = f"slot {outcome.used_slot}" if outcome.used_slot else "the labels alone"
    yield Text(f"Wrote {outcome.path} ({size:.0f} kB, from {slot}).")


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


def _learned_view(
    learned: Sequence[tuple[Workspace, LearnedPack]],
    records: Sequence[Mapping[str, Any]],
    fingerprints: Mapping[str, str],
) -> Iterator[RenderableType]:
    """Show what was learned: one entity slot by slot, many as a table, then each verdict."""
    if len(learned) == 1:
        yield slots_table(learned[0][1].records)
    elif learned:
        rows = []
        for record, (_, outcome) in zip(records, learned, strict=True):
            rates = [record[name] for name in ("precision", "recall", "f1")]
            shown = ("" if rate is None else f"{rate:.2f}" for rate in rates)
            first = (record["workspace"], record["entity"], record["labels"])
            decision = outcome.verdict.decision.value
            rows.append((*first, f"{record['share']:.0%}", *shown, decision))
        headings = ("Workspace", "Entity", ">Labels", ">Share", ">P", ">R", ">F1", "Verdict")
        yield bare_table(*headings, rows=rows, padding=(0, 2, 0, 0))
    for _, outcome in learned:
        yield from outcome_lines(outcome)
    kb, model = (fingerprints[name][:12] for name in ("kb", "model"))
    yield Text(f"Unchanged: knowledge base {kb}, model {model}.", style="dim")
    for space, outcome in learned:
        yield verdict_view(outcome.verdict, space.entity.id if len(learned) > 1 else "")


def learned_record(workspace: Workspace, outcome: LearnedPack) -> dict[str, Any]:
    """Return what learning gave, for programs; precision and recall are of left-out labels."""
    record = next(r for r in reversed(outcome.records) if r.number <= outcome.used_slot)
    rates = {name: getattr(record.left_out, name, None) for name in ("precision", "recall", "f1")}
    return {
        "workspace": workspace.path,
        "entity": workspace.entity.id,
        "id": workspace.entity.external_id or None,
        "pack": outcome.path,
        "fingerprint": outcome.pack.fingerprint,
        "labels": outcome.findings.n_emerging + outcome.findings.n_other,
        "slot": outcome.used_slot,
        "share": record.share,
        **rates,
        "pile_helped": outcome.pile_helped,
        "alarm": outcome.findings.alarm,
        "doubtful": outcome.findings.doubtful,
        "stale_labels": outcome.n_stale,
        "verdict": outcome.verdict,
    }
