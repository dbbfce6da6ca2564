"""Unknown names as entities: spellings, titles and short names of one thing come together."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from stamo.discovery.sightings import NameTally, Sighting
from stamo.kb.base import KnowledgeBase

COMMON_SHARE = 0.4
"""A name whose words so many of its documents write small too is a common phrase."""
ABBREVIATION = 5
"""A single word of at most so many letters before a full stop is an abbreviation."""
CALENDAR = frozenset(calendar.day_name) | frozenset(calendar.month_name)
"""Capitalised words that stand in any text and name nothing that could be learned."""
_DATE = re.compile(rf"(\d+\w* )?({'|'.join(calendar.month_name[1:])})\b( \d+)?|\d+")
_GOES_ON = re.compile(r"(?:[-'’/.+&]|: | [&+/] | [^\W\d_]+-(?=[A-Z]))\w[\w'’-]+")
_BEGAN = re.compile(r"\w+(?:[-'’/.+&]| [&+/] )$")
"""What a sign joins to a name: "Ma Ying-jeou", "Nouri al-Maliki", "Travel + Leisure"."""
_OPENS = re.compile(r"(?:^|[.!?:)\n][\"”’)]?)[\s\"“‘(]*$")
DOMINANT = 0.5
"""A short name stands for the full name that has at least this share of all that it may mean."""


NameGroup = tuple[NameTally, ...]
"""Names of one entity, the most used first."""


def group_names(tallies: Mapping[str, NameTally]) -> list[NameGroup]:
    """Group the names that the knowledge base lacks.

    Spellings that differ in case, accents and signs are one name; "Republican Mitt Romney" is a
    longer form of "Mitt Romney", and "Romney" alone is short for it.
    """
    unknown = {name: tally for name, tally in tallies.items() if tally.alias < 0}
    head_by_name = _by_spelling(unknown)
    heads = {name: t for name, t in unknown.items() if name not in head_by_name}
    head_by_name |= _longer_forms(heads)
    head_by_name |= _short_forms({n: t for n, t in heads.items() if n not in head_by_name})
    members: dict[str, list[NameTally]] = {}
    for name, tally in unknown.items():
        members.setdefault(_root(name, head_by_name), []).append(tally)
    return [
        (unknown[head], *sorted((t for t in found if t.name != head), key=_order))
        for head, found in members.items()
    ]


def _order(tally: NameTally) -> tuple[int, str]:
    return -tally.n_documents, tally.name


def _root(name: str, head_by_name: Mapping[str, str]) -> str:
    seen = {name}
    while name in head_by_name and head_by_name[name] not in seen:
        name = head_by_name[name]
        seen.add(name)
    return name


def fold_spelling(name: str) -> str:
    """Return letters and digits of a name without case and accents."""
    plain = unicodedata.normalize("NFKD", name)
    return "".join(sign for sign in plain.casefold() if sign.isalnum())


def _by_spelling(tallies: Mapping[str, NameTally]) -> dict[str, str]:
    """Map a spelling to the most used one of the same letters."""
    first: dict[str, NameTally] = {}
    heads: dict[str, str] = {}
    for tally in sorted(tallies.values(), key=_order):
        key = fold_spelling(tally.name)
        head = first.setdefault(key, tally)
        # "ISIS" and "Isis" may be two things; longer names that differ in case are one.
        if head is not tally and (" " in tally.name or "-" in tally.name):
            heads[tally.name] = head.name
    return heads


def parts_of(name: str) -> Iterable[str]:
    """Return the shorter names at either end of a name, the longest first."""
    words = name.split(" ")
    for n in range(len(words) - 1, 0, -1):
        yield " ".join(words[-n:])
        yield " ".join(words[:n])


def _longer_forms(tallies: Mapping[str, NameTally]) -> dict[str, str]:
    """Map a name to a more frequent one of two or more words at one of its ends."""
    heads = {}
    for name, tally in tallies.items():
        found = [
            part
            for part in parts_of(name)
            if " " in part and part in tallies and tallies[part].n_documents > tally.n_documents
        ]
        if found:
            heads[name] = min(found, key=lambda part: _order(tallies[part]))
    return heads


def _short_forms(tallies: Mapping[str, NameTally]) -> dict[str, str]:
    """Map a single word to the full name that it mostly stands for."""
    heads = {}
    for word, full in longer_names(tallies.values()).items():
        if word not in tallies:
            continue
        best, total = min(full, key=_order), sum(tally.n_documents for tally in full)
        least = max(DOMINANT * total, tallies[word].n_documents, 2)
        if best.n_documents >= least:
            heads[word] = best.name
    return heads


def is_variant(name: str, kb: KnowledgeBase) -> bool:
    """Tell whether the knowledge base knows a name in another spelling or as a title."""
    plain = "".join(
        sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign)
    )
    words = name.split(" ")
    forms = [f"{name}.", f"The {name}", plain, name.replace("-", " "), name.replace("&", "and")]
    forms += [f"{name}s", name.title(), name.capitalize(), name.lower(), name.upper()]
    if name.endswith("s"):
        forms += [name[:-1], name[:-2]] if name.endswith("es") else [name[:-1]]
    if len(words) > 2:
        forms.append(f"{words[0]} {words[-1]}")  # without its middle names
    forms = [form for form in forms if len(form) > 1 and form != name]
    return bool((kb.alias_ids(forms) >= 0).any() or (kb.entity_ids([name, *forms[:5]]) >= 0).any())


def is_phrase(tally: NameTally) -> bool:
    """Tell whether a name is a common phrase, a day or an abbreviation rather than a name."""
    name, sightings = tally.name, tally.sightings
    if name in CALENDAR or sum(s.is_common for s in sightings) / len(sightings) > COMMON_SHARE:
        return True
    n_stops = sum(s.window.startswith(".", s.stop) for s in sightings)
    return " " not in name and len(name) <= ABBREVIATION and 2 * n_stops > len(sightings)


def is_date(name: str) -> bool:
    """Tell whether a name is a day, a month or a number."""
    return name in CALENDAR or _DATE.fullmatch(name) is not None


def longer_names(tallies: Iterable[NameTally]) -> dict[str, list[NameTally]]:
    """Return the unknown names of several words by the words at their ends."""
    found: dict[str, list[NameTally]] = {}
    for tally in tallies:
        words = tally.name.split(" ")
        if tally.alias < 0 and len(words) > 1:
            for word in dict.fromkeys((words[0], words[-1])):
                found.setdefault(word, []).append(tally)
    return found


def is_piece(tally: NameTally, longer: Mapping[str, Sequence[NameTally]]) -> bool:
    """Tell whether a single word stands more often in longer names: "Labs", a shared surname."""
    if " " in tally.name:
        return False
    return sum(t.n_documents for t in longer.get(tally.name, ())) > tally.n_documents


def seen_inside(sightings: Iterable[Sighting], word: str, alias: int) -> Iterator[Sighting]:
    """Yield sightings of longer names as sightings of a known word at one of their ends."""
    n = len(word)
    for s in sightings:
        if s.window[s.at : s.at + n] == word:
            yield s._replace(name=word, alias=alias, end=s.start + n, form=s.name, fit=0.0)
        elif s.window[s.stop - n : s.stop] == word:
            start, at = s.end - n, s.stop - n
            yield s._replace(name=word, alias=alias, start=start, at=at, form=s.name, fit=0.0)


def opens_sentences(tally: NameTally, is_seen: Callable[[str], bool]) -> bool:
    """Tell whether a name begins with a word that has its capital from the sentence.

    It is never seen inside a sentence, and the rest of it is a name of its own.
    """
    _, _, rest = tally.name.partition(" ")
    if not rest or not is_seen(rest):
        return False
    return all(_OPENS.search(s.window[: s.at]) for s in tally.sightings)


def completed(sightings: Sequence[Sighting]) -> list[Sighting]:
    """Add to sightings what most of them have joined to the name by a sign."""
    for pattern, is_after in ((_GOES_ON, True), (_BEGAN, False)):
        found = [_joined(s, pattern, is_after) for s in sightings]
        for text, n in Counter(found).most_common(1):
            if text and 2 * n > len(sightings):
                sightings = [
                    _with(s, text, is_after) if own == text else s
                    for s, own in zip(sightings, found, strict=True)
                ]
    return list(sightings)


def _joined(s: Sighting, pattern: re.Pattern[str], is_after: bool) -> str:
    match = pattern.match(s.window, s.stop) if is_after else pattern.search(s.window[: s.at])
    return match[0] if match else ""


def _with(s: Sighting, text: str, is_after: bool) -> Sighting:
    if is_after:
        return s._replace(name=s.name + text, end=s.end + len(text))
    n = len(text)
    return s._replace(name=text + s.name, start=s.start - n, at=s.at - n)
