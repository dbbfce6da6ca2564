"""The verdict on a pack: ship it or not, in one sentence, with its reasons.

A pure function of what learning found. The lines that it draws are few and stand here as constants;
all rates are of labels that were left out, so that none is judged by a run that saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from stamo.evaluation.intervals import Interval, wilson
from stamo.system.arrays import Bools
from stamo.workspace.wording import count_of

LEAST_PRECISION = 0.8
"""What the entity takes must be right this often."""
LEAST_SURE = 0.5
"""At the low end of its interval, precision must still be above this."""
LEAST_RECALL = 0.5
"""It must find this share of what is there; with a higher threshold, `LEAST_RAISED`."""
LEAST_RAISED = 0.3
FEW_LABELS = 10
FEW_POSITIVE = 3
"""With fewer labels, or fewer that are the entity, no rate says anything."""
MANY_LABELS = 20
"""With as many labels, what is bad stays bad."""
THRESHOLDS = (0.6, 0.7, 0.8, 0.9, 0.95)
N_RIVALS = 3


class Decision(StrEnum):
    """What to do with a pack; in this order from good to bad."""

    ship = "ship"
    raise_threshold = "ship with a higher threshold"
    label_more = "label more"
    do_not_ship = "do not ship"

    @property
    def exit_code(self) -> int:
        """What a strict command ends with: 0, 10, 11 or 12."""
        order = list(Decision)
        return 0 if self is Decision.ship else 9 + order.index(self)


@dataclass(frozen=True)
class Findings:
    """What learning found out about its pack."""

    entity: str
    n_emerging: int
    """Labels that are the entity."""
    n_other: int
    """Labels that are something else."""
    labels: tuple[bool, ...]
    """Whether each left-out label is the entity; one for each name in each document."""
    probabilities: tuple[float, ...]
    """Its confidence as `link` prints it, by a run that did not see it."""
    decisions: tuple[bool, ...]
    """Whether that run links it to the entity."""
    line: float
    """The confidence from which on the entity is linked."""
    n_mentions: int
    """Unlabelled candidate mentions of the pile."""
    n_taken: int
    """Those that link to the entity."""
    n_unsure: int
    """Those with a confidence between a fifth and four fifths."""
    taken_from: tuple[tuple[str, int], ...]
    """Known entities that would have had them, most first; "" for none."""
    alarm: str | None = None
    doubtful: tuple[str, ...] = ()
    """Labels that the others all but rule out, each as a line."""

    @property
    def n_labelled(self) -> int:
        """How many mentions carry a label."""
        return self.n_emerging + self.n_other

    @property
    def share(self) -> float:
        """Share of the unlabelled mentions that link to the entity: the one meaning of share."""
        return self.n_taken / max(self.n_mentions, 1)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Findings:
        """Read back what `to_json` gave."""
        lists = ("labels", "probabilities", "decisions", "doubtful")
        plain: dict[str, Any] = {
            name: tuple(x) if name in lists else x for name, x in value.items()
        }
        plain["taken_from"] = tuple((str(name), int(n)) for name, n in value["taken_from"])
        return cls(**plain)


@dataclass(frozen=True)
class Verdict:
    """What to do with a pack, and why."""

    decision: Decision
    sentence: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    """What must not be overlooked, whatever the decision."""
    precision: Interval | None
    """On left-out labels; None where nothing was linked to the entity."""
    recall: Interval | None
    """None where no left-out label is the entity."""
    threshold: float | None = None
    """What to give to `link --threshold`, where a higher one is needed."""

    @property
    def exit_code(self) -> int:
        """What a strict command ends with: a shipped pack with warnings is not simply shipped."""
        return self.decision.exit_code or (10 if self.warnings else 0)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for programs."""
        return asdict(self) | {"exit_code": self.exit_code}


def judge(found: Findings) -> Verdict:
    """Decide whether a pack is fit to be used."""
    labels = np.array(found.labels, dtype=bool)
    taken = np.array(found.decisions, dtype=bool)
    precision, recall = _rates(taken, labels)
    decision, sentence, threshold = _decide(found, precision, recall)
    return Verdict(
        decision=decision,
        sentence=sentence,
        reasons=tuple(_reasons(found, taken, labels, precision, recall)),
        warnings=tuple(_warnings(found)),
        precision=precision,
        recall=recall,
        threshold=threshold,
    )


def _rates(taken: Bools, labels: Bools) -> tuple[Interval | None, Interval | None]:
    hits, n_taken, n_true = (int(x.sum()) for x in (taken & labels, taken, labels))
    return (
        wilson(hits, n_taken) if n_taken else None,
        wilson(hits, n_true) if n_true else None,
    )


def _decide(
    found: Findings, precision: Interval | None, recall: Interval | None
) -> tuple[Decision, str, float | None]:
    early = _too_early(found)
    if early is not None:
        return early[0], early[1], None
    if precision is None or recall is None:
        text = "Label more before you ship it: it links none of the left-out labels to the entity."
        return Decision.label_more, text, None
    if precision.value >= LEAST_PRECISION and precision.low >= LEAST_SURE:
        if recall.value >= LEAST_RECALL:
            text = (
                f"Ship it: what it takes is right {precision.value:.0%} of the time on left-out "
                f"labels (hardly less than {precision.low:.0%}), and it finds {recall.value:.0%} "
                "of what is there."
            )
            return Decision.ship, text, None
        text = (
            f"Label more before you ship it: it misses {1 - recall.value:.0%} of what is there; "
            "label mentions just below the line."
        )
        return Decision.label_more, text, None
    raised = _raised(found)
    if raised is not None:
        threshold, higher = raised
        text = (
            f"Ship it with a higher threshold: link with --threshold {threshold:g}; what it takes "
            f"then is right {higher.value:.0%} of the time, at {found.line:.0%} only "
            f"{precision.value:.0%} of the time."
        )
        return Decision.raise_threshold, text, threshold
    if precision.high < LEAST_PRECISION and found.n_labelled >= MANY_LABELS:
        text = (
            f"Do not ship it: what it takes is right only {precision.value:.0%} of the time, and "
            "no threshold mends that; write a line about the entity, or choose more telling "
            "aliases."
        )
        return Decision.do_not_ship, text, None
    text = (
        "Label more before you ship it: so far it is right "
        f"{precision.value:.0%} of the time, which may be anything from {precision.low:.0%} to "
        f"{precision.high:.0%}; label those closest to the line."
    )
    return Decision.label_more, text, None


def _too_early(found: Findings) -> tuple[Decision, str] | None:
    """Return the verdict where rates would say nothing, or something worse has happened."""
    n = found.n_labelled
    if found.alarm is not None:
        return Decision.do_not_ship, f"Do not ship it: learning ran away. {found.alarm}"
    if n >= MANY_LABELS and not found.n_emerging:
        return Decision.do_not_ship, (
            f"Do not ship it: none of {n} labels is {found.entity}; collect documents that speak "
            "of it."
        )
    if n < FEW_LABELS:
        return Decision.label_more, (
            f"Label more before you ship it: {count_of(n, 'label')} cannot tell how good it is; "
            f"label about {MANY_LABELS}."
        )
    if found.n_emerging < FEW_POSITIVE:
        return Decision.label_more, (
            f"Label more before you ship it: only {found.n_emerging} of {n} labels "
            f"{_are(found.n_emerging)} {found.entity}; label mentions that "
            "probably mean it."
        )
    if not found.labels:
        return Decision.do_not_ship, (
            "Do not ship it yet: it was not checked on left-out labels; learn again with --folds 5."
        )
    if not found.n_other and n < MANY_LABELS:
        return Decision.label_more, (
            f"Label more before you ship it: all {n} labels are {found.entity}; label mentions "
            "that probably mean something else."
        )
    return None


def _raised(found: Findings) -> tuple[float, Interval] | None:
    """Return the lowest threshold above the line from which on precision suffices."""
    labels = np.array(found.labels, dtype=bool)
    linked = np.array(found.decisions, dtype=bool)
    p = np.array(found.probabilities)
    for threshold in THRESHOLDS:
        precision, recall = _rates(linked & (p >= threshold), labels)
        if threshold <= found.line or precision is None or recall is None:
            continue
        fits = precision.value >= LEAST_PRECISION and precision.low >= LEAST_SURE
        if fits and recall.value >= LEAST_RAISED:
            return threshold, precision
    return None


def _reasons(
    found: Findings,
    taken: Bools,
    labels: Bools,
    precision: Interval | None,
    recall: Interval | None,
) -> list[str]:
    lines = []
    hits = int((taken & labels).sum())
    if precision is not None:
        lines.append(
            f"Precision {precision:.2f}: of {count_of(int(taken.sum()), 'left-out label')} that "
            f"it takes, {hits} {_are(hits)} {found.entity}."
        )
    if recall is not None:
        lines.append(
            f"Recall {recall:.2f}: of {count_of(int(labels.sum()), 'left-out label')} that "
            f"{_are(int(labels.sum()))} {found.entity}, it finds {hits}."
        )
    lines.append(
        f"It takes {found.n_taken:,} of {count_of(found.n_mentions, 'unlabelled mention')} "
        f"({found.share:.0%}){_from(found.taken_from)}."
    )
    if found.n_unsure:
        lines.append(
            f"It is unsure of {count_of(found.n_unsure, 'mention')} (between 20% and 80%); "
            f"the line is at {found.line:.0%}."
        )
    return lines


def _warnings(found: Findings) -> list[str]:
    n, lines = found.n_labelled, []
    if found.alarm is not None:
        lines.append(f"Collapse: {found.alarm}")
    if n < FEW_LABELS:
        lines.append(f"Too few labels: {n}; every figure here is a guess.")
    if n and not found.n_emerging:
        lines.append(f"One class only: no label is {found.entity}.")
    elif n and not found.n_other:
        lines.append(f"One class only: every label is {found.entity}, so nothing could go wrong.")
    lines += [f"Perhaps mislabelled: {line}" for line in found.doubtful]
    return lines


def _from(rivals: Sequence[tuple[str, int]]) -> str:
    if not rivals:
        return ""
    named = [f"{n:,} from {name or 'no known entity'}" for name, n in rivals[:N_RIVALS]]
    rest = sum(n for _, n in rivals[N_RIVALS:])
    return ": " + ", ".join([*named, *([f"{rest:,} from others"] if rest else [])])


def _are(n: int) -> str:
    return "is" if n == 1 else "are"
