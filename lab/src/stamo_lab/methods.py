"""Every method of the comparison: from labels and a pile to scores of the test mentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from stamo.errors import SuiteError
from stamo.evaluation.intervals import Outcome
from stamo.features.base import FeatureParams, estimate
from stamo.features.pile import Pile, TextEncoder
from stamo.features.prior import Prior
from stamo.learning.correction import EvidenceArgs, fit_correction, with_evidence
from stamo.learning.loop import Reading, Slot, Task, self_train
from stamo.models.base import LinkingModel, Scorer
from stamo.models.evidence import BIAS, CorrectedScorer, margins, mention_views
from stamo.models.store import TrainedModel
from stamo.models.tables import Tables
from stamo.system.files import Bools, Float32, Float64, Int32
from stamo_lab.baselines import keyphrase_scores, rarity
from stamo_lab.bench.usage import timed
from stamo_lab.published import FEATURE_QUIRKS, QUIRKS, READINGS
from stamo_lab.suites.cells import Method
from stamo_lab.suites.encode import LoadedProblem, SuiteData
from stamo_lab.suites.store import SetName
from stamo_lab.suites.texts import Reader
from stamo_lab.suites.training import LEARNED_FEATURES, Absent, leave_out_feature
from stamo_lab.tables import INTER_ROWS

Scores = Float32


@dataclass(frozen=True)
class Trial:
    """One problem with a draw of labels: what every method gets."""

    data: SuiteData
    loaded: LoadedProblem
    labelled: Bools
    trained: TrainedModel
    tables: Tables
    ablated: Mapping[str, TrainedModel] = field(default_factory=dict)
    """φ trained without each feature."""
    n_slots: int = 100
    """T at most."""
    reader: Reader | None = None
    """BERT, fine-tuned, where it is asked for."""
    encoder: TextEncoder | None = None
    """Reads the text around mentions for the methods that want it."""
    watch: tuple[int, ...] = ()
    """Slots after which the test mentions are linked, for the figures."""

    def outcomes(self, scores: Mapping[SetName, Scores]) -> dict[SetName, dict[str, Any]]:
        """Judge scores of the test mentions; return plain values to store."""
        tests = self.loaded.tests
        return {name: vars(Outcome.of(own, tests[name].gold)) for name, own in scores.items()}

    def task(self, *, all_labels: bool = False) -> Task:
        """Return what learning works on, with the labels of L or of all of W."""
        learning, model = self.loaded.learning, self.trained.model
        labelled = self.labelled | all_labels
        labels = (learning.is_emerging & labelled)[:, None].astype(np.float32)
        return Task(
            learning.pile,
            labels,
            labelled,
            model,
            self.tables,
            self.data.kb,
            self.trained.calibration.temperature,
        )


@dataclass(frozen=True)
class Answer:
    """What a method made of a trial."""

    scores: Mapping[SetName, Scores]  # (M, C + 1), the emerging entity last
    n_slots: int = 0
    slot_seconds: float = 0.0
    curve: Mapping[str, Mapping[SetName, Any]] = field(default_factory=dict)
    """What the slots that were watched reached."""
    pile_helped: bool | None = None


class _Judge:
    """Scores the test mentions of a trial under any θ(e*)."""

    def __init__(self, trial: Trial, model: LinkingModel) -> None:
        self._trial = trial
        self._plain = {
            n: model.prepare(t.pile, trial.tables) for n, t in trial.loaded.tests.items()
        }

    def scores(self, theta: FeatureParams) -> dict[SetName, Scores]:
        with torch.no_grad():
            return {name: self._scorer(name, theta)(theta).numpy() for name in self._plain}

    def _scorer(self, name: SetName, theta: FeatureParams) -> Scorer | CorrectedScorer:
        if BIAS not in theta.groups:
            return self._plain[name]
        views = mention_views(self._trial.loaded.tests[name].pile, self._trial.data.kb)
        temperature = self._trial.trained.calibration.temperature
        return CorrectedScorer(self._plain[name], views, temperature, 1)


def _read(reading: Reading, trial: Trial) -> Answer:
    """Learn the way a reading says and score the tests."""
    task = reading.task(trial.task())
    judge = _Judge(trial, task.model)
    seconds, curve = [], {}

    def on_slot(slot: Slot) -> None:
        seconds.append(slot.seconds)
        if slot.number in trial.watch:
            curve[str(slot.number)] = trial.outcomes(judge.scores(slot.theta))

    learned = self_train(task, reading.args.at_most(trial.n_slots), on_slot=on_slot)
    slot_seconds = float(np.mean(seconds)) if seconds else 0.0
    return Answer(
        judge.scores(learned.theta), len(seconds), slot_seconds, curve, learned.pile_helped
    )


def _with_encoder(reading: Reading, trial: Trial) -> Answer:
    """Learn the way a reading says, with the sentence encoder's view of the text."""
    if trial.encoder is None:
        raise SuiteError(
            "The method reads text with a sentence encoder, and there is none; install "
            "stamo[encoder] or name a folder with --encoder."
        )
    loaded = trial.loaded.changed(lambda pile: replace(pile, encoder=trial.encoder, extra={}))
    return _read(reading, replace(trial, loaded=loaded))


def _estimation_on_all(trial: Trial) -> Answer:
    task = trial.task(all_labels=True)
    theta = estimate(task.labelled_sample, task.model.features, task.kb)
    return Answer(_Judge(trial, trial.trained.model).scores(theta))


def _supervised(trial: Trial, n_folds: int = 10) -> Answer:
    """Fit features and evidence on all labels of W: the headroom of twenty."""
    task = trial.task(all_labels=True)
    pile, model, kb, sample = task.pile, task.model, task.kb, task.labelled_sample
    theta = estimate(sample, task.model.features, kb)
    scorer, margin = model.prepare(pile, task.tables), np.zeros(len(pile))
    order = np.random.default_rng(0).permutation(pile.n_documents)[pile.mentions.documents]
    for fold in range(n_folds):
        rows = np.flatnonzero(order % n_folds == fold)
        without = estimate(sample.without(order % n_folds == fold), task.model.features, kb)
        if len(rows):
            with torch.no_grad():
                margin[rows] = margins(scorer.take(rows)(without), 1).numpy()[:, 0]
    _, vote, size = pile.votes
    fit = fit_correction(
        mention_views(pile, kb),
        np.arange(len(pile)),
        margin / trial.trained.calibration.temperature,
        task.labels[:, 0] > 0.5,
        1.0 / size[vote],
        EvidenceArgs(),
    )
    return Answer(_Judge(trial, model).scores(with_evidence(theta, [fit])))


def _true_prior(trial: Trial) -> Answer:
    """Link by the prior alone, counted on all labels of W."""
    task, prior = trial.task(all_labels=True), Prior()
    theta = prior.estimate(task.labelled_sample, task.kb)
    return Answer({n: prior.lookup(theta, t.pile).numpy() for n, t in trial.loaded.tests.items()})


def _all_emerging(trial: Trial) -> Answer:
    scores: dict[SetName, Scores] = {}
    for name, test in trial.loaded.tests.items():
        mentions = test.pile.mentions
        scores[name] = np.zeros((len(mentions), mentions.candidates.shape[1] + 1), np.float32)
        scores[name][:, -1] = 1.0
    return Answer(scores)


def _keyphrase(trial: Trial) -> Answer:
    data, problem = trial.data, trial.loaded.problem
    masked = data.masked_words(problem)
    book, weight, scores = data.phrasebook, rarity(data.kb), dict[SetName, Scores]()
    for name, test in trial.loaded.tests.items():
        corpus, rows = data.corpus(name), problem.rows[name]
        flat = corpus.flat
        numbers, place = np.unique(flat.documents[rows], return_inverse=True)
        words = [flat.words[flat.word_offsets[d] : flat.word_offsets[d + 1]] for d in numbers]
        words = [np.where(np.isin(w, masked), -1, w) for w in words]
        columns = test.pile.mentions.candidates
        entities = [problem.group[0], *np.unique(columns[columns >= 0]).tolist()]
        phrases = {entity: book.phrases(entity, masked) for entity in entities}
        own = [book.phrase(corpus.titles[d], masked) for d in numbers.tolist()]
        by_entity = keyphrase_scores(words, phrases, weight, own)
        table = np.stack([by_entity[e][place] for e in entities], axis=1)  # (M, entities)
        index = {entity: i for i, entity in enumerate(entities)}
        scores[name] = _gather(table, columns, index)
    return Answer(scores)


def _bert(trial: Trial) -> Answer:
    """Link by a cross-encoder; the emerging entity is described by its labelled contexts."""
    if trial.reader is None:
        raise SuiteError("BERT was not fine-tuned for this run; start it with --bert.")
    (encoder, texts), problem = trial.reader, trial.loaded.problem
    masked = trial.data.masked_in_text(problem)
    emerging = texts.from_labels(trial.loaded, trial.labelled, masked)
    descriptions = [*texts.descriptions(problem, masked), emerging]
    scores: dict[SetName, Scores] = {}
    for name in trial.loaded.tests:
        contexts = texts.contexts(name, problem.rows[name], masked)
        scores[name] = encoder.link(contexts, descriptions)
    return Answer(scores)


def _gather(table: Float64, columns: Int32, index: Mapping[int, int]) -> Scores:
    """Arrange scores by entity as columns of candidates, the emerging entity last."""
    known = [e for e in index if e >= 0]
    place = np.full(max(int(columns.max(initial=0)), *known) + 2, -1)
    place[known] = [index[e] for e in known]
    chosen = np.take_along_axis(table, np.maximum(place[columns], 0), axis=1)
    chosen[columns < 0] = -1.0
    return np.concatenate([chosen, table[:, :1]], axis=1).astype(np.float32)


def _without(feature: str, reading: Reading, trial: Trial) -> Answer:
    """Learn without one feature, by a φ that was trained without it."""
    if feature not in trial.ablated:
        raise SuiteError(f"No model was trained without {feature}; it cannot be left out.")
    own = reading.features[feature]
    features = {**reading.features, feature: Absent(own, feature)}
    reading = replace(reading, features=features, args=reading.args.without(feature))

    def bare(pile: Pile) -> Pile:
        mentions, _ = leave_out_feature(pile.mentions, trial.tables, feature)
        return replace(pile, mentions=mentions, extra={})

    _, tables = leave_out_feature(trial.loaded.learning.pile.mentions, trial.tables, feature)
    loaded, trained = trial.loaded.changed(bare), trial.ablated[feature]
    return _read(reading, replace(trial, loaded=loaded, trained=trained, tables=tables))


_SLOW = {"self-training+intra", "stamo", "paper", "published", "bert"}
_LINED = ("estimation+evidence", "default")
"""Labels alone and labels with the pile: their line is at even odds, or where F1 is best."""


def _method(name: str, answer: Callable[[Trial], Answer], **kind: bool) -> Method:
    return Method(name, answer, is_slow=name.partition(" with")[0] in _SLOW, **kind)


def _methods() -> list[Method]:
    without = {"uses_model": False}
    fixed = {"uses_labels": False}
    return [
        _method("label everything", _all_emerging, **without, **fixed),
        _method("true prior", _true_prior, **without, **fixed),
        _method("keyphrase", _keyphrase, **without, **fixed),
        _method("bert", _bert, **without, in_all=False),
        _method("estimation(all)", _estimation_on_all, **fixed),
        _method("supervised", _supervised, **fixed),
        *(_method(n, partial(_read, r)) for n, r in READINGS.items() if "without" not in n),
        *(_method(f"{n}+f1", partial(_read, _lines(n)[1][1])) for n in _LINED),
        *(
            _method(f"{name}+encoder{line}", partial(_with_encoder, r), reads=True, in_all=False)
            for name in _LINED
            for line, r in _lines(name)
        ),
        *(_method(name, partial(_read, READINGS[name]), ablates=True) for name in INTER_ROWS[1:]),
        *(
            _method(f"{name} without {f}", partial(_without, f, READINGS[name]), ablates=True)
            for name in ("stamo", "default")
            for f in LEARNED_FEATURES
        ),
        *(
            _method(
                f"{name} with {quirk}",
                partial(_read, QUIRKS[quirk](READINGS[name])),
                ablates=True,
                in_all=False,
            )
            for name, quirks in (("estimation", FEATURE_QUIRKS), ("stamo", tuple(QUIRKS)))
            for quirk in quirks
        ),
    ]


def _lines(name: str) -> list[tuple[str, Reading]]:
    return [("", READINGS[name]), ("+f1", READINGS[name].with_decision("f1"))]


METHODS: Mapping[str, Method] = {method.name: method for method in _methods()}
"""Every method by name; `all` leaves out what needs an extra, and the quirks one by one."""


def run_method(method: Method, trial: Trial) -> dict[str, Any]:
    """Run one method on one trial; return plain values to store."""
    answer, usage = timed(lambda: method.answer(trial))
    return {
        "outcomes": trial.outcomes(answer.scores),
        "seconds": round(usage.seconds, 4),
        "n_slots": answer.n_slots,
        "slot_seconds": round(answer.slot_seconds, 5),
        "pile_helped": answer.pile_helped,
        "curve": answer.curve,
    }
