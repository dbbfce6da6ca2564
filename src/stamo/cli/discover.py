"""`stamo discover`: which new entities a stream speaks of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from typer import Argument, Option

from stamo.cli import output as tables
from stamo.cli.output import (
    AsJson,
    Console,
    KbPath,
    ModelPath,
    bare_table,
    open_both,
    print_json,
    print_table,
    progress_view,
)
from stamo.corpus.types import EmergingEntity
from stamo.discovery.proposals import KINDS, FoundFolder
from stamo.errors import SettingsError
from stamo.workspace.wording import cut_context, printable

if TYPE_CHECKING:
    from stamo.discovery.accept import Accepted
    from stamo.discovery.discover import Discovered
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
    from stamo.discovery.proposals import FoundFolder
    from stamo.discovery.propose import ProposeSettings
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
    reader = load_encoder() if encoder else None
    console = Console(stderr=True, highlight=False)
    columns = [TextColumn("{task.description}"), TextColumn("{task.completed}")]
    look = partial(run, source, base, trained, settings=settings, since=day, n_workers=workers)
    with progress_view(console, "Documents read", *columns, TimeElapsedColumn()) as on_seen:
        found = look(encoder=reader, on_seen=on_seen)
    places = [name if name == "-" else str(Path(name).resolve()) for name in source]
    origin = {"sources": places, "kb": str(kb.resolve()), "model": str(model.resolve())}
    n_open = folder.save(found, origin)
    _tell(found, n_open, console)
    print_list(folder.proposals()[:N_LISTED], as_json=as_json)


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


def _tell(found: Discovered, n_open: int, console: Console) -> None:
    n = len(found.proposals)
    console.print(
        f"{found.n_documents:,} documents, {found.n_names:,} unexplained names: {n_open} proposals"
        + (f", {n - n_open} of {n} were decided before." if n_open < n else "."),
        soft_wrap=True,
    )
    for error, count in sorted(found.errors.items()):
        console.print(f"{count} left out: {error}", style="yellow", soft_wrap=True, markup=False)


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
    proposals = FoundFolder(found).proposals(decided=decided)
    print_list(_chosen(proposals, kind, types)[:most], as_json=as_json)


def show(found: FoundPath, proposal: Key, as_json: AsJson = False) -> None:
    """Show all about one proposal, with examples from the text."""
    chosen = FoundFolder(found).get(proposal)
    if as_json:
        print_json(chosen.to_json())
        return
    _show(chosen, Console(highlight=False))


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
    desk = _Desk(folder, who, Console(highlight=False))
    for proposal in _chosen(folder.proposals(), kind, types):
        if not desk.ask(proposal, workspaces, read_one_key):
            return
    desk.console.print("Every proposal was shown.")


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
    desk = _Desk(folder, who, Console(highlight=False))
    chosen, sources = folder.get(proposal), source or []
    done = desk.accept(chosen, workspace, name=name, sources=sources, labels=labels)
    if as_json:
        counted = {"labels": len(done.suggested), "collected": asdict(done.collected)}
        print_json({"proposal": chosen.id, "workspace": str(done.workspace.path)} | counted)
    else:
        desk.tell(done, labels=labels)


def reject(
    found: FoundPath,
    proposals: list[str] = Argument(..., metavar="PROPOSALS...", help="Ids, places or names."),
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Leave proposals out from now on."""
    folder = FoundFolder(found)
    chosen = [folder.get(key) for key in proposals]
    _Desk(folder, who, Console(stderr=as_json, highlight=False)).reject(*chosen)
    if as_json:
        print_json([proposal.to_json() | {"decision": "rejected"} for proposal in chosen])


class _Desk:
    """One person's decisions; the knowledge base is opened for the first that is accepted."""

    def __init__(self, folder: FoundFolder, who: str, console: Console) -> None:
        from stamo.cli.workspaces import user_name

        self.folder, self.who, self.console = folder, who or user_name(), console

    @cached_property
    def artifacts(self) -> tuple[KnowledgeBase, TrainedModel]:
        """The knowledge base and the model that the proposals were found with."""
        origin = self.folder.origin
        return open_both(origin["kb"], origin["model"])

    def ask(self, proposal: Proposal, workspaces: Path, read_key: Callable[[], str]) -> bool:
        """Show a proposal and do what is wanted; False when the person stops."""
        _show(proposal, self.console)
        self.console.print(REVIEW_KEYS, style="dim")
        while (pressed := read_key()) not in ("", "q", "\x03", "\x04"):
            if pressed in ("a", "l"):
                path = _free_path(workspaces, proposal)
                self.tell(self.accept(proposal, path, labels=pressed == "l"), labels=pressed == "l")
            elif pressed == "r":
                self.reject(proposal)
            if pressed in ("a", "l", "r", "s"):
                return True
        return False

    def accept(
        self,
        proposal: Proposal,
        path: Path,
        *,
        name: str = "",
        sources: Sequence[str] = (),
        labels: bool = False,
    ) -> Accepted:
        """Make the workspace of a proposal."""
        from stamo.cli.workspaces import collect_view
        from stamo.discovery.accept import accept as run

        base, trained = self.artifacts
        with collect_view(Console(stderr=True), f"Collecting {proposal.name}") as on_progress:
            return run(
                self.folder,
                proposal,
                path,
                base,
                trained,
                by=self.who,
                at=datetime.now(UTC),
                name=name,
                sources=sources,
                take_labels=labels,
                on_progress=on_progress,
            )

    def tell(self, done: Accepted, *, labels: bool) -> None:
        """Say what an accepted proposal has, and what to do next."""
        from stamo.cli.workspaces import collected_table

        self.console.print(collected_table(done.collected))
        verb = "kept as yours" if labels else "suggested"
        self.console.print(f"{len(done.suggested)} labels are {verb}.")
        self.console.print(done.workspace.status().next_step, soft_wrap=True, markup=False)

    def reject(self, *proposals: Proposal) -> None:
        """Leave proposals out from now on."""
        for proposal in proposals:
            self.folder.decide(proposal, "rejected", by=self.who, at=datetime.now(UTC))
        names = ", ".join(proposal.name for proposal in proposals)
        self.console.print(f"Rejected: {names}", soft_wrap=True, markup=False)


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


def print_list(proposals: list[Proposal], *, as_json: bool) -> None:
    """Print proposals as a table or for programs."""
    if as_json:
        print_json([proposal.to_json() for proposal in proposals])
        return
    table = bare_table(">", "id", "kind", "name", ">documents", "since", ">new", "about")
    for number, p in enumerate(proposals, 1):
        about = p.about or ", ".join(p.words[:5])
        facts = (str(number), p.id, p.kind, p.name, str(p.n_documents), p.since[:10])
        cells = (*facts, f"{p.newness:.2f}", about[:80])
        table.add_row(*(Text(printable(cell)) for cell in cells))
    print_table(table)


def _show(p: Proposal, console: Console) -> None:
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
    console.print(tables.named_values((name, printable(value)) for name, value in rows if value))
    for occurrence in filter(lambda o: o.text, p.occurrences):
        end = occurrence.at + occurrence.end - occurrence.start
        snippet = cut_context(occurrence.text, occurrence.at, end, EXAMPLE_CHARACTERS)
        before, surface, after = map(printable, snippet)
        line = Text(f"{printable(occurrence.document)}  ", style="dim")
        console.print(
            line.append(before, "default").append(surface, "bold").append(after, "default")
        )


found = tables.command_group(
    "Decide about discovered entities.", list_found, show, review, accept, reject
)
