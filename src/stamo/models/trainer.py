"""From a knowledge base to a trained, calibrated linking model (Sec. 2.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import torch
from numpy.typing import NDArray

from stamo.errors import LearningError
from stamo.features.articles import flatten_held_out, most_frequent_entities
from stamo.features.base import encode_features
from stamo.features.encoding import EncodedMentions, EncodingSettings, encode
from stamo.kb.base import KnowledgeBase
from stamo.models.base import LinkingModel
from stamo.models.calibration import Calibration, fit_calibration
from stamo.models.kinds import make_model
from stamo.models.store import TrainedModel
from stamo.models.tables import Tables, WordKind, in_memory, model_tables
from stamo.models.training import (
    Epoch,
    TrainingArgs,
    predict,
    score_mentions,
    split_by_document,
    train,
)
from stamo.system.arrays import Bools

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
