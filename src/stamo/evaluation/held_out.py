"""How well a model links: accuracy on held-out articles, ablations, calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

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
    EncodedMentions,
    Lexicon,
    encode,
    flatten_articles,
    iterate_articles,
    most_frequent_entities,
)
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.rank import MAX_CANDIDATES, score_names
from stamo.models.base import MASKED
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Float32, Float64, Int32, Int64

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


@dataclass(frozen=True)
class ScoredMentions:
    """All scores of mentions: whether each way to link is right, and what it rests on."""

    right: Mapping[str, Bools]  # name -> (M,) whether the best candidate is right
    confidence: Float64  # (M,) of the model
    found: Bools  # (M,) whether the entity is a candidate
    documents: Int32  # (M,)
    n_candidates: Int64  # (M,)
    best_prior: Float32  # (M,)

    @classmethod
    def joined(cls, parts: Sequence[ScoredMentions]) -> ScoredMentions:
        """Join the mentions of several parts."""
        names = [field.name for field in fields(cls) if field.name != "right"]
        return cls(
            {name: np.concatenate([p.right[name] for p in parts]) for name in parts[0].right},
            *(np.concatenate([getattr(p, name) for p in parts]) for name in names),
        )


def evaluate_held_out(
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    settings: LinkerSettings = LinkerSettings(),
    n_samples: int = 1000,
) -> HeldOutReport:
    """Link the mentions of held-out articles and compare with their links.

    The entity context comes from the first pass, as it does when text is linked: gold links are
    never looked at. Articles that training has used are left out.
    """
    scored = score_held_out(kb, trained, settings)
    return _report(kb, trained.model.name, scored, n_samples)


def evaluate_in_folds(
    kb: KnowledgeBase,
    trained: TrainedModel,
    n_folds: int,
    *,
    settings: LinkerSettings = LinkerSettings(),
    n_samples: int = 1000,
    on_fold: Callable[[int], None] = lambda n_done: None,
) -> HeldOutReport:
    """Judge the settings of a model on every held-out article.

    The articles are divided into folds, and each is linked by a model that was trained anew on the
    others: the intervals rest on all of them, not on the part that one model has not seen.
    """
    n_documents = kb.manifest.counts["held-out articles"]
    if not 2 <= n_folds <= n_documents:
        raise SettingsError(
            f"{n_documents} held-out articles cannot be divided into {n_folds} folds; give 2 or "
            "more, and no more than articles."
        )
    from stamo.models.train import train_again  # with torch

    order = np.random.default_rng(0).permutation(n_documents)
    parts = []
    for fold in range(n_folds):
        parts.append(score_held_out(kb, train_again(kb, trained, order[fold::n_folds]), settings))
        on_fold(fold + 1)
    return _report(kb, trained.model.name, ScoredMentions.joined(parts), n_samples)


def _report(kb: KnowledgeBase, name: str, scored: ScoredMentions, n_samples: int) -> HeldOutReport:
    ambiguous = (scored.n_candidates > 1) & scored.found
    if not ambiguous.any():
        raise _nothing_to_measure(kb)
    hard = ambiguous & (scored.best_prior < HARD_PRIOR)
    make = _RowMaker(scored.documents, ambiguous, hard, n_samples)
    right = scored.right
    ablated = [key for key in right if key.startswith("without ")]
    known = scored.n_candidates > 0
    return HeldOutReport(
        model=name,
        n_documents=len(np.unique(scored.documents)),
        n_mentions=len(scored.found),
        n_ambiguous=int(ambiguous.sum()),
        n_hard=int(hard.sum()),
        candidate_recall=make.share(scored.found),
        rows=tuple(make(key, right[key], right["prior alone"]) for key in ("prior alone", name)),
        ablations=tuple(make(key, right[key], right[name]) for key in ablated),
        confidence=(
            _confidence("ambiguous mentions", scored, right[name], ambiguous),
            _confidence("all mentions with a candidate", scored, right[name], known),
        ),
    )


def score_held_out(
    kb: KnowledgeBase, trained: TrainedModel, settings: LinkerSettings
) -> ScoredMentions:
    """Score the mentions of the held-out articles that training has not used."""
    mentions = held_out_mentions(kb, trained, settings)
    if not len(mentions):
        raise _nothing_to_measure(kb)
    return score_all(trained, mentions, kb)


def _nothing_to_measure(kb: KnowledgeBase) -> SettingsError:
    return SettingsError(
        f"{kb.name} has no held-out article with an ambiguous mention; build it with "
        "--held-out 0.1 and from more text."
    )


def held_out_mentions(
    kb: KnowledgeBase, trained: TrainedModel, settings: LinkerSettings
) -> EncodedMentions:
    """Encode the mentions of the held-out articles that training has not used."""
    corpus = flatten_articles(iterate_articles(kb, held_out=True), Lexicon.of(kb))
    entities = most_frequent_entities(corpus, kb)
    rows = np.arange(corpus.n_mentions)
    unseen = trained.report.get("test_documents")
    if unseen is not None:
        rows = rows[np.isin(corpus.documents, np.asarray(unseen, dtype=np.int64))]
    rows = rows[corpus.entities[rows] >= 0]
    sizes = replace(trained.encoding, n_candidates=MAX_CANDIDATES)
    return encode(corpus, kb, sizes, rows=rows, context_entities=entities)


def score_all(
    trained: TrainedModel, mentions: EncodedMentions, kb: KnowledgeBase
) -> ScoredMentions:
    """Score all mentions by prior, by the model, and by the model without each of its scores."""
    model = trained.model
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
    return ScoredMentions(
        right,
        confidence,
        gold >= 0,
        mentions.documents,
        mentions.mask.sum(axis=1),
        mentions.known["prior"].max(axis=1, initial=0.0),
    )


@dataclass(frozen=True)
class _RowMaker:
    documents: Int32
    ambiguous: Bools
    hard: Bools
    n_samples: int

    def __call__(self, name: str, right: Bools, base: Bools) -> AccuracyRow:
        parts = (self.ambiguous, self.hard)
        shares = (self._bootstrap(ratio, part, right) for part in parts)
        gains = (self._bootstrap(difference, part, right, base) for part in parts)
        return AccuracyRow(name, *shares, *gains)

    def share(self, hit: Bools) -> Interval:
        """Return the share of all mentions that are hit."""
        return self._bootstrap(ratio, np.ones(len(hit), dtype=np.bool_), hit)

    def _bootstrap(self, statistic: Statistic, chosen: Bools, *values: Bools) -> Interval:
        ones = np.ones(int(chosen.sum()))
        columns = by_document(self.documents[chosen], *(value[chosen] for value in values), ones)
        return bootstrap(columns, statistic, np.random.default_rng(0), n_samples=self.n_samples)


def _confidence(name: str, scored: ScoredMentions, right: Bools, chosen: Bools) -> Confidence:
    values, hits = scored.confidence[chosen], right[chosen]
    return Confidence(
        name,
        int(chosen.sum()),
        expected_calibration_error(values, hits),
        tuple(reliability(values, hits)),
    )
