"""The report of a workspace: a verdict on top, then what it rests on; one HTML file.

The page holds no script and loads nothing: its policy forbids both. `report.html` is its template,
which escapes every text that comes from documents or people.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np

from stamo.corpus.reading import read_documents
from stamo.corpus.types import Corpus, Document
from stamo.errors import WorkspaceError
from stamo.evaluation.intervals import expected_calibration_error, reliability
from stamo.kb.base import KnowledgeBase
from stamo.linking.forms import matcher_for
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel, encoder_of_pack
from stamo.packs.pack import SHIFT, EntityPack
from stamo.system.files import Float32, Float64, write_atomic
from stamo.workspace.folder import REPORT, Workspace, read_corpus
from stamo.workspace.labels import SKIP, LabelEvent, describe_choice, labels_fingerprint
from stamo.workspace.learn import SlotRecord
from stamo.workspace.scored import (
    ScoredMention,
    change_since_last,
    find_collisions,
    score_corpus,
)
from stamo.workspace.verdict import Findings, Verdict, judge, read_summary
from stamo.workspace.wording import count_of

N_NEIGHBOURS = 10
N_EXAMPLES = 6
EXAMPLE_WIDTH = 110
EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Where the table of confidences is divided; the threshold divides it too."""


@dataclass(frozen=True)
class Written:
    """Where the report went, and what it says."""

    path: Path
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
    from jinja2 import Environment, StrictUndefined

    if not workspace.pack_path.exists():
        raise WorkspaceError(
            f"{workspace.entity.id!r} has no pack yet; learn it first, then write the report."
        )
    pack = EntityPack.load(workspace.pack_path, kb, trained)
    corpus, labels = read_corpus(workspace, kb, trained), workspace.current_labels()
    reader = encoder_of_pack(pack.encoder, trained, kb, workspace.encodings_path)
    scored = score_corpus(pack, corpus, labels, kb, trained, reader)
    collisions = find_collisions(
        Linker(kb, trained, extra_aliases=pack.entity.aliases),
        pack,
        _reference(reference, corpus, labels, pack, kb),
        encoder=None if reference else reader,  # it remembers what it reads, and that may be much
    )
    summary = read_summary(workspace.summary_path, pack)
    findings = summary.findings if summary else None
    verdict = judge(findings) if findings else None
    records = [SlotRecord.from_json(value) for value in pack.history]
    shift = float(pack.groups[SHIFT].sum()) if SHIFT in pack.groups else 0.0
    threshold = float(1 / (1 + np.exp(shift)))
    free = np.array([one.probability for one in scored if one.is_free])
    last_version, change = change_since_last(workspace, kb, trained) or (0, None)
    rates = (verdict.precision, verdict.recall) if verdict else (None, None)
    precision, recall = (f"{rate.value:.2f}" if rate else "–" for rate in rates)
    folder = resources.files("stamo.workspace")
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string((folder / "report.html").read_text(encoding="utf-8"))
    page = template.render(
        style=(folder / "report.css").read_text(encoding="utf-8"),
        workspace=workspace.path.resolve().name,
        entity=pack.entity.id,
        pack=pack,
        is_outdated=labels_fingerprint(labels) != pack.labels_fingerprint,
        verdict=verdict,
        pile_helped=summary is None or summary.pile_helped,
        numbers=[
            (precision, "precision on left-out labels"),
            (recall, "recall on left-out labels"),
            (f"{findings.share:.0%}" if findings else "–", "share: unlabelled mentions that link"),
            (f"{sum(event.choice != SKIP for event in labels)}", "labels"),
            (f"{len(scored):,}", "candidate mentions"),
            (f"{workspace.documents.manifest.n_documents:,}", "documents"),
        ],
        n_checked=len(findings.labels) if findings else 0,
        threshold=threshold,
        confidences=_confidences(findings, free, threshold),
        confidence_panels=confidence_panels(findings, free, threshold),
        sections=_examples(scored, pack.entity.id, threshold),
        collisions=collisions,
        is_reference=bool(reference),
        last_version=last_version,
        change=change,
        priors=_priors(pack, kb),
        related=pack.strongest_neighbours(N_NEIGHBOURS),
        nearest=nearest_entities(pack, kb, N_NEIGHBOURS),
        records=[*records[:1], *records[1:][-10:]],
        width=WIDTH,
        height=HEIGHT,
        cut=lambda one: one.snippet(EXAMPLE_WIDTH),
        say=describe_choice,
        count_of=count_of,
    )
    target = out_path or workspace.path / REPORT
    write_atomic(target, page.encode())
    return Written(target, verdict)


def with_links(page: str, label: str, attempt: str) -> str:
    """Connect a report with the pages that serve it; the file by itself has none.

    Every mention that it names becomes a link to the page `label`, and the box for a sentence leads
    to the page `attempt`.
    """
    # No text of a document can hold these: its quotes are escaped.
    page = page.replace(' data-place="?', f' href="{escape(label)}?')
    return page.replace(' hidden data-form="', f' action="{escape(attempt)}" data-form="')


def nearest_entities(pack: EntityPack, kb: KnowledgeBase, n: int) -> list[tuple[str, float]]:
    """Return the known entities whose vectors are closest to the pack's."""
    vectors = kb.entity_vectors()
    cosine: Float32 = np.concatenate([block @ pack.vector for _, block in vectors.blocks()])
    order = np.argsort(-cosine, kind="stable")[:n]
    return list(zip(kb.titles(order), cosine[order].tolist(), strict=True))


def _reference(
    sources: Sequence[str | Path],
    corpus: Corpus,
    labels: Sequence[LabelEvent],
    pack: EntityPack,
    kb: KnowledgeBase,
) -> Iterator[Document]:
    """Yield the texts to look for collisions in; their mentions are detected anew."""
    labelled = {event.target.document for event in labels}
    pile = (document for document in corpus if document.id not in labelled)
    matcher = matcher_for(pack.entity.aliases, kb)
    for document in read_documents(sources, matcher=matcher) if sources else pile:
        yield replace(document, mentions=())


def _confidences(found: Findings | None, pile: Float64, threshold: float) -> list[list[str]]:
    """Count the pile's mentions and the left-out labels by their confidence, the highest first."""
    checked = np.array(found.probabilities if found else ())
    is_it = np.array(found.labels if found else (), dtype=bool)
    rows = []
    for low, high in reversed(list(pairwise(sorted({*EDGES, round(threshold, 4)})))):
        in_pile, inside = (
            (values >= low) & ((values < high) | (high == 1.0)) for values in (pile, checked)
        )
        n_true, n = int(is_it[inside].sum()), int(inside.sum())
        rows.append(
            [
                f"{low:.0%} to {high:.0%}",
                "linked" if low >= threshold - 1e-4 else "not linked",
                f"{int(in_pile.sum()):,}",
                f"{n_true} of {n}" if n else "–",
            ]
        )
    return rows


def _examples(
    scored: Sequence[ScoredMention], entity: str, threshold: float
) -> list[tuple[str, list[ScoredMention]]]:
    """Choose mentions to show, one per document; close calls come in the order of confidence."""
    free = [one for one in scored if one.is_free]
    ranked = sorted(free, key=lambda one: (-one.probability, one.document.id, one.index))
    by_distance = sorted(free, key=lambda o: (abs(o.probability - threshold), o.document.id))
    close = sorted(_one_per_document(by_distance), key=lambda o: (not o.linked, -o.probability))
    return [
        ("Labelled otherwise", [one for one in scored if one.is_contradicted][:N_EXAMPLES]),
        ("Close calls", close),
        (f"Won by {entity}", _one_per_document([one for one in ranked if one.linked])),
        ("Left to others", _one_per_document([o for o in reversed(ranked) if not o.linked])),
    ]


def _one_per_document(scored: Sequence[ScoredMention]) -> list[ScoredMention]:
    first = {one.document.id: one for one in reversed(scored)}
    return [one for one in scored if first[one.document.id] is one][:N_EXAMPLES]


def _priors(pack: EntityPack, kb: KnowledgeBase) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return what each name means, how often."""
    found = []
    for alias, p in zip(pack.entity.aliases, pack.priors.tolist(), strict=True):
        known = kb.candidates(alias)
        rest = zip(kb.titles(known.ids[:6]), known.priors[:6].tolist(), strict=True)
        found.append((alias, [(pack.entity.id, p), *((title, (1 - p) * q) for title, q in rest)]))
    return found


N_BINS = 5
N_BARS = 20
WIDTH, HEIGHT = 340, 240
"""Of one panel: at the width of a phone its letters are those of the page."""
LEFT, TOP, RIGHT, BOTTOM = 44, 10, 12, 40


@dataclass(frozen=True)
class Panel:
    """One pair of axes; confidences lie along the first."""

    title: str
    description: str
    """What a person who cannot see it should know."""
    x_name: str
    y_name: str
    y_most: float = 1.0
    dots: tuple[tuple[float, float, int], ...] = ()
    """Points with how many labels each stands for; they are compared with the diagonal."""
    bars: tuple[tuple[float, float], ...] = ()
    """Where each of equal bars begins, and its height."""

    def x(self, value: float) -> float:
        """Return the place of a confidence in the drawing."""
        return round(LEFT + value * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the place of a value in the drawing; it counts from above."""
        return round(HEIGHT - BOTTOM - value / self.y_most * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self, most: float) -> list[float]:
        """Return round values from 0 on."""
        step = 10 ** math.floor(math.log10(most))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if most / s <= 6)
        return [i * step for i in range(math.floor(most / step + 1e-9) + 1)]


def confidence_panels(found: Findings | None, pile: Float64, threshold: float) -> list[Panel]:
    """Draw how often left-out labels of a confidence are e*, and the confidences on the pile."""
    p = np.asarray(found.probabilities if found else (), dtype=np.float64)
    labels = np.asarray(found.labels if found else (), dtype=bool)
    title = "No left-out labels"
    if len(p):
        title = f"Left-out labels (error {expected_calibration_error(p, labels):.2f})"
    counts, edges = np.histogram(pile, bins=N_BARS, range=(0.0, 1.0))
    return [
        Panel(
            title,
            "How often left-out labels of a confidence are it.",
            "confidence",
            "how often it is right",
            dots=tuple(reliability(p, labels, N_BINS)) if len(p) else (),
        ),
        Panel(
            "The pile",
            f"Confidences on the pile; {int((pile >= threshold).sum())} of {len(pile)} lie above "
            f"the threshold of {threshold:.0%}.",
            "confidence that it is the entity",
            "mentions",
            y_most=float(max(counts.max(), 1)),
            bars=tuple(zip(edges[:-1].tolist(), counts.astype(float).tolist(), strict=True)),
        ),
    ]
