"""`stamo found`: look at what was discovered, and decide about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text
from typer import Argument, Option

from stamo.cli import tables
from stamo.cli.options import AsJson, open_both
from stamo.cli.tables import Console, bare_table, print_json, print_table
from stamo.corpus.types import EmergingEntity
from stamo.discovery.found import FoundFolder
from stamo.discovery.proposal import KINDS
from stamo.errors import SettingsError
from stamo.workspace.wording import cut_context, printable

if TYPE_CHECKING:
    from stamo.discovery.accept import Accepted
    from stamo.discovery.proposal import Proposal, ProposalKind
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import TrainedModel

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
JUDGED_AMONG = (200, 500, 1000)
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


def judged(
    found: FoundPath,
    entities: Path = Option(..., help="File of entities, as `suite make wild` reads."),
    labels: Path = Option(..., help="Table of judged mentions, likewise."),
    as_json: AsJson = False,
) -> None:
    """Tell which entities whose mentions were judged are among the proposals, and where."""
    from stamo.replication.wild.found import find_judged
    from stamo.replication.wild.suite import read_wild_entities, read_wild_labels

    proposals = FoundFolder(found).proposals(decided=True)
    rows = find_judged(proposals, read_wild_entities(entities), read_wild_labels(labels))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    table = bare_table("entity", ">judged", ">place", "proposed as", "kind")
    for row in sorted(rows, key=lambda row: row.place or len(proposals) + 1):
        place = "" if row.place is None else str(row.place)
        table.add_row(Text(row.name), str(row.n_judged), place, Text(row.proposal), row.kind)
    print_table(table)
    places = [row.place for row in rows if row.place is not None]
    counts = ", ".join(f"{sum(p <= n for p in places)} in {n:,}" for n in JUDGED_AMONG)
    Console(highlight=False).print(f"Of {len(rows)} entities: {counts}.")


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
    from stamo.workspace.labels.terminal import read_one_key

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
    from stamo.workspace.declared import free_folder

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
    "Decide about discovered entities.", list_found, show, review, accept, reject, judged
)
