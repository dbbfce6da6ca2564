"""Documents, mentions and the emerging entity: plain values that every layer shares.

Offsets count characters of `Document.text`, not tokens: links, labels and linked output all speak
of characters, and the encoding is the only place that needs tokens.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stamo.errors import CorpusFormatError, SettingsError

MAX_ALIASES = 10
MAX_NAME = 500
MAX_DESCRIPTION = 2000
MAX_IDENTITY = 300
_BRACKETS = re.compile(r"\s*\(([^()]*)\)")

LabelKey = tuple[str, int]
"""A candidate mention: (document id, index in `Document.mentions`)."""

Labels = Mapping[LabelKey, str]
"""The entity of each labelled mention, by its title or id."""


def _refuse_one_text(name: str, aliases: Sequence[str]) -> None:
    # A text is a sequence of texts too: each of its letters would be an alias.
    if isinstance(aliases, str):
        raise SettingsError(
            f"The aliases of {name!r} are one text, {aliases!r}; give a tuple: ({aliases!r},)."
        )


@dataclass(frozen=True, slots=True)
class EmergingEntity:
    """An emerging entity e*: its aliases A(e*), and perhaps a description."""

    id: str
    aliases: tuple[str, ...]
    description: str = ""
    """What a person wrote about it; empty where nobody did."""
    external_id: str = ""
    """What it is called elsewhere, such as Q29584 in Wikidata."""
    type: str = ""
    """What kind of thing it is, in the user's words."""
    url: str = ""
    """A page about it."""

    @classmethod
    def named(
        cls,
        name: str,
        aliases: Sequence[str] = (),
        *,
        description: str = "",
        external_id: str = "",
        type: str = "",
        url: str = "",
    ) -> EmergingEntity:
        """Describe an entity by its name, which is one of its aliases where it fits.

        "Rey (film)" is how an encyclopaedia would title it: no text says so, and it is no alias
        where another one is given.
        """
        name = name.strip()
        _refuse_one_text(name, aliases)
        given = dict.fromkeys(alias.strip() for alias in aliases)
        if not given or (len(given) < MAX_ALIASES and not name.endswith(")")):
            given[name] = None
        return cls(name, tuple(given), description, external_id.strip(), type.strip(), url.strip())

    @property
    def identity(self) -> dict[str, str]:
        """What it is called elsewhere, where anything is known: "id", "type" and "url"."""
        known = {"id": self.external_id, "type": self.type, "url": self.url}
        return {name: value for name, value in known.items() if value}

    @property
    def plain_name(self) -> str:
        """The name as text would say it: "Dawn" of "Dawn (spacecraft)"."""
        return _BRACKETS.sub(" ", self.id).strip()

    @property
    def qualifier(self) -> str:
        """What tells the name from others like it: "spacecraft" of "Dawn (spacecraft)"."""
        return " ".join(part.strip() for part in _BRACKETS.findall(self.id))

    @property
    def line(self) -> str:
        """What is said of it: the description, else the qualifier; empty where there is none."""
        return self.description or self.qualifier

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise SettingsError("An emerging entity needs a name; the name given is empty.")
        _refuse_one_text(self.id, self.aliases)
        if not 1 <= len(self.aliases) <= MAX_ALIASES:
            raise SettingsError(
                f"{self.id!r} has {len(self.aliases)} aliases; give 1 to {MAX_ALIASES}."
            )
        longest = max(len(name) for name in (self.id, *self.aliases))
        if longest > MAX_NAME:
            raise SettingsError(f"A name has {longest:,} characters; give at most {MAX_NAME}.")
        letters = "".join((self.id, *self.aliases))
        # A control character steers a terminal, half a character cannot be written to a file.
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in letters):
            raise SettingsError(
                f"{self.id!r} has a control character or half a character in a name; leave it out."
            )
        if any(not alias.strip() for alias in self.aliases):
            raise SettingsError(f"{self.id!r} has an empty alias; leave it out.")
        if len(set(self.aliases)) != len(self.aliases):
            raise SettingsError(f"{self.id!r} has the same alias twice; give each one once.")
        if len(self.description) > MAX_DESCRIPTION:
            raise SettingsError(
                f"The text about {self.id!r} has {len(self.description)} characters; "
                f"a few sentences, at most {MAX_DESCRIPTION} characters, are enough."
            )
        for what, value in (("id", self.external_id), ("type", self.type), ("URL", self.url)):
            if len(value) > MAX_IDENTITY or not (value.isprintable() or not value):
                raise SettingsError(
                    f"The {what} of {self.id!r} is no line of at most {MAX_IDENTITY} characters; "
                    "give a shorter one."
                )
        if self.url and not self.url.lower().startswith(("http://", "https://")):
            raise SettingsError(
                f"The URL of {self.id!r} is {self.url!r}; it begins with http:// or https://."
            )


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of text that may refer to an entity; `entity` is None while it is not linked."""

    surface: str
    start: int
    end: int
    entity: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its mentions, ordered by their start."""

    id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    title: str | None = None
    date: str | None = None
    """When it was written (ISO 8601), where its source says so."""

    def __post_init__(self) -> None:
        for mention in self.mentions:
            if not 0 <= mention.start < mention.end <= len(self.text):
                raise CorpusFormatError(
                    f"Document {self.id!r} has a mention at {mention.start}-{mention.end}, but its "
                    f"text has {len(self.text)} characters; give spans inside the text."
                )


@dataclass(frozen=True, slots=True)
class Corpus:
    """An ordered set of documents; `left | right` joins two."""

    documents: tuple[Document, ...]

    def __repr__(self) -> str:
        return f"<Corpus of {len(self)} documents>"

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __or__(self, other: Corpus) -> Corpus:
        return Corpus(self.documents + other.documents)

    def with_labels(self, labels: Labels) -> Corpus:
        """Return a corpus whose unlinked mentions carry `labels`; linked ones stay as they are."""
        relabelled = []
        for document in self.documents:
            mentions = tuple(
                replace(mention, entity=labels.get((document.id, i)))
                if mention.entity is None
                else mention
                for i, mention in enumerate(document.mentions)
            )
            relabelled.append(replace(document, mentions=mentions))
        return Corpus(tuple(relabelled))


def compose_name(text: str) -> str:
    """Bring a name into Unicode's composed form; what is longer than a name stays as it is.

    To order marks without end takes time with the square of their number.
    """
    is_done = text.isascii() or len(text) > MAX_NAME
    return text if is_done else unicodedata.normalize("NFC", text)


def clean_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which JSON escapes can smuggle in and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Escapes may also spell a pair one by one, which is a character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_overlaps(mentions: Sequence[Mention], others: Sequence[Mention]) -> list[Mention]:
    """Leave out mentions that overlap others; both are in order, each free of overlaps."""
    ends = [other.end for other in others]
    behind = [bisect_right(ends, mention.start) for mention in mentions]
    return [
        mention
        for mention, at in zip(mentions, behind, strict=True)
        if at == len(others) or others[at].start >= mention.end
    ]
