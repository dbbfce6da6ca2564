"""What to do next with the labels of an entity, and the verdict on its pack, in one sentence each.

Pure functions of what was labelled and of what learning found, which is kept beside the pack. Their
limits are few and stand here as constants; all rates are of labels that were left out, so that none
is judged by a run that saw it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from stamo.evaluation.intervals import Interval, precision_and_recall
from stamo.packs.pack import EntityPack
from stamo.system.files import read_json
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
LEAST_CHANGE = 0.02
"""When the last labels changed less than this share of the pile, more hardly help."""

Ask = Literal["", "probable", "doubtful"]
"""Which mentions to ask for: those that teach most, those that probably are the entity, or those of
which it is least sure."""


class Outlook(NamedTuple):
    """What the advisor expects of the mentions without a label."""

    changed: float
    """Share of them that the last labels changed."""
    expected: float
    """How many of them are the entity, by the posterior."""
    n_last: int
    """How many the last labels are."""


class Advice(NamedTuple):
    """What to do next with the labels."""

    sentence: str
    ask: Ask = ""
    """Which mentions the sentence speaks of."""
    is_enough: bool = False
    """Whether there are enough labels to learn from."""


def advise(
    entity: str, n_emerging: int, n_other: int, n_left: int, outlook: Outlook | None = None
) -> Advice:
    """Say whether more labels are needed, and of which mentions.

    Args:
        entity: The entity's name.
        n_emerging: Labels that are the entity.
        n_other: Labels that are something else.
        n_left: Candidate mentions that are neither labelled nor skipped.
        outlook: What the advisor expects, where it was asked.
    """
    n = n_emerging + n_other
    missing, collect = min(MANY_LABELS - n, n_left), "collect documents that speak of it"
    if n and not n_emerging and (n >= MANY_LABELS or not n_left):
        rest = "" if outlook is None else f", and about {outlook.expected:.0f} more are expected"
        way = f"label mentions that probably mean it, or {collect}" if n_left else collect
        return Advice(f"None of the {count_of(n, 'label')} is {entity}{rest}; {way}.", "probable")
    if n >= FEW_LABELS and n_emerging < FEW_POSITIVE:
        few = f"Only {n_emerging} of {n} labels {'is' if n_emerging == 1 else 'are'} {entity}"
        way = "label mentions that probably mean it" if n_left else collect
        return Advice(f"{few}; {way}.", "probable")
    if FEW_LABELS <= n < MANY_LABELS and not n_other and n_left:
        return Advice(
            f"All {n} labels are {entity}; label mentions that probably mean something else.",
            "doubtful",
        )
    if missing > 0:
        return Advice(f"Label {count_of(missing, 'more mention')} ({n} done).")
    if n < MANY_LABELS:
        return Advice(
            f"{count_of(n, 'label')}, and nothing is left to label. To judge a pack takes about "
            f"{MANY_LABELS}: {collect}, or learn from what there is.",
            is_enough=n_emerging > 0,
        )
    said = f"{n} labels: enough to learn from."
    if outlook is not None:
        more = "more will help" if outlook.changed >= LEAST_CHANGE else "enough for now"
        changed = f"the last {outlook.n_last} changed {outlook.changed:.1%} of the answers"
        said = f"{n} labels; {changed}: {more}."
    return Advice(said, is_enough=True)


class Decision(StrEnum):
    """What to do with a pack; in this order from good to bad."""

    ship = "ship"
    raise_threshold = "ship with a higher threshold"
    label_more = "label more"
    do_not_ship = "do not ship"


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
    threshold: float
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
    """Labels that the others all but rule out, each as a sentence."""

    @property
    def share(self) -> float:
        """Share of the unlabelled mentions that link to the entity: the one meaning of share."""
        return self.n_taken / max(self.n_mentions, 1)


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
    ask: Ask = ""
    """Which mentions to label, where more are needed."""

    @property
    def exit_code(self) -> int:
        """What a strict command ends with, 0 or 10 to 12.

        A shipped pack with warnings is not simply shipped.
        """
        place = list(Decision).index(self.decision)
        return 9 + place if place else 10 if self.warnings else 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values for programs."""
        return asdict(self) | {"exit_code": self.exit_code}


def judge(found: Findings) -> Verdict:
    """Decide whether a pack is fit to be used."""
    labels, taken = (np.array(x, dtype=bool) for x in (found.labels, found.decisions))
    precision, recall = precision_and_recall(taken, labels)
    decision, why, threshold = _decide(found, precision, recall)
    entity, n, n_true = found.entity, found.n_emerging + found.n_other, int(labels.sum())
    hits = int((taken & labels).sum())
    reasons = []
    if precision is not None:
        reasons.append(
            f"Precision {precision:.2f}: of {count_of(int(taken.sum()), 'left-out label')} that "
            f"it takes, {hits} {'is' if hits == 1 else 'are'} {entity}."
        )
    if recall is not None:
        reasons.append(
            f"Recall {recall:.2f}: of {count_of(n_true, 'left-out label')} that "
            f"{'is' if n_true == 1 else 'are'} {entity}, it finds {hits}."
        )
    rivals = [f"{m:,} from {name or 'no known entity'}" for name, m in found.taken_from[:N_RIVALS]]
    if rest := sum(m for _, m in found.taken_from[N_RIVALS:]):
        rivals.append(f"{rest:,} from others")
    reasons.append(
        f"It takes {found.n_taken:,} of {count_of(found.n_mentions, 'unlabelled mention')} "
        f"({found.share:.0%}){': ' if rivals else ''}{', '.join(rivals)}."
    )
    if found.n_unsure:
        reasons.append(
            f"It is unsure of {count_of(found.n_unsure, 'mention')} (between 20% and 80%); "
            f"the threshold is at {found.threshold:.0%}."
        )
    warnings = [] if found.alarm is None else [f"Collapse: {found.alarm}"]
    if n < FEW_LABELS:
        warnings.append(f"Too few labels: {n}; every figure here is a guess.")
    if n and not found.n_emerging:
        warnings.append(f"One class only: no label is {entity}.")
    elif n and not found.n_other:
        warnings.append(f"One class only: every label is {entity}, so nothing could go wrong.")
    warnings += [f"Perhaps mislabelled: {line}" for line in found.doubtful]
    ask: Ask = ""
    if decision is Decision.label_more and n >= FEW_LABELS:
        ask = "probable" if found.n_emerging < FEW_POSITIVE else "doubtful"
    sentence, told = f"{_OPENINGS[decision]}{why}", (tuple(reasons), tuple(warnings))
    return Verdict(decision, sentence, *told, precision, recall, threshold, ask)


_OPENINGS = {
    Decision.ship: "Ship it: ",
    Decision.raise_threshold: "Ship it with a higher threshold: ",
    Decision.label_more: "Label more before you ship it: ",
    Decision.do_not_ship: "Do not ship it",
}


def _decide(
    found: Findings, precision: Interval | None, recall: Interval | None
) -> tuple[Decision, str, float | None]:
    """Return the decision, why, and a higher threshold where one is needed."""
    entity, n_emerging, n = found.entity, found.n_emerging, found.n_emerging + found.n_other
    no, more = Decision.do_not_ship, Decision.label_more
    if found.alarm is not None:
        return no, f": learning ran away. {found.alarm}", None
    if n >= MANY_LABELS and not n_emerging:
        return no, f": none of {n} labels is {entity}; collect documents that speak of it.", None
    if n < FEW_LABELS:
        count = count_of(n, "label")
        return more, f"{count} cannot tell how good it is; label about {MANY_LABELS}.", None
    advice = advise(entity, n_emerging, found.n_other, found.n_mentions)
    if advice.ask:
        return more, advice.sentence[:1].lower() + advice.sentence[1:], None
    if not found.labels:
        return no, " yet: it was not checked on left-out labels; learn again with --folds 5.", None
    if precision is None or recall is None:
        return more, "it links none of the left-out labels to the entity.", None
    right = f"{precision.value:.0%}"
    if precision.value >= LEAST_PRECISION and precision.low >= LEAST_SURE:
        if recall.value < LEAST_RECALL:
            missed = f"it misses {1 - recall.value:.0%} of what is there"
            return more, f"{missed}; label mentions just below the threshold.", None
        why = (
            f"what it takes is right {right} of the time on left-out labels (hardly less than "
            f"{precision.low:.0%}), and it finds {recall.value:.0%} of what is there."
        )
        return Decision.ship, why, None
    labels, linked = (np.array(x, dtype=bool) for x in (found.labels, found.decisions))
    for threshold in THRESHOLDS:  # the lowest higher one from which on precision suffices
        sure = linked & (np.array(found.probabilities) >= threshold)
        higher, found_then = precision_and_recall(sure, labels)
        if threshold <= found.threshold or higher is None or found_then is None:
            continue
        fits = higher.value >= LEAST_PRECISION and higher.low >= LEAST_SURE
        if fits and found_then.value >= LEAST_RAISED:
            why = (
                f"link with --threshold {threshold:g}; what it takes then is right "
                f"{higher.value:.0%} of the time, at {found.threshold:.0%} only {right} of the "
                "time."
            )
            return Decision.raise_threshold, why, threshold
    if precision.high < LEAST_PRECISION and n >= MANY_LABELS:
        why = (
            f": what it takes is right only {right} of the time, and no threshold mends that; "
            "write a description of the entity, or choose more telling aliases."
        )
        return no, why, None
    why = (
        f"so far it is right {right} of the time, which may be anything from {precision.low:.0%} "
        f"to {precision.high:.0%}; label those closest to the threshold."
    )
    return more, why, None


MentionPlace = tuple[str, int]
"""A document's id and where a mention starts in it."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a run that did not see a label says of its mention."""

    probability: float
    """That it is the entity."""
    is_entity: bool
    """Whether it would be linked to the entity."""


@dataclass(frozen=True)
class LearnSummary:
    """What is kept of a run beside its pack, for the report."""

    pack: str
    """The fingerprint of the pack that it belongs to."""
    pile_helped: bool
    findings: Findings
    checked: list[MentionPlace]
    """Document and start of each left-out label, in the order of the findings."""
    settings: dict[str, Any]
    """What it learned with, as plain values."""

    @property
    def checks(self) -> dict[MentionPlace, Check]:
        """What a run without each label says of it."""
        found = zip(self.findings.probabilities, self.findings.decisions, strict=True)
        return {place: Check(*said) for place, said in zip(self.checked, found, strict=True)}


def read_summary(path: Path, pack: EntityPack | None = None) -> LearnSummary | None:
    """Return what was kept of the last run; None where it wrote another pack or is missing."""
    if not path.exists():
        return None
    try:
        value = read_json(path)
        checked = [(str(document), int(start)) for document, start in value["checked"]]
        plain: dict[str, Any] = dict(value["findings"])
        plain |= {k: tuple(x) for k, x in plain.items() if type(x) is list}
        plain["taken_from"] = tuple((str(name), int(n)) for name, n in plain["taken_from"])
        summary = LearnSummary(**value | {"findings": Findings(**plain), "checked": checked})
    except (TypeError, KeyError, ValueError, AttributeError):
        return None  # of another version
    return summary if pack is None or summary.pack == pack.fingerprint else None
