"""`stamo discover` and `stamo found`: which new entities a stream speaks of, and the decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

from rich.console import RenderableType
from rich.progress import TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from stamo.cli import AsJson, EncodingOption, KbPath, ModelPath, Sources, Who, open_both
from stamo.cli.output import Console, bare_table, command_group, named_values, progress_view, warn
from stamo.cli.output import show as show_result
from stamo.cli.workspaces import collect_view, collected_table, user_name
from stamo.corpus.reading import list_files, read_text_file
from stamo.corpus.types import EmergingEntity
from stamo.discovery.proposals import KINDS, FoundFolder, Proposal, ProposalKind
from stamo.errors import SettingsError
from stamo.features.encoder import load_encoder
from stamo.workspace.entities import free_folder
from stamo.workspace.wording import cut_context

FoundPath = Annotated[Path, Argument(metavar="FOUND", help="Folder of `stamo discover`.")]
Key = Annotated[
    str, Argument(metavar="PROPOSAL", help="Its id, its place in the list, or its name.")
]
Kind = Annotated[
    str, Option(help="name: unknown names; meaning: new meanings of known ones; both.")
]
Types = Annotated[
    list[str], Option("--type", help="Only what the text calls so, such as film; repeat it.")
]
N_LISTED = 30
EXAMPLE_CHARACTERS = 70
REVIEW_KEYS = "a accept   l accept, its places are my labels   r reject   s skip   q stop"


def discover(
    kb: KbPath,
    model: ModelPath,
    source: Sources,
    out: Path = Option(..., help="Folder for the proposals and the decisions."),
    since: str = Option("", help="Leave out documents with an earlier date, such as 2024-05-31."),
    documents: int = Option(3, min=2, help="Documents that a proposal needs."),
    kind: Kind = "both",
    ignore: list[str] = Option([], help="A name never to propose, or @FILE; repeat it."),
    types: Types = [],  # noqa: B006
    most: int = Option(1000, min=1, help="Proposals at most."),
    encoding: EncodingOption = "",
    encoder: bool = Option(False, "--encoder", help="Compare by the sentence encoder, too."),
    workers: int = Option(1, min=1, help="Processes."),
    as_json: AsJson = False,
) -> None:
    """Find entities that the knowledge base does not know: new names, new meanings."""
    from stamo.discovery.discover import discover as run
    from stamo.discovery.propose import ProposeSettings

    try:
        day = date.fromisoformat(since).isoformat() if since else ""
    except ValueError as error:
        raise SettingsError(f"{since!r} is no date; give one such as 2024-05-31.") from error
    settings = ProposeSettings(
        least_documents=documents,
        ignored=_names(ignore, encoding),
        types=frozenset(types),
        max_proposals=most,
        kinds=kinds_of(kind),
    )
    folder = FoundFolder(out)
    folder.check()
    list_files(source)  # what does not exist is told before anything is opened
    base, trained = open_both(kb, model)
    console = Console(stderr=True, highlight=False)
    columns = [TextColumn("{task.description}"), TextColumn("{task.completed}")]
    with progress_view(console, "Documents read", *columns, TimeElapsedColumn()) as on_seen:
        found = run(
            source,
            base,
            trained,
            settings=settings,
            since=day,
            n_workers=workers,
            encoding=encoding,
            encoder=load_encoder() if encoder else None,
            on_seen=on_seen,
        )
    places = [name if name == "-" else str(Path(name).resolve()) for name in source]
    origin = {"sources": places, "kb": str(kb.resolve())}
    origin["model"] = "" if model is None else str(model.resolve())
    n_open, n = folder.save(found, origin), len(found.proposals)
    before = f", {n - n_open} of {n} were decided before" if n_open < n else ""
    said = (
        f"{found.n_documents:,} documents, {found.n_names:,} unexplained names: {n_open} proposals"
    )
    console.print(f"{said}{before}.", soft_wrap=True)
    for reason, count in sorted(found.errors.items()):
        warn(f"{count} left out: {reason}")
    listed = folder.proposals()[:N_LISTED]
    show_result(listed, [proposals_table(listed)], as_json=as_json)


def _names(given: list[str], encoding: str) -> frozenset[str]:
    names: list[str] = []
    for name in given:
        is_file = name[:1] == "@"
        names += read_text_file(Path(name[1:]), encoding).splitlines() if is_file else [name]
    return frozenset(name.strip() for name in names if name.strip())


def list_found(
    found: FoundPath,
    kind: Kind = "both",
    types: Types = [],  # noqa: B006
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
    kind: Kind = "both",
    types: Types = [],  # noqa: B006
    who: Who = "",
) -> None:
    """Decide about one proposal after the other, by one key each."""
    from stamo.workspace.terminal import read_one_key

    folder = FoundFolder(found)
    for proposal in _chosen(folder.proposals(), kind, types):
        keys, pressed = Text(REVIEW_KEYS, style="dim"), "?"
        show_result(None, [*_proposal_view(proposal), keys], as_json=False)
        while pressed not in ("a", "l", "r", "s"):
            pressed = read_one_key()
            if pressed in ("", "q", "\x03", "\x04"):
                return
        if pressed in ("a", "l"):
            there = workspaces.iterdir() if workspaces.is_dir() else ()
            entity, taken = EmergingEntity(proposal.name, proposal.aliases), {p.name for p in there}
            path = workspaces / free_folder(entity, {name.lower() for name in taken})
            accept(found, proposal.id, path, "", [], pressed == "l", who)
        elif pressed == "r":
            reject(found, [proposal.id], who)
    show_result(None, ["Every proposal was shown."], as_json=False)


def accept(
    found: FoundPath,
    proposal: Key,
    workspace: Path = Argument(..., metavar="WORKSPACE", help="Folder for the new entity."),
    name: str = Option("", help="What the entity is called."),
    source: list[str] = Option([], "--from", help="Where to collect; where it was found if not."),
    labels: bool = Option(False, "--labels", help="Keep the suggested labels as yours."),
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Make the workspace of a proposal: names, line, documents and suggested labels."""
    from stamo.discovery.discover import accept as run

    folder = FoundFolder(found)
    chosen = folder.get(proposal)
    kb, trained = open_both(folder.origin["kb"], folder.origin["model"] or None)
    with collect_view(f"Collecting {chosen.name}") as on_progress:
        done = run(
            folder,
            chosen,
            workspace,
            kb,
            trained,
            by=who or user_name(),
            at=datetime.now(UTC),
            name=name,
            sources=source,
            take_labels=labels,
            on_progress=on_progress,
        )
    n, fate = len(done.suggested), "kept as yours" if labels else "suggested"
    said, next_step = f"{n} labels are {fate}.", done.workspace.status().next_step
    record = {"proposal": chosen.id, "workspace": done.workspace.path}
    record |= {"labels": n, "collected": done.collected}
    show_result(record, [collected_table(done.collected), said, next_step], as_json=as_json)


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


def _chosen(proposals: list[Proposal], kind: str, types: list[str]) -> list[Proposal]:
    kinds = kinds_of(kind)
    return [p for p in proposals if p.kind in kinds and p.is_one_of(types)]


def kinds_of(text: str) -> tuple[ProposalKind, ...]:
    """Return the kinds that an option names."""
    chosen = tuple(kind for kind in KINDS if text in (kind, "both"))
    if not chosen:
        raise SettingsError(f"There is no kind {text!r}; give name, meaning or both.")
    return chosen


def proposals_table(proposals: Sequence[Proposal]) -> Table:
    """Show proposals, what is said of each below its name."""
    rows = []
    for number, p in enumerate(proposals, 1):
        about = (p.about or ", ".join(p.words[:5]))[:80]
        said = Text(p.name, no_wrap=True, overflow="ellipsis").append(f"\n{about}", "dim")
        counts = (p.n_documents, p.since[:10], f"{p.newness:.2f}")
        rows.append((number, p.id, p.kind, said, *counts))
    headings = (">", "id", "kind", "name", ">documents", "since", ">new")
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
