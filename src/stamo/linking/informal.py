"""Names as tweets and posts write them: without capitals, and run together behind # and @.

A document with hardly any capital is searched again with one on every word: "i love new york". In
#StarWars and @BarackObama the words are cut apart where a capital begins; the place of a name stays
that of its letters. What is found in small letters counts only where the name is a link often and
is never one in small letters, as "london" and "microsoft" are, but not "love", "apple" or "may".
"bbc" is BBC, as that is how the word is mostly written; "who" is not WHO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stamo.corpus.tokenizer import capital, lower
from stamo.kb.base import KnowledgeBase
from stamo.linking.texts import SEPARATOR, CodeArray, JoinedTexts
from stamo.system.arrays import Bools, Int32, Int64

LEAST_LINK_PROBABILITY = 0.25
"""What a name needs to be found in small letters."""
LONGEST_INITIALS = 5
"""Letters of a word that may be initials in small letters."""
LEAST_INITIALS_SHARE = 0.1
"""Articles with a name in capitals for each time that the word is written in any case."""
MAX_SHORT_WORD = 3
"""Words up to this length may be small in a name, as "of" is."""
_PIECE = re.compile(r"[^\W\d_a-z]+(?![a-z])|[^\W\d_]?[^\W\d_A-Z]+|\d+")


def raised(codes: CodeArray, places: Bools) -> CodeArray:
    """Return characters with capitals at some places."""
    codes, written = codes.copy(), codes[places]
    letters = np.flatnonzero(np.bincount(written))  # sorting them would take most of the time
    table = np.zeros(letters.max(initial=0) + 1, dtype=np.uint32)
    table[letters] = [ord(capital(chr(c))) for c in letters.tolist()]
    codes[places] = table[written]
    return codes


def cut_tags(joined: JoinedTexts, words: Int64) -> Iterator[tuple[str, Int64, Bools]]:
    """Yield the tags that hold several words, written apart, also with their short words small.

    Yields:
        The words with a space between; the place that each character comes from; which of them
        begin a word inside.
    """
    for start, end in zip(joined.starts[words].tolist(), joined.ends[words].tolist(), strict=True):
        pieces = [(m.start(), m.end()) for m in _PIECE.finditer(joined.text, start, end)]
        if len(pieces) < 2 or pieces[0][0] != start:
            continue
        pieces_of = [joined.text[a:b] for a, b in pieces]
        short = [w.lower() if len(w) <= MAX_SHORT_WORD else w for w in pieces_of[1:]]
        # A space takes the place of the letter before it.
        places = [np.append(np.arange(a, b), b - 1) for a, b in pieces]
        origin = np.concatenate(places).astype(np.int64)
        begins = np.zeros(len(origin), dtype=np.bool_)
        begins[np.cumsum([len(place) for place in places])[:-1]] = True
        for written in dict.fromkeys([tuple(pieces_of), (pieces_of[0], *short)]):
            yield " ".join(written) + SEPARATOR, origin, begins


def fit_for_small_letters(kb: KnowledgeBase, aliases: Int32) -> Bools:
    """Tell which names may be found in small letters, shape (n,)."""
    names = kb.aliases(aliases)
    # No common word has full stops inside, so "u.s." needs no more than "U.S." does.
    dotted = np.fromiter(("." in name[:-1] and " " not in name for name in names), bool, len(names))
    likely = dotted | (kb.link_probability[aliases] >= LEAST_LINK_PROBABILITY)
    initials = [i for i, name in enumerate(names) if len(name) > 1 and name.isupper()]
    likely[initials] &= dotted[initials] | _is_written_so(kb, aliases[initials])
    return np.asarray(likely & (kb.alias_ids([lower(name) for name in names]) < 0))


def _is_written_so(kb: KnowledgeBase, aliases: Int32) -> Bools:
    """Tell which names in capitals are what their letters mostly are; none without word counts."""
    if not kb.dimensions:
        return np.zeros(len(aliases), dtype=np.bool_)
    words = kb.word_ids([lower(name) for name in kb.aliases(aliases)])
    counts = np.where(words >= 0, kb.word_counts[np.maximum(words, 0)], 0)
    return np.asarray(kb.alias_documents[aliases] >= LEAST_INITIALS_SHARE * counts)
