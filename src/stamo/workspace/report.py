"""The report of a workspace: one HTML file, and its figures as PNG files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from pathlib import Path

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.readers import read_documents
from stamo.corpus.types import Corpus, Document
from stamo.errors import WorkspaceError
from stamo.features.encoding import Lexicon, flatten
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import entity_numbers
from stamo.linking.linker import Linker
from stamo.linking.packed import PackScores, score_pack
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.packs.theta import strongest_neighbours
from stamo.system.arrays import Float32
from stamo.system.files import write_atomic
from stamo.workspace import report_html as html
from stamo.workspace.collisions import Collisions, find_collisions
from stamo.workspace.figures import confidence_figure, convergence_figure
from stamo.workspace.folder import Workspace
from stamo.workspace.labels.events import EMERGING_CHOICE, SKIP, LabelEvent
from stamo.workspace.learn import LearnSummary, pack_path, read_summary
from stamo.workspace.material import read_corpus
from stamo.workspace.slots import SlotRecord
from stamo.workspace.snippets import cut_context

REPORT = "report.html"
N_EXAMPLES = 6
N_NEIGHBOURS = 10
WIDTH = 110


@dataclass(frozen=True)
class Written:
    """Where the report went."""

    path: Path
    figures: tuple[Path, ...]


@dataclass(frozen=True)
class SeenMention:
    """One candidate mention of the pile as the pack sees it."""

    document: Document
    index: int
    probability: float
    linked: bool
    rival: str
    """The best known candidate, empty when there is none."""
    label: str | None
    """What somebody chose, None without a label."""

    def quote(self) -> str:
        """Return the mention in its context, as HTML."""
        mention = self.document.mentions[self.index]
        shown = cut_context(self.document.text, mention.start, mention.end, WIDTH)
        return html.quote(*shown)


def write_report(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    reference: Sequence[str | Path] = (),
    out_path: Path | None = None,
) -> Written:
    """Write what was learned, how far to trust it, and what it changes.

    Args:
        workspace: The folder; it has a pack.
        kb: The knowledge base.
        trained: The linking model.
        reference: Documents to look for collisions in; the unlabelled part of the pile if none.
        out_path: The HTML file; `report.html` in the workspace by default.

    Raises:
        WorkspaceError: Nothing was learned yet.
    """
    path = pack_path(workspace)
    if not path.exists():
        raise WorkspaceError(
            f"{workspace.entity.id!r} has no pack yet; learn it first, then write the report."
        )
    pack = EntityPack.load(path, kb, trained.fingerprint)
    corpus = read_corpus(workspace, kb, trained)
    with workspace.read_labels() as store:
        labels = store.current()
    scored, scores = score_corpus(pack, corpus, labels, kb, trained)
    found = find_collisions(
        Linker(kb, trained, extra_aliases=pack.entity.aliases),
        pack,
        _reference(reference, corpus, labels, pack),
    )
    summary = read_summary(workspace, pack)
    records = [SlotRecord.from_json(value) for value in pack.history]
    drawn = {
        "convergence": convergence_figure(records),
        "confidence": confidence_figure(
            summary.odds if summary else [], summary.labels if summary else [], scores.probability
        ),
    }
    body = chain(
        _head(workspace, pack, scored, labels, records, summary),
        _learned(pack, kb),
        _slots(records, drawn["convergence"]),
        _confidence(summary, drawn["confidence"]),
        _examples(scored, pack.entity.id),
        _collisions(found, pack.entity.id, bool(reference)),
        _origin(pack),
    )
    target = out_path or workspace.path / REPORT
    write_atomic(target, html.page(f"{pack.entity.id}: report", body).encode())
    return Written(target, tuple(_save_figures(target, drawn)))


def _save_figures(target: Path, drawn: dict[str, bytes]) -> Iterator[Path]:
    for name, data in drawn.items():
        path = target.with_name(f"{target.stem}-{name}.png")
        write_atomic(path, data)
        yield path


def score_corpus(
    pack: EntityPack,
    corpus: Corpus,
    labels: Sequence[LabelEvent],
    kb: KnowledgeBase,
    trained: TrainedModel,
) -> tuple[list[SeenMention], PackScores]:
    """Score every candidate mention of collected documents with a pack."""
    bare = corpus.with_labels({})
    flat = flatten(bare, Lexicon.of(kb), entity_numbers([pack.entity], bare, kb))
    scores = score_pack(pack, flat, kb, trained)
    places = [(document, i) for document in bare for i in range(len(document.mentions))]
    chosen = {(e.target.document, e.target.start): e.choice for e in labels if e.choice != SKIP}
    rivals = _rivals(scores, kb)
    result = []
    for n, row in enumerate(scores.rows.tolist()):
        document, index = places[row]
        label = chosen.get((document.id, document.mentions[index].start))
        p, linked = float(scores.probability[n]), bool(scores.odds[n] > 0)
        result.append(SeenMention(document, index, p, linked, rivals[n], label))
    return result, scores


def _rivals(scores: PackScores, kb: KnowledgeBase) -> list[str]:
    known = scores.scores[:, :-1]
    if not known.shape[1]:
        return [""] * len(known)
    best = np.take_along_axis(scores.candidates, known.argmax(axis=1)[:, None], axis=1)[:, 0]
    titles = dict(zip(best[best >= 0].tolist(), kb.titles(best[best >= 0]), strict=True))
    return [titles.get(entity, "") for entity in best.tolist()]


def _reference(
    sources: Sequence[str | Path], corpus: Corpus, labels: Sequence[LabelEvent], pack: EntityPack
) -> Iterator[Document]:
    """Yield the texts to look for collisions in; their mentions are detected anew."""
    if sources:
        matcher = AliasMatcher(pack.entity.aliases)
        for document in read_documents(sources, matcher=matcher):
            yield Document(document.id, document.text, title=document.title)
        return
    labelled = {event.target.document for event in labels}
    for document in corpus:
        if document.id not in labelled:
            yield Document(document.id, document.text, title=document.title)


def nearest_entities(pack: EntityPack, kb: KnowledgeBase, n: int) -> list[tuple[str, float]]:
    """Return the known entities whose vectors are closest to the pack's."""
    vectors = kb.entity_vectors()
    cosine: Float32 = np.concatenate([block @ pack.vector for _, block in vectors.blocks()])
    order = np.argsort(-cosine, kind="stable")[:n]
    return list(zip(kb.titles(order), cosine[order].tolist(), strict=True))


def _head(
    workspace: Workspace,
    pack: EntityPack,
    scored: Sequence[SeenMention],
    labels: Sequence[LabelEvent],
    records: Sequence[SlotRecord],
    summary: LearnSummary | None,
) -> Iterator[str]:
    yield f'<p class="soft">Emerging entity</p><h1>{escape(pack.entity.id)}</h1>'
    names = ", ".join(f"“{alias}”" for alias in pack.entity.aliases)
    yield f"<p>Texts call it {escape(names)}. {escape(pack.description)}</p>"
    used = records[summary.used_slot] if summary and records else None
    left_out = used.left_out if used else None
    n_labelled = sum(event.choice != SKIP for event in labels)
    n_documents = workspace.documents.manifest.n_documents
    share = sum(s.linked for s in scored) / max(len(scored), 1)
    size = pack_path(workspace).stat().st_size
    yield html.cards(
        [
            (f"{n_documents:,}", "documents"),
            (f"{len(scored):,}", "candidate mentions"),
            (f"{n_labelled}", "labels"),
            (f"{share:.0%}", "of the mentions link to it"),
            (f"{left_out.f1:.2f}" if left_out else "–", "F1 on left-out labels"),
            (f"{size / 1000:.0f} kB", "pack"),
        ]
    )
    if summary and summary.alarm:
        yield html.note(f"Alarm: {summary.alarm}", bad=True)
    for line in summary.doubtful if summary else ():
        yield html.note(f"Look at this label again. {line}", bad=True)
    if summary and not summary.pile_helped:
        yield html.note(
            "The unlabelled documents did not help: left-out labels were predicted better without "
            "them, so the pack holds what the labels alone say."
        )
    if summary is None:
        yield html.note("The pack was not written by the last run here; its checks are missing.")


def _learned(pack: EntityPack, kb: KnowledgeBase) -> Iterator[str]:
    yield html.heading(
        "What was learned",
        "The prior of each name, and the known entities that the new one resembles. Known entities "
        "share what the new one leaves of a name.",
    )
    panels = []
    for alias, p in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        known = kb.candidates(alias)
        rest = zip(kb.titles(known.ids[:6]), known.priors[:6].tolist(), strict=True)
        rows = [(pack.entity.id, p), *((title, (1 - p) * q) for title, q in rest)]
        panels.append(html.bars(f"“{alias}” means", rows))
    yield html.two(*panels)
    yield "<br>"
    yield html.two(
        html.bars(
            "Most related (met in the same documents)", strongest_neighbours(pack, N_NEIGHBOURS)
        ),
        html.bars("Nearest (similar contexts)", nearest_entities(pack, kb, N_NEIGHBOURS)),
    )


def _slots(records: Sequence[SlotRecord], figure: bytes) -> Iterator[str]:
    yield html.heading(
        "Slot by slot",
        "Self-training should settle: few pseudo-labels flip, the share stays, and labels that "
        "were left out are predicted no worse than at the start.",
    )
    yield html.figure(figure, "Left-out precision, recall and F1, share, and movement by slot")
    rows = []
    for r in [*records[:1], *records[1:][-10:]]:
        checked = r.left_out
        numbers = (checked.precision, checked.recall, checked.f1) if checked else None
        rows.append(
            [
                str(r.number) if r.number else "labels alone",
                f"{r.share:.1%}",
                f"{r.n_flipped:,}",
                *([f"{x:.2f}" for x in numbers] if numbers else ["–"] * 3),
            ]
        )
    headings = ["slot", "share", "flipped", "precision", "recall", "F1"]
    yield html.table(headings, rows, range(1, 6))


def _confidence(summary: LearnSummary | None, figure: bytes) -> Iterator[str]:
    n = len(summary.labels) if summary else 0
    yield html.heading(
        "How far to trust its confidence",
        f"Left: {n} labels, each predicted by a run that did not see it; on the dotted line, a "
        "probability means what it says. With so few labels the points scatter.",
    )
    yield html.figure(figure, "Reliability on left-out labels, and confidences on the pile")


def _examples(scored: Sequence[SeenMention], entity: str) -> Iterator[str]:
    yield html.heading(
        "Mentions won and lost", "Sure ones, and the ones closest to the line; one per document."
    )
    free = [s for s in scored if s.label is None]
    ranked = sorted(free, key=lambda s: (-s.probability, s.document.id, s.index))
    won = _one_per_document([s for s in ranked if s.linked])
    lost = _one_per_document([s for s in reversed(ranked) if not s.linked])
    close = _one_per_document(sorted(free, key=lambda s: (abs(s.probability - 0.5), s.document.id)))
    wrong = [s for s in scored if s.label is not None and s.linked != (s.label == EMERGING_CHOICE)]
    for title, examples in (
        (f"Won by {entity}", won),
        ("Left to known entities", lost),
        ("Closest to the line", close),
        ("Labelled otherwise", wrong[:N_EXAMPLES]),
    ):
        yield f"<h3>{escape(title)}</h3>"
        yield _example_table(examples, entity)
        yield "<br>"


def _example_table(examples: Sequence[SeenMention], entity: str) -> str:
    headings = ["P", "mention", "linked to"]
    rows = [
        [f"{s.probability:.0%}", s.quote(), escape(entity if s.linked else s.rival or "nothing")]
        for s in examples
    ]
    if any(s.label is not None for s in examples):
        headings.append("label")
        for row, s in zip(rows, examples, strict=True):
            row.append(escape(entity if s.label == EMERGING_CHOICE else s.label or ""))
    return html.table(headings, rows, [0])


def _one_per_document(scored: Sequence[SeenMention]) -> list[SeenMention]:
    first = {s.document.id: s for s in reversed(scored)}
    return [s for s in scored if first[s.document.id] is s][:N_EXAMPLES]


def _collisions(found: Collisions, entity: str, is_given: bool) -> Iterator[str]:
    n_others = found.n_mentions - found.n_named
    where = "the reference documents" if is_given else "the documents without a label"
    yield html.heading(
        "Collisions: what letting it in would change",
        f"{found.n_documents:,} of {where} were linked without and with the pack. "
        f"{found.n_taken:,} of {found.n_named:,} mentions with its names now mean {entity}; "
        f"{found.n_elsewhere:,} of the other {n_others:,} mentions changed.",
    )
    rows = []
    for loss in found.losses:
        examples = "<br>".join(html.quote(*t.shown) for t in loss.examples)
        lost = f"{loss.n_lost:,} of {loss.n_before:,}"
        rows.append([escape(loss.entity), lost, examples])
    yield html.table(["entity", "loses", "for instance"], rows, [1])


def _origin(pack: EntityPack) -> Iterator[str]:
    yield html.heading("Where it comes from")
    rows = [
        ["knowledge base", f"<code>{escape(pack.kb_fingerprint)}</code>"],
        ["model", f"<code>{escape(pack.model_fingerprint)}</code>"],
        ["labels", f"<code>{escape(pack.labels_fingerprint)}</code>"],
        ["pack", f"<code>{escape(pack.fingerprint)}</code>"],
        *([escape(name), escape(text)] for name, text in pack.notes.items()),
    ]
    yield html.table(["", ""], rows, [])
