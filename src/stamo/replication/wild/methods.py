"""Every method on real text: from labels and a pile to a probability of each judged mention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, logit

from stamo.errors import LearningError
from stamo.features.views import VIEWS
from stamo.kb.base import KnowledgeBase
from stamo.learning.learn import DEFAULT_READING
from stamo.learning.loop import Learned, Reading, Task, self_train
from stamo.learning.variants import READINGS
from stamo.models.evidence import BIAS, margins_under, mention_views, none_odds
from stamo.models.store import TrainedModel
from stamo.replication.baselines.minilm import about_probabilities, regression_probabilities
from stamo.replication.wild.draws import LabelDraw
from stamo.replication.wild.load import LoadedWild
from stamo.system.arrays import Bools, Float32, Float64
from stamo.workspace.learn import LearnSettings
from stamo.workspace.left_out import predict_left_out


@dataclass(frozen=True)
class WildTrial:
    """One problem with a draw of labels: what every method gets."""

    loaded: LoadedWild
    draw: LabelDraw
    kb: KnowledgeBase
    trained: TrainedModel
    n_slots: int = 100
    """T at most."""

    @cached_property
    def task(self) -> Task:
        """What learning works on."""
        return self.loaded.label(self.draw.labelled)

    def encode(self, texts: Sequence[str]) -> Float32:
        """Turn texts into vectors of unit length, (n, d)."""
        encoder = self.loaded.pile.encoder
        if encoder is None:
            raise LearningError(
                "The method reads text with a sentence encoder, and there is none; install "
                "stamo[encoder] or name a folder with --encoder."
            )
        return encoder.encode(texts)

    @property
    def labelled(self) -> Bools:
        """Return which judged mentions are labels, (n,)."""
        return np.isin(np.arange(len(self.loaded.gold)), self.draw.labelled)


@dataclass(frozen=True)
class WildAnswer:
    """What a method says of the judged mentions."""

    probability: Float64  # (n,)
    linked: Bools  # (n,)
    pile_helped: bool | None = None
    none: Bools | None = None
    """Which of them would be "none of these", if they are not the entity, (n,)."""
    left_out: tuple[int, int, int] | None = None
    """Of the labels, each predicted without itself: right links, links, and mentions of e*."""

    @classmethod
    def of(cls, probability: Float64, shift: float = 0.0) -> WildAnswer:
        """Link what is more likely than not, after adding a shift to the log odds."""
        with np.errstate(divide="ignore"):
            return cls(probability, logit(probability) + shift > 0)


@dataclass(frozen=True)
class WildMethod:
    """A row of a table."""

    name: str
    answer: Callable[[WildTrial], WildAnswer]
    uses_labels: bool = True
    """Whether it looks at labels at all."""
    needs_labels: bool = False
    """Whether it says nothing without any label."""
    in_all: bool = False
    """Whether the word `all` names it."""


def _read(reading: Reading, trial: WildTrial) -> WildAnswer:
    """Learn the way a reading says; the pile's own posterior answers."""
    learned = self_train(reading.task(trial.task), reading.args.at_most(trial.n_slots))
    rows = trial.loaded.rows
    if BIAS not in learned.theta.groups:
        return WildAnswer.of(_model_probability(learned, trial.task)[rows])
    answer = WildAnswer.of(learned.posterior[rows, 0].astype(np.float64), learned.shifts[0])
    views = mention_views(trial.task.pile, trial.kb)
    odds = none_odds(learned.theta, views, len(trial.task.pile))
    none = None if odds is None else odds[rows, 0] > 0
    return replace(answer, pile_helped=learned.pile_helped, none=none)


def _check(reading: Reading, trial: WildTrial) -> WildAnswer:
    """Learn, and cross-validate on the labels as `stamo learn` does for its verdict."""
    if not len(trial.draw.labelled):
        raise LearningError("Cross-validation needs labels; there are none.")
    task = reading.task(trial.task)
    learned = self_train(task, reading.args)
    found = predict_left_out(task, reading.args, LearnSettings().n_folds)
    labels, _, links = found.at(learned.used_slot, learned.pile_weight, learned.line[0])
    counts = (int((labels & links).sum()), int(links.sum()), int(labels.sum()))
    answer = WildAnswer.of(learned.posterior[trial.loaded.rows, 0].astype(np.float64))
    return replace(answer, left_out=counts)


def _model_probability(learned: Learned, task: Task) -> Float64:
    """Return what the calibrated model says of each mention, averaged over each vote, (M,)."""
    scorer = learned.model.prepare(task.pile, task.tables)
    odds = margins_under(scorer, learned.theta, task.temperature)[:, 0] / task.temperature
    _, vote, size = task.pile.votes
    return np.asarray(expit((np.bincount(vote, weights=odds) / size)[vote]))


def _minilm(trial: WildTrial) -> WildAnswer:
    """Classify the context as most people would."""
    if not len(trial.draw.labelled):
        raise LearningError("A regression needs labels; there are none.")
    vectors = trial.encode(trial.loaded.windows(0))
    return WildAnswer.of(regression_probabilities(vectors, trial.labelled, trial.loaded.gold))


def _about(trial: WildTrial) -> WildAnswer:
    """Compare the context with one line about the entity."""
    about = trial.encode([trial.loaded.problem.about])[0]
    return WildAnswer.of(about_probabilities(trial.encode(trial.loaded.windows(1)), about))


ABLATIONS = {
    f"default without {view.name}": replace(
        DEFAULT_READING, args=DEFAULT_READING.args.without_view(view.name)
    )
    for view in VIEWS
}
"""The default without each view of a mention."""
_IN_ALL = {"default", "estimation+evidence", "estimation+bias", "estimation", "self-training"}

WILD_METHODS: Mapping[str, WildMethod] = {
    method.name: method
    for method in (
        *(
            WildMethod(name, partial(_read, reading), in_all=name in _IN_ALL)
            for name, reading in READINGS.items()
        ),
        *(
            WildMethod(f"{name}+f1", partial(_read, READINGS[name].with_decision("f1")))
            for name in ("default", "estimation+evidence")
        ),
        *(WildMethod(name, partial(_read, reading)) for name, reading in ABLATIONS.items()),
        WildMethod("default+check", partial(_check, READINGS["default"]), needs_labels=True),
        WildMethod("minilm", _minilm, needs_labels=True, in_all=True),
        WildMethod("about", _about, uses_labels=False, in_all=True),
    )
}
"""Every method by name; `all` leaves out those with many slots, and the ablations."""
