"""`stamo discover`: which new entities a stream speaks of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli import AsJson, KbPath, ModelPath, open_both
from stamo.cli.output import Console, bare_table, command_group, named_values, progress_view, warn
from stamo.cli.output import show as show_result
from stamo.cli.workspaces import collect_view, collected_table, user_name
from stamo.corpus.types import EmergingEntity
from stamo.discovery.proposals import KINDS, FoundFolder
from stamo.errors import SettingsError
from stamo.workspace.wording import cut_context

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stamo.discovery.accept import Accepted
    from stamo.discovery.proposals import Proposal, ProposalKind
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel


def discover(
    kb: KbPath,
    model: ModelPath,
    source: list[str] = Option(
        ..., "--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."
    ),
    out: Path = Option(..., help="Folder for the proposals and the decisions."),
    since: str = Option("", help="Leave out documents with an earlier date, such as 2024-05-31."),
    documents: int = Option(3, min=2, help="Documents that a proposal needs."),
    kind: str = Option(
        "both", help="name: unknown names; meaning: new meanings of known ones; both."
    ),
    ignore: list[str] | None = Option(None, help="A name never to propose, or @FILE; repeat it."),
    types: Types = None,
    most: int = Option(1000, min=1, help="Proposals at most."),
    encoder: bool = Option(
        False, "--encoder", help="Compare contexts by the sentence encoder too."
    ),
    workers: int = Option(1, min=1, help="Processes."),
    as_json: AsJson = False,
) -> None:
    """Find entities that the knowledge base does not know: new names, new meanings."""
    from rich.progress import TextColumn, TimeElapsedColumn

    from stamo.corpus.reading import list_files
    from stamo.discovery.discover import discover as run
    from stamo.discovery.propose import ProposeSettings
    from stamo.features.adapter import shipped_adapter
    from stamo.features.encoder import load_encoder

    day = _day(since)
    settings = ProposeSettings(
        least_documents=documents,
        ignored=_names(ignore or []),
        types=frozenset(types or ()),
        max_proposals=most,
        kinds=kinds_of(kind),
    )
    folder = FoundFolder(out)
    folder.check()
    list_files(source)  # what does not exist is told before anything is opened
    base, trained = open_both(kb, model)
    reader = load_encoder(None, trained.adapter or shipped_adapter()) if encoder else None
    console = Console(stderr=True, highlight=False)
    columns = [TextColumn("{task.description}"), TextColumn("{task.completed}")]
    look = partial(run, source, base, trained, settings=settings, since=day, n_workers=workers)
    with progress_view(console, "Documents read", *columns, TimeElapsedColumn()) as on_seen:
        found = look(encoder=reader, on_seen=on_seen)
    places = [name if name == "-" else str(Path(name).resolve()) for name in source]
    origin = {"sources": places, "kb": str(kb.resolve()), "model": str(model.resolve())}
    n_open, n = folder.save(found, origin), len(found.proposals)
    before = f", {n - n_open} of {n} were decided before" if n_open < n else ""
    said = (
        f"{found.n_documents:,} documents, {found.n_names:,} unexplained names: {n_open} proposals"
    )
    console.print(f"{said}{before}.", soft_wrap=True)
    for error, count in sorted(found.errors.items()):
        warn(f"{count} left out: {error}")
    listed = folder.proposals()[:N_LISTED]
    show_result(listed, [proposals_table(listed)], as_json=as_json)


def _day(text: str) -> str:
    if not text:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise SettingsError(f"{text!r} is no date; give one such as 2024-05-31.") from error


def _names(given: list[str]) -> frozenset[str]:
    names: list[str] = []
    for name in given:
        try:
            names += Path(name[1:]).read_text("utf-8").splitlines() if name[:1] == "@" else [name]
        except ValueError as error:
            raise SettingsError(f"{name[1:]!r} is no file of names in UTF-8 ({error}).") from error
    return frozenset(name.strip() for name in names if name.strip())


FoundPath = Annotated[Path, Argument(metavar="FOUND", help="Folder of `stamo discover`.")]
Key = Annotated[
    str, Argument(metavar="PROPOSAL", help="Its id, its place in the list, or its name.")
]
Who = Annotated[str, Option(help="Your name, kept with the decision.")]
Types = Annotated[
    list[str] | None, Option("--type", help="Only what the text calls so, such as film; repeat it.")
]
N_LISTED = 30
EXAMPLE_CHARACTERS = 70
REVIEW_KEYS = "a accept   l accept, its places are my labels   r reject   s skip   q stop"


def list_found(
    found: FoundPath,
    kind: str = Option("both", help="name, meaning or both."),
    types: Types = None,
    most: int = Option(N_LISTED, min=1, help="Proposals at most."),
    decided: bool = Option(False, "--decided", help="Show decided ones too."),
    as_json: AsJson = False,
) -> None:
    """List the open proposals, the best first."""
    listed = _chosen(FoundFolder(found).proposals(decided=decided), kind, types)[:most]
    show_result(listed, [proposals_table(listed)], as_json=as_json)


def show(found: FoundPath, proposal: Key, as_json: AsJson = False) -> None:
    """Show all about one proposal, with examples from the text."""
    chosen = FoundFolder(found).get(proposal)
    show_result(chosen, _proposal_view(chosen), as_json=as_json)


def review(
    found: FoundPath,
    workspaces: Path = Argument(..., metavar="WORKSPACES", help="Folder for what you accept."),
    kind: str = Option("both", help="name, meaning or both."),
    types: Types = None,
    who: Who = "",
) -> None:
    """Decide about one proposal after the other, by one key each."""
    from stamo.workspace.terminal import read_one_key

    folder = FoundFolder(found)
    for proposal in _chosen(folder.proposals(), kind, types):
        keys = Text(REVIEW_KEYS, style="dim")
        show_result(None, [*_proposal_view(proposal), keys], as_json=False)
        pressed = "?"
        while pressed not in ("a", "l", "r", "s"):
            pressed = read_one_key()
            if pressed in ("", "q", "\x03", "\x04"):
                return
        if pressed in ("a", "l"):
            done = _accept(folder, proposal, _free_path(workspaces, proposal), who, pressed == "l")
            show_result(None, _accepted_view(done, labels=pressed == "l"), as_json=False)
        elif pressed == "r":
            folder.decide(proposal, "rejected", by=who or user_name(), at=datetime.now(UTC))
            show_result(None, [f"Rejected: {proposal.name}"], as_json=False)
    show_result(None, ["Every proposal was shown."], as_json=False)


def accept(
    found: FoundPath,
    proposal: Key,
    workspace: Path = Argument(..., metavar="WORKSPACE", help="Folder for the new entity."),
    name: str = Option("", help="What the entity is called."),
    source: list[str] | None = Option(
        None, "--from", help="Where to collect from; where it was found by default."
    ),
    labels: bool = Option(False, "--labels", help="Keep the suggested labels as yours."),
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Make the workspace of a proposal: names, line, documents and suggested labels."""
    folder = FoundFolder(found)
    chosen = folder.get(proposal)
    done = _accept(folder, chosen, workspace, who, labels, name=name, sources=source or [])
    record = {"proposal": chosen.id, "workspace": done.workspace.path}
    record |= {"labels": len(done.suggested), "collected": done.collected}
    show_result(record, _accepted_view(done, labels=labels), as_json=as_json)


def reject(
    found: FoundPath,
    proposals: list[str] = Argument(..., metavar="PROPOSALS...", help="Ids, places or names."),
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Leave proposals out from now on."""
    folder = FoundFolder(found)
    chosen = [folder.get(key) for key in proposals]
    for proposal in chosen:
        folder.decide(proposal, "rejected", by=who or user_name(), at=datetime.now(UTC))
    records = [proposal.to_json() | {"decision": "rejected"} for proposal in chosen]
    said = f"Rejected: {', '.join(proposal.name for proposal in chosen)}"
    show_result(records, [said], as_json=as_json)


def _accept(
    folder: FoundFolder,
    proposal: Proposal,
    path: Path,
    who: str,
    labels: bool,
    *,
    name: str = "",
    sources: Sequence[str] = (),
) -> Accepted:
    """Make the workspace of a proposal, with the knowledge base and model that found it."""
    from stamo.discovery.accept import accept as run

    kb, trained = _opened(folder.origin["kb"], folder.origin["model"])
    with collect_view(Console(stderr=True), f"Collecting {proposal.name}") as on_progress:
        return run(
            folder,
            proposal,
            path,
            kb,
            trained,
            by=who or user_name(),
            at=datetime.now(UTC),
            name=name,
            sources=sources,
            take_labels=labels,
            on_progress=on_progress,
        )


@lru_cache(maxsize=1)
def _opened(kb: str, model: str) -> tuple[KnowledgeBase, TrainedModel]:
    return open_both(kb, model)


def _accepted_view(done: Accepted, *, labels: bool) -> Iterator[RenderableType]:
    yield collected_table(done.collected)
    yield f"{len(done.suggested)} labels are {'kept as yours' if labels else 'suggested'}."
    yield done.workspace.status().next_step


def _free_path(workspaces: Path, proposal: Proposal) -> Path:
    """Return a folder for a new workspace, called after the proposal."""
    from stamo.workspace.entities import free_folder

    taken = {path.name.lower() for path in workspaces.iterdir()} if workspaces.is_dir() else set()
    return workspaces / free_folder(EmergingEntity(proposal.name, proposal.aliases), taken)


def _chosen(proposals: list[Proposal], kind: str, types: list[str] | None) -> list[Proposal]:
    kinds = kinds_of(kind)
    return [p for p in proposals if p.kind in kinds and p.is_one_of(types or ())]


def kinds_of(text: str) -> tuple[ProposalKind, ...]:
    """Return the kinds that an option names."""
    chosen = tuple(kind for kind in KINDS if text in (kind, "both"))
    if not chosen:
        raise SettingsError(f"There is no kind {text!r}; give name, meaning or both.")
    return chosen


def proposals_table(proposals: Sequence[Proposal]) -> Table:
    """Show proposals, one a line."""
    rows = []
    for number, p in enumerate(proposals, 1):
        said = (p.about or ", ".join(p.words[:5]))[:80]
        counts = (p.n_documents, p.since[:10], f"{p.newness:.2f}")
        rows.append((number, p.id, p.kind, p.name, *counts, said))
    headings = (">", "id", "kind", "name", ">documents", "since", ">new", "about")
    return bare_table(*headings, rows=rows)


def _proposal_view(p: Proposal) -> Iterator[RenderableType]:
    rows = [
        ("name", p.name),
        ("kind", "a name that is unknown" if p.kind == "name" else "a new meaning of a known name"),
        ("type", ", ".join(p.types)),
        ("also called", ", ".join(p.aliases[1:])),
        ("seen", f"{p.n_mentions:,} times in {p.n_documents:,} documents"),
        ("since", p.since),
        ("about", p.about),
        ("comes with", ", ".join(p.words)),
        ("and with", ", ".join(p.entities)),
        ("not to be taken for", p.confused_with),
        ("new", f"{p.newness:.0%} sure"),
        ("decision", p.decision),
    ]
    yield named_values(rows)
    for occurrence in filter(lambda o: o.text, p.occurrences):
        end = occurrence.at + occurrence.end - occurrence.start
        snippet = cut_context(occurrence.text, occurrence.at, end, EXAMPLE_CHARACTERS)
        line = Text(f"{occurrence.document}  ", style="dim").append(snippet.before, "default")
        yield line.append(snippet.surface, "bold").append(snippet.after, "default")


found = command_group("Decide about discovered entities.", list_found, show, review, accept, reject)
