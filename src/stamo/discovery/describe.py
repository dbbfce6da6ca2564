"""What a proposal tells: the words and entities it comes with, and one line about it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from stamo.discovery.contexts import ContextReader
from stamo.discovery.proposal import Occurrence, Proposal, proposal_id
from stamo.discovery.score import Found
from stamo.discovery.sightings import Sighting
from stamo.discovery.spans import FREQUENT_WORD
from stamo.kb.base import KnowledgeBase
from stamo.kb.word_weights import STOP_WORD_FREQUENCY

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
        lines = [line for s in sightings if (line := _definition(s, pattern, is_sentence))]
        if lines:
            return min(lines, key=lambda line: (abs(len(line) - 100), line))
    frequent = [(text, n) for text, n in _beside(name, sightings).items() if n > 1]
    texts = [text for text, _ in sorted(frequent, key=_most)]
    kinds = [t for t in texts if _says(t.removeprefix(name).removesuffix(name).strip(), kb)]
    return "; ".join(kinds[:3])


def _definition(s: Sighting, pattern: re.Pattern[str], is_sentence: bool) -> str:
    match = pattern.match(s.window, s.stop)
    if match and is_sentence:
        match = _SENTENCE_END.search(s.window, s.stop)
    return " ".join(s.window[s.at : match.end()].split())[:ABOUT_CHARACTERS] if match else ""


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
