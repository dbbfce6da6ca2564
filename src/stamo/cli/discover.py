"""`stamo discover` and `stamo found`: which new entities a stream speaks of, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from stamo.cli.kb import AsJson, KbPath
from stamo.cli.link import ModelPath
from stamo.cli.tables import (
    Console,
    add_group,
    bare_table,
    named_values,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from stamo.discovery.discover import Discovered
    from stamo.discovery.proposal import Proposal, ProposalKind

FoundPath = Annotated[Path, typer.Argument(metavar="FOUND", help="Folder of `stamo discover`.")]
Key = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="Its id, its place in the list, or its name.")
]
Who = Annotated[str, typer.Option(help="Your name, kept with the decision.")]
N_LISTED = 30
EXAMPLE_CHARACTERS = 70


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("discover")(discover)
    commands = (list_found, show, accept, reject)
    add_group(app, "found", "Decide about discovered entities.", *commands)


def discover(
    kb: KbPath,
    model: ModelPath,
    source: Annotated[
        list[str],
        typer.Option("--from", help="Texts, JSON lines, HTML, WARC, folders, or - for stdin."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the proposals and the decisions.")],
    since: Annotated[
        str, typer.Option(help="Leave out documents with an earlier date, such as 2024-05-31.")
    ] = "",
    documents: Annotated[int, typer.Option(min=2, help="Documents that a proposal needs.")] = 3,
    kind: Annotated[
        str, typer.Option(help="name: unknown names; meaning: new meanings of known ones; both.")
    ] = "both",
    ignore: Annotated[
        list[str] | None, typer.Option(help="A name never to propose, or @FILE; repeat it.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Proposals at most.")] = 1000,
    encoder: Annotated[
        bool, typer.Option("--encoder", help="Compare contexts by the sentence encoder too.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Find entities that the knowledge base does not know: new names, new meanings."""
    from stamo.discovery.discover import DiscoverSettings
    from stamo.discovery.discover import discover as run
    from stamo.discovery.found import FoundFolder
    from stamo.discovery.propose import ProposeSettings
    from stamo.features.encoder import load_encoder
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model

    settings = DiscoverSettings(
        since=_day(since),
        n_workers=workers,
        propose=ProposeSettings(
            least_documents=documents,
            ignored=_names(ignore or []),
            max_proposals=most,
            kinds=_kinds(kind),
        ),
    )
    folder = FoundFolder(out)
    folder.check()
    _check_sources(source)
    base, trained = KnowledgeBase.open(kb), load_model(model)
    reader = load_encoder() if encoder else None
    with _progress() as on_seen:
        found = run(source, base, trained, settings=settings, encoder=reader, on_seen=on_seen)
    places = [name if name == "-" else str(Path(name).resolve()) for name in source]
    origin = {"sources": places, "kb": str(kb.resolve()), "model": str(model.resolve())}
    n_open = folder.save(found, origin)
    _tell(found, n_open, Console(stderr=True, highlight=False))
    _print_list(folder.proposals()[:N_LISTED], as_json=as_json)


def list_found(
    found: FoundPath,
    kind: Annotated[str, typer.Option(help="name, meaning or both.")] = "both",
    most: Annotated[int, typer.Option(min=1, help="Proposals at most.")] = N_LISTED,
    decided: Annotated[bool, typer.Option("--decided", help="Show decided ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the open proposals, the best first."""
    from stamo.discovery.found import FoundFolder

    proposals = FoundFolder(found).proposals(decided=decided)
    kinds = _kinds(kind)
    _print_list([p for p in proposals if p.kind in kinds][:most], as_json=as_json)


def show(found: FoundPath, proposal: Key, as_json: AsJson = False) -> None:
    """Show all about one proposal, with examples from the text."""
    from stamo.discovery.found import FoundFolder

    chosen = FoundFolder(found).get(proposal)
    if as_json:
        print_json(chosen.to_json())
        return
    console = Console(highlight=False)
    console.print(named_values(_facts(chosen)))
    for line in _examples(chosen):
        console.print(line)


def accept(
    found: FoundPath,
    proposal: Key,
    workspace: Annotated[
        Path, typer.Argument(metavar="WORKSPACE", help="Folder for the new entity.")
    ],
    name: Annotated[str, typer.Option(help="What the entity is called.")] = "",
    source: Annotated[
        list[str] | None,
        typer.Option("--from", help="Where to collect from; where it was found by default."),
    ] = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Keep the suggested labels as yours.")
    ] = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Make the workspace of a proposal: names, line, documents and suggested labels."""
    from stamo.cli.workspace_views import collect_view, collected_table
    from stamo.cli.workspaces import user_name
    from stamo.discovery.accept import accept as run
    from stamo.discovery.found import FoundFolder
    from stamo.kb.base import KnowledgeBase
    from stamo.models.store import load_model

    folder = FoundFolder(found)
    chosen, origin = folder.get(proposal), folder.origin
    base, trained = KnowledgeBase.open(origin["kb"]), load_model(origin["model"])
    trained.check(base)
    with collect_view(Console(stderr=True), f"Collecting {chosen.name}") as on_progress:
        done = run(
            folder,
            chosen,
            workspace,
            base,
            trained,
            by=who or user_name(),
            at=datetime.now(UTC),
            name=name,
            sources=source or [],
            take_labels=labels,
            on_progress=on_progress,
        )
    if as_json:
        counted = {"labels": len(done.suggested), "collected": asdict(done.collected)}
        print_json({"proposal": chosen.id, "workspace": str(done.workspace.path)} | counted)
        return
    console = Console(highlight=False)
    console.print(collected_table(done.collected))
    verb = "kept as yours" if labels else "suggested"
    console.print(f"{len(done.suggested)} labels are {verb}.")
    console.print(done.workspace.status().next_step, soft_wrap=True, markup=False)


def reject(
    found: FoundPath,
    proposals: Annotated[
        list[str], typer.Argument(metavar="PROPOSALS...", help="Ids, places or names.")
    ],
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Leave proposals out from now on."""
    from stamo.cli.workspaces import user_name
    from stamo.discovery.found import FoundFolder

    folder = FoundFolder(found)
    chosen = [folder.get(key) for key in proposals]
    for proposal in chosen:
        folder.decide(proposal, "rejected", by=who or user_name(), at=datetime.now(UTC))
    if as_json:
        print_json([proposal.to_json() | {"decision": "rejected"} for proposal in chosen])
        return
    names = ", ".join(proposal.name for proposal in chosen)
    Console(highlight=False).print(f"Rejected: {names}", soft_wrap=True, markup=False)


def _day(text: str) -> str:
    from stamo.errors import SettingsError

    if not text:
        return ""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise SettingsError(f"{text!r} is no date; give one such as 2024-05-31.") from error


def _kinds(text: str) -> tuple[ProposalKind, ...]:
    from stamo.discovery.proposal import KINDS
    from stamo.errors import SettingsError

    chosen = tuple(kind for kind in KINDS if text in (kind, "both"))
    if not chosen:
        raise SettingsError(f"There is no kind {text!r}; give name, meaning or both.")
    return chosen


def _names(given: list[str]) -> frozenset[str]:
    from stamo.errors import SettingsError

    names: list[str] = []
    for name in given:
        try:
            names += Path(name[1:]).read_text("utf-8").splitlines() if name[:1] == "@" else [name]
        except ValueError as error:
            raise SettingsError(f"{name[1:]!r} is no file of names in UTF-8 ({error}).") from error
    return frozenset(name.strip() for name in names if name.strip())


def _check_sources(sources: list[str]) -> None:
    from stamo.errors import CorpusFormatError

    for source in sources:
        if source != "-" and not Path(source).exists():
            raise CorpusFormatError(
                f"There is no file or folder {source!r}; give the path of existing documents "
                'or "-" for standard input.'
            )


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Documents read", total=None)
        yield lambda n: progress.update(task, completed=n)


def _tell(found: Discovered, n_open: int, console: Console) -> None:
    n = len(found.proposals)
    console.print(
        f"{found.n_documents:,} documents, {found.n_names:,} unexplained names: {n_open} proposals"
        + (f", {n - n_open} of {n} were decided before." if n_open < n else "."),
        soft_wrap=True,
    )
    for error, count in sorted(found.errors.items()):
        console.print(f"{count} left out: {error}", style="yellow", soft_wrap=True, markup=False)


def _print_list(proposals: list[Proposal], *, as_json: bool) -> None:
    if as_json:
        print_json([proposal.to_json() for proposal in proposals])
        return
    table = bare_table(">", "id", "kind", "name", ">documents", "since", ">new", "about")
    for number, p in enumerate(proposals, 1):
        about = p.about or ", ".join(p.words[:5])
        cells = (str(number), p.id, p.kind, p.name, str(p.n_documents), p.since[:10])
        table.add_row(*map(_plain, (*cells, f"{p.newness:.2f}", about[:80])))
    print_table(table)


def _facts(p: Proposal) -> list[tuple[str, str]]:
    rows = [
        ("name", p.name),
        ("kind", "a name that is unknown" if p.kind == "name" else "a new meaning of a known name"),
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
    return [(name, _plain(value).plain) for name, value in rows if value]


def _examples(p: Proposal) -> Iterator[Text]:
    from stamo.workspace.wording import cut_context, printable

    for occurrence in p.occurrences:
        if not occurrence.text:
            continue
        end = occurrence.at + occurrence.end - occurrence.start
        snippet = cut_context(occurrence.text, occurrence.at, end, EXAMPLE_CHARACTERS)
        before, surface, after = map(printable, snippet)
        line = Text(f"{printable(occurrence.document)}  ", style="dim")
        yield line.append(before, "default").append(surface, "bold").append(after, "default")


def _plain(text: str) -> Text:
    from stamo.workspace.wording import printable

    return Text(printable(text))
