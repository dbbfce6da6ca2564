"""The report of a workspace: a verdict on top, then what it rests on; one HTML file.

The figures lie beside it as PNG files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from stamo.corpus.aliases import AliasMatcher
from stamo.corpus.reading import read_documents
from stamo.corpus.types import Corpus, Document
from stamo.errors import WorkspaceError
from stamo.features.encoder_choice import encoder_for, remembering
from stamo.kb.base import KnowledgeBase
from stamo.linking.forms import matcher_for
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel
from stamo.packs.pack import EntityPack
from stamo.packs.theta import SHIFT, strongest_neighbours
from stamo.system.files import Bools, Float32, Float64, write_atomic
from stamo.workspace import report_html as html
from stamo.workspace.figures import (
    Panel,
    confidence_panels,
    convergence_panels,
    to_png,
    to_svg,
)
from stamo.workspace.folder import REPORT, Workspace, read_corpus
from stamo.workspace.labels import SKIP, LabelEvent, labels_fingerprint
from stamo.workspace.learn import SlotRecord
from stamo.workspace.report_examples import example_sections
from stamo.workspace.scored import (
    Collisions,
    PackChange,
    change_since_last,
    find_collisions,
    score_corpus,
)
from stamo.workspace.verdict import Findings, LearnSummary, Verdict, judge, read_summary
from stamo.workspace.wording import count_of

N_NEIGHBOURS = 10
EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Where the table of confidences is divided; the line divides it too."""


@dataclass(frozen=True)
class Written:
    """Where the report went, and what it says."""

    path: Path
    figures: tuple[Path, ...]
    verdict: Verdict | None
    """None where the pack is not of the last run here."""


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
    path = workspace.pack_path
    if not path.exists():
        raise WorkspaceError(
            f"{workspace.entity.id!r} has no pack yet; learn it first, then write the report."
        )
    pack = EntityPack.load(path, kb, trained.fingerprint)
    corpus = read_corpus(workspace, kb, trained)
    labels = workspace.current_labels()
    reader = remembering(encoder_for(pack.encoder), workspace.encodings_path)
    scored = score_corpus(pack, corpus, labels, kb, trained, reader)
    found = find_collisions(
        Linker(kb, trained, extra_aliases=pack.entity.aliases),
        pack,
        _reference(reference, corpus, labels, matcher_for(pack.entity.aliases, kb)),
        encoder=None if reference else reader,  # it remembers what it reads, and that may be much
    )
    summary = read_summary(workspace.summary_path, pack)
    findings = summary.findings if summary else None
    verdict = judge(findings) if findings else None
    records = [SlotRecord.from_json(value) for value in pack.history]
    line = _line(pack)
    free = np.array([s.probability for s in scored if s.is_free])
    drawn = {
        "convergence": convergence_panels(records),
        "confidence": confidence_panels(findings, free, line),
    }
    name = workspace.path.resolve().name
    body = chain(
        _head(pack, labels, summary, verdict),
        [html.cards(_numbers(workspace, len(scored), labels, findings, verdict))],
        _confidence(findings, free, line, drawn["confidence"]),
        example_sections(scored, pack.entity.id, name, line),
        _collisions(found, pack.entity.id, bool(reference)),
        _changes(change_since_last(workspace, kb, trained), pack),
        _learned(pack, kb),
        _slots(records, drawn["convergence"]),
        _origin(pack),
    )
    target = out_path or workspace.path / REPORT
    write_atomic(target, html.page(f"{pack.entity.id}: report", body).encode())
    figures = {target.with_name(f"{target.stem}-{name}.png"): drawn[name] for name in drawn}
    for path, panels in figures.items():
        write_atomic(path, to_png(panels))
    return Written(target, tuple(figures), verdict)


def _line(pack: EntityPack) -> float:
    """Return the confidence from which on the entity is linked."""
    shift = float(pack.groups[SHIFT].sum()) if SHIFT in pack.groups else 0.0
    return float(1 / (1 + np.exp(shift)))


def _reference(
    sources: Sequence[str | Path],
    corpus: Corpus,
    labels: Sequence[LabelEvent],
    matcher: AliasMatcher,
) -> Iterator[Document]:
    """Yield the texts to look for collisions in; their mentions are detected anew."""
    labelled = {event.target.document for event in labels}
    pile = (document for document in corpus if document.id not in labelled)
    for document in read_documents(sources, matcher=matcher) if sources else pile:
        yield replace(document, mentions=())


def nearest_entities(pack: EntityPack, kb: KnowledgeBase, n: int) -> list[tuple[str, float]]:
    """Return the known entities whose vectors are closest to the pack's."""
    vectors = kb.entity_vectors()
    cosine: Float32 = np.concatenate([block @ pack.vector for _, block in vectors.blocks()])
    order = np.argsort(-cosine, kind="stable")[:n]
    return list(zip(kb.titles(order), cosine[order].tolist(), strict=True))


def _head(
    pack: EntityPack,
    labels: Sequence[LabelEvent],
    summary: LearnSummary | None,
    verdict: Verdict | None,
) -> Iterator[str]:
    yield f'<p class="soft">Emerging entity</p><h1>{escape(pack.entity.id)}</h1>'
    names = ", ".join(f"“{alias}”" for alias in pack.entity.aliases)
    yield f"<p>Texts call it {escape(names)}. {escape(pack.description)}</p>"
    if labels_fingerprint(labels) != pack.labels_fingerprint:
        text = "The labels have changed since this was learned: learn again before you trust it."
        yield html.note(text, bad=True)
    if summary is None or verdict is None:
        text = "The pack was not written by the last run here; it has no verdict."
        yield html.note(text, bad=True)
        return
    kind = verdict.decision.value.replace(" ", "-")
    yield html.verdict(kind, verdict.sentence, verdict.reasons)
    for warning in verdict.warnings:
        yield html.note(warning, bad=True)
    if not summary.pile_helped:
        yield html.note(
            "The unlabelled documents did not help: left-out labels were predicted better "
            "without them, so the pack holds what the labels alone say."
        )


def _numbers(
    workspace: Workspace,
    n_mentions: int,
    labels: Sequence[LabelEvent],
    found: Findings | None,
    verdict: Verdict | None,
) -> list[tuple[str, str]]:
    rates = [verdict.precision, verdict.recall] if verdict else [None, None]
    precision, recall = (f"{rate.value:.2f}" if rate else "–" for rate in rates)
    return [
        (precision, "precision on left-out labels"),
        (recall, "recall on left-out labels"),
        (f"{found.share:.0%}" if found else "–", "share: unlabelled mentions that link to it"),
        (f"{sum(event.choice != SKIP for event in labels)}", "labels"),
        (f"{n_mentions:,}", "candidate mentions"),
        (f"{workspace.documents.manifest.n_documents:,}", "documents"),
    ]


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
    related, nearest = (
        strongest_neighbours(pack, N_NEIGHBOURS),
        nearest_entities(pack, kb, N_NEIGHBOURS),
    )
    met = html.bars("Most related (met in the same documents)", related)
    yield html.two(met, html.bars("Nearest (similar contexts)", nearest))


def _figures(panels: Sequence[Panel]) -> str:
    return html.figures((p.title, p.description, to_svg(p)) for p in panels)


def _slots(records: Sequence[SlotRecord], panels: Sequence[Panel]) -> Iterator[str]:
    yield html.heading(
        "Slot by slot",
        "Self-training should settle: few pseudo-labels flip, the share stays, and labels that "
        "were left out are predicted no worse than at the start. A slot judges each part of the "
        "pile without what it learned there, so its share may differ a little from the pack's.",
    )
    yield _figures(panels)
    rows = []
    for r in [*records[:1], *records[1:][-10:]]:
        checked = r.left_out
        numbers = (checked.precision, checked.recall, checked.f1) if checked else ()
        slot = str(r.number) if r.number else "labels alone"
        rates = [f"{x:.2f}" for x in numbers] or ["–"] * 3
        rows.append([slot, f"{r.share:.1%}", f"{r.n_flipped:,}", *rates])
    headings = ["slot", "share", "flipped", "precision", "recall", "F1"]
    yield html.table(headings, rows, range(1, 6))


def _confidence(
    found: Findings | None, pile: Float64, line: float, panels: Sequence[Panel]
) -> Iterator[str]:
    n = len(found.labels) if found else 0
    yield html.heading(
        "How far to trust its confidence",
        f"The confidence that linking prints, on the unlabelled mentions and on {n} labels, each "
        f"predicted by a run that did not see it. The entity is linked from {line:.0%} on. With "
        "few labels the points scatter.",
    )
    yield _figures(panels)
    asked = np.array(found.probabilities if found else ())
    is_it = np.array(found.labels if found else (), dtype=bool)
    edges = sorted({*EDGES, round(line, 4)})
    rows = []
    for low, high in reversed(list(pairwise(edges))):
        inside = _between(asked, low, high)
        n_true, n_inside = int(is_it[inside].sum()), int(inside.sum())
        rows.append(
            [
                f"{low:.0%} to {high:.0%}",
                "linked" if low >= line - 1e-4 else "not linked",
                f"{int(_between(pile, low, high).sum()):,}",
                f"{n_true} of {n_inside}" if n_inside else "–",
            ]
        )
    headings = ["confidence", "the entity is", "unlabelled mentions", "left-out labels that are it"]
    yield html.table(headings, rows, [2, 3])


def _between(values: Float64, low: float, high: float) -> Bools:
    return (values >= low) & ((values < high) | (high == 1.0))


def _collisions(found: Collisions, entity: str, is_given: bool) -> Iterator[str]:
    n_others = found.n_mentions - found.n_named
    where = "the reference documents" if is_given else "the documents without a label"
    yield html.heading(
        "Collisions: what letting it in would change",
        f"{found.n_documents:,} of {where} were linked without and with the pack. "
        f"{found.n_taken:,} of {found.n_named:,} mentions with its names now mean {entity}, "
        f"{found.n_unlinked:,} that meant a known entity now mean nothing known; "
        f"{found.n_elsewhere:,} of the other {n_others:,} mentions changed.",
    )
    rows = []
    for loss in found.losses:
        examples = "<br>".join(html.quote(*shown) for shown in loss.examples)
        lost = f"{loss.n_lost:,} of {loss.n_before:,}"
        rows.append([escape(loss.entity), lost, f"{loss.n_unlinked:,}", examples])
    headings = ["entity", "loses to it", "to nothing known", "for instance"]
    yield html.table(headings, rows, [1, 2])


def _changes(found: tuple[int, PackChange] | None, pack: EntityPack) -> Iterator[str]:
    """Tell what the pack decides otherwise than the version before it."""
    if found is None:
        return
    number, change = found
    yield html.heading(
        f"What changed since version {number}",
        f"Of {count_of(change.n_mentions, 'candidate mention')}, {change.n_after:,} mean "
        f"{pack.entity.id}; by version {number} it was {change.n_before:,} "
        f"({change.n_gained:,} gained, {change.n_lost:,} lost).",
    )
    rows = [
        [what, escape(line)]
        for what, lines in (("gained", change.gained), ("lost", change.lost))
        for line in lines
    ]
    if rows:
        yield html.table(["", "for instance"], rows, [])
    priors = [
        [f"“{escape(alias)}”", f"{before:.2f}", f"{after:.2f}"]
        for alias, (before, after) in change.priors.items()
    ]
    yield html.table(["how often its names mean it", "before", "now"], priors, [1, 2])


def _origin(pack: EntityPack) -> Iterator[str]:
    yield html.heading("Where it comes from")
    hashes = {
        "knowledge base": pack.kb_fingerprint,
        "model": pack.model_fingerprint,
        "labels": pack.labels_fingerprint,
        "pack": pack.fingerprint,
    }
    rows = [[name, f"<code>{escape(value)}</code>"] for name, value in hashes.items()]
    rows += [[escape(name), escape(text)] for name, text in pack.notes.items()]
    yield html.table(["", ""], rows, [])
