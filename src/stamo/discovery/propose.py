"""From what was seen of a stream to ranked proposals.

Names are grouped, contexts clustered and scored; the two kinds take turns, since an editor wants
both.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from stamo.discovery import meanings as groups
from stamo.discovery.meanings import ContextReader, NameGroup, cluster, coherence
from stamo.discovery.names import (
    EARLIER,
    FREQUENT_WORD,
    HORIZON,
    LATER,
    NO_YEAR,
    NameTally,
    Sighting,
    Tally,
    draw,
)
from stamo.discovery.proposals import Occurrence, Proposal, ProposalKind, proposal_id
from stamo.errors import SettingsError
from stamo.kb.base import STOP_WORD_FREQUENCY, KnowledgeBase
from stamo.system.files import Float32, Float64, Int64

N_TELLING_WORDS = 8
N_COMPANIONS = 5
N_ALIASES = 5
N_KINDS = 3
N_WITH_TEXT = 10
"""Occurrences whose text is kept."""
ABOUT_CHARACTERS = 200
_SENTENCE_END = re.compile(r"[.!?](?=\s+[A-Z\"“(]|\s*$)")
_IS = re.compile(r"[\"”’']?(?: \([^)]{1,80}\))?,? (?:is|was|are|were) (?:an?|the|one of) \w")
_APPOSITION = re.compile(r"[\"”’']?, (?:an?|the) [a-z\w-]+ [^,;()\n]{8,140}?(?=[,;.)])")
_SAYS_KIND = re.compile(
    r"[\"”’']?(?: \([^)]{1,80}\))?,? (?:(?:is|was|are|were) )?(?:an?|the|one of the) "
    r"(?P<kind>(?:[\w'’-]+ ){0,5}?[a-z][a-z-]+)"
    r"(?=[,;.)]| (?:and|or|that|which|who|whose|of|in|for|by|from|with|to|on|at|as|over|near"
    r"|about|between|set|\w+ed)\b)"
)
_VERB = re.compile(r"(?:ed|ly)$")
_KIND_BEFORE = re.compile(r"((?:\b[\w-]+ ){0,3}\b[a-z][a-z-]+) [\"“'‘]?$")
_KIND_AFTER = re.compile(r"^[\"”’']?((?: [a-z][a-z-]{2,}){1,3})\b")


def describe_found(found: Found, contexts: ContextReader) -> Proposal:
    """Turn contexts that belong together into a proposal."""
    sightings = sorted(found.sightings, key=lambda s: (s.date, s.document, s.start))
    words = telling_words(sightings, contexts)
    kb = contexts.kb
    aliases = list(dict.fromkeys([found.name, *(t.name for t in found.tallies)]))
    used = {s.name for s in sightings} | {n for s in sightings for n in s.surfaces}
    aliases = [name for name in aliases if name in used][:N_ALIASES] or aliases[:1]
    shorts = Counter(short for s in sightings for short in (*s.surfaces, s.form) if short)
    aliases += [short for short, n in sorted(shorts.items(), key=_most) if n > 1]
    known = Counter(e for s in sightings for e in s.entities)
    entities = [e for e, n in sorted(known.items(), key=_most) if n > 1][:N_COMPANIONS]
    agreement = max(found.coherence, 0.0)
    newness = (1 - max(found.fit, 0.0)) * (0.5 + 0.5 * found.later) * (0.5 + 0.5 * agreement)
    return Proposal(
        id=proposal_id(found.kind, found.name, words),
        kind=found.kind,
        name=found.name,
        aliases=tuple(dict.fromkeys(aliases))[:N_ALIASES],
        n_mentions=found.n_mentions,
        n_documents=found.n_documents,
        since=min((s.date for s in sightings if s.date), default=""),
        words=words,
        entities=tuple(kb.titles(entities)) if entities else (),
        about=about_line(found.name, sightings, kb),
        types=kinds_of_thing(found.name, sightings, kb),
        confused_with=kb.title(found.confused_with) if found.confused_with >= 0 else "",
        newness=round(newness, 3),
        score=round(found.score, 4),
        occurrences=tuple(
            Occurrence(
                s.document, s.start, s.end, s.date, *((s.window, s.at) if i < N_WITH_TEXT else ())
            )
            for i, s in enumerate(sightings)
        ),
    )


def _most(item: tuple[object, int]) -> tuple[int, str]:
    return -item[1], str(item[0])


def telling_words(sightings: Sequence[Sighting], contexts: ContextReader) -> tuple[str, ...]:
    """Return the words that stand in more of the contexts than their frequency tells."""
    counts: Counter[int] = Counter()
    for sighting in sightings:
        counts.update(set(contexts.read(sighting)[0].tolist()))
    kb = contexts.kb
    ids = np.array(sorted(word for word, n in counts.items() if n > 1), dtype=np.int64)
    if not len(ids):
        return ()
    n = np.array([counts[i] for i in ids.tolist()], dtype=np.float64)
    total = float(kb.word_counts.sum())
    rarity = np.log(total / (kb.word_counts[ids] + 50))
    order = np.lexsort((ids, -n * rarity))[:N_TELLING_WORDS]
    return tuple(kb.words.texts(ids[order]))


def about_line(name: str, sightings: Sequence[Sighting], kb: KnowledgeBase) -> str:
    """Return one line from the text that says what a name is; empty where none does.

    A sentence "X is a ..." is best, then an apposition "X, a ...,", then the words that stand next
    to the name in several documents ("rapper Drake", "Dawn spacecraft").
    """
    for pattern, is_sentence in ((_IS, True), (_APPOSITION, False)):
        lines = []
        for s in sightings:
            match = pattern.match(s.window, s.stop)
            if match and is_sentence:
                match = _SENTENCE_END.search(s.window, s.stop)
            if match:
                lines.append(" ".join(s.window[s.at : match.end()].split())[:ABOUT_CHARACTERS])
        if lines:
            return min(lines, key=lambda line: (abs(len(line) - 100), line))
    frequent = [(text, n) for text, n in _beside(name, sightings).items() if n > 1]
    texts = [text for text, _ in sorted(frequent, key=_most)]
    kinds = [t for t in texts if _says(t.removeprefix(name).removesuffix(name).strip(), kb)]
    return "; ".join(kinds[:3])


def kinds_of_thing(name: str, sightings: Sequence[Sighting], kb: KnowledgeBase) -> tuple[str, ...]:
    """Return what the text calls a thing, the most frequent word first: "film", "spacecraft".

    From "X is a ... film", "X, a ... film", and the words next to the name that name something.
    """
    counts: Counter[str] = Counter()
    for s in sightings:
        said = _SAYS_KIND.match(s.window, s.stop)
        counts.update([said["kind"].split()[-1]] if said else [])
    for text, n in _beside(name, sightings).items():
        word = text.removeprefix(name).removesuffix(name).strip()
        counts[word] += n if n > 1 and kb.alias_id(word) >= 0 else 0
    ranked = sorted(counts.items(), key=_most)
    kinds = (word for word, n in ranked if n and not _VERB.search(word))
    return tuple(word for word in kinds if _says(word, kb, STOP_WORD_FREQUENCY))[:N_KINDS]


def _beside(name: str, sightings: Sequence[Sighting]) -> Counter[str]:
    """Count a name with the small word before or after it."""
    counts: Counter[str] = Counter()
    for s in sightings:
        before, after = _KIND_BEFORE.search(s.window[: s.at]), _KIND_AFTER.match(s.window[s.stop :])
        if before:
            counts[f"{before[1].split()[-1]} {name}"] += 1
        if after:
            counts[f"{name} {after[1].split()[0]}"] += 1
    return counts


def _says(word: str, kb: KnowledgeBase, share: float = FREQUENT_WORD) -> bool:
    """Tell whether a word is no function word: none of the frequent ones."""
    (number,) = kb.word_ids([word]).tolist()
    return number >= 0 and float(kb.word_counts[number]) < share * float(kb.word_counts.sum())


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
    titles = {title.partition(" (")[0].casefold() for title in kb.titles(known[:N_SAID])}
    titles.discard(name.casefold())
    if sum(any(t in s.window.casefold() for t in titles) for s in sightings) / n >= SAID:
        doubt *= SAID_MEANING
    is_title = kb.entity_ids([name])[0] >= 0
    if (" " in name and is_title) or any(map(str.isdigit, name)) or len(name) < 3:
        doubt *= FULL_NAME
    if is_title and kb.alias_id(name.lower()) < 0 and kb.candidates(name).priors[0] >= SOLE_PRIOR:
        doubt *= SOLE_MEANING
    if len(known) == 1 and share > LONE_SHARE and past.n_documents(name) <= 2:
        doubt *= LONE_MEANING
    if sum(bool(_PLACE.search(s.window[: s.at])) for s in sightings) >= FRAMED * n:
        doubt *= NAMED_AS_PLACE
    return doubt


def unity(sightings: Sequence[Sighting]) -> float:
    """Return the share of the most used form of a name: people who share a word have a low one."""
    (_, n), *_ = Counter(s.form or s.name for s in sightings).most_common(1)
    return n / len(sightings)


def repeated_frame(sightings: Sequence[Sighting]) -> float:
    """Return the share of the contexts that have the same template, or the same longer name."""
    counts: Counter[tuple[str, ...]] = Counter()
    for sighting in sightings:
        window, at, stop = sighting.window, sighting.at, sighting.stop
        before = _TOKEN.findall(window[max(0, at - SIDE) : at])[::-1]  # the nearest first
        after = _TOKEN.findall(window[stop : stop + SIDE])
        counts.update({*_frames(["<", *before]), *_frames([">", *after])})
    return max(counts.values(), default=0) / len(sightings)


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


EVIDENCE = {LATER: 1.28, NO_YEAR: 0.1, EARLIER: -2.0}
"""Log odds that a document adds: text about new things names later years (.54 of the judged
mentions of new entities, .10 of others of the same name) and hardly ever only earlier ones (.06,
.31). A document without a year counts a little, so that text without years is ranked too."""
NEW_TITLE, OLD_TITLE = 2.0, -3.0
"""The same for a title with its own year: "Gravity" (2013)."""
UNLIKE_POWER = 1.5
"""How steeply a meaning falls that is like a known one: known things in a new setting are."""
COPIED = 0.95
"""Contexts at least so alike are copies of one text."""
USUAL_PAST = 0.3
"""How alike new contexts and those of the articles are where nothing is known of them."""
PRIOR_PAST = 3
"""So many contexts of the articles weigh as much as that."""


@dataclass(frozen=True)
class Found:
    """A group of contexts that may be a new entity."""

    kind: ProposalKind
    tallies: tuple[NameTally, ...]
    name: str
    sightings: tuple[Sighting, ...]
    share: float
    """Share of the name's contexts that they are."""
    evidence: float
    """What the years in their text say, see `EVIDENCE`."""
    coherence: float
    novelty: float
    """By how much the contexts are more alike than like those of the knowledge base's articles."""
    fit: float
    """How well the contexts fit the best known meaning, 0 where nothing is known."""
    confused_with: int
    rise: float
    """Share of now in how frequent the name is now and was then."""
    doubt: float
    """What the name itself leaves of the score, 0 to 1: a full name hardly gets a new meaning."""

    @property
    def n_documents(self) -> int:
        """Documents that hold it, as far as the kept contexts tell."""
        n = sum(tally.n_documents for tally in self.tallies)
        return max(len(self.sightings), round(self.share * n))

    @property
    def n_mentions(self) -> int:
        """Mentions of it, as far as the kept contexts tell."""
        n = sum(tally.n_mentions for tally in self.tallies)
        return max(self.n_documents, round(self.share * n))

    @property
    def later(self) -> float:
        """Share of the documents that name a later year."""
        return sum(s.time == LATER for s in self.sightings) / len(self.sightings)

    @property
    def score(self) -> float:
        """What proposals of one kind are ranked by; nothing is proposed at 0."""
        often = math.sqrt(max(self.evidence, 0.0))
        if self.kind == "name":
            return float(often * max(self.coherence, 0.05) ** 0.25 * self.rise**2 * self.doubt)
        unlike = (1 - max(self.fit, 0.0)) ** UNLIKE_POWER
        return float(often * max(self.novelty, 0.0) * unlike * self.doubt)


@dataclass(frozen=True)
class Past:
    """What the knowledge base's own articles say: the same names there, and its last year."""

    tally: Tally
    year: int | None
    """The last year that it speaks of; None leaves time out."""

    def sightings(self, names: Iterable[str]) -> list[Sighting]:
        """Return how its articles use some names."""
        tallies = self.tally.names
        return [s for name in names if name in tallies for s in tallies[name].sightings]

    def n_documents(self, name: str) -> int:
        """Return in how many articles a name stands."""
        return self.tally.names[name].n_documents if name in self.tally.names else 0

    def rise(self, tallies: Sequence[NameTally], n_stream: int) -> float:
        """Return the share of now in how frequent names are now and were then, 0 to 1."""
        n_now = sum(t.n_documents + t.n_explained for t in tallies)
        now = n_now / max(n_stream, 1)
        then = sum(self.n_documents(t.name) for t in tallies) / max(self.tally.n_documents, 1)
        return now / (now + then)

    def evidence(self, sightings: Iterable[Sighting]) -> float:
        """Return what the years in the text say for a new entity; without years, documents."""
        if self.year is None:
            return float(sum(1 for _ in sightings))
        total = 0.0
        for sighting in sightings:
            year = sighting.own_year
            if year is None:
                total += EVIDENCE[sighting.time]
            else:
                is_new = self.year < year <= self.year + HORIZON
                total += NEW_TITLE if is_new else OLD_TITLE
        return total


def without_copies(rows: Int64, alike: Float64) -> Int64:
    """Leave out contexts that repeat an earlier one: what is copied was written once."""
    kept: list[int] = []
    for row in rows.tolist():
        if all(alike[row, other] < COPIED for other in kept):
            kept.append(row)
    return np.array(kept, dtype=np.int64)


def surprise(inside: Float64, past: Float32) -> float:
    """Return by how much contexts are more alike than like those of the past.

    Args:
        inside: Likeness of the n contexts of a cluster, (n, n).
        past: Their likeness to m contexts of the same name in the knowledge base, (n, m). Few of
            them prove little.
    """
    n, m = past.shape
    if n < 2:
        return 0.0
    alone = np.diag(np.full(n, np.inf))
    others = float(np.sort(inside - alone, axis=1)[:, 1:][:, -2:].mean())
    then = float(np.sort(past, axis=1)[:, -2:].mean()) if m else 0.0
    weight = min(m, 10)
    usual = (weight * max(then, 0.0) + PRIOR_PAST * USUAL_PAST) / (weight + PRIOR_PAST)
    return float(others - usual)


AGREEMENT = 0.4
"""Mean cosine of contexts that agree; unrelated ones have about 0."""
KNOWN_FIT = 0.7
"""A cluster whose contexts fit a known meaning at least so well is that meaning."""
REPEATED = 0.4
"""A proposal that shares so many of its places with a better one repeats it."""
NAME_AGREEMENT = 0.75
"""How much less contexts of an unknown word need to agree: it means fewer things."""
PROMISING = 5
"""How many names for each wanted proposal are looked at closely."""
TITLED_FIT = 0.75
"""An unknown name whose contexts fit so well what its last word means is that, with a title."""
TITLED_FULL_FIT = 0.4
"""The same for known names of several words: "President Barack Obama"."""


@dataclass(frozen=True)
class ProposeSettings:
    """What is proposed."""

    least_documents: int = 3
    """Fewer documents give no proposal."""
    ignored: frozenset[str] = frozenset()
    """Names that are never proposed, in any case."""
    types: frozenset[str] = frozenset()
    """Propose only what the text calls by one of these words; empty for anything."""
    max_proposals: int = 1000
    kinds: tuple[ProposalKind, ...] = ("name", "meaning")

    def __post_init__(self) -> None:
        if self.least_documents < 2 or self.max_proposals < 1:
            raise SettingsError(
                "A proposal needs at least 2 documents and a list at least 1 proposal, not "
                f"{self.least_documents} and {self.max_proposals}."
            )


def propose(
    tally: Tally, past: Past, contexts: ContextReader, settings: ProposeSettings
) -> list[Proposal]:
    """Return the proposals, the best first; the kinds take turns.

    Args:
        tally: What was seen.
        past: What the knowledge base's own articles say.
        contexts: Reads the contexts.
        settings: What is proposed.
    """
    ignored = {name.casefold() for name in settings.ignored}
    ranked: dict[ProposalKind, list[Found]] = {kind: [] for kind in settings.kinds}
    for found in _Search(tally, past, contexts, settings).run():
        if found.score > 0 and found.name.casefold() not in ignored:
            ranked[found.kind].append(found)
    for every in ranked.values():
        every.sort(key=lambda found: (-found.score, found.name, -found.n_documents))
    turns = (found for turn in zip_longest(*ranked.values()) for found in turn if found is not None)
    described = (describe_found(found, contexts) for found in _without_repeats(turns))
    wanted = (proposal for proposal in described if proposal.is_one_of(settings.types))
    return list(islice(wanted, settings.max_proposals))


@dataclass(frozen=True)
class _Search:
    """One look at all that was seen."""

    tally: Tally
    past: Past
    contexts: ContextReader
    settings: ProposeSettings

    @cached_property
    def longer(self) -> dict[str, list[NameTally]]:
        """Unknown longer names by the single words at their ends."""
        return groups.longer_names(self.tally.names.values())

    def run(self) -> Iterator[Found]:
        if "name" in self.settings.kinds:
            found = groups.group_names(self.tally.names)
            whole = (group for group in found if not groups.is_piece(group[0], self.longer))
            for group in self._promising(whole):
                # A name of several words as it is, and each meaning of a single word.
                head = group[0]
                if groups.opens_sentences(head, self._is_seen) or groups.is_phrase(head):
                    continue
                every = groups.completed(_distinct(s for t in group for s in t.sightings))
                name = next((s.name for s in every if s.name.startswith(head.name)), head.name)
                if not groups.is_variant(name, self.contexts.kb):
                    yield from self._clusters("name", group, name, every, [])
        if "meaning" in self.settings.kinds:
            known = (t for t in self.tally.names.values() if t.alias >= 0)
            names = ((tally,) for tally in known if not groups.is_date(tally.name))
            for (tally,) in self._promising(names):
                # What a known name means here, alone and inside longer unknown names.
                name, longer = tally.name, self.longer.get(tally.name, ())
                inside = groups.seen_inside(
                    (s for t in longer for s in t.sightings), name, tally.alias
                )
                every = sorted(_distinct((*tally.sightings, *inside)), key=draw)
                every = every[: self.tally.sample_size]
                known = self.contexts.kb.candidates(name).ids.tolist()
                yield from self._clusters("meaning", (tally,), name, every, known)

    def _promising(self, found: Iterable[NameGroup]) -> list[NameGroup]:
        """Return the groups that could rank among the first, by what is cheap to know of them."""
        least, ranked = self.settings.least_documents, []
        for group in found:
            name, n = group[0].name, sum(tally.n_documents for tally in group)
            if group[0].alias >= 0:
                n += sum(t.n_documents for t in self.longer.get(name, ()))
            if n >= least:
                sightings = (s for tally in group for s in tally.sightings)
                n_later = sum(s.time == LATER for s in sightings)
                ranked.append((-n_later, -n, name, group))
        ranked.sort(key=lambda item: item[:3])
        return [group for *_, group in ranked[: PROMISING * self.settings.max_proposals]]

    def _is_seen(self, name: str) -> bool:
        return name in self.tally.names or self.contexts.kb.alias_id(name) >= 0

    def _clusters(
        self,
        kind: ProposalKind,
        tallies: tuple[NameTally, ...],
        name: str,
        sightings: Sequence[Sighting],
        known: Sequence[int],
    ) -> Iterator[Found]:
        """Yield the clusters of contexts that fit none of the known meanings."""
        if len(sightings) < self.settings.least_documents:
            return
        vectors = self.contexts.word_vectors(sightings)
        plain = (vectors @ vectors.T).astype(np.float64)
        is_one = kind == "name" and " " in name
        clusters: list[Int64] = [np.arange(len(sightings))]
        if not is_one:
            agreement = AGREEMENT * (NAME_AGREEMENT if kind == "name" else 1)
            clusters = cluster(self.contexts.likeness(sightings, vectors), agreement)
        clusters = [without_copies(rows, plain) for rows in clusters]
        clusters = [rows for rows in clusters if len(rows) >= self.settings.least_documents]
        then = self.past.sightings(t.name for t in tallies) if clusters else []
        past = self.contexts.word_vectors(then) if then else vectors[:0]
        for rows in clusters:
            chosen, share = tuple(sightings[i] for i in rows), len(rows) / len(sightings)
            kb, doubt = self.contexts.kb, 1.0
            if kind == "meaning":
                doubt = doubt_meaning(name, chosen, share, known, kb, self.past)
            fit, best = self.contexts.fit(vectors[rows], known)
            if doubt == 0 or fit >= KNOWN_FIT or self._is_titled(name, vectors[rows]):
                continue
            inside = plain[np.ix_(rows, rows)]
            evidence, agreed = self.past.evidence(chosen), coherence(inside)
            new = surprise(inside, vectors[rows] @ past.T)
            rise = self.past.rise(tallies, self.tally.n_documents)
            yield Found(
                kind, tallies, name, chosen, share, evidence, agreed, new, fit, best, rise, doubt
            )

    def _is_titled(self, name: str, vectors: Float32) -> bool:
        """Tell whether a name is a known one with a title in front, by what its contexts fit."""
        kb = self.contexts.kb
        for part in groups.parts_of(name):
            # "Space Telescope" is a kind of thing, which new things are of; "Obama" is none.
            if not name.endswith(f" {part}") or kb.alias_id(part.lower()) >= 0:
                continue
            if kb.alias_id(part) >= 0:
                fit, _ = self.contexts.fit(vectors, kb.candidates(part).ids.tolist()[:20])
                if fit >= (TITLED_FULL_FIT if " " in part else TITLED_FIT):
                    return True
        return False


def _without_repeats(ranked: Iterable[Found]) -> Iterator[Found]:
    """Leave out what is mostly seen at the same places as something that ranks higher."""
    taken: set[tuple[str, int]] = set()
    for found in ranked:
        places = {(s.document, s.end) for s in found.sightings}
        places |= {(s.document, s.start) for s in found.sightings}
        if len(places & taken) < REPEATED * len(places):
            taken |= places
            yield found


def _distinct(sightings: Iterable[Sighting]) -> list[Sighting]:
    """Return one sighting a document: of the first name."""
    first: dict[str, Sighting] = {}
    for sighting in sightings:
        first.setdefault(sighting.document, sighting)
    return list(first.values())
