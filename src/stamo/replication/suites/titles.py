"""Which titles name an entity: dates, numbers, lists and common nouns do not."""

from __future__ import annotations

import re

import numpy as np

from stamo.kb.base import KnowledgeBase
from stamo.system.arrays import Bools, Int64

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_NO_ENTITY = re.compile(
    rf"""
    (?:{_MONTH})(?:\ \d+)?(?:,?\ \d+)?   # January, January 1, January 2004
    | \d+(?:st|nd|rd|th)?\ (?:{_MONTH}).*  # 1 January
    | [\d.,\ –-]+(?:s|st|nd|rd|th)?(?:\ (?:century|millennium|BCE?|AD))*  # 1987, 19th century
    | (?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)
    | (?:(?:List|Lists|Index|Outline|Timeline|Table|Glossary)\ of|Comparison\ of)\ .*
    | .*\((?:number|disambiguation|year)\)
    """,
    re.VERBOSE | re.IGNORECASE,
)
MOST_LOWER = 0.5
"""Share of the dump's links to a title in lower case from which on it is a common noun."""


def is_entity_title(title: str) -> bool:
    """Return whether a title is no date, number or list."""
    return _NO_ENTITY.fullmatch(title) is None


def name_entities(kb: KnowledgeBase, entities: Int64) -> Bools:
    """Return which entities bear a name.

    Dates, numbers and lists do not, nor what the dump mostly links in lower case ("cuisine"); in a
    script without capitals nothing is in lower case.
    """
    titles = zip(entities.tolist(), kb.titles(entities), strict=True)
    return np.array([is_entity_title(t) and not _is_common_noun(kb, e) for e, t in titles], bool)


def _is_common_noun(kb: KnowledgeBase, entity: int) -> bool:
    names = kb.aliases_of(entity)
    lower = sum(count for name, count in names if name[:1].islower())
    return lower > MOST_LOWER * sum(count for _, count in names)
