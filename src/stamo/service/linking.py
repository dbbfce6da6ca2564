"""Linking as the service does it: with the packs of a folder, and many requests together.

Linking is done in arrays, so that sixteen short texts take little longer than one. Short texts that
arrive while others are linked wait in line, and are then taken several at once, by one thread: a
second would halve what they share. Long texts and NIF have a thread of their own, so that nobody
waits for others' books. What waits is bounded by number and by size.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from stamo.corpus.nif import format_nif, parse_nif
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.output import nif_phrases
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.models.store import TrainedModel
from stamo.packs.folder import PackFolder

BATCH_TEXTS = 32
BATCH_CHARACTERS = 20_000
"""Of the texts that are linked at once; a longer one is a long text."""
LOOK_SECONDS = 1.0
"""How often the folder of packs is looked at, at most, while texts are linked."""
NIF_TRIPLES = 20_000
"""Triples of a NIF document; to read this many takes about a second."""

Done = TypeVar("Done")


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for."""

    characters: int = 500_000
    """Characters of a text to link."""
    seconds: float = 30.0
    """How long linking a text may take."""
    waiting: int = 256
    """Texts that may wait for their turn; more are turned away."""
    waiting_characters: int = 2_000_000
    """Characters that may wait, about four seconds of work; more are turned away."""


class PackLinker:
    """A linker that is made anew when its packs change; texts under way keep the old one."""

    def __init__(self, kb: KnowledgeBase, trained: TrainedModel, packs: PackFolder) -> None:
        self._kb, self._trained, self._packs = kb, trained, packs
        self._lock = threading.Lock()
        self.reload()

    def reload(self) -> None:
        """Read the packs again."""
        with self._lock:
            self._load()

    def _load(self) -> None:
        self._version = self._packs.version()
        packs, settings = self._packs.packs(), LinkerSettings(explain=True)
        linker = Linker(self._kb, self._trained, packs, settings=settings)
        _ = linker.detector  # made now, so that the first text does not wait for it
        self._linker = linker
        self._next_look = time.monotonic() + LOOK_SECONDS

    def link_documents(self, documents: Iterable[Document]) -> Iterable[LinkedDocument]:
        """Link documents in their order, with the packs that are in the folder now."""
        if time.monotonic() >= self._next_look and self._lock.acquire(blocking=False):
            try:  # a command may have put some there
                self._next_look = time.monotonic() + LOOK_SECONDS
                if self._packs.version() != self._version:
                    self._load()
            finally:
                self._lock.release()
        return self._linker.link_documents(documents)


class LinkPool:
    """Links texts in two threads; turns requests away when too much waits or one takes long."""

    def __init__(self, linker: PackLinker, limits: Limits = Limits()) -> None:
        self._linker, self._limits = linker, limits
        self._short, self._long = (ThreadPoolExecutor(1, "stamo-link") for _ in range(2))
        self._waiting: deque[tuple[str, asyncio.Future[Any]]] = deque()
        self._is_busy = False
        self._sizes: list[int] = []
        """Characters of each text that is linked or waits for it."""

    @property
    def n_inside(self) -> int:
        """Texts that are linked or wait for it."""
        return len(self._sizes)

    async def link(self, text: str) -> list[LinkedMention]:
        """Link a text.

        Raises:
            HTTPException: The text is too long (413), the service is busy or it took long (503).
        """
        check_size(
            len(text), self._limits.characters, "The text has {} characters; send at most {}."
        )
        if len(text) > BATCH_CHARACTERS:
            return await self.run(lambda: self._link([text])[0], len(text))
        self._check_room(len(text))
        answer: asyncio.Future[list[LinkedMention]] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, answer))
        if not self._is_busy:
            self._take_up()
        return await self._answered(answer, len(text))

    async def run(self, work: Callable[[], Done], size: int) -> Done:
        """Do some other work of linking, of about `size` characters, among the long texts.

        Raises:
            HTTPException: The service is busy or it took long (503).
        """
        self._check_room(size)
        answer = asyncio.get_running_loop().run_in_executor(self._long, work)
        return await self._answered(answer, size)

    def close(self) -> None:
        """Let running texts end and take no more."""
        while self._waiting:
            self._waiting.popleft()[1].cancel()
        for pool in (self._short, self._long):
            pool.shutdown(wait=False, cancel_futures=True)

    def _check_room(self, size: int) -> None:
        limits, n = self._limits, len(self._sizes)
        is_full = n > limits.waiting or sum(self._sizes) + size > limits.waiting_characters
        if n and is_full:
            raise HTTPException(503, "The service is busy; send the text again in a moment.")

    async def _answered(self, answer: asyncio.Future[Done], size: int) -> Done:
        self._sizes.append(size)
        try:
            return await asyncio.wait_for(answer, self._limits.seconds)
        except TimeoutError:
            raise HTTPException(
                503,
                f"Linking took more than {self._limits.seconds:g} seconds; send a shorter text.",
            ) from None
        finally:
            self._sizes.remove(size)

    def _take_up(self) -> None:
        """Give the thread for short texts those that wait, as many as are linked together."""
        batch: list[tuple[str, asyncio.Future[Any]]] = []
        size = 0
        while self._waiting and len(batch) < BATCH_TEXTS:
            text, answer = self._waiting[0]
            if not answer.done():  # else it took too long, or whoever asked has gone
                size += len(text)
                if batch and size > BATCH_CHARACTERS:
                    break
                batch.append((text, answer))
            self._waiting.popleft()
        self._is_busy = bool(batch)
        if batch:
            texts = [text for text, _ in batch]
            done = asyncio.get_running_loop().run_in_executor(self._short, self._link_each, texts)
            # A thread cannot be stopped: it is busy until it is really done.
            done.add_done_callback(partial(self._hand_out, batch))

    def _hand_out(
        self, batch: list[tuple[str, asyncio.Future[Any]]], done: asyncio.Future[list[Any]]
    ) -> None:
        if done.cancelled():
            return
        for (_, answer), found in zip(batch, done.result(), strict=True):
            if not answer.done():
                set_answer = (
                    answer.set_exception if isinstance(found, Exception) else answer.set_result
                )
                set_answer(found)
        self._take_up()

    def _link_each(self, texts: list[str]) -> list[list[LinkedMention] | Exception]:
        """Return the mentions of each text, or its exception; runs in a thread."""
        try:
            return [*self._link(texts)]
        except Exception as error:
            if len(texts) == 1:
                return [error]
            # Whoever makes the others fail fails alone.
            return [answer for text in texts for answer in self._link_each([text])]

    def _link(self, texts: Sequence[str]) -> list[list[LinkedMention]]:
        documents = [Document(str(number), text) for number, text in enumerate(texts)]
        # The lists are made here, in the thread: mentions come to be when they are looked at.
        return [list(one.mentions) for one in self._linker.link_documents(documents)]


def check_size(size: int, most: int, sentence: str) -> None:
    """Refuse what is too long.

    Raises:
        HTTPException: It is (413), with both numbers in the sentence.
    """
    if size > most:
        raise HTTPException(413, sentence.format(size, most))


def annotate_nif(
    data: bytes, linker: PackLinker, emerging: Collection[str], max_characters: int
) -> bytes:
    """Link texts in NIF, as GERBIL asks for them.

    A text without phrases is annotated (A2KB). Where it brings phrases, these are linked and no
    others (D2KB). A mention that is linked to nothing gets an IRI of GERBIL's "not in wiki" (NIL).

    Raises:
        CorpusFormatError: It is not NIF, or a text cannot be linked.
        HTTPException: It is too long.
    """
    documents = parse_nif(data, NIF_TRIPLES)
    length = sum(len(document.text) for document in documents)
    check_size(length, max_characters, "The texts have {} characters; send at most {}.")
    pieces = [layer for document in documents for layer in mention_layers(document)]
    sentence = (
        "The mentions overlap so often that {} characters are linked; send at most {}, counted "
        "once for each mention that covers another."
    )
    check_size(sum(len(piece.text) for piece in pieces), max_characters, sentence)
    found: dict[str, list[LinkedMention]] = {document.id: [] for document in documents}
    for linked in linker.link_documents(pieces):
        if linked.error is not None:
            raise CorpusFormatError(linked.error)
        found[linked.id] += linked.mentions
    return format_nif((d.id, d.text, nif_phrases(found[d.id], emerging)) for d in documents)


def mention_layers(document: Document) -> list[Document]:
    """Split a document whose mentions overlap into copies in which they do not."""
    layers: list[list[Mention]] = []
    ends: list[tuple[int, int]] = []
    """The end of each layer, with its place; the earliest first."""
    for mention in sorted(document.mentions, key=lambda m: (m.start, m.end)):
        if ends and ends[0][0] <= mention.start:
            place = ends[0][1]
            heapq.heapreplace(ends, (mention.end, place))
            layers[place].append(mention)
        else:
            heapq.heappush(ends, (mention.end, len(layers)))
            layers.append([mention])
    return [
        replace(document, mentions=tuple(replace(m, entity=None) for m in layer))
        for layer in layers or [[]]
    ]
