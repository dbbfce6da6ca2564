"""One problem of a suite: an emerging entity, its rivals, and which mentions mean which."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from stamo.system.arrays import Int64

SetName = Literal["W", "test-web", "test-wiki"]
SETS: tuple[SetName, ...] = ("W", "test-web", "test-wiki")
TEST_SETS: tuple[SetName, ...] = ("test-web", "test-wiki")
SplitName = Literal["development", "held-out", "training"]
SPLITS: tuple[SplitName, ...] = ("development", "held-out", "training")


def stable_hash(text: str, modulus: int) -> int:
    """Return a number below `modulus` that depends on the text only."""
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % modulus


def lot(text: str, seed: int) -> int:
    """Return a number that depends on a text and a seed."""
    return stable_hash(f"{seed} {text}" if seed else text, 2**62)


def split_of(title: str) -> SplitName:
    """Return whether an emerging entity is for development or held out."""
    return "development" if stable_hash("split " + title, 2) == 0 else "held-out"


@dataclass(frozen=True)
class Problem:
    """An emerging entity with its rivals, by entity number, and the mentions of each set."""

    title: str
    split: SplitName
    aliases: tuple[str, ...]
    """A(e*); in a conflated problem the one name that all entities of the group share."""
    group: tuple[int, ...]
    """The emerging entity first, then its rivals; the emerging entity alone where the rivals are
    whatever else the knowledge base knows under the aliases."""
    counts: tuple[float, ...]
    """How often the dump links each entity of the group; the rivals' priors."""
    rows: dict[SetName, Int64]
    """Mentions of each set, as row numbers of the set's flat corpus."""
    gold: dict[SetName, Int64]
    """Place in the group of each mention's entity, 0 for the emerging one; in a problem without
    listed rivals 1 stands for any other entity."""
    hidden: tuple[int, ...] = ()
    """Entities hidden together with the emerging one: likely redirects to it, or rivals that the
    knowledge base does not know."""

    @property
    def is_conflated(self) -> bool:
        """Return whether the rivals are listed."""
        return len(self.group) > 1

    @property
    def rivals(self) -> tuple[int, ...]:
        """Return the listed rivals that the knowledge base knows."""
        return tuple(e for e in self.group[1:] if e not in self.hidden)
