"""From a knowledge base to a trained, calibrated linking model (Sec. 2.3.3)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stamo.errors import LearningError, SettingsError
from stamo.features.base import encode_features
from stamo.features.mentions import (
    EncodedMentions,
    EncodingSettings,
    encode,
    flatten_held_out,
    most_frequent_entities,
)
from stamo.kb.base import KnowledgeBase
from stamo.models.base import LinkingModel, make_batch
from stamo.models.calibration import Calibration, fit_calibration
from stamo.models.kinds import make_model
from stamo.models.store import TrainedModel
from stamo.models.tables import Tables, WordKind, in_memory, model_tables
from stamo.system.files import Bools, Float32, Int32, Int64


@dataclass(frozen=True)
class TrainingArgs:
    """How φ is optimised."""

    n_pairs: int = 10_000
    """Mention-entity pairs in S_model (Sec. 2.3.3)."""
    n_candidates: int = 30
    """Candidates kept by prior while training (Training Details)."""
    margin: float = 0.01
    """μ of the max-margin objective (Eq. 12)."""
    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    batch_size: int = 128
    n_epochs: int = 12
    """At most; the rate falls linearly over them, and training stops when held-out accuracy no
    longer rises."""
    patience: int = 6
    """Epochs without a better held-out accuracy before training stops."""
    validation_share: float = 0.2
    """Share of the training documents kept for early stopping."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.n_pairs, self.n_candidates, self.batch_size, self.n_epochs) < 1:
            raise SettingsError("Training needs at least one pair, candidate, batch and epoch.")
        if not 0 < self.validation_share < 1:
            raise SettingsError(
                f"The validation share is {self.validation_share}; it lies between 0 and 1."
            )


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training did."""

    number: int
    loss: float
    accuracy: float
    best_accuracy: float


def max_margin_loss(scores: Tensor, gold: Tensor, margin: float) -> Tensor:
    """Return Σ_e [μ - g(e†; m) + g(e; m)]₊ of each mention (Eq. 12), (B,).

    The gold entity itself is left out of the sum, where it would only add the constant μ; padding
    scores so low that it adds nothing.
    """
    best = scores.gather(1, gold[:, None])
    return torch.relu(scores + (margin - best)).sum(dim=1) - margin


def max_margin_gradient(scores: Float32, gold: Int64, margin: float) -> Float32:
    """Return the derivative of the summed `max_margin_loss` in the scores, (B, C)."""
    rows = np.arange(len(gold))
    active = (scores > (scores[rows, gold] - np.float32(margin))[:, None]).astype(np.float32)
    active[rows, gold] -= active.sum(axis=1)
    return active


def train(
    model: LinkingModel,
    mentions: EncodedMentions,
    tables: Tables,
    args: TrainingArgs = TrainingArgs(),
    *,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> LinkingModel:
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
    torch.manual_seed(args.seed)
    model = copy.deepcopy(model)
    rng = np.random.default_rng(args.seed)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=args.learning_rate, weight_decay=args.weight_decay
    )
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, args.n_epochs)
    best, best_accuracy, since = copy.deepcopy(model.state_dict()), -1.0, 0
    for number in range(1, args.n_epochs + 1):
        loss = _run_epoch(model, mentions, gold, rng.permutation(fitting), tables, optimiser, args)
        falling.step()
        best_columns = predict(model, mentions.take(validation), tables)
        accuracy = float((best_columns == gold[validation]).mean())
        since = 0 if accuracy > best_accuracy else since + 1
        if not since:
            best, best_accuracy = copy.deepcopy(model.state_dict()), accuracy
        on_epoch(Epoch(number, loss, accuracy, best_accuracy))
        if since >= args.patience:
            break
    model.load_state_dict(best)
    return model.eval()


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


def _run_epoch(
    model: LinkingModel,
    mentions: EncodedMentions,
    gold: Int64,
    rows: Int64,
    tables: Tables,
    optimiser: torch.optim.Optimizer,
    args: TrainingArgs,
) -> float:
    model.train()
    total = 0.0
    for i in range(0, len(rows), args.batch_size):
        chosen = rows[i : i + args.batch_size]
        scores = model(make_batch(mentions.take(chosen), tables))
        loss = max_margin_loss(scores, torch.from_numpy(gold[chosen]), args.margin).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += float(loss.detach()) * len(chosen)
    return total / len(rows)


@torch.no_grad()
def score_mentions(
    model: LinkingModel, mentions: EncodedMentions, tables: Tables, block: int = 512
) -> list[Float32]:
    """Return g(e; m) block by block; each block is as wide as its widest mention."""
    model.eval()
    return [
        model(make_batch(mentions.take(slice(i, i + block)), tables)).numpy()
        for i in range(0, len(mentions), block)
    ]


def predict(model: LinkingModel, mentions: EncodedMentions, tables: Tables) -> Int64:
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
    model: LinkingModel,
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
    corpus = flatten_held_out(kb)
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
    mentions = encode_features(mentions, model.encoded_features, kb)
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
    words: WordKind = "weighted",
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
    torch.manual_seed(args.seed)
    model = make_model(name, kb.dimensions, extra)
    encoding = EncodingSettings(n_candidates=args.n_candidates)
    mentions, is_test = encode_held_out(
        kb, model, encoding, args.seed, test_documents=test_documents
    )
    training, test = (mentions.take(np.flatnonzero(part)) for part in (~is_test, is_test))
    tables = in_memory(model_tables(kb, words))
    trained = train(model, training, tables, args, on_epoch=on_epoch)
    unseen = np.unique(test.documents) if test_documents is None else np.sort(test_documents)
    gold = test.gold_column()
    best = predict(trained, test, tables)
    return TrainedModel(
        trained.requires_grad_(False),
        dimensions=kb.dimensions,
        kb_fingerprint=kb.fingerprint,
        encoding=EncodingSettings(),
        words=words,
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
        words=trained.words,
        test_documents=test_documents,
    )


def calibrate(
    model: LinkingModel, mentions: EncodedMentions, tables: Tables, args: TrainingArgs
) -> Calibration:
    """Fit the confidence of a model on the documents that training kept aside."""
    usable = np.flatnonzero((mentions.gold_column() >= 0) & (mentions.mask.sum(axis=1) > 1))
    _, aside = split_by_document(mentions.documents, usable, args)
    # All mentions of those documents, also those whose entity is no candidate.
    rows = np.flatnonzero(np.isin(mentions.documents, np.unique(mentions.documents[aside])))
    mentions = mentions.take(rows[:MOST_CALIBRATED])
    blocks = score_mentions(model, mentions, tables, block=max(len(mentions), 1))
    return fit_calibration(blocks[0], mentions.gold_column())
