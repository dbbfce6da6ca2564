"""How well a model links: accuracy on held-out articles, ablations, calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stamo.errors import SettingsError
from stamo.evaluation.intervals import (
    Interval,
    Statistic,
    bootstrap,
    by_document,
    difference,
    expected_calibration_error,
    ratio,
    reliability,
)
from stamo.features.base import encode_features
from stamo.features.mentions import (
    Lexicon,
    encode,
    flatten_articles,
    iterate_articles,
    most_frequent_entities,
)
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import MAX_CANDIDATES, score_names
from stamo.models.base import MASKED
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Int32

HARD_PRIOR = 0.9
"""A mention is hard when no candidate has a higher prior."""


@dataclass(frozen=True)
class AccuracyRow:
    """The accuracy of one way to link, on all ambiguous mentions and on the hard ones."""

    name: str
    accuracy: Interval
    hard: Interval
    gain: Interval
    """Accuracy above the first row's, on the same mentions."""
    hard_gain: Interval
    """The same on the hard ones."""


@dataclass(frozen=True)
class Confidence:
    """How far confidence can be trusted."""

    name: str
    n_mentions: int
    ece: float
    curve: tuple[tuple[float, float, int], ...]
    """Mean confidence, share of right links and number of mentions of each bin."""


@dataclass(frozen=True)
class HeldOutReport:
    """What a model does on articles that neither the knowledge base nor training has seen."""

    model: str
    n_documents: int
    n_mentions: int
    """Mentions whose entity the knowledge base knows."""
    n_ambiguous: int
    """Those with two candidates or more, the right one among them."""
    n_hard: int
    candidate_recall: Interval
    """Share of the mentions whose entity is among their candidates."""
    rows: tuple[AccuracyRow, ...]
    ablations: tuple[AccuracyRow, ...]
    """The model with one score the same for all candidates; `gain` is what is lost."""
    confidence: tuple[Confidence, ...]


Columns = Mapping[str, NDArray[Any]]
"""Of M mentions, (M,) each: whether each way to link is right, by its name; the confidence of the
model; whether the entity is `found` among the candidates; documents, n_candidates, best_prior."""
_NOTHING = (
    "{} has no held-out article with an ambiguous mention; build it with --held-out 0.1 and from "
    "more text."
)


def evaluate_held_out(
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    n_folds: int = 0,
    n_samples: int = 1000,
    on_fold: Callable[[int], None] = lambda n_done: None,
) -> HeldOutReport:
    """Link the mentions of held-out articles and compare with their links.

    The entity context comes from the first pass, as it does when text is linked: gold links are
    never looked at. Articles that training has used are left out. With folds every article counts:
    each fold is linked by a model that was trained anew on the others, with the same settings.
    """
    n_documents = kb.manifest.counts["held-out articles"]
    if n_folds and not 2 <= n_folds <= n_documents:
        raise SettingsError(
            f"{n_documents} held-out articles cannot be divided into {n_folds} folds; give 2 or "
            "more, and no more than articles."
        )
    parts = [] if n_folds else [score_held_out(kb, trained)]
    order = np.random.default_rng(0).permutation(n_documents)
    for fold in range(n_folds):
        from stamo.models.train import train_again

        parts.append(score_held_out(kb, train_again(kb, trained, order[fold::n_folds])))
        on_fold(fold + 1)
    scored = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    name, documents, found = trained.model.name, scored["documents"], scored["found"]
    ambiguous = (scored["n_candidates"] > 1) & found
    if not ambiguous.any():
        raise SettingsError(_NOTHING.format(kb.name))
    hard = ambiguous & (scored["best_prior"] < HARD_PRIOR)
    ways = [("prior alone", "prior alone"), (name, "prior alone")]
    ways += [(way, name) for way in scored if way.startswith("without ")]
    rows = []
    for way, base in ways:
        measured = [
            _interval(statistic, n_samples, documents[part], *(scored[key][part] for key in keys))
            for statistic, keys in ((ratio, (way,)), (difference, (way, base)))
            for part in (ambiguous, hard)
        ]
        rows.append(AccuracyRow(way, *measured))
    return HeldOutReport(
        model=name,
        n_documents=len(np.unique(documents)),
        n_mentions=len(found),
        n_ambiguous=int(ambiguous.sum()),
        n_hard=int(hard.sum()),
        candidate_recall=_interval(ratio, n_samples, documents, found),
        rows=tuple(rows[:2]),
        ablations=tuple(rows[2:]),
        confidence=(
            _confidence("ambiguous mentions", scored, name, ambiguous),
            _confidence("all mentions with a candidate", scored, name, scored["n_candidates"] > 0),
        ),
    )


def score_held_out(kb: KnowledgeBase, trained: TrainedModel) -> Columns:
    """Score the mentions of the held-out articles that training has not used.

    By prior, by the model, and by the model without each of its scores.
    """
    corpus = flatten_articles(iterate_articles(kb, held_out=True), Lexicon.of(kb))
    is_used = corpus.entities >= 0
    unseen = trained.report.get("test_documents")
    if unseen is not None:
        is_used &= np.isin(corpus.documents, np.asarray(unseen, dtype=np.int64))
    if not is_used.any():
        raise SettingsError(_NOTHING.format(kb.name))
    model, sizes = trained.model, replace(trained.encoding, n_candidates=MAX_CANDIDATES)
    context = most_frequent_entities(corpus, kb)
    rows = np.flatnonzero(is_used)
    mentions = encode(corpus, kb, sizes, rows=rows, context_entities=context)
    mentions = encode_features(mentions, model.features, kb)
    gold, tables = mentions.gold_column(), trained.tables(kb)
    batches = [(rows, b.mask, model.psi(b)) for rows, b in model.batches(mentions, tables)]
    # The mean of each score over all candidates, (n,).
    count = sum(int(mask.sum()) for _, mask, _ in batches)
    means = sum(psi[mask].sum(axis=0) for _, mask, psi in batches) / max(count, 1)
    names = score_names(model, len(means))
    ways = ("prior alone", model.name, *(f"without {name}" for name in names))
    right = {way: np.zeros(len(mentions), dtype=np.bool_) for way in ways}
    confidence = np.zeros(len(mentions))
    for rows, mask, psi in batches:
        values = np.where(mask, model.combine(psi), MASKED)
        confidence[rows] = trained.calibration.confidence(values)
        right[model.name][rows] = values.argmax(axis=1) == gold[rows]
        prior = np.where(mask, mentions.known["prior"][rows, : mask.shape[1]], -1.0)
        right["prior alone"][rows] = prior.argmax(axis=1) == gold[rows]
        for k, name in enumerate(names):
            levelled = psi.copy()
            levelled[..., k] = means[k]
            best = np.where(mask, model.combine(levelled), MASKED).argmax(axis=1)
            right[f"without {name}"][rows] = best == gold[rows]
    return {
        **right,
        "confidence": confidence,
        "found": gold >= 0,
        "documents": mentions.documents,
        "n_candidates": mentions.mask.sum(axis=1),
        "best_prior": mentions.known["prior"].max(axis=1, initial=0.0),
    }


def _interval(statistic: Statistic, n_samples: int, documents: Int32, *values: Bools) -> Interval:
    """Estimate a statistic of values and of how many there are, document by document."""
    columns = by_document(documents, *values, np.ones(len(documents)))
    return bootstrap(columns, statistic, np.random.default_rng(0), n_samples=n_samples)


def _confidence(name: str, scored: Columns, way: str, chosen: Bools) -> Confidence:
    values, hits = scored["confidence"][chosen], scored[way][chosen]
    return Confidence(
        name,
        int(chosen.sum()),
        expected_calibration_error(values, hits),
        tuple(reliability(values, hits)),
    )
