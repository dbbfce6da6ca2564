"""The commands learn, update and report, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, TextColumn
from rich.table import Table
from rich.text import Text
from typer import Option

from stamo.cli import (
    AsJson,
    EncodingOption,
    Folders,
    KbOption,
    ModelOption,
    Sources,
    TextColumnOption,
    open_for,
)
from stamo.cli.output import Console, bare_table, progress_view, show, warn
from stamo.cli.workspaces import NOTHING_KEPT, collect_all, collected_view, open_all
from stamo.errors import SettingsError, StamoError
from stamo.system.files import check_writable
from stamo.workspace.collect import CollectSettings
from stamo.workspace.folder import Artifacts, Workspace, verify_unchanged
from stamo.workspace.verdict import Verdict
from stamo.workspace.wording import count_of, printable

if TYPE_CHECKING:
    from stamo.workspace.learn import LearnedPack, LearnSettings, SlotRecord
    from stamo.workspace.scored import PackChange

_Result = TypeVar("_Result")

N_SLOTS_SHOWN = 12
"""Slots in a table, the last ones."""
DECISION_STYLES = {
    "ship": "bold green",
    "ship with a higher threshold": "bold yellow",
    "label more": "bold yellow",
    "do not ship": "bold red",
}


def for_each(
    spaces: Sequence[Workspace], work: Callable[[Workspace], _Result]
) -> list[tuple[Workspace, _Result]]:
    """Do something for each workspace; one of many that fails says why and the others go on.

    Raises:
        StamoError: There is one workspace, and it fails.
    """
    done = []
    for space in spaces:
        try:
            done.append((space, work(space)))
        except StamoError as error:
            if len(spaces) == 1:
                raise
            warn(f"{space.path}: {error}")
    return done


def learn(
    workspaces: Folders,
    method: str = Option("default", help="default, paper, or a variant of the paper."),
    slots: int | None = Option(None, help="Slots at most."),
    folds: int = Option(5, help="Parts for cross-validation; 0 for none."),
    decision: str = Option("", help="even: what is more probable than not; f1: best F1."),
    encoder: str = Option("installed", help="Folder of an encoder, installed, or none."),
    strict: bool = Option(
        False,
        "--strict",
        help="End with 10 (ship with care), 11 (label more), 12 (do not ship) by verdict.",
    ),
    kb: KbOption = None,
    model: ModelOption = None,
    verbose: bool = Option(False, "--verbose", help="Show each slot of learning."),
    as_json: AsJson = False,
) -> None:
    """Learn entities from their labels and their piles; write their packs, say if they are fit.

    In Python: `stamo.learn_pack(workspace, kb, model)`.
    """
    with Console(stderr=True).status("Opening the knowledge base and the model"):
        from stamo.workspace.learn import LearnSettings

        spaces = open_all(workspaces)
        artifacts = open_for(spaces, kb, model)
    chosen = None if encoder == "none" else encoder
    settings = LearnSettings(method, slots, folds, chosen, decision)
    learned = for_each(spaces, partial(_learn, artifacts=artifacts, settings=settings))
    fingerprints = verify_unchanged(spaces, artifacts)
    records = []
    for space, outcome in learned:
        status = space.status()
        used = next(r for r in reversed(outcome.records) if r.number <= outcome.used_slot)
        rates = ("precision", "recall", "f1")  # of left-out labels
        records.append(
            {
                "workspace": space.path,
                "entity": space.entity.id,
                "id": space.entity.external_id or None,
                "pack": outcome.path,
                "fingerprint": outcome.pack.fingerprint,
                "labels": status.labels.n_labelled,
                "documents": status.n_documents,
                "slot": outcome.used_slot,
                "share": used.share,
                **{name: getattr(used.left_out, name, None) for name in rates},
                "pile_helped": outcome.pile_helped,
                "alarm": outcome.findings.alarm,
                "doubtful": outcome.findings.doubtful,
                "stale_labels": outcome.n_stale,
                "verdict": outcome.verdict,
            }
        )
    view = _learned_view(learned, records, fingerprints, verbose=verbose)
    show(records, view, as_json=as_json)
    if len(learned) < len(spaces):
        raise typer.Exit(1)
    if strict:
        raise typer.Exit(max(outcome.verdict.exit_code for _, outcome in learned))


def _learn(space: Workspace, artifacts: Artifacts, settings: LearnSettings) -> LearnedPack:
    """Learn a workspace and show how far that is; nothing of it stays."""
    from stamo.workspace.learn import learn_pack

    columns = (TextColumn("{task.description}"), BarColumn())
    with progress_view(Console(stderr=True), "", *columns, total=1.0) as update:
        return learn_pack(
            space,
            artifacts.kb,
            artifacts.trained,
            settings,
            on_progress=lambda share, text: update(share, 1.0, description=text),
        )


def update(
    workspaces: Folders,
    source: Sources,
    kb: KbOption = None,
    model: ModelOption = None,
    folds: int | None = Option(None, help="Parts for cross-validation; as before if not."),
    text_column: TextColumnOption = "",
    encoding: EncodingOption = "",
    as_json: AsJson = False,
) -> None:
    """Add new documents to piles, learn again, and say what the packs decide otherwise."""
    spaces = open_all(workspaces)
    artifacts = open_for(spaces, kb, model)
    settings = CollectSettings(text_column=text_column, encoding=encoding)
    collected = collect_all(spaces, source, artifacts, settings)
    n_new = {space.path: one.n_new for space, one in zip(spaces, collected, strict=True)}
    # Documents of an update that was interrupted before it learned are learned from now.
    changed = [s for s in spaces if n_new[s.path] or s.status().outdated == "documents"]
    done = for_each(changed, partial(_learn_again, artifacts=artifacts, n_folds=folds))
    records, view = [], list[RenderableType]([collected_view(spaces, collected)])
    for space, (version, change, verdict) in done:
        records.append(
            {
                "workspace": space.path,
                "entity": space.entity.id,
                "new_documents": n_new[space.path],
                "version": version,
                "change": change,
                "verdict": verdict,
            }
        )
        new = count_of(n_new[space.path], "new document")
        view.append(f"{space.entity.id}: {new}, pack version {version}.")
        if change is not None:
            view.append(
                f"  Of {count_of(change.n_mentions, 'mention')}, {change.n_after:,} mean it; by "
                f"the former pack {change.n_before:,} ({change.n_gained:,} gained, "
                f"{change.n_lost:,} lost)."
            )
            view += [f"  + {line}" for line in change.gained]
            view += [f"  - {line}" for line in change.lost]
            for alias, (before, after) in change.priors.items():
                was = f"  P({space.entity.id} | {alias}): {before:.2f} before, {after:.2f} now"
                view.append(was)
        view.append(verdict_view(verdict))
    show(records, view, as_json=as_json)
    if not changed:
        warn("Nothing new was kept: the packs stay as they are.")
        raise typer.Exit(NOTHING_KEPT)
    if len(done) < len(changed):
        raise typer.Exit(1)


def _learn_again(
    space: Workspace, artifacts: Artifacts, n_folds: int | None
) -> tuple[int, PackChange | None, Verdict]:
    """Learn a workspace as the last time; return its version, what changed and the verdict."""
    from stamo.workspace.learn import last_settings
    from stamo.workspace.scored import compare_packs, load_comparable

    kb, trained = artifacts.kb, artifacts.trained
    settings = last_settings(space)
    if n_folds is not None:
        settings = replace(settings, n_folds=n_folds)
    before = load_comparable(space.pack_path, kb, trained)
    learned = _learn(space, artifacts, settings)
    change = None if before is None else compare_packs(space, before, learned.pack, kb, trained)
    return learned.version, change, learned.verdict


def report(
    workspaces: Folders,
    reference: list[str] | None = Option(
        None, "--reference", help="Where to look for collisions; the pile if none."
    ),
    out: Path | None = Option(None, help="File of one report; in the workspace if not."),
    kb: KbOption = None,
    model: ModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Write one HTML file for each entity about what was learned, and what it changes."""
    from stamo.workspace.report import Written, write_report

    spaces = open_all(workspaces)
    if out is not None:
        if len(spaces) > 1:
            raise SettingsError("--out names one file; write one report at a time with it.")
        check_writable(out)
    artifacts = open_for(spaces, kb, model)

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
    table = bare_table(*headings)
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
    *,
    verbose: bool,
) -> Iterator[RenderableType]:
    """Show what was learned: one entity in sentences, many as a table, then each verdict."""
    if len(learned) == 1:
        (record,), ((_, outcome),) = records, learned
        found = outcome.findings
        said = f"{count_of(record['labels'], 'label')}, of which {found.n_emerging} mean it"
        more = f", and {count_of(record['documents'], 'document')}" if outcome.used_slot else ""
        described = "its description and " if outcome.pack.entity.description else ""
        yield Text(f"Learned {record['entity']} from {described}{said}{more}.")
        right, there = (_of_ten(record[rate]) for rate in ("precision", "recall"))
        if right and there:
            yield Text(
                f"Of ten mentions that it takes, {right} are right; of ten that mean it, it finds "
                f"{there} (each label judged without itself)."
            )
    elif learned:
        rows = []
        for record, (_, outcome) in zip(records, learned, strict=True):
            counts = (record["workspace"], record["entity"], record["documents"], record["labels"])
            rates = (_of_ten(record[rate]) for rate in ("precision", "recall"))
            rows.append((*counts, *rates, outcome.verdict.decision.value))
        headings = (">Documents", ">Labels", ">Right/10", ">Found/10", "Verdict")
        yield bare_table("Workspace", "Entity", *headings, rows=rows)
    if verbose:
        yield from (slots_table(outcome.records) for _, outcome in learned)
    for _, outcome in learned:
        if outcome.n_stale:
            n = outcome.n_stale
            gone = "was left out: its mention is" if n == 1 else "were left out: their mentions are"
            yield Text(f"{count_of(n, 'label')} {gone} gone.", style="yellow")
        if not outcome.pile_helped:
            text = "The unlabelled documents did not help: the pack holds what the labels alone"
            yield Text(f"{text} say.", style="yellow")
        yield Text(f"Wrote {outcome.path} ({outcome.path.stat().st_size / 1000:.0f} kB).")
    kb, model = (fingerprints[name][:12] for name in ("kb", "model"))
    yield Text(f"Unchanged: knowledge base {kb}, model {model}.", style="dim")
    for space, outcome in learned:
        yield verdict_view(outcome.verdict, space.entity.id if len(learned) > 1 else "")


def _of_ten(rate: float | None) -> str:
    return "" if rate is None else f"{10 * rate:.0f}"
