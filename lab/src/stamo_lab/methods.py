"""Every method of the comparison: from labels and a pile to scores of the test mentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from stamo.errors import SuiteError
from stamo.features.base import Theta, estimate
from stamo.features.pile import Pile, TextEncoder
from stamo.features.prior import Prior
from stamo.learning.algorithm1 import Slot, StamoArgs
from stamo.learning.default import DefaultArgs, fit_correction
from stamo.learning.learn import Method as LearningMethod
from stamo.models.base import MASKED, Frozen, Model
from stamo.models.correction import BIAS, log_odds, margins
from stamo.models.store import TrainedModel
from stamo.system.files import Bools, Float32, Float64, Int32
from stamo_lab.baselines import keyphrase_scores, rarity
from stamo_lab.bench.usage import timed
from stamo_lab.metrics import Outcome
from stamo_lab.published import FEATURE_QUIRKS, QUIRKS
from stamo_lab.published import METHODS as LEARNING
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

    def pile(self, *, all_labels: bool = False) -> Pile:
        """Return W with the labels of L or all labels."""
        learning, labelled = self.loaded.learning, self.labelled | all_labels
        labels = (learning.is_emerging & labelled)[:, None].astype(np.float32)
        return replace(learning.pile, labels=labels, labelled=labelled)


@dataclass(frozen=True)
class Answer:
    """What a method made of a trial."""

    scores: Mapping[SetName, Scores]  # (M, C + 1), the emerging entity last
    n_slots: int = 0
    slot_seconds: float = 0.0
    curve: Mapping[str, Mapping[SetName, Any]] = field(default_factory=dict)
    """What the slots that were watched reached."""
    pile_helped: bool | None = None


def _judge(trial: Trial, model: Model, theta: Theta) -> dict[SetName, Scores]:
    """Score the test mentions of a trial under θ(e*)."""
    temperature = trial.trained.calibration.temperature
    tests = trial.loaded.tests.items()
    return {n: corrected_scores(model.freeze(t.pile), theta, temperature) for n, t in tests}


def corrected_scores(frozen: Frozen, theta: Theta, temperature: float) -> Scores:
    """Return scores whose last column carries the correction: e* wins exactly where f > 0."""
    scores: Scores = frozen.scores(theta)
    if BIAS not in theta:
        return scores
    best = scores[:, :-1].max(axis=1, initial=MASKED)
    level = np.where(best > MASKED / 2, best, scores[:, -1])
    margin = margins(frozen, theta, temperature)
    odds, _ = log_odds(margin, frozen.pile, theta, temperature)
    raised = level + odds[:, 0].astype(np.float32) * np.float32(temperature)
    scores[:, -1] = np.where(scores[:, -1] > MASKED / 2, raised, scores[:, -1])
    return scores


def _learn(method: LearningMethod, trial: Trial) -> Answer:
    """Learn by a method and score the tests."""
    seconds, watched = [], dict[int, Theta]()

    def on_slot(slot: Slot) -> None:
        if slot.number:
            seconds.append(slot.seconds)
        if slot.number in trial.watch:
            watched[slot.number] = slot.theta

    if isinstance(method.args, StamoArgs):
        method = method.with_slots(min(method.args.n_slots, trial.n_slots))
    learned = method.learn(trial.pile(), trial.trained, on_slot)
    curve = {
        str(number): trial.outcomes(_judge(trial, learned.model, theta))
        for number, theta in watched.items()
    }
    slot_seconds = float(np.mean(seconds)) if seconds else 0.0
    scores = _judge(trial, learned.model, learned.theta)
    return Answer(scores, len(seconds), slot_seconds, curve, learned.pile_helped)


def _with_encoder(method: LearningMethod, trial: Trial) -> Answer:
    """Learn by a method, with the sentence encoder's view of the text."""
    if trial.encoder is None:
        raise SuiteError(
            "The method reads text with a sentence encoder, and there is none; install "
            "stamo[encoder] or name a folder with --encoder."
        )
    loaded = trial.loaded.changed(lambda pile: replace(pile, encoder=trial.encoder, kept={}))
    return _learn(method, replace(trial, loaded=loaded))


def _estimation_on_all(trial: Trial) -> Answer:
    model = trial.trained.model
    theta = estimate(trial.pile(all_labels=True).sample(), model.features)
    return Answer(_judge(trial, model, theta))


def _supervised(trial: Trial, n_folds: int = 10) -> Answer:
    """Fit features and correction on all labels of W: the headroom of twenty."""
    model, pile = trial.trained.model, trial.pile(all_labels=True)
    sample, frozen, margin = pile.sample(), model.freeze(pile), np.zeros(len(pile))
    temperature = trial.trained.calibration.temperature
    order = np.random.default_rng(0).permutation(pile.n_documents)[pile.mentions.documents]
    for fold in range(n_folds):
        rows = np.flatnonzero(order % n_folds == fold)
        others = np.where(order % n_folds == fold, np.float32(0), sample.counted)
        without = estimate(replace(sample, counted=others), model.features)
        if len(rows):
            margin[rows] = margins(frozen.take(rows), without, temperature)[:, 0]
    _, vote, size = pile.votes
    groups, _ = fit_correction(
        pile,
        np.arange(len(pile)),
        margin / temperature,
        pile.labels[:, 0] > 0.5,
        1.0 / size[vote],
        DefaultArgs(),
    )
    correction = {name: own[None].astype(np.float32) for name, own in groups.items()}
    theta = {**estimate(sample, model.features), **correction}
    return Answer(_judge(trial, model, theta))


def _true_prior(trial: Trial) -> Answer:
    """Link by the prior alone, counted on all labels of W."""
    prior = Prior()
    theta = {prior.name: prior.estimate(trial.pile(all_labels=True).sample())}
    return Answer({n: prior.values(theta, t.pile) for n, t in trial.loaded.tests.items()})


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


def _without(feature: str, method: LearningMethod, trial: Trial) -> Answer:
    """Learn without one feature, by a φ that was trained without it."""
    if feature not in trial.ablated:
        raise SuiteError(f"No model was trained without {feature}; it cannot be left out.")
    features = {**method.features, feature: Absent(method.features[feature])}
    args = method.args
    if isinstance(args, StamoArgs):
        rates = {**args.intra.learning_rate, feature: 0.0}
        args = replace(args, intra=replace(args.intra, learning_rate=rates))

    def bare(pile: Pile) -> Pile:
        mentions, tables = leave_out_feature(pile.mentions, pile.tables, feature)
        return replace(pile, mentions=mentions, tables=tables, kept={})

    trial = replace(trial, loaded=trial.loaded.changed(bare), trained=trial.ablated[feature])
    return _learn(replace(method, features=features, args=args), trial)


_SLOW = {"self-training+intra", "stamo", "paper", "published", "bert"}
_LINED = ("estimation+correction", "default")
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
        *(_method(n, partial(_learn, r)) for n, r in LEARNING.items() if "without" not in n),
        *(_method(f"{n}+f1", partial(_learn, _lines(n)[1][1])) for n in _LINED),
        *(
            _method(f"{name}+encoder{line}", partial(_with_encoder, r), reads=True, in_all=False)
            for name in _LINED
            for line, r in _lines(name)
        ),
        *(_method(name, partial(_learn, LEARNING[name]), ablates=True) for name in INTER_ROWS[1:]),
        *(
            _method(f"{name} without {f}", partial(_without, f, LEARNING[name]), ablates=True)
            for name in ("stamo", "default")
            for f in LEARNED_FEATURES
        ),
        *(
            _method(
                f"{name} with {quirk}",
                partial(_learn, QUIRKS[quirk](LEARNING[name])),
                ablates=True,
                in_all=False,
            )
            for name, quirks in (("estimation", FEATURE_QUIRKS), ("stamo", tuple(QUIRKS)))
            for quirk in quirks
        ),
    ]


def _lines(name: str) -> list[tuple[str, LearningMethod]]:
    return [("", LEARNING[name]), ("+f1", LEARNING[name].with_decision("f1"))]


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
