"""Train the linking models of a suite, kept beside its results: several at a time, each once."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from stamo.errors import ArtifactMismatchError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.replication.baselines.bert import BertArgs, fine_tune, load_cross_encoder, tuned_args
from stamo.replication.suites.ablation import LEARNED_FEATURES
from stamo.replication.suites.cells import Place
from stamo.replication.suites.descriptions import Texts
from stamo.replication.suites.load import SuiteData
from stamo.replication.suites.phi import train_suite_model
from stamo.replication.suites.store import Suite, open_suite
from stamo.system.processes import Workers

if TYPE_CHECKING:
    from stamo.replication.suites.run import RunSettings

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
    if "bert" in settings.methods and not _is_tuned(out / BERT, settings.bert):
        on_model("bert")
        texts = Texts(SuiteData.load(suite, kb))
        examples = list(texts.examples(np.random.default_rng(settings.bert.seed)))
        fine_tune(load_cross_encoder(settings.bert), examples).save(out / BERT)


def _is_tuned(path: Path, args: BertArgs) -> bool:
    """Return whether BERT is there; refuse one that was fine-tuned in another way."""
    if path.is_file() and tuned_args(path) != args:
        raise ArtifactMismatchError(
            f"{path} was fine-tuned with other settings; choose another directory or delete it."
        )
    return path.is_file()


def _train_model(place: Place, wanted: tuple[str, str | None]) -> None:
    """Train one model and save it; runs in worker processes."""
    torch.set_num_threads(1)
    stem, without = wanted
    kb = KnowledgeBase.open(place.kb_path)
    data = SuiteData.load(open_suite(place.suite_path, kb), kb)
    trained = train_suite_model(data, stem.split("-")[0], without=without)
    trained.save(place.out / f"{stem}.safetensors")
