"""The folder of what was found: proposals, and what was decided about them.

`proposals.json` is replaced by each run. `decisions.jsonl` only grows; a proposal that was decided
on is remembered there with its name and words, so that tomorrow's run shows what is new.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from stamo.errors import CorpusFormatError, UnknownEntityError, WorkspaceError
from stamo.system.files import append_line, read_json, to_json, whole_lines, write_atomic

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
        values = {"types": (), **cast("Mapping[str, Any]", value)}
        occurrences = tuple(Occurrence(**item) for item in values.pop("occurrences"))
        for name in ("aliases", "words", "entities", "types"):
            values[name] = tuple(map(str, values[name]))
        proposal = Proposal(**values, occurrences=occurrences)
        _check_types(proposal, *occurrences)
        if proposal.kind not in KINDS or proposal.decision not in DECISIONS or not proposal.aliases:
            raise ValueError("its kind, its decision or its names are no such")
        return proposal
    except (KeyError, TypeError, ValueError) as error:
        raise CorpusFormatError(
            f"This is no proposal ({error}); discover again into another folder."
        ) from error


def _check_types(*parts: Proposal | Occurrence) -> None:
    for field, value in [(f, getattr(part, f.name)) for part in parts for f in fields(part)]:
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


if TYPE_CHECKING:
    from stamo.discovery.discover import Discovered

FOUND_FORMAT = "stamo-found"
FOUND_VERSION = 1
SAME_WORDS = 0.3
"""Meanings of one name that share at least so many of their words are the same (Jaccard)."""


@dataclass(frozen=True)
class PastDecision:
    """What somebody decided about a proposal."""

    id: str
    decision: ProposalDecision
    kind: str
    name: str
    words: tuple[str, ...]
    documents: tuple[str, ...]
    by: str
    at: str

    def is_about(self, proposal: Proposal) -> bool:
        """Tell whether a proposal is the one that was decided on, perhaps found again."""
        if self.id == proposal.id:
            return True
        if (self.kind, self.name) != (proposal.kind, proposal.name):
            return False
        mine, its = set(self.words), set(proposal.words)
        met = {occurrence.document for occurrence in proposal.occurrences} & set(self.documents)
        return bool(met) or len(mine & its) >= SAME_WORDS * max(len(mine | its), 1)


class FoundFolder:
    """An opened folder of proposals.

    Args:
        path: The folder; `save` makes it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.proposals_path = self.path / "proposals.json"
        self.decisions_path = self.path / "decisions.jsonl"

    def check(self) -> None:
        """Check before a long run that proposals can be written here.

        Raises:
            WorkspaceError: The folder holds something else.
        """
        if self.path.is_dir() and not self.proposals_path.exists():
            others = [e.name for e in self.path.iterdir() if not e.name.startswith(".")]
            if set(others) - {self.decisions_path.name}:
                raise WorkspaceError(
                    f"The folder {str(self.path)!r} holds other files; choose a new or empty one."
                )
        elif self.proposals_path.exists():
            self._read()
        elif self.path.exists() and not self.path.is_dir():
            raise WorkspaceError(f"{str(self.path)!r} is no folder; choose another name.")

    def save(self, found: Discovered, origin: dict[str, Any]) -> int:
        """Replace the proposals, but for those that were decided on; return how many are open.

        Args:
            found: What a run gave.
            origin: The sources, the knowledge base and the model, to accept with.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        verdicts = self.verdicts()
        kept = [p for p in found.proposals if not any(v.is_about(p) for v in verdicts)]
        record = {
            "format": FOUND_FORMAT,
            "version": FOUND_VERSION,
            "origin": origin,
            "n_documents": found.n_documents,
            "year": found.year,
            "proposals": [proposal.to_json() for proposal in kept],
        }
        write_atomic(self.proposals_path, to_json(record))
        return len(kept)

    @property
    def origin(self) -> dict[str, Any]:
        """The sources, the knowledge base and the model of the last run."""
        origin = dict(self._read()["origin"])
        kb, model, sources = map(origin.get, ("kb", "model", "sources"))
        listed = sources if isinstance(sources, list) else [None]
        if not all(isinstance(name, str) for name in (kb, model, *listed)):
            raise WorkspaceError(
                f"{self.proposals_path} does not say where it was found; discover again."
            )
        return origin

    def proposals(self, *, decided: bool = False) -> list[Proposal]:
        """Return the proposals in their order, with what was decided; or only the open ones."""
        verdicts = {v.id: v.decision for v in self.verdicts()}
        found = [proposal_from_json(value) for value in self._read()["proposals"]]
        marked = [replace(p, decision=verdicts.get(p.id, "open")) for p in found]
        return [p for p in marked if decided or p.decision == "open"]

    def with_id(self, key: str) -> Proposal:
        """Return a proposal by its id alone.

        Raises:
            UnknownEntityError: There is none.
        """
        found = next((p for p in self.proposals(decided=True) if p.id == key), None)
        if found is None:
            raise UnknownEntityError(f"There is no proposal {key[:40]!r}; load the list again.")
        return found

    def get(self, key: str) -> Proposal:
        """Return a proposal by its id, its place in the list (from 1) or its name.

        Raises:
            WorkspaceError: There is none, or several have the name.
        """
        every = self.proposals(decided=True)
        matches = [p for p in every if p.id == key]
        if not matches and key.isdecimal() and len(key) < 10:
            matches = self.proposals()[int(key) - 1 : int(key)]
        matches = matches or [p for p in every if p.name == key]
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(p.id for p in matches)
            raise WorkspaceError(f"{key!r} names several proposals; give one of the ids {ids}.")
        raise WorkspaceError(
            f"There is no proposal {key!r} in {str(self.path)!r}; "
            "`stamo found list` shows their ids."
        )

    def decide(
        self, proposal: Proposal, decision: ProposalDecision, *, by: str, at: datetime
    ) -> None:
        """Remember a decision; when this returns, it is on disk."""
        p, when = proposal, at.astimezone(UTC).isoformat()
        documents = tuple(occurrence.document for occurrence in p.occurrences)
        value = PastDecision(p.id, decision, p.kind, p.name, p.words, documents, by, when)
        append_line(self.decisions_path, json.dumps(asdict(value), ensure_ascii=False))

    def verdicts(self) -> list[PastDecision]:
        """Return what stands: the last decision about each proposal.

        Raises:
            WorkspaceError: The file is damaged.
        """
        if not self.decisions_path.exists():
            return []
        last: dict[str, PastDecision] = {}
        for number, line in enumerate(whole_lines(self.decisions_path), 1):
            try:
                value = json.loads(line)
                if value["decision"] not in DECISIONS:
                    raise ValueError(value["decision"])
                lists = {name: tuple(map(str, value[name])) for name in ("words", "documents")}
                texts = {f.name: str(value[f.name]) for f in fields(PastDecision)}
                last[texts["id"]] = PastDecision(**(texts | lists))  # type: ignore[arg-type]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise WorkspaceError(
                    f"Line {number} of {self.decisions_path} is no decision; restore or remove it."
                ) from error
        return [verdict for verdict in last.values() if verdict.decision != "open"]

    def _read(self) -> dict[str, Any]:
        if not self.proposals_path.exists():
            raise WorkspaceError(
                f"There are no proposals in {str(self.path)!r}; find some with: "
                "stamo discover KB MODEL --from FILE --out FOLDER"
            )
        value = read_json(self.proposals_path)
        if not isinstance(value, dict) or value.get("format") != FOUND_FORMAT:
            raise WorkspaceError(
                f"{self.proposals_path} was not written by stamo; choose another folder."
            )
        if value.get("version") != FOUND_VERSION:
            raise WorkspaceError(
                f"{self.proposals_path} has the format version {value.get('version')!r}; this "
                f"release reads version {FOUND_VERSION}: discover again into another folder."
            )
        kinds = {"proposals": list, "origin": dict}
        if not all(isinstance(value.get(name), kind) for name, kind in kinds.items()):
            raise WorkspaceError(f"{self.proposals_path} is incomplete; discover again.")
        return value
