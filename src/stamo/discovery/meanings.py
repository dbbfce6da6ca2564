"""Unknown names as entities: spellings, titles and short names of one thing come together."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy
from scipy.spatial import distance

from stamo.discovery.names import EARLIER, LATER, NameTally, Sighting
from stamo.features.mentions import Lexicon
from stamo.features.pile import TextEncoder
from stamo.kb.base import KnowledgeBase
from stamo.system.files import Float32, Float64, Int32, Int64

ENCODER_WEIGHT = 0.5
"""Share of the sentence encoder in how alike two contexts are, where there is one."""
ENCODER_MEAN = 0.25
"""Likeness of two unrelated texts by the encoder; contexts of words have 0."""

NEAR = 8.0
"""How much more the content word next to a name says of it than one far away."""
NEAR_WORDS = 1.5
"""Content words on either side over which that falls to a third."""
QUOTED = 0.2
"""How much more alike two names in quotation marks are, as titles are; one and none, less."""
OTHER_FORM = 0.2
"""How much less alike a name is inside two different longer names: people share surnames."""
TITLED_YEAR = 0.3
"""How much more alike two titles of one year are, "Gravity" (2013); of two years, less."""
OTHER_TIME = 0.2
"""How much less alike a text of a later time is to one of an earlier time."""
MAX_CACHED_NAMES = 1000


class ContextVectors:
    """Turns context words, and entities, into vectors."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self._words = np.asarray(kb.word_vectors, dtype=np.float32)
        self._weights = kb.word_weights
        self._background = kb.background
        self._entities = kb.entity_vectors()

    def of(self, words: Int32, emphasis: Float32 | None = None) -> Float32:
        """Return the directions of contexts of H words, (M, H) with -1 for none, as (M, Q)."""
        weights = np.where(words >= 0, self._weights[words], 0).astype(np.float32)
        if emphasis is not None:
            weights *= emphasis
        mass = weights.sum(axis=1, keepdims=True)
        direction = self._sums(words, weights) - mass * self._background
        norm = np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction / np.maximum(norm, 1e-9), dtype=np.float32)

    def _sums(self, words: Int32, weights: Float32) -> Float32:
        """Return the weighted sums of word vectors, (M, Q), without copying the vectors."""
        edges = np.arange(len(words) + 1) * words.shape[1]
        chosen = np.maximum(words, 0).ravel()
        shape = len(words), len(self._words)
        table = sparse.csr_array((weights.ravel(), chosen, edges), shape=shape)
        return np.asarray(table @ self._words, dtype=np.float32)

    def entities(self, ids: Int32) -> Float32:
        """Return the vectors of entities, zeros for -1."""
        used, place = np.unique(ids, return_inverse=True)
        vectors = np.asarray(self._entities[np.maximum(used, 0)], dtype=np.float32)
        vectors[used < 0] = 0
        return vectors[place.reshape(ids.shape)]


class ContextReader:
    """Reads the windows of sightings by the words of a knowledge base, and perhaps an encoder."""

    def __init__(self, kb: KnowledgeBase, encoder: TextEncoder | None = None) -> None:
        self.kb, self.encoder = kb, encoder
        self.vectors, self._lexicon = ContextVectors(kb), Lexicon.of(kb)
        self._own_words = lru_cache(MAX_CACHED_NAMES)(self._read_name)

    def read(self, sighting: Sighting) -> tuple[Int32, int]:
        """Return the content words around a name, not its own, and how many stand before it."""
        found = self._lexicon.encode(sighting.window)
        outside = (found.ends <= sighting.at) | (found.starts >= sighting.stop)
        kept = outside & ~np.isin(found.ids, self._own_words(sighting.name))
        return found.ids[kept], int((found.ends[kept] <= sighting.at).sum())

    def _read_name(self, name: str) -> Int32:
        return self._lexicon.encode(name).ids

    def word_vectors(self, sightings: Sequence[Sighting]) -> Float32:
        """Return the directions of the contexts, (n, Q); what stands near the name counts more."""
        rows = [self.read(sighting) for sighting in sightings]
        shape = len(rows), max(1, *(len(words) for words, _ in rows))
        padded = np.full(shape, -1, dtype=np.int32)
        emphasis = np.zeros(shape, dtype=np.float32)
        for i, (words, n_before) in enumerate(rows):
            place = np.arange(len(words))
            away = np.where(place < n_before, n_before - 1 - place, place - n_before)
            padded[i, : len(words)] = words
            emphasis[i, : len(words)] = 1 + NEAR * np.exp(-away / NEAR_WORDS)
        return self.vectors.of(padded, emphasis)

    def likeness(self, sightings: Sequence[Sighting], vectors: Float32) -> Float64:
        """Return how alike the contexts are, (n, n), about 0 for unrelated ones."""
        alike = (vectors @ vectors.T).astype(np.float64)
        if self.encoder is not None:
            # Without the name, so that contexts are not alike by it.
            masked = [f"{s.window[: s.at]}it{s.window[s.stop :]}" for s in sightings]
            read = self.encoder.encode(masked)
            by_encoder = ((read @ read.T).astype(np.float64) - ENCODER_MEAN) / (1 - ENCODER_MEAN)
            alike = (1 - ENCODER_WEIGHT) * alike + ENCODER_WEIGHT * by_encoder
        quoted = np.array([is_quoted(sighting) for sighting in sightings], dtype=np.float64)
        both, one = np.outer(quoted, quoted), np.abs(quoted[:, None] - quoted)
        # 1 for two titles of one year, -1 for those of different years, 0 for others.
        years = np.array([sighting.own_year or 0 for sighting in sightings])
        same = np.where(years[:, None] == years, 1.0, -1.0)
        same_years = np.where((years > 0)[:, None] & (years > 0), same, 0.0)
        alike += QUOTED * (both - one) + TITLED_YEAR * same_years
        # One text names a later year, and the other only earlier ones.
        time = np.array([sighting.time for sighting in sightings])
        apart = np.outer(time == LATER, time == EARLIER)
        alike -= OTHER_TIME * np.asarray(apart | apart.T, dtype=np.float64)
        # Two that stand inside different longer names; each pair of forms is compared once.
        forms, place = np.unique([sighting.form for sighting in sightings], return_inverse=True)
        other = [[is_other_form(a, b) for b in forms.tolist()] for a in forms.tolist()]
        other_forms = np.array(other, dtype=np.float64)[np.ix_(place, place)]
        return np.asarray(alike - OTHER_FORM * other_forms)

    def fit(self, vectors: Float32, entities: Sequence[int]) -> tuple[float, int]:
        """Return how well contexts fit the best of some entities, and which; (0, -1) for none."""
        if not len(entities):
            return 0.0, -1
        mean = vectors.mean(axis=0)
        mean /= max(float(np.linalg.norm(mean)), 1e-9)
        cosines = self.vectors.entities(np.array(entities, dtype=np.int32)) @ mean
        best = int(cosines.argmax())
        return float(cosines[best]), int(entities[best])


def is_quoted(sighting: Sighting) -> bool:
    """Tell whether a name stands in quotation marks, as titles of works do."""
    before = sighting.window[max(0, sighting.at - 1) : sighting.at]
    after = sighting.window[sighting.stop :][:1]
    return bool(before and after) and before in "\"“«‘'" and after in "\"”»’',"


def is_other_form(form: str, other: str) -> bool:
    """Tell whether two longer names differ, and neither is part of the other."""
    return bool(form and other) and form not in other and other not in form


def cluster(alike: Float64, least: float) -> list[Int64]:
    """Cut n contexts into clusters whose mean likeness between halves is at least `least`.

    Returns:
        The rows of each cluster, the largest first, then the first.
    """
    n = len(alike)
    if n == 1:
        return [np.zeros(1, dtype=np.int64)]
    apart = np.maximum(1 - (alike + alike.T) / 2, 0)
    np.fill_diagonal(apart, 0)
    tree = hierarchy.linkage(distance.squareform(apart, checks=False), method="average")
    labels = hierarchy.fcluster(tree, 1 - least, criterion="distance")
    found = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sorted(found, key=lambda rows: (-len(rows), int(rows[0])))


def coherence(alike: Float64) -> float:
    """Return the mean likeness of different contexts, shrunk towards 0 for few of them."""
    n = len(alike)
    if n < 2:
        return 0.0
    pairs = n * (n - 1)
    return float((alike.sum() - np.trace(alike)) / (pairs + 2))


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
