"""Short forms of names that the same document writes in full.

Who is called "Katy Perry" once is "Perry" from then on; the "National Cancer Institute" becomes
"NCI". A short form keeps the candidates that it has by itself and gains those of the full names
around it, as if it had been a link to them a few times more. A name with many links of its own
hardly notices, and one that is a title itself ("Cardiff" beside "Cardiff University") is short for
nothing: with titles, four links of held-out articles went wrong for one that was put right.

By themselves short forms are seldom links, so nobody would look for them. After the full name in
the same document `RepeatedNames` finds them: the last word where the knowledge base has no other
name of this form, or links it to the same entity; initials ("GM") only where it links them so.
Beside another word with a capital they are part of another name: "Laura Bush" is nobody called
"George Bush" before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from html import unescape

import numpy as np

from stamo.corpus.tokenizer import begins_small
from stamo.features.mentions import Lexicon
from stamo.kb.base import CandidateTable, KnowledgeBase, normalise_surface
from stamo.kb.storage import expand
from stamo.linking.haystack import begins_sentence
from stamo.linking.texts import Detected, JoinedTexts
from stamo.system.files import Bools, Int32, Int64

_QUOTES = "\"'`“”‘’«»„‚‹›()[]{}<>.,;:!?*_|/\\-–— "
_POSSESSIVES = ("'s", "’s", "'", "’")
_PLAIN = str.maketrans("‘’ʼ‐‑‒–—−", "'''------")
SPELLING_WEIGHT = 1.0
"""Links that all other spellings of a name together are worth beside its own."""
LONGER_WEIGHT = 0.5
"""The same for all longer names that begin with it."""
LEAST_FORM_SHARE = 0.003
"""A form that would get less of the prior than this is left out."""
MAX_PREFIXED = 500
MIN_LONGER = 3
MAX_INITIALS = 5
MAX_REMEMBERED = 100_000
"""Names whose forms are remembered, of some hundred bytes each; then all are forgotten."""
MAX_PARTS = 5
_BEFORE_DIGIT = re.compile(r"(?<=[^\W\d_])(?=\d)")
_BRACKETS = re.compile(r" \([^()]*\)?$")
_TITLES = (
    "mr mrs ms miss dr prof professor sir dame lord lady president king queen emperor empress pope "
    "prince princess duke earl count saint st general captain colonel admiral senator governor "
    "congressman representative judge justice minister chancellor rev reverend bishop archbishop "
    "cardinal state republic kingdom city town county province district commonwealth the of"
)
TITLES = frozenset(_TITLES.split())
"""English words before a name that say what it is and belong to it only sometimes."""


def known_names(kb: KnowledgeBase, surfaces: Sequence[str]) -> list[str]:
    """Return for each surface the alias to look it up by; unknown ones come back as they are.

    What HTML escapes is read as a browser does. The exact form comes first, then other spellings
    of it: other quotes and dashes, without quotes around it, without a possessive, without an
    article, in another case.
    """
    names = [normalise_surface(unescape(surface)) for surface in surfaces]
    unknown: Int64 = np.flatnonzero(kb.alias_ids(names) < 0)
    for i in unknown.tolist():
        names[i] = _first_known(kb, other_spellings(names[i])) or names[i]
    return names


def _first_known(kb: KnowledgeBase, spellings: Iterable[str]) -> str:
    """Return the first of some spellings that is an alias, empty where none is."""
    distinct = list(dict.fromkeys(spellings))
    found = np.flatnonzero(kb.alias_ids(distinct) >= 0)
    return distinct[found[0]] if len(found) else ""


NameForms = tuple[tuple[int, float], ...]
"""Aliases that a name may be another form of, each with how much it counts: as if the name had been
so many links to the alias's entities."""


def name_forms(kb: KnowledgeBase, name: str) -> NameForms:
    """Find the aliases that are written like a given name, or begin with it; none if only itself.

    Somebody says that it is a name, so it is searched harder than those that are detected: in other
    spellings, in singular and plural ("Lectionaries"), as the beginning of a longer name
    ("Asheville" of "Asheville, North Carolina"). A name's own links outweigh all of that as soon as
    there are some.
    """
    own = kb.alias_id(name)
    alike = _shares(kb, set(spelled_alike(name)), own, SPELLING_WEIGHT)
    longer = _shares(kb, _longer(kb, name, own), own, LONGER_WEIGHT)
    if own < 0 and not alike and not longer:
        longer = _shares(kb, _without_title(kb, name), own, LONGER_WEIGHT)
    if not alike and not longer:
        return ()
    itself = {own: float(max(kb.alias_counts[own], 1))} if own >= 0 else {}
    return *(longer | alike).items(), *itself.items()


def _shares(kb: KnowledgeBase, forms: Collection[str], own: int, weight: float) -> dict[int, float]:
    """Divide a weight among the known forms of a name by how often each is a link.

    Args:
        kb: Knows the forms.
        forms: Other forms of the name.
        own: The alias that the name is itself, which gets nothing; -1 where it is none.
        weight: What is divided.

    Returns:
        The share of each alias, ascending; small ones are left out.
    """
    known = {alias for alias in kb.alias_ids(list(forms)).tolist() if alias >= 0} - {own}
    if not known:
        return {}
    aliases = np.array(sorted(known), dtype=np.int32)
    counts = np.maximum(kb.alias_counts[aliases], 0.5)
    shares = weight * counts / counts.sum()
    n_own = float(kb.alias_counts[own]) if own >= 0 else 0.0
    kept = shares >= LEAST_FORM_SHARE * (n_own + weight)
    return dict(zip(aliases[kept].tolist(), shares[kept].tolist(), strict=True))


def _longer(kb: KnowledgeBase, name: str, own: int) -> list[str]:
    """Return the known names that begin with a name and mean something else."""
    if len(name) < MIN_LONGER:
        return []
    longer = [n for sign in ", -" for n in kb.names_with_prefix(name + sign, MAX_PREFIXED)]
    if not longer or own < 0:
        return longer
    meant = set(kb.by_alias.single(own).ids.tolist())
    first = kb.candidate_table(longer, 1)[0][:, 0].tolist()
    return [n for n, entity in zip(longer, first, strict=True) if entity not in meant]


def _without_title(kb: KnowledgeBase, name: str) -> list[str]:
    """Return the known name that is left without words that only describe it.

    Words in small letters and titles do: "western Anatolia", "Emperor Leopold I", "State of
    Nevada". Another capital does not: who "Bob Perry" is, "Perry" does not tell.
    """
    words = name.strip(_QUOTES).split(" ")
    for n in range(len(words) - 1, 0, -1):
        for first in range(len(words) - n, -1, -1):
            rest = words[:first] + words[first + n :]
            if all(w[:1].islower() or w.rstrip(".").lower() in TITLES for w in rest):
                kept = " ".join(words[first : first + n])
                known = _first_known(kb, [kept, *other_spellings(kept)])
                if kept[:1].isupper() and known:
                    return [known]
    return []


def spelled_alike(name: str) -> Iterator[str]:
    """Yield other ways to write a name, in another number and with other signs inside too."""
    yield from other_spellings(name)
    bare = name.strip(_QUOTES).translate(_PLAIN).removesuffix("'s")
    for other in dict.fromkeys(_other_forms(bare)):
        yield other
        yield from other_cases(other)


def _other_forms(name: str) -> Iterator[str]:
    """Yield a name in another number, with other signs, and with its parts in other ways."""
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):  # as English forms them
        if name.lower().endswith(ending) and len(name) > len(ending) + 2:
            yield name[: -len(ending)] + singular
    yield name + "s"
    yield from (name.replace("-", " "), name.replace(" ", "-"), name.replace("-", ""))
    yield from (name.replace(".", ""), name.replace(" & ", " and "), name.replace(" and ", " & "))
    if 1 < len(name) <= MAX_INITIALS and name.isupper() and name.isalpha():
        yield "".join(f"{letter}." for letter in name)
    yield from (_BEFORE_DIGIT.sub("-", name), _BEFORE_DIGIT.sub(" ", name))
    yield _BRACKETS.sub("", name)
    words = name.split(" ")
    if not 1 < len(words) <= MAX_PARTS:
        return
    yield from (f"The {name}", "".join(words))
    first, rest = words[0], " ".join(words[1:])
    if first.replace(".", "").isupper() and len(letters := first.replace(".", "")) <= MAX_INITIALS:
        yield from (f"{'.'.join(letters)}. {rest}", f"{'. '.join(letters)}. {rest}")
    if len(words) == 2:
        yield f"{rest} of {first}"
    for i in range(1, len(words)):
        left, right = " ".join(words[:i]), " ".join(words[i:])
        yield from (f"{left}-{right}", f"{left}, {right}", f"{left} ({right})")
    for i, word in enumerate(words):
        if word.endswith("s") and "'" not in word:
            yield " ".join([*words[:i], f"{word[:-1]}'s", *words[i + 1 :]])


def other_spellings(name: str) -> Iterator[str]:
    """Yield other ways to write a name, the closest first."""
    bases = [
        name,
        name.translate(_PLAIN),
        name.strip(_QUOTES),
        name.strip(_QUOTES).translate(_PLAIN),
    ]
    for base in list(bases):
        bases += [base.removesuffix(ending) for ending in _POSSESSIVES if base.endswith(ending)]
    bases += [base[4:] for base in bases if base[:4].lower() == "the "]
    bases = [base for base in dict.fromkeys(bases) if base]
    yield from bases
    for base in bases:
        yield from other_cases(base)


def other_cases(name: str) -> tuple[str, ...]:
    """Return a name in small letters, capitals and the ways between."""
    first, rest, small, title = name[:1], name[1:], name.lower(), name.title()
    capital = first.upper()
    begin, *others = title.split(" ")
    short = [word.lower() if len(word) <= 3 else word for word in others]
    return (
        capital + rest,
        first.lower() + rest,
        title,
        small,
        name.upper(),
        capital + rest.lower(),
        " ".join([begin, *short]),
    )


MAX_MIXED = 100
"""Candidates of each of several names that are mixed."""
FULL_NAME_WEIGHT = 5.0
"""Links that a full name in the same document is worth."""
_QUALIFIER = re.compile(r"(,| \().*")
_MAX_WORDS = 6
_MIN_INITIALS = 2
MIN_WORD = 3
MAX_FULL_WORDS = 4
"""Longer names are titles of works and offices, whose last word is short for nothing."""
_JOINS = frozenset(" -&/'’")


@lru_cache(maxsize=1 << 14)
def short_forms(name: str) -> tuple[str, ...]:
    """Return in small letters how a name of several words may be shortened.

    To its first words, its last words, each word alone, and its initials.
    """
    words = name.lower().replace(",", "").split(" ")[:_MAX_WORDS]
    n = len(words)
    if n < 2:
        return ()
    capitals = "".join([part[0] for part in name.split(" ") if part[:1].isupper()]).lower()
    return (
        *(" ".join(words[:i]) for i in range(1, n)),
        *(" ".join(words[i:]) for i in range(1, n)),
        *words[1:-1],
        "".join([word[:1] for word in words]),
        *([capitals] if len(capitals) >= _MIN_INITIALS else []),
    )


def shortened(names: Sequence[str]) -> tuple[Int64, Int64]:
    """Find among distinct names those that may be short for another; return both, as indices.

    Every batch comes through here, so names of two words, most of all, are taken apart in place.
    """
    lowered = [name.lower() for name in names]
    short: dict[str, list[int]] = {}
    for place, form in enumerate(lowered):
        if not begins_small(names[place]):
            # "BA" and "Ba" are two names: what one is short for must not depend on the other.
            short.setdefault(form, []).append(place)
    pairs: set[tuple[int, int]] = set()
    for full, name in enumerate(lowered):
        if " " not in name:
            continue
        first, _, rest = name.partition(" ")
        if " " in rest or "," in name:
            forms: Sequence[str] = short_forms(names[full])
        else:
            forms = (first, rest, first[:1] + rest[:1])
        for form in forms:
            if form in short:
                pairs.update((place, full) for place in short[form] if place != full)
    found = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def mix_surfaces(
    kb: KnowledgeBase,
    names: Sequence[str],
    aliases: Int32,
    documents: Int32,
    surfaces: Int32,
    related: Mapping[int, NameForms],
    fixed: frozenset[str],
) -> tuple[Int32, Int64, tuple[Int64, CandidateTable] | None]:
    """Give names that may be forms of several others the candidates of all of them.

    A name that is short for another in one document is not in the next, so it becomes a surface of
    its own in every document with a full form.

    Args:
        kb: Knows the candidates.
        names: The n distinct names.
        aliases: Their aliases, -1 for unknown ones, shape (n,).
        documents: The document of each mention, shape (M,).
        surfaces: The name of each mention, shape (M,).
        related: Forms of names that hold in every document, by the names.
        fixed: Names that are left as they are.

    Returns:
        The surface of each mention, (M,); the name of every surface, those added last; and the
        candidates of mixed surfaces, None when there are none.
    """
    n = len(names)
    short, full = shortened(names)
    # A name that is fixed, or the title of what it means most often, is short for nothing.
    chosen = np.unique(short)
    best = kb.by_alias.batch(aliases[chosen], 1)[0][:, 0]
    titles = dict(zip(best[best >= 0].tolist(), kb.titles(best[best >= 0]), strict=True))
    pairs = zip(chosen.tolist(), best.tolist(), strict=True)
    is_whole = [names[i] in fixed or is_own_title(names[i], titles.get(e, "")) for i, e in pairs]
    usable = (aliases[full] >= 0) & ~np.isin(short, chosen[np.array(is_whole, np.bool_)])
    document, short, full = in_documents(short[usable], full[usable], documents, surfaces)
    keys, row = np.unique(document * n + short, return_inverse=True)
    own = keys % n  # the short names, of which each becomes a surface after the n-th
    name_of = np.concatenate([np.arange(n), own])
    if len(keys):
        mine = documents.astype(np.int64) * n + surfaces
        place = np.minimum(np.searchsorted(keys, mine), len(keys) - 1)
        surfaces = np.where(keys[place] == mine, n + place, surfaces).astype(np.int32)
    # What the short names mean by themselves: by their related forms, or their own links.
    table = [(i, *form) for i, forms in related.items() for form in forms]
    of_name, alias_of, weight_of = np.array(table, dtype=np.float64).reshape(-1, 3).T
    of_name, alias_of = of_name.astype(np.int64), alias_of.astype(np.int32)
    first = np.searchsorted(of_name, own)
    n_forms = np.searchsorted(of_name, own, side="right") - first
    forms = expand(first, n_forms)
    alone = np.flatnonzero((n_forms == 0) & (aliases[own] >= 0))
    links = np.maximum(kb.alias_counts[aliases[own[alone]]], 1).astype(float)
    surface = [of_name, n + row, n + np.repeat(np.arange(len(own)), n_forms), n + alone]
    alias = [alias_of, aliases[full], alias_of[forms], aliases[own[alone]]]
    weight = [weight_of, np.full(len(row), FULL_NAME_WEIGHT), weight_of[forms], links]
    used, place = np.unique(np.concatenate(surface), return_inverse=True)
    if not len(used):
        return surfaces, name_of, None
    mixed = kb.by_alias.mix(
        place, np.concatenate(alias), np.concatenate(weight), len(used), MAX_MIXED
    )
    return surfaces, name_of, (used, mixed)


def is_own_title(name: str, title: str) -> bool:
    """Tell whether a name is a title, without what that adds ("Anchorage, Alaska")."""
    return name.lower() == _QUALIFIER.sub("", title).lower()


def in_documents(
    short: Int64, full: Int64, documents: Int32, surfaces: Int32
) -> tuple[Int64, Int64, Int64]:
    """Return document, short name and full name wherever a document holds both.

    Args:
        short: Short names, shape (n,).
        full: What each may be short for, shape (n,).
        documents: The document of each mention, shape (M,).
        surfaces: The name of each mention, shape (M,).
    """
    present = np.unique(surfaces.astype(np.int64) << 32 | documents)
    first = np.searchsorted(present, full << 32)
    n_documents = np.searchsorted(present, (full + 1) << 32) - first
    document = present[expand(first, n_documents)] & 0xFFFFFFFF
    short, full = np.repeat(short, n_documents), np.repeat(full, n_documents)
    both = np.isin(short << 32 | document, present)
    return document[both], short[both], full[both]


@dataclass(eq=False)
class RepeatedNames:
    """Finds short forms of names that stand before them in the same document."""

    kb: KnowledgeBase
    _forms: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What may be short for each alias that was met."""

    def add_to(self, joined: JoinedTexts, found: Detected) -> Detected:
        """Find short forms outside the mentions that were found already; return all in order."""
        full: dict[str, list[int]] = defaultdict(list)
        present = np.unique(found.aliases[found.aliases >= 0]).tolist()
        if len(self._forms) > MAX_REMEMBERED:
            self._forms.clear()
        self._decide([alias for alias in present if alias not in self._forms])
        for alias in present:
            for form in self._forms[alias]:
                full[form].append(alias)
        small = {form.lower() for form in full}
        capital = np.flatnonzero(joined.is_raised)
        before = np.searchsorted(found.starts, joined.starts[capital], side="right") - 1
        reached = np.append(found.ends, 0)[before]  # 0 where nothing was found before
        outside = capital[reached <= joined.starts[capital]].tolist()
        words = joined.words
        hits = np.array([i for i in outside if words[i] in small], dtype=np.int64)
        if not len(hits):
            return found
        hits = hits[self._stands_alone(joined, hits)]
        # Each belongs to the nearest full name before it in its document.
        rows: list[tuple[int, int, int]] = []
        places: dict[int, Int64] = {}
        first = joined.offsets[joined.document_of(joined.starts[hits])]
        spans = (first.tolist(), joined.starts[hits].tolist(), joined.ends[hits].tolist())
        for begin, start, end in zip(*spans, strict=True):
            nearest = (-1, -1)
            for alias in full.get(joined.text[start:end], ()):
                if alias not in places:
                    places[alias] = found.starts[found.aliases == alias]
                at = int(np.searchsorted(places[alias], start)) - 1
                if at >= 0 and places[alias][at] >= begin:
                    nearest = max(nearest, (int(places[alias][at]), alias))
            if nearest[1] >= 0:
                rows.append((start, end, nearest[1]))
        starts, ends, aliases = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        none = np.full(len(rows), -1, np.int32)
        every = Detected.join([found, Detected(starts, ends, aliases.astype(np.int32), none)])
        return every.take(np.argsort(every.starts, kind="stable"))

    def _decide(self, aliases: list[int]) -> None:
        """Find out, many names at a time, what may be short for them.

        A form that is a name itself must be linked to what the full name means, and not be the
        title of what it means most often.
        """
        kb = self.kb
        pairs = []
        for alias, name in zip(aliases, kb.aliases(aliases), strict=True):
            words = name.split(" ") if " " in name else ()
            if not 2 <= len(words) <= MAX_FULL_WORDS or not all([w[:1].isupper() for w in words]):
                continue
            last, initials = words[-1], "".join([word[0] for word in words])
            if len(last) >= MIN_WORD and last.isalpha() and not last.isupper():
                pairs.append((alias, last))
            if initials.isalpha():
                pairs.append((alias, initials))
        self._forms.update(dict.fromkeys(aliases, ()))
        full = np.array([alias for alias, _ in pairs], dtype=np.int64)
        short = kb.alias_ids([form for _, form in pairs])
        meant, first = (kb.by_alias.batch(names, 1)[0][:, 0] for names in (full, short))
        linked = (short >= 0) & (kb.by_alias.counts(short, meant) > 0)
        titles = dict(zip(first[linked].tolist(), kb.titles(first[linked]), strict=True))
        rows = zip(pairs, short.tolist(), linked.tolist(), first.tolist(), strict=True)
        for (alias, form), own, is_linked, e in rows:
            unknown = own < 0 and not form.isupper()
            if unknown or (is_linked and not is_own_title(form, titles[e])):
                self._forms[alias] += (form,)

    def _stands_alone(self, joined: JoinedTexts, words: Int64) -> Bools:
        """Tell which words with a capital are no part of a longer name."""
        alone = np.ones(len(words), dtype=np.bool_)
        begins: Bools | None = None
        for row, i in enumerate(words.tolist()):
            after = _is_beside(joined, i, i + 1, i + 1)
            before = _is_beside(joined, i - 1, i, i - 1)
            if before and joined.words[i - 1] in TITLES:
                before = False
            elif before:
                word = self._lexicon.words.find(joined.words[i - 1])
                if word >= 0 and self._lexicon.is_stop_word[word]:
                    begins = begins_sentence(joined) if begins is None else begins
                    before = not begins[i - 1]
            alone[row] = not after and not before
        return alone

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon.of(self.kb)


def _is_beside(joined: JoinedTexts, left: int, right: int, other: int) -> bool:
    """Tell whether one sign joins two words, the other of which has a capital."""
    if left < 0 or right >= len(joined.words):
        return False
    start = joined.starts[other]
    is_capital = bool(joined.codes[start] != joined.lowered[start])
    return is_capital and joined.text[joined.ends[left] : joined.starts[right]] in _JOINS
