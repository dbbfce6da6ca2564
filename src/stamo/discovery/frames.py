"""What stands right beside a name: templates, longer names it is a piece of, the year of a title.

A known name that always stands in the same words is no new meaning of it: many documents share a
heading or a template ("Twin towns, Sister cities"), or the name is a piece of a longer one that a
small word joins ("Pew Forum on Religion and Public Life").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from stamo.discovery.sightings import Sighting

SIDE = 60
"""Characters on either side that are looked at."""
TEMPLATE = 4
"""So many equal words and signs beside a name are a template."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_OWN_YEAR = re.compile(r"[\"”’'»*]{0,2},? ?\((?:[^()\d]{0,30} )?((?:19|20)\d\d)\b")
_PLACE = re.compile(r"\b(?:in|at|near) $")
_JOINERS = frozenset(
    {"and", "of", "for", "on", "in", "the", "to", "with", "a", "de", "la", "&", "+", "-", "–", ":"}
)


def own_year(sighting: Sighting) -> int | None:
    """Return the year in brackets right after a name, as titles have it: "Gravity" (2013)."""
    match = _OWN_YEAR.match(sighting.window, sighting.stop)
    return int(match[1]) if match else None


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
