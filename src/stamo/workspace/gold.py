"""Label a workspace by known answers, and count how often linking agrees with them.

Only the embedded world and benchmarks have answers; a real workspace is labelled by people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from stamo.corpus.types import Corpus, LabelKey
from stamo.errors import CorpusFormatError
from stamo.evaluation.intervals import Rates, rates
from stamo.linking.results import LinkedDocument
from stamo.workspace.folder import Workspace
from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget

Gold = Mapping[str, Mapping[tuple[int, int], str]]
"""Document id -> (start, end) -> entity."""


def read_answers(path: Path) -> Gold:
    """Read the answers of a world's pile."""
    gold: dict[str, dict[tuple[int, int], str]] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            gold[record["id"]] = {(m["start"], m["end"]): m["entity"] for m in record["mentions"]}
    return gold


def label_by_gold(
    workspace: Workspace, corpus: Corpus, gold: Gold, keys: Iterable[LabelKey], *, at: datetime
) -> int:
    """Label mentions with their known answers; return how many.

    Raises:
        CorpusFormatError: A mention has no answer.
    """
    by_id = {document.id: document for document in corpus}
    n = 0
    with workspace.open_labels() as store:
        for name, index in keys:
            mention = by_id[name].mentions[index]
            # A mention may be part of a longer name that has an answer.
            answers = gold.get(name, {}).items()
            around = [e for (s, t), e in answers if s <= mention.start and mention.end <= t]
            answer = gold.get(name, {}).get((mention.start, mention.end), next(iter(around), None))
            if answer is None:
                raise CorpusFormatError(f"The answers say nothing of a mention in {name!r}.")
            choice = EMERGING_CHOICE if answer == workspace.entity.id else answer
            target = LabelTarget.of(name, index, mention)
            store.add(target, choice, labeller="the world's answers", at=at)
            n += 1
    return n


@dataclass(frozen=True)
class Agreement:
    """How linking agrees with the answers on the candidate mentions of an entity."""

    n: int
    emerging: Rates
    """Of the decision whether a mention means the emerging entity."""
    accuracy: float
    """Share of mentions linked to exactly the right entity."""


def compare_with_gold(
    linked: Sequence[LinkedDocument], gold: Gold, entity: str, aliases: Sequence[str]
) -> Agreement:
    """Compare links with the answers, on mentions whose surface is an alias of the entity."""
    pairs = [
        (mention.entity, answer)
        for document in linked
        for mention in document.mentions
        if mention.surface in aliases
        and (answer := gold.get(document.id, {}).get((mention.start, mention.end))) is not None
    ]
    said = np.array([mine == entity for mine, _ in pairs], dtype=bool)
    true = np.array([answer == entity for _, answer in pairs], dtype=bool)
    accuracy = sum(mine == answer for mine, answer in pairs) / max(len(pairs), 1)
    return Agreement(len(pairs), rates(said, true), accuracy)
