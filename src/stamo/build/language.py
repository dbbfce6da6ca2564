"""Tell the language of notes and tables, which do not say it themselves."""

from __future__ import annotations

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from stamo.corpus.tokenizer import tokenize

MAX_SAMPLE = 200_000
"""Characters that are looked at."""
MIN_WEIGHT = 2.0
"""What the words of a language that are met must weigh together; one of it alone weighs 1."""
MIN_SHARE = 0.03
"""Of all words, those of a language; running text has ten times as many."""
MIN_LEAD = 1.3
"""How much more than those of the next language they must weigh."""
DEFAULT = "en"


@dataclass(frozen=True)
class AssumedLanguage:
    """The language of a source that does not say it."""

    code: str
    is_told: bool
    """Whether the text tells it; if not, it is the default."""

    def __str__(self) -> str:
        why = "as its words and letters tell" if self.is_told else "as its text tells no other"
        return f"The language is assumed to be {self.code}, {why}; --language CODE says another."


def guess_language(texts: Iterable[str]) -> AssumedLanguage:
    """Tell the language that most of some texts are in, English where they do not tell.

    Args:
        texts: Read in their order until they are enough.
    """
    words: list[str] = []
    n_read = 0
    for text in texts:
        words += tokenize(text[: MAX_SAMPLE - n_read])[0]
        n_read += len(text)
        if n_read >= MAX_SAMPLE:
            break
    counts, known = Counter(words), _known()
    script = _main_script(counts)
    code = known["scripts"].get(script) or _by_words(counts) or known["first"].get(script)
    return AssumedLanguage(code or DEFAULT, bool(code))


def _main_script(counts: Counter[str]) -> str:
    """Return the script that most letters are in."""
    n_letters: Counter[str] = Counter()
    for word, n in counts.items():
        for sign in filter(str.isalpha, word):
            n_letters[_script(sign)] += n
    # Japanese is written in Han characters for the most part, but never in them alone.
    if n_letters["HIRAGANA"] + n_letters["KATAKANA"] > 0.1 * n_letters["CJK"]:
        n_letters["HIRAGANA"] += n_letters.pop("CJK", 0)
    return max(n_letters, key=n_letters.__getitem__, default="")


def _by_words(counts: Counter[str]) -> str | None:
    """Return the language whose words and letters are met most often, if that is plain."""
    words, letters = _weights("words"), _weights("letters")
    met: dict[str, float] = {}
    for word, n in counts.items():
        found = [words.get(word, {}), *(letters[sign] for sign in {*word} & letters.keys())]
        for language in {code for some in found for code in some}:
            most = max(some.get(language, 0.0) for some in found)
            met[language] = met.get(language, 0.0) + n * most
    ranked = sorted(met, key=met.__getitem__, reverse=True)
    most, second = ([met[code] for code in ranked[:2]] + [0.0, 0.0])[:2]
    is_plain = most >= max(MIN_WEIGHT, MIN_SHARE * counts.total(), MIN_LEAD * second)
    return ranked[0] if is_plain and ranked else None


@cache
def _script(sign: str) -> str:
    return unicodedata.name(sign, "").partition(" ")[0]


@cache
def _known() -> dict[str, dict[str, str]]:
    path = resources.files("stamo.build") / "languages.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _weights(kind: str) -> dict[str, dict[str, float]]:
    """Return for each listed word or letter its languages; one of several weighs less."""
    languages: dict[str, list[str]] = {}
    for language, listed in _known()[kind].items():
        for one in dict.fromkeys(listed.split()):
            languages.setdefault(one, []).append(language)
    return {one: dict.fromkeys(some, 1 / len(some)) for one, some in languages.items()}
