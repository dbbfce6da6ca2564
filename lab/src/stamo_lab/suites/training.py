"""Train the linking models of a suite, kept beside its results: several at a time, each once.

Those of a conflated suite are trained on groups that share nothing with its problems: its names
are as ambiguous as can be, and a model trained on natural names would trust the prior far too much
there (measured: .675 instead of .77 F1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from stamo.errors import SuiteError
from stamo.features.base import Array, Feature, Rows, Theta
from stamo.features.embedding import Tables
from stamo.features.mentions import UNKNOWN, EncodedMentions, EncodingSettings
from stamo.features.pile import Pile, Sample
from stamo.kb.base import KnowledgeBase
from stamo.models.base import Model
from stamo.models.store import TrainedModel, make_model
from stamo.models.train import TrainingArgs, calibrate, encode_held_out, train
from stamo.system.files import Float32
from stamo.system.processes import Workers
from stamo_lab.bert import fine_tune, load_cross_encoder
from stamo_lab.suites.cells import Place
from stamo_lab.suites.encode import SuiteData, encode_problem
from stamo_lab.suites.store import PHI_SHARE, Problem, Suite, are_drawn, open_suite
from stamo_lab.suites.texts import Texts

if TYPE_CHECKING:
    from stamo_lab.suites.run import RunSettings


LEARNED_FEATURES = ("prior", "relatedness", "embedding")


def leave_out_feature(
    mentions: EncodedMentions, tables: Tables, feature: str | None
) -> tuple[EncodedMentions, Tables]:
    """Set one feature of the known candidates to zero everywhere (Table 5)."""
    if feature is None:
        return mentions, tables
    if feature == "embedding":
        nothing = np.broadcast_to(np.zeros((), dtype=np.float32), tables.entities.shape)
        return mentions, Tables(tables.words, nothing)
    known = {**mentions.known, feature: np.zeros_like(mentions.known[feature])}
    return replace(mentions, known=known), tables


class Absent(Feature):
    """A feature that is zero for every candidate and stays so."""

    def __init__(self, feature: Feature) -> None:
        self.feature, self.name = feature, feature.name

    def rows(self, pile: Pile) -> Rows:
        """Return the rows of the feature."""
        return pile.rows(self.feature)

    def known(self, mentions: EncodedMentions, kb: KnowledgeBase) -> Float32 | None:
        """Return zeros."""
        values = self.feature.known(mentions, kb)
        return None if values is None else np.zeros_like(values)

    def estimate(self, sample: Sample) -> Float32 | None:
        """Return zeros."""
        group = self.feature.estimate(sample)
        return None if group is None else np.zeros_like(group)

    def values(self, theta: Theta, pile: Pile) -> Array:
        """Return zeros, whatever θ(e*) is."""
        return self.feature.values({**theta, self.name: theta[self.name] * 0}, pile)


PHI_ARGS = TrainingArgs(n_pairs=12_000, n_epochs=12, learning_rate=3e-3)
"""How φ of a suite is trained."""
MENTIONS_OF_A_GROUP = 60
"""Mentions of one training group that are used: many groups teach more than many mentions."""


def train_suite_model(
    data: SuiteData,
    name: str,
    *,
    args: TrainingArgs = PHI_ARGS,
    extra: Sequence[str] = (),
    without: str | None = None,
) -> TrainedModel:
    """Train the linking model of a suite on names like its own that share nothing with them.

    Args:
        data: The suite.
        name: deeped or yamada.
        args: How to train.
        extra: Names of features that the model has besides its own.
        without: A feature that is zero for every candidate.
    """
    kb = data.kb
    model = make_model(name, kb.dimensions, extra, seed=args.seed)
    if data.suite.kind == "conflated":  # every entity of a training group is a known candidate
        groups = (p for p in data.suite.problems if p.split == "training")
        known = (_with_dummy(group, MENTIONS_OF_A_GROUP) for group in groups)
        encoded = (encode_problem(data, p, "W", features=model.features) for p in known)
        mentions = concatenate([one.pile.mentions for one in encoded])
    else:
        mentions = _encode_names(data, model, args)
    mentions, tables = leave_out_feature(mentions, data.tables, without)
    trained = train(model, mentions, tables, args)
    return TrainedModel(
        trained,
        dimensions=kb.dimensions,
        kb_fingerprint=kb.fingerprint,
        calibration=calibrate(trained, mentions, tables, args),
        report={"mentions": len(mentions)},
    )


def _encode_names(data: SuiteData, model: Model, args: TrainingArgs) -> EncodedMentions:
    """Encode natural names of held-out articles, without the emerging entities.

    Neither their aliases nor any mention that could mean one of them is trained on, and the
    articles are others than those of Test-Wiki.
    """
    encoding = EncodingSettings(n_candidates=args.n_candidates)
    mentions, _ = encode_held_out(data.kb, model, encoding, args.seed)
    batches = data.kb.articles(held_out=True, columns=["title"])
    titles = (title for batch in batches for title in batch["title"].to_pylist())
    for_phi = are_drawn(("phi " + title for title in titles), PHI_SHARE)
    emerging = np.array([problem.group[0] for problem in data.suite.problems], dtype=np.int32)
    keep = for_phi[mentions.documents] & ~np.isin(mentions.candidates, emerging).any(axis=1)
    return mentions.take(np.flatnonzero(keep))


def _with_dummy(problem: Problem, n: int) -> Problem:
    """Put the emerging entity among the rivals, so that all of the group are known candidates."""
    rows = {**problem.rows, "W": problem.rows["W"][:n]}
    gold = {**problem.gold, "W": problem.gold["W"][:n] + 1}
    return replace(
        problem,
        group=(UNKNOWN, *problem.group),
        rows=rows,
        gold=gold,
    )


def concatenate(parts: Sequence[EncodedMentions]) -> EncodedMentions:
    """Join mentions of different documents and widths; documents get new numbers."""
    width = max(part.candidates.shape[1] for part in parts)
    first_document = np.cumsum([0, *(int(p.documents.max(initial=-1)) + 1 for p in parts)])
    first_surface = np.cumsum([0, *(len(p.surface_table) for p in parts)])

    def pad(values: NDArray[Any], fill: float) -> NDArray[Any]:
        missing = [(0, 0)] * values.ndim
        missing[1] = (0, width - values.shape[1])
        return np.pad(values, missing, constant_values=fill)

    pairs = list(zip(parts, first_document.tolist(), first_surface.tolist(), strict=False))
    return EncodedMentions(
        documents=np.concatenate([p.documents + d for p, d, _ in pairs]).astype(np.int32),
        surfaces=np.concatenate([p.surfaces + s for p, _, s in pairs]).astype(np.int32),
        gold=np.concatenate([p.gold for p in parts]),
        words=np.concatenate([p.words for p in parts]),
        context=np.concatenate([p.context for p in parts]),
        candidates=np.concatenate([pad(p.candidates, UNKNOWN) for p in parts]),
        known={
            name: np.concatenate([pad(p.known[name], 0.0) for p in parts])
            for name in parts[0].known
        },
        surface_table=tuple(s for p in parts for s in p.surface_table),
    )


BERT = "bert/model.safetensors"
OnModel = Callable[[str], None]


def train_models(
    suite: Suite,
    kb: KnowledgeBase,
    out: Path,
    settings: RunSettings,
    on_model: OnModel,
    n_workers: int | None,
) -> None:
    """Train the models that lack beside the results, several at a time."""
    if "bert" in settings.methods and suite.kind != "conflated":
        raise SuiteError("BERT is fine-tuned on the groups of conflated suites; use one.")
    wanted: dict[str, str | None] = dict.fromkeys(settings.models)
    if "deeped" in settings.models:
        wanted |= {
            f"deeped-without-{feature}": feature
            for feature in LEARNED_FEATURES
            if any(name.endswith(f" without {feature}") for name in settings.methods)
        }
    missing = [stem for stem in wanted if not (out / f"{stem}.safetensors").is_file()]
    if missing:
        on_model(", ".join(missing))
        place = Place(suite.path, kb.path, out)
        with Workers(min(n_workers or os.cpu_count() or 1, len(missing))) as workers:
            list(workers.map(partial(_train_model, place), [(m, wanted[m]) for m in missing]))
    if "bert" in settings.methods and not (out / BERT).is_file():
        on_model("bert")
        texts = Texts(SuiteData.load(suite, kb))
        examples = list(texts.examples(np.random.default_rng(settings.bert.seed)))
        fine_tune(load_cross_encoder(settings.bert), examples).save(out / BERT)


def _train_model(place: Place, wanted: tuple[str, str | None]) -> None:
    """Train one model and save it; runs in worker processes."""
    torch.set_num_threads(1)
    stem, without = wanted
    kb = KnowledgeBase.open(place.kb_path)
    data = SuiteData.load(open_suite(place.suite_path, kb), kb)
    trained = train_suite_model(data, stem.split("-")[0], without=without)
    trained.save(place.out / f"{stem}.safetensors")
