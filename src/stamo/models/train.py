"""From a knowledge base to a trained, calibrated linking model (Sec. 2.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stamo.errors import LearningError, Ranged
from stamo.features.base import Array, Theta, encode_features, library
from stamo.features.embedding import Tables, model_tables
from stamo.features.mentions import (
    EncodedMentions,
    EncodingSettings,
    Lexicon,
    encode,
    flatten_articles,
    iterate_articles,
    most_frequent_entities,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Batch, Calibration, Model, log_odds_of, look_up
from stamo.models.store import TrainedModel, make_model
from stamo.system.files import Bools, Float32, Float64, Int32, Int64
from stamo.system.processes import one_thread

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Those of Adam."""
LAST_RATE = 0.02
"""The share of the learning rate that the steps fall to."""


@dataclass(frozen=True)
class TrainingArgs(Ranged):
    """How φ is optimised."""

    n_pairs: int = 10_000
    """Mention-entity pairs in S_model (Sec. 2.3.3)."""
    n_candidates: int = 30
    """Candidates kept by prior while training (Training Details)."""
    margin: float = 0.01
    """μ of the max-margin objective (Eq. 12)."""
    learning_rate: float = 2e-3
    batch_size: int = 128
    n_epochs: int = 12
    """At most; the rate falls linearly over them, and training stops when held-out accuracy no
    longer rises."""
    patience: int = 6
    """Epochs without a better held-out accuracy before training stops."""
    validation_share: float = 0.2
    """Share of the training documents kept for early stopping."""
    seed: int = 0

    ranges: ClassVar = {
        **dict.fromkeys(("n_pairs", "n_candidates", "batch_size", "n_epochs"), 1),
        "validation_share": (0.01, 0.99),
    }


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training did."""

    number: int
    loss: float
    accuracy: float
    best_accuracy: float


def max_margin_loss(scores: Array, gold: Int64, margin: float) -> Array:
    """Return Σ_e [μ - g(e†; m) + g(e; m)]₊ of each mention (Eq. 12), (B,).

    The gold entity itself is left out of the sum, where it would only add the constant μ; padding
    scores so low that it adds nothing.
    """
    xp, best = library(scores), scores[np.arange(len(gold)), gold][:, None]
    return xp.sum(xp.maximum(scores + (margin - best), np.float32(0)), 1) - margin


def train(
    model: Model,
    mentions: EncodedMentions,
    tables: Tables,
    args: TrainingArgs = TrainingArgs(),
    *,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Model:
    """Return a copy of the model trained on mentions whose gold entity is among their candidates.

    Some documents are kept aside; the epoch that links them best is the one returned.
    """
    gold = mentions.gold_column()
    ambiguous = mentions.mask.sum(axis=1) > 1
    usable = np.flatnonzero((gold >= 0) & ambiguous)
    if len(usable) < 2 * args.batch_size:
        raise LearningError(
            f"Only {len(usable)} ambiguous mentions with a known entity were found; training needs "
            f"at least {2 * args.batch_size}: build the knowledge base from more text."
        )
    fitting, validation = split_by_document(mentions.documents, usable, args)
    from autograd import value_and_grad  # here: who only links trains nothing

    def loss_of(phi: Theta, batch: Batch, target: Int64) -> Array:
        scores = model.with_phi(phi).scores(batch, dropout=rng)
        return library(scores).mean(max_margin_loss(scores, target, args.margin))

    step, rng = value_and_grad(loss_of), np.random.default_rng(args.seed)
    phi = dict(model.phi)
    first, second = ({name: np.zeros_like(v) for name, v in phi.items()} for _ in range(2))
    best, best_accuracy, since, n_steps = phi, -1.0, 0, 0
    for number in range(1, args.n_epochs + 1):
        rows, total = rng.permutation(fitting), 0.0
        rate = args.learning_rate * (1 - (1 - LAST_RATE) * (number - 1) / args.n_epochs)
        for i in range(0, len(rows), args.batch_size):
            chosen = rows[i : i + args.batch_size]
            batch = look_up(mentions.take(chosen), tables, model.reads_each_word)
            loss, gradients = step(phi, batch, gold[chosen])
            n_steps += 1
            for name, gradient in gradients.items():  # Adam
                first[name] = BETA1 * first[name] + (1 - BETA1) * gradient
                second[name] = BETA2 * second[name] + (1 - BETA2) * gradient**2
                mean = first[name] / (1 - BETA1**n_steps)
                spread = np.sqrt(second[name] / (1 - BETA2**n_steps))
                phi[name] = phi[name] - np.float32(rate) * mean / (spread + EPSILON)
            total += float(loss) * len(chosen)
        best_columns = predict(model.with_phi(phi), mentions.take(validation), tables)
        accuracy = float((best_columns == gold[validation]).mean())
        since = 0 if accuracy > best_accuracy else since + 1
        if not since:
            best, best_accuracy = dict(phi), accuracy
        on_epoch(Epoch(number, total / len(rows), accuracy, best_accuracy))
        if since >= args.patience:
            break
    return model.with_phi(best)


def split_by_document(documents: Int32, usable: Int64, args: TrainingArgs) -> tuple[Int64, Int64]:
    """Split the usable mentions by document into those to fit and those to validate on."""
    rng = np.random.default_rng(args.seed)
    order = rng.permutation(np.unique(documents[usable]))
    aside = order[: max(1, round(len(order) * args.validation_share))]
    is_aside = np.isin(documents[usable], aside)
    fitting = rng.permutation(usable[~is_aside])[: args.n_pairs]
    if not len(fitting):
        raise LearningError(
            "All usable mentions lie in one document; training needs several documents."
        )
    return fitting, usable[is_aside]


def score_mentions(
    model: Model, mentions: EncodedMentions, tables: Tables, block: int = 512
) -> list[Float32]:
    """Return g(e; m) block by block; each block is as wide as its widest mention."""
    parts = (mentions.take(slice(i, i + block)) for i in range(0, len(mentions), block))
    each_word = model.reads_each_word
    return [model.scores(look_up(part, tables, each_word)) for part in parts]


def predict(model: Model, mentions: EncodedMentions, tables: Tables) -> Int64:
    """Return the column of the best candidate of each mention, (M,)."""
    parts = [scores.argmax(axis=1) for scores in score_mentions(model, mentions, tables)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


TEST_SHARE = 0.4
"""Share of the held-out articles that training never sees, for `stamo evaluate`."""


MOST_CALIBRATED = 8192
"""Mentions that confidence is fitted on at most."""

IntArray = NDArray[np.integer]


def encode_held_out(
    kb: KnowledgeBase,
    model: Model,
    settings: EncodingSettings,
    seed: int = 0,
    *,
    test_documents: IntArray | None = None,
) -> tuple[EncodedMentions, Bools]:
    """Encode the held-out articles as linking will see them.

    The entity context comes from the first pass (the most frequent entity of each mention), not
    from the gold links: at linking time nobody gives those. `test_documents` are kept from
    training; by default they are drawn.

    Returns:
        The linked mentions, and which of them training must not see, (M,).
    """
    corpus = flatten_articles(iterate_articles(kb, held_out=True), Lexicon.of(kb))
    if not corpus.n_mentions:
        raise LearningError(
            f"The knowledge base {kb.name!r} has no held-out articles with links to train on; "
            "build a larger one with --held-out 0.1, or link without a model: `stamo link KB`."
        )
    n_candidates = (kb.candidate_table(corpus.surface_table, 2)[0] >= 0).sum(axis=1)
    is_ambiguous = n_candidates[corpus.surfaces] > 1
    rows = np.flatnonzero((corpus.entities >= 0) & is_ambiguous)
    context = most_frequent_entities(corpus, kb)
    mentions = encode(corpus, kb, settings, rows=rows, context_entities=context)
    mentions = encode_features(mentions, model.features, kb)
    if test_documents is None:
        order = np.random.default_rng(seed).permutation(corpus.n_documents)
        test_documents = order[: round(TEST_SHARE * corpus.n_documents)]
    return mentions, np.isin(mentions.documents, test_documents)


def train_linking_model(
    kb: KnowledgeBase,
    name: str,
    args: TrainingArgs = TrainingArgs(),
    *,
    extra: Sequence[str] = (),
    test_documents: IntArray | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> TrainedModel:
    """Train and calibrate a linking model on the held-out articles of a knowledge base.

    Articles among `test_documents` are not looked at; by default a part of all is drawn.
    """
    if not kb.dimensions:
        raise LearningError(
            f"The knowledge base {kb.name!r} has no vectors; build it again with vectors."
        )
    model = make_model(name, kb.dimensions, extra, seed=args.seed)
    encoding = EncodingSettings(n_candidates=args.n_candidates)
    mentions, is_test = encode_held_out(
        kb, model, encoding, args.seed, test_documents=test_documents
    )
    training, test = (mentions.take(np.flatnonzero(part)) for part in (~is_test, is_test))
    tables = model_tables(kb, "weighted")
    # As arrays: training looks all of them up again and again.
    tables = Tables(tables.words[:], np.asarray(tables.entities, dtype=np.float32))
    with one_thread():  # or the sums would depend on the machine
        trained = train(model, training, tables, args, on_epoch=on_epoch)
    unseen = np.unique(test.documents) if test_documents is None else np.sort(test_documents)
    gold = test.gold_column()
    best = predict(trained, test, tables)
    return TrainedModel(
        trained,
        dimensions=kb.dimensions,
        kb_fingerprint=kb.fingerprint,
        encoding=EncodingSettings(),
        words="weighted",
        calibration=calibrate(trained, training, tables, args),
        report={
            "training": asdict(args),
            "test_accuracy": round(float((best == gold).mean()), 4),
            "test_prior_accuracy": round(float((gold == 0).mean()), 4),
            "test_mentions": len(gold),
            "test_documents": unseen.tolist(),
        },
    )


def train_again(kb: KnowledgeBase, trained: TrainedModel, test_documents: IntArray) -> TrainedModel:
    """Train a model with the settings of another one, on all articles but some.

    Raises:
        LearningError: The model does not say how it was trained.
    """
    if "training" not in trained.report:
        raise LearningError(
            "The model does not say how it was trained, so it cannot be trained again; use one of "
            "`stamo train`."
        )
    return train_linking_model(
        kb,
        trained.model.name,
        TrainingArgs(**trained.report["training"]),
        extra=trained.model.extra,
        test_documents=test_documents,
    )


def calibrate(
    model: Model, mentions: EncodedMentions, tables: Tables, args: TrainingArgs
) -> Calibration:
    """Fit the confidence of a model on the documents that training kept aside."""
    usable = np.flatnonzero((mentions.gold_column() >= 0) & (mentions.mask.sum(axis=1) > 1))
    _, aside = split_by_document(mentions.documents, usable, args)
    # All mentions of those documents, also those whose entity is no candidate.
    rows = np.flatnonzero(np.isin(mentions.documents, np.unique(mentions.documents[aside])))
    mentions = mentions.take(rows[:MOST_CALIBRATED])
    blocks = score_mentions(model, mentions, tables, block=max(len(mentions), 1))
    return fit_calibration(blocks[0], mentions.gold_column())


def fit_calibration(scores: Float32, gold: Int64) -> Calibration:
    """Fit temperature and logistic curve on held-out mentions.

    Args:
        scores: g(e; m), padding at a very low value, shape (M, C).
        gold: Column of the gold entity, -1 where it is no candidate, shape (M,).
    """
    from scipy import optimize, special  # here: linking needs neither, and both load slowly

    inside = gold >= 0
    if inside.sum() < 10:
        return Calibration()
    spread = float(np.std(scores[scores > -1e8])) or 1.0

    def loss(log_temperature: float) -> float:
        scaled = scores[inside].astype(np.float64) / (spread * np.exp(log_temperature))
        logs = scaled - special.logsumexp(scaled, axis=1, keepdims=True)
        return -float(logs[np.arange(len(logs)), gold[inside]].mean())

    best = optimize.minimize_scalar(loss, bounds=(-8, 4), method="bounded")
    calibration = Calibration(temperature=spread * float(np.exp(best.x)))
    top = calibration.distribution(scores)
    right = top.argmax(axis=1) == gold
    slope, intercept = fit_logistic(log_odds_of(top.max(axis=1)), right)
    return Calibration(calibration.temperature, slope, intercept)


def fit_logistic(x: Float64, y: Bools) -> tuple[float, float]:
    """Fit P(y | x) = σ(a x + b), with a pull of one label towards a = 1 and b = 0."""
    from scipy import optimize

    def loss(parameters: Float64) -> float:
        a, b = parameters
        z = a * x + b
        fit = np.logaddexp(0, -z)[y].sum() + np.logaddexp(0, z)[~y].sum()
        return float(fit + ((a - 1.0) ** 2 + 0.1 * b**2))

    found = optimize.minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B")
    return float(found.x[0]), float(found.x[1])
