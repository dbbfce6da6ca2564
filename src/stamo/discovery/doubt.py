"""What speaks against a new meaning of a known name, by the name itself and what stands beside it.

Most contexts that surprise are a known thing in a new setting, a template that many documents
share ("Twin towns, Sister cities"), or a piece of a longer name that a small word joins ("Pew Forum
on Religion and Public Life").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from stamo.discovery.score import Past
from stamo.discovery.sightings import Sighting
from stamo.kb.base import KnowledgeBase

LEAST_ALONE = 0.2
"""So many documents call a new meaning of a name by the name alone; else it is a longer name."""
COMMON_MEANING = 0.5
"""A name that more of its documents write small too is a word."""
FRAMED = 0.5
"""A name that so many of its contexts have between the same words is a piece of those."""
PIECE = 0.1
"""How much less that counts."""
SAID = 0.3
"""A known meaning whose title so many of the contexts say is the one that is meant."""
SAID_MEANING = 0.25
"""How much less that counts: new things share whole names with known ones too."""
N_SAID = 30
"""Known meanings whose titles are looked for."""
FULL_NAME = 0.2
"""How much less a known full name, or one with a number, counts as one with a new meaning."""
LONE_MEANING = 0.5
"""How much less a name counts that means one thing, here and in the knowledge base."""
LONE_SHARE = 0.7
SOLE_MEANING = 0.5
"""The same for a title that hardly links elsewhere and is no word: "Sochi"."""
SOLE_PRIOR = 0.9
NAMED_AS_PLACE = 0.3
"""The same for what is mostly named as places are: "in Copenhagen"."""

SIDE = 60
"""Characters on either side that are looked at."""
TEMPLATE = 4
"""So many equal words and signs beside a name are a template."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_PLACE = re.compile(r"\b(?:in|at|near) $")
_JOINERS = frozenset(
    {"and", "of", "for", "on", "in", "the", "to", "with", "a", "de", "la", "&", "+", "-", "–", ":"}
)


def doubt_meaning(
    name: str,
    sightings: Sequence[Sighting],
    share: float,
    known: Sequence[int],
    kb: KnowledgeBase,
    past: Past,
) -> float:
    """Return what is left of a score, 0 to 1; 0 for what is no meaning of the name.

    Args:
        name: The known name.
        sightings: Contexts that agree.
        share: Share of the name's contexts that they are.
        known: Its known meanings.
        kb: The knowledge base.
        past: What the knowledge base's articles say.
    """
    n = len(sightings)
    is_called = sum(not s.form for s in sightings) >= LEAST_ALONE * n
    is_word = sum(s.is_common for s in sightings) > COMMON_MEANING * n
    if not is_called or is_word:
        return 0.0
    doubt = unity(sightings)
    if repeated_frame(sightings) >= FRAMED:
        doubt *= PIECE
    if _says_known(name, sightings, kb.titles(known[:N_SAID])) >= SAID:
        doubt *= SAID_MEANING
    is_title = kb.entity_ids([name])[0] >= 0
    if (" " in name and is_title) or any(map(str.isdigit, name)) or len(name) < 3:
        doubt *= FULL_NAME
    if is_title and kb.alias_id(name.lower()) < 0 and kb.candidates(name).priors[0] >= SOLE_PRIOR:
        doubt *= SOLE_MEANING
    if len(known) == 1 and share > LONE_SHARE and past.n_documents(name) <= 2:
        doubt *= LONE_MEANING
    if sum(map(follows_place_word, sightings)) >= FRAMED * n:
        doubt *= NAMED_AS_PLACE
    return doubt


def unity(sightings: Sequence[Sighting]) -> float:
    """Return the share of the most used form of a name: people who share a word have a low one."""
    (_, n), *_ = Counter(s.form or s.name for s in sightings).most_common(1)
    return n / len(sightings)


def _says_known(name: str, sightings: Sequence[Sighting], titles: Sequence[str]) -> float:
    """Return the share of the contexts that say the title of a known meaning, if it is another."""
    plain = {title.partition(" (")[0].casefold() for title in titles} - {name.casefold()}
    said = [any(title in s.window.casefold() for title in plain) for s in sightings]
    return sum(said) / len(sightings)


def follows_place_word(sighting: Sighting) -> bool:
    """Tell whether a name stands where places do: "in Copenhagen"."""
    return _PLACE.search(sighting.window[: sighting.at]) is not None


def repeated_frame(sightings: Sequence[Sighting]) -> float:
    """Return the share of the contexts that have the same template, or the same longer name."""
    counts: Counter[tuple[str, ...]] = Counter()
    for sighting in sightings:
        counts.update({frame for side in _sides(sighting) for frame in _frames(side)})
    return max(counts.values(), default=0) / len(sightings)


def _sides(s: Sighting) -> tuple[list[str], list[str]]:
    """Return the words and signs before a name, the nearest first, and those after it."""
    before = _TOKEN.findall(s.window[max(0, s.at - SIDE) : s.at])[::-1]
    return ["<", *before], [">", *_TOKEN.findall(s.window[s.stop : s.stop + SIDE])]


def _frames(side: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Yield the template on one side, and the word that a small word joins to the name."""
    if side[1:2] == ["("]:  # "Boy Scouts of America (BSA)" says what it means
        return
    frame = tuple(side[: TEMPLATE + 1])
    if len(frame) > TEMPLATE and sum(map(str.isalpha, frame)) > 1:  # no mere '" (2013)'
        yield frame
    place = 1
    while place < len(side) and side[place] in _JOINERS:
        place += 1
    if 1 < place < len(side) and side[place][:1].isupper():
        yield tuple(side[: place + 1])
