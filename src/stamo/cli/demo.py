"""`stamo demo`: the whole story on the embedded world, from a name to a linked entity."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer import Argument

from stamo.cli import AsJson
from stamo.cli.output import Console, bare_table, print_json
from stamo.errors import WorkspaceError
from stamo.workspace.wording import cut_context

if TYPE_CHECKING:
    from stamo.corpus.types import Corpus
    from stamo.discovery.proposals import FoundFolder, Proposal
    from stamo.linking.results import LinkedDocument, LinkedMention
    from stamo.packs.pack import EntityPack
    from stamo.workspace.folder import Artifacts, Workspace
    from stamo.workspace.gold import Agreement, Gold
    from stamo.world import World

N_SNIPPETS = 8
N_PROPOSALS = 5
N_PAIRS = 4000
N_EPOCHS = 12
SNIPPET_CHARACTERS = 32


def demo(
    out: Path = Argument(..., metavar="OUT", help="Folder for all files."),
    as_json: AsJson = False,
) -> None:
    """Run the whole story on an invented world: no download, about a minute."""
    import torch  # noqa: F401  # what is missing is said before anything is written

    story = _Story(Console(highlight=False, stderr=as_json), out, time.perf_counter())
    world = story.invent()
    base = story.prepare(world)
    found = story.discover(world, base)
    proposal, entity = story.choose(found, world)
    workspace, corpus = story.accept(found, proposal, entity, base)
    gold = story.label(world, workspace, corpus, base)
    pack = story.learn(workspace, base)
    rows = story.compare(workspace, corpus, gold, base, pack)
    report = story.finish(workspace, base)
    if as_json:
        print_json(
            {
                "entity": workspace.entity.id,
                "workspace": str(workspace.path),
                "report": str(report),
                "linked": {name: asdict(found) for name, found in rows.items()},
                "seconds": round(time.perf_counter() - story.began, 1),
            }
        )


@dataclass(frozen=True)
class _Story:
    """The chapters; each does one step of the product and says what came out."""

    console: Console
    out: Path
    began: float

    def begin(self, title: str, command: str) -> None:
        """Begin a chapter, with the command that does the same."""
        self.console.print()
        self.console.print(Text(title, style="bold cyan"))
        self.console.print(Text(f"$ {command}", style="dim"), soft_wrap=True)

    def say(self, what: str | Text | Table) -> None:
        self.console.print(Padding(what, (0, 0, 0, 2)))

    def invent(self) -> World:
        """Unpack the world."""
        from stamo.world import unpack_world

        folder = self.out / "world"
        self.begin("1. An encyclopaedia, and what was written after it", f"stamo world {folder}")
        world = unpack_world(folder)
        self.say(
            f"Everything in it is invented. The later documents speak of {len(world.emerging)} "
            "entities that it is too old for, under names that mean other things as well."
        )
        return world

    def prepare(self, world: World) -> Artifacts:
        """Build the knowledge base and train the linking model; both are frozen afterwards."""
        from stamo.build.build import BuildSettings, build_knowledge_base
        from stamo.kb.base import KnowledgeBase
        from stamo.models.train import TrainingArgs, train_linking_model
        from stamo.workspace.folder import Artifacts

        kb_path, model_path = self.out / "kb", self.out / "deeped.safetensors"
        dump, settings = world.paths.dump_path, BuildSettings(held_out=0.3, overwrite=True)
        self.begin("2. A knowledge base from its dump", f"stamo build {dump} {kb_path}")
        counts = build_knowledge_base(dump, kb_path, settings).counts
        kb = KnowledgeBase.open(kb_path)
        self.say(
            f"{counts['articles']:,} articles, {counts['entities']:,} entities, "
            f"{counts['aliases']:,} names, fingerprint {kb.fingerprint[:12]}."
        )
        self.begin("3. A linking model", f"stamo train {kb_path} --out {model_path}")
        args = TrainingArgs(n_pairs=N_PAIRS, n_epochs=N_EPOCHS)
        trained = train_linking_model(kb, "deeped", args)
        trained.save(model_path)
        report = trained.report
        self.say(
            f"DeepED links {report['test_accuracy']:.0%} of the ambiguous mentions in unseen "
            f"articles right (the most frequent meaning: {report['test_prior_accuracy']:.0%})."
        )
        return Artifacts(kb, trained, kb_path, model_path)

    def discover(self, world: World, base: Artifacts) -> FoundFolder:
        """Scan the later documents for what the knowledge base does not know."""
        from stamo.discovery.discover import discover
        from stamo.discovery.proposals import FoundFolder

        pile, path = world.paths.pile_path, self.out / "found"
        if path.exists():
            shutil.rmtree(path)
        command = f"stamo discover {base.kb_path} {base.model_path} --from {pile} --out {path}"
        self.begin("4. What the later documents speak of that it does not know", command)
        found, folder = discover([pile], base.kb, base.trained), FoundFolder(path)
        n = folder.save(found, {"sources": [str(pile.resolve())], **base.origin})
        self.say(f"{found.n_documents:,} documents give {n} proposals; the first ones:")
        self.say(_proposals_table(folder.proposals()[:N_PROPOSALS]))
        return folder

    def choose(self, folder: FoundFolder, world: World) -> tuple[Proposal, str]:
        """Take the first proposal of a name that the world's answers confirm."""
        from stamo.discovery.proposals import confirmed
        from stamo.workspace.gold import read_answers

        emerging = {entry["id"]: entry for entry in world.describe()}
        gold, proposals = read_answers(world.paths.gold_path), folder.proposals()
        answers = ((i, p, confirmed(p, gold)) for i, p in enumerate(proposals, 1))
        # A proposal may hold only a piece of the name ("Labs"); its documents would be others.
        found = (
            (i, p, emerging[entity])
            for i, p, entity in answers
            if entity in emerging and set(p.aliases) & set(emerging[entity]["aliases"])
        )
        place, proposal, entry = next(found, (0, None, {}))
        if proposal is None:
            raise WorkspaceError("Nothing that is new in this world was proposed.")
        rivals = ", ".join(rival["title"] for rival in entry["rivals"])
        self.say(
            f"In the demo the world's own answers decide, not a person. Number {place} is "
            f"[bold]{escape(entry['id'])}[/]: {escape(entry['description'])}"
        )
        self.say(f"The same name may as well mean {escape(rivals)}.")
        return proposal, entry["id"]

    def accept(
        self, folder: FoundFolder, proposal: Proposal, entity: str, base: Artifacts
    ) -> tuple[Workspace, Corpus]:
        """Make the workspace of a proposal, with its documents."""
        from stamo.cli.workspaces import collect_view, collected_table
        from stamo.discovery.accept import accept

        path = self.out / "workspace"
        if (path / "entity.json").exists():
            shutil.rmtree(path)
        command = f"stamo found accept {folder.path} {proposal.id} {path} --name {entity!r}"
        self.begin("5. From the proposal to a workspace with its documents", command)
        kb, trained, at = base.kb, base.trained, datetime.now(UTC)
        with collect_view(self.console, f"Collecting {entity}") as show:
            done = accept(
                folder, proposal, path, kb, trained, by="demo", at=at, name=entity, on_progress=show
            )
        self.say(collected_table(done.collected))
        return done.workspace, done.workspace.documents.read()

    def label(self, world: World, workspace: Workspace, corpus: Corpus, base: Artifacts) -> Gold:
        """Label twenty mentions, chosen by the advisor, with the world's answers."""
        from stamo.workspace.folder import N_LABELS
        from stamo.workspace.gold import label_by_gold, read_answers
        from stamo.workspace.queue import LEAST_LABELS, LabelQueue

        gold, n = read_answers(world.paths.gold_path), 0
        self.begin("6. Twenty labels", f"stamo label {workspace.path}")
        queue = LabelQueue(workspace.entity, corpus, base.kb, base.trained)
        while n < N_LABELS:
            events = workspace.current_labels()
            step = LEAST_LABELS if n < LEAST_LABELS else 2
            keys = queue.order(events)[: min(step, N_LABELS - n)]
            if not keys:
                break
            n += label_by_gold(workspace, corpus, gold, keys, at=datetime.now(UTC))
        with workspace.read_labels() as store:
            progress, advice = store.progress(), queue.advise(store.current())
        self.say(
            f"The world's own answers label again: {progress.n_labelled} "
            f"mentions, of which {progress.n_emerging} mean {escape(workspace.entity.id)}."
        )
        self.say(f"The advisor chose which ones. {advice.text}")
        return gold

    def learn(self, workspace: Workspace, base: Artifacts) -> EntityPack:
        """Learn the entity."""
        from stamo.cli.learn import learn_view, outcome_lines, slots_table
        from stamo.workspace.learn import learn_pack

        self.begin("7. Learning from the labels and the pile", f"stamo learn {workspace.path}")
        with learn_view(self.console) as show:
            outcome = learn_pack(workspace, base.kb, base.trained, on_progress=show)
        self.say(slots_table(outcome.records))
        self.say(
            "[dim]Slot 0: the labels alone. P, R, F1: on left-out labels (cross-validation).[/]"
        )
        for line in outcome_lines(outcome):
            self.say(line)
        return outcome.pack

    def compare(
        self, workspace: Workspace, corpus: Corpus, gold: Gold, base: Artifacts, pack: EntityPack
    ) -> dict[str, Agreement]:
        """Link the documents without a label, before and after; return how far each is right."""
        from stamo.features.encoder import INSTALLED, encoder_of, remembering
        from stamo.linking.linker import Linker
        from stamo.workspace.gold import compare_with_gold
        from stamo.workspace.learn import estimation_pack

        entity, kb, trained = workspace.entity, base.kb, base.trained
        labelled = {event.target.document for event in workspace.current_labels()}
        texts = [replace(d, mentions=()) for d in corpus if d.id not in labelled]
        paths = f"{base.kb_path} {base.model_path} --with {workspace.pack_path}"
        self.begin("8. Linking before and after", f"stamo link {paths} TEXT")
        reader = remembering(encoder_of(INSTALLED, trained.adapter), workspace.encodings_path)
        only_labels = estimation_pack(workspace, kb, trained)
        ways = {
            "without the pack": Linker(kb, trained, extra_aliases=entity.aliases),
            "estimated on the labels": Linker(kb, trained, [only_labels], encoder=reader),
            "with the learned pack": Linker(kb, trained, [pack], encoder=reader),
        }
        linked = {name: list(way.link_documents(texts)) for name, way in ways.items()}
        before, _, after = linked.values()
        self.say(_examples(before, after, gold, entity.aliases))
        rows = {
            name: compare_with_gold(documents, gold, entity.id, entity.aliases)
            for name, documents in linked.items()
        }
        self.console.print()
        self.say(_agreement_table(rows, entity.id))
        return rows

    def finish(self, workspace: Workspace, base: Artifacts) -> Path:
        """Write the report and check that nothing else changed; return the report."""
        from stamo.workspace.folder import open_artifacts, verify_unchanged
        from stamo.workspace.report import write_report

        self.begin("9. The report", f"stamo report {workspace.path}")
        written = write_report(workspace, base.kb, base.trained)
        found = verify_unchanged([workspace], open_artifacts([workspace]))
        kb, model = (found[name][:12] for name in ("kb", "model"))
        self.say(f"Nothing else changed: knowledge base {kb}, model {model}.")
        seconds = time.perf_counter() - self.began
        self.say(f"All of this took {seconds:.0f} seconds. Open the report:")
        self.console.print()
        self.console.print(Text(str(written.path.resolve()), style="bold"), soft_wrap=True)
        return written.path


def _proposals_table(proposals: Sequence[Proposal]) -> Table:
    table = bare_table(">", "kind", "name", ">documents", "comes with")
    for number, p in enumerate(proposals, 1):
        kind = "new name" if p.kind == "name" else "new meaning"
        words = ", ".join(p.words[:6])
        table.add_row(*map(Text, (str(number), kind, p.name, str(p.n_documents), words)))
    return table


def _examples(
    before: Sequence[LinkedDocument],
    after: Sequence[LinkedDocument],
    gold: Gold,
    aliases: Sequence[str],
) -> Table:
    """Show mentions side by side: half whose answer changed, half whose did not."""
    changed: list[tuple[Text, Text, Text]] = []
    same: list[tuple[Text, Text, Text]] = []
    for old, new in zip(before, after, strict=True):
        for left, right in zip(old.mentions, new.mentions, strict=True):
            answer = gold.get(new.id, {}).get((right.start, right.end))
            if right.surface in aliases and answer is not None:
                shown = cut_context(new.text, right.start, right.end, SNIPPET_CHARACTERS)
                text = Text(shown.before).append(shown.surface, style="bold").append(shown.after)
                row = (text, _verdict(left, answer), _verdict(right, answer))
                (changed if left.entity != right.entity else same).append(row)
                break
    table = bare_table(padding=(0, 1), expand=True)
    for heading, ratio in (("in the text", 5), ("before", 3), ("after", 3)):
        table.add_column(heading, ratio=ratio)
    half = N_SNIPPETS // 2
    for row in [*changed[:half], *same[:half]]:
        table.add_row(*row)
    return table


def _verdict(mention: LinkedMention, answer: str) -> Text:
    right = mention.entity == answer
    mark = Text("✓ " if right else "✗ ", style="green" if right else "red")
    if mention.entity is None:
        return mark.append("nothing")
    return mark.append(mention.entity).append(f" {mention.confidence:.0%}", style="dim")


def _agreement_table(rows: dict[str, Agreement], entity: str) -> Table:
    n = next(iter(rows.values())).n
    title = f"On the {n:,} candidate mentions in documents without a label"
    table = bare_table("", ">precision", ">recall", ">F1", ">all right", title=title)
    for name, found in rows.items():
        rates, style = found.emerging, "bold" if "learned" in name else ""
        numbers = (rates.precision, rates.recall, rates.f1, found.accuracy)
        table.add_row(name, *(f"{number:.2f}" for number in numbers), style=style)
    table.caption = (
        f"Precision, recall and F1 of the links to {entity}; all right: linked to exactly the "
        "entity that is meant."
    )
    table.caption_justify = "left"
    return table
