"""`stamo world` and `stamo demo`: an invented world, and the whole story on it."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from typer import Argument

from stamo.cli import AsJson, open_both
from stamo.cli.main import create_app, modules_for
from stamo.cli.output import bare_table, print_json, rich_table, show
from stamo.discovery.proposals import FoundFolder, confirmed
from stamo.errors import WorkspaceError
from stamo.workspace.folder import N_LABELS, Workspace
from stamo.workspace.wording import cut_context
from stamo.world import World, unpack_world

if TYPE_CHECKING:
    from rich.table import Table

    from stamo.kb.base import KnowledgeBase
    from stamo.linking.results import LinkedDocument, LinkedMention
    from stamo.models.store import TrainedModel
    from stamo.workspace.gold import Agreement

N_SNIPPETS = 8
N_PAIRS = 4000
N_EPOCHS = 12
SNIPPET_CHARACTERS = 32


def world(
    out: Path = Argument(..., metavar="OUT", help="Directory for the files."),
    as_json: AsJson = False,
) -> None:
    """Write an invented encyclopaedia, later documents, and the answers.

    In Python: `stamo.unpack_world(out)`.
    """
    made = unpack_world(out)
    paths, emerging = made.paths, made.describe()
    files = (paths.dump_path, paths.pile_path, paths.gold_path)
    keys = ("id", "description", "n_mentions", "n_candidate_mentions")
    rows = [[", ".join(entry["aliases"]), *(entry[key] for key in keys)] for entry in emerging]
    headings = ("Aliases", "Entity", "What it is", ">Mentions", ">of")
    table = rich_table(*headings, rows=rows, title="Emerging entities")
    sizes = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in files]
    show({"emerging": emerging, "files": files}, [table, *sizes], as_json=as_json)


def demo(
    out: Path = Argument(..., metavar="OUT", help="Folder for all files."),
    as_json: AsJson = False,
) -> None:
    """Run the whole story on an invented world: no download, about a minute."""
    began, kb, model = time.perf_counter(), out / "kb", out / "deeped.safetensors"
    space, found, invented = out / "workspace", out / "found", out / "world"
    for before in (space, found):
        shutil.rmtree(before, ignore_errors=True)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        _chapter("1. An encyclopaedia, and what was written after it", "world", invented)
        pile = World.open(invented).paths.pile_path
        dump = World.open(invented).paths.dump_path
        build = ("build", dump, kb, "--held-out", "0.3", "--overwrite")
        _chapter("2. A knowledge base from its dump", *build)
        train = ("train", "--kb", kb, "--out", model, "--pairs", N_PAIRS, "--epochs", N_EPOCHS)
        _chapter("3. A linking model", *train)
        both = ("--kb", kb, "--model", model)
        discover = ("discover", *both, "--from", pile, "--out", found)
        _chapter("4. What the later documents speak of that it does not know", *discover)
        proposal, entity = _choose(found, World.open(invented))
        accept = ("found", "accept", found, proposal, space, "--name", entity, "--who", "demo")
        _chapter("5. From the proposal to a workspace with its documents", *accept)
        _title("6. Twenty labels", "label", space)
        _label(Workspace.open(space), World.open(invented), *open_both(kb, model))
        _chapter("7. Learning from the labels and the pile", "learn", space)
        pack = Workspace.open(space).pack_path
        _title("8. Linking before and after", "link", *both, "--with", pack, "TEXT")
        linked = _compare(Workspace.open(space), World.open(invented), *open_both(kb, model))
        _chapter("9. The report", "report", space)
        seconds = round(time.perf_counter() - began, 1)
        _say(f"All of this took {seconds:.0f} seconds. Open the report.")
    if as_json:
        report = space / "report.html"
        record = {"entity": entity, "workspace": space, "report": report, "linked": linked}
        print_json(record | {"seconds": seconds})


def _chapter(title: str, *words: object) -> None:
    """Run a command of the story under its title."""
    _title(title, *words)
    given = list(map(str, words))
    create_app(modules_for(given))(given, standalone_mode=False)


def _title(title: str, *words: object) -> None:
    command = Text(f"$ stamo {shlex.join(map(str, words))}", style="dim")
    _say("", Text(title, style="bold cyan"), command)


def _say(*parts: str | Text | Table) -> None:
    show(None, parts, as_json=False)


def _choose(found: Path, world: World) -> tuple[str, str]:
    """Return the first proposal of a name that the world's answers confirm, and its entity."""
    from stamo.workspace.gold import read_answers

    emerging = {entry["id"]: entry for entry in world.describe()}
    gold = read_answers(world.paths.gold_path)
    for number, proposal in enumerate(FoundFolder(found).proposals(), 1):
        entry = emerging.get(confirmed(proposal, gold) or "")
        # A proposal may hold only a piece of the name ("Labs"); its documents would be others.
        if entry and set(proposal.aliases) & set(entry["aliases"]):
            rivals = ", ".join(rival["title"] for rival in entry["rivals"])
            _say(
                "In the demo the world's own answers decide, not a person. Number "
                f"{number} is {entry['id']}: {entry['description']}",
                f"The same name may as well mean {rivals}.",
            )
            return proposal.id, entry["id"]
    raise WorkspaceError("Nothing that is new in this world was proposed.")


def _label(workspace: Workspace, world: World, kb: KnowledgeBase, trained: TrainedModel) -> None:
    """Label twenty mentions, chosen by the advisor, with the world's answers."""
    from stamo.workspace.gold import label_by_gold, read_answers
    from stamo.workspace.queue import LEAST_LABELS, LabelQueue

    gold, corpus, n = read_answers(world.paths.gold_path), workspace.documents.read(), 0
    queue = LabelQueue(workspace.entity, corpus, kb, trained)
    while n < N_LABELS:
        step = LEAST_LABELS if n < LEAST_LABELS else 2
        keys = queue.order(workspace.current_labels())[: min(step, N_LABELS - n)]
        if not keys:
            break
        n += label_by_gold(workspace, corpus, gold, keys, at=datetime.now(UTC))
    status = workspace.status(queue.outlook(workspace.current_labels()))
    progress, advice = status.labels, status.advice.sentence
    _say(
        f"The world's own answers label again: {progress.n_labelled} mentions, of which "
        f"{progress.n_emerging} mean {workspace.entity.id}.",
        f"The advisor chose which ones. {advice}",
    )


def _compare(
    workspace: Workspace, world: World, kb: KnowledgeBase, trained: TrainedModel
) -> dict[str, Agreement]:
    """Link the documents without a label, before and after; return how far each is right."""
    from stamo.linking.linker import Linker
    from stamo.models.store import open_encoder
    from stamo.packs.pack import EntityPack
    from stamo.workspace.gold import compare_with_gold, read_answers
    from stamo.workspace.learn import estimation_pack

    entity, gold = workspace.entity, read_answers(world.paths.gold_path)
    labelled = {event.target.document for event in workspace.current_labels()}
    texts = [replace(d, mentions=()) for d in workspace.documents if d.id not in labelled]
    encoder = open_encoder(trained, kb, path=workspace.encodings_path)
    packs = [estimation_pack(workspace, kb, trained)], [EntityPack.load(workspace.pack_path)]
    estimated, learned = (Linker(kb, trained, used, encoder=encoder) for used in packs)
    linkers = {
        "without the pack": Linker(kb, trained, extra_aliases=entity.aliases),
        "estimated on the labels": estimated,
        "with the learned pack": learned,
    }
    linked = {name: list(linker.link_documents(texts)) for name, linker in linkers.items()}
    found = {
        name: compare_with_gold(documents, gold, entity.id, entity.aliases)
        for name, documents in linked.items()
    }
    changed, same = list[tuple[Text, ...]](), list[tuple[Text, ...]]()
    before, _, after = linked.values()
    for old, new in zip(before, after, strict=True):
        for left, right in zip(old.mentions, new.mentions, strict=True):
            answer = gold.get(new.id, {}).get((right.start, right.end))
            if right.surface in entity.aliases and answer is not None:
                row = (_snippet(new, right), _mark(left, answer), _mark(right, answer))
                (changed if left.entity != right.entity else same).append(row)
                break
    half = N_SNIPPETS // 2
    rows = [*changed[:half], *same[:half]]
    rates = [
        (name, *(f"{x:.2f}" for x in (e.precision, e.recall, e.f1, one.accuracy)))
        for name, one in found.items()
        for e in [one.emerging]
    ]
    n = found["with the learned pack"].n
    _say(
        bare_table("in the text", "before", "after", rows=rows, padding=(0, 1)),
        f"\nOn the {n:,} candidate mentions in documents without a label",
        bare_table("", ">precision", ">recall", ">F1", ">all right", rows=rates),
        f"Precision, recall and F1 of the links to {entity.id}; all right: linked to exactly the "
        "entity that is meant.",
    )
    return found


def _snippet(document: LinkedDocument, mention: LinkedMention) -> Text:
    shown = cut_context(document.text, mention.start, mention.end, SNIPPET_CHARACTERS)
    return Text(shown.before).append(shown.surface, style="bold").append(shown.after)


def _mark(mention: LinkedMention, answer: str) -> Text:
    right = mention.entity == answer
    mark = Text("✓ " if right else "✗ ", style="green" if right else "red")
    if mention.entity is None:
        return mark.append("nothing")
    return mark.append(mention.entity).append(f" {mention.confidence:.0%}", style="dim")
