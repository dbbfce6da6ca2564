"""A proposal: a new entity that a stream speaks of, with all that an editor wants to see of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

from stamo.errors import CorpusFormatError

if TYPE_CHECKING:
    from stamo.workspace.gold import Gold

ProposalKind = Literal["name", "meaning"]
"""A name that the knowledge base lacks, or a new meaning of one that it has."""
ProposalDecision = Literal["open", "accepted", "rejected"]
KINDS: tuple[ProposalKind, ...] = ("name", "meaning")
DECISIONS: tuple[ProposalDecision, ...] = ("open", "accepted", "rejected")

_TYPES: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "float": (int, float)}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where the proposed entity is first named in a document."""

    document: str
    start: int
    end: int
    date: str = ""
    text: str = ""
    """The text around it; empty for those that are not shown."""
    at: int = 0
    """Where the name begins in that text."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An entity that may be new."""

    id: str
    kind: ProposalKind
    name: str
    aliases: tuple[str, ...]
    n_mentions: int
    n_documents: int
    since: str
    """The first date of its documents, empty where none has one."""
    words: tuple[str, ...]
    """Words it comes with, the most telling first."""
    entities: tuple[str, ...]
    """Known entities it comes with, the most frequent first."""
    about: str
    """One line, from a sentence of the text that says what it is; empty where none does."""
    confused_with: str
    """The known meaning that it is most easily taken for; empty where there is none."""
    newness: float
    """How sure we are that it is new to the knowledge base, 0 to 1."""
    score: float
    """What proposals are ranked by; it means nothing across runs."""
    occurrences: tuple[Occurrence, ...] = ()
    decision: ProposalDecision = "open"
    types: tuple[str, ...] = ()
    """What the text calls it, the most frequent word first: "film", "spacecraft"."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values to store."""
        return asdict(self)

    def is_one_of(self, types: Collection[str]) -> bool:
        """Tell whether the text calls it by one of some words, such as "film"; by any of none."""
        called = {word.casefold() for word in self.types}
        return not types or bool(called & {word.casefold() for word in types})


def proposal_id(kind: ProposalKind, name: str, words: tuple[str, ...]) -> str:
    """Return eight hexadecimal digits that stand for a proposal.

    A new name is itself; meanings of one name are told apart by the words they come with.
    """
    parts = [kind, name, *(sorted(words[:3]) if kind == "meaning" else ())]
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=4).hexdigest()


def proposal_from_json(value: Any) -> Proposal:
    """Read back what `Proposal.to_json` gave.

    Raises:
        CorpusFormatError: It is something else.
    """
    try:
        fields = {"types": (), **cast("Mapping[str, Any]", value)}
        occurrences = tuple(Occurrence(**item) for item in fields.pop("occurrences"))
        for name in ("aliases", "words", "entities", "types"):
            fields[name] = tuple(map(str, fields[name]))
        proposal = Proposal(**fields, occurrences=occurrences)
        _check_types(proposal)
        for occurrence in occurrences:
            _check_types(occurrence)
        if proposal.kind not in KINDS or proposal.decision not in DECISIONS or not proposal.aliases:
            raise ValueError("its kind, its decision or its names are no such")
        return proposal
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusFormatError(
            f"This is no proposal ({error}); discover again into another folder."
        ) from error


def _check_types(part: Proposal | Occurrence) -> None:
    for field in fields_of(part):
        value = getattr(part, field.name)
        wanted = _TYPES.get(str(field.type))
        if wanted and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise TypeError(f"{field.name} is {str(value)[:40]!r}")
        for text in (value,) if isinstance(value, str) else value if wanted is None else ():
            str(text).encode()  # half a character cannot be shown


def confirmed(proposal: Proposal, gold: Gold) -> str:
    """Return the entity that at least half of a proposal's places mean; empty where there is none.

    Only the embedded world and benchmarks have answers. Places that they say nothing of count
    against it.
    """
    meant: Counter[str] = Counter()
    for place in proposal.occurrences:
        answers = gold.get(place.document, {}).items()
        inside = (e for (start, end), e in answers if start < place.end and place.start < end)
        meant.update(islice(inside, 1))
    for entity, n in meant.most_common(1):
        if 2 * n >= len(proposal.occurrences):
            return entity
    return ""
