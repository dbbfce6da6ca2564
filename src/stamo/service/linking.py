"""Texts of many requests, linked together.

Linking is done in arrays, so that sixteen short texts take little longer than one. Short texts that
arrive while others are linked wait in line, and are then taken several at once, by one thread: a
second would halve what they share. Long texts have a line and threads of their own, so that nobody
waits for others' books. What waits is bounded by number and by size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from starlette.exceptions import HTTPException

from stamo.corpus.types import Document
from stamo.linking.results import LinkedMention
from stamo.service.parts import Limits, TextLinker

BATCH_TEXTS = 32
BATCH_CHARACTERS = 20_000
"""Of the texts that are linked at once; a longer one is a long text."""

Done = TypeVar("Done")


@dataclass(eq=False)
class Waiting:
    """A text, or other work, and where its answer goes."""

    what: str | Callable[[], Any]
    size: int
    """Its characters."""
    answer: asyncio.Future[Any]


class Line:
    """Work that waits for a few threads."""

    def __init__(
        self, n_threads: int, limits: Limits, do: Callable[[list[Any]], list[Any]]
    ) -> None:
        self._n_threads = n_threads
        self._limits = limits
        self._do = do
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="stamo-link")
        self._waiting: deque[Waiting] = deque()
        self._taken: list[list[Waiting]] = []

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._taken))

    async def enter(self, what: str | Callable[[], Any], size: int) -> Any:
        """Wait for an answer.

        Raises:
            HTTPException: Too much waits, or it took too long (503).
        """
        limits = self._limits
        if len(self._taken) >= self._n_threads and not self._has_room(size):
            raise HTTPException(503, "The service is busy; send the text again in a moment.")
        one = Waiting(what, size, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._take_up()
        try:
            return await asyncio.wait_for(one.answer, limits.link_seconds)
        except TimeoutError:
            raise HTTPException(
                503, f"Linking took more than {limits.link_seconds:g} seconds; send a shorter text."
            ) from None

    def _has_room(self, size: int) -> bool:
        limits, n_characters = self._limits, sum(one.size for one in self._waiting)
        fits = n_characters + size <= limits.link_waiting_characters
        return len(self._waiting) < limits.link_waiting and fits

    def _take_up(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._taken) < self._n_threads:
            batch = next_batch(self._waiting)
            if batch:
                self._taken.append(batch)
                done = loop.run_in_executor(self._pool, self._do, [one.what for one in batch])
                # A thread cannot be stopped: it counts as busy until it is really done.
                done.add_done_callback(partial(self._hand_out, batch))

    def _hand_out(self, batch: list[Waiting], done: asyncio.Future[list[Any]]) -> None:
        self._taken.remove(batch)
        if done.cancelled():
            return
        for one, answer in zip(batch, done.result(), strict=True):
            if one.answer.done():  # it took too long, or whoever asked has gone
                continue
            if isinstance(answer, Exception):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)
        self._take_up()

    def close(self) -> None:
        """Let running work end and take no more."""
        for one in self._waiting:
            one.answer.cancel()
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)


class LinkPool:
    """Links texts in a few threads; turns requests away when too much waits or one takes long."""

    def __init__(self, linker: TextLinker, limits: Limits) -> None:
        self._linker = linker
        self._limits = limits
        self._short = Line(1, limits, self._link)
        self._long = Line(limits.link_threads, limits, self._link)

    @property
    def n_inside(self) -> int:
        """Texts that are linked or wait for it."""
        return len(self._short) + len(self._long)

    async def link(self, text: str) -> Sequence[LinkedMention]:
        """Link a text.

        Raises:
            HTTPException: The text is too long (413), the service is busy or it took long (503).
        """
        most, size = self._limits.link_characters, len(text)
        check_size(size, most, "The text has {} characters; send at most {}.")
        line = self._short if size <= BATCH_CHARACTERS else self._long
        return cast("Sequence[LinkedMention]", await line.enter(text, size))

    async def run(self, work: Callable[[], Done], size: int) -> Done:
        """Do some other work of linking, of about `size` characters, among the long texts.

        Raises:
            HTTPException: The service is busy or it took long (503).
        """
        return cast("Done", await self._long.enter(work, size))

    def _link(self, batch: list[str | Callable[[], Any]]) -> list[Any]:
        """Return an answer or an exception for each; runs in a thread."""
        texts = [what for what in batch if isinstance(what, str)]
        if len(texts) == len(batch) > 1:
            together = _caught(partial(link_together, self._linker, texts))
            if isinstance(together, list):
                return together
        # Whoever makes the others fail fails alone.
        return [_caught(partial(self._alone, what)) for what in batch]

    def _alone(self, what: str | Callable[[], Any]) -> Any:
        return link_together(self._linker, [what])[0] if isinstance(what, str) else what()

    def close(self) -> None:
        """Let running texts end and take no more."""
        self._short.close()
        self._long.close()


def check_size(size: int, most: int, sentence: str) -> None:
    """Refuse what is too long.

    Raises:
        HTTPException: It is (413), with both numbers in the sentence.
    """
    if size > most:
        raise HTTPException(413, sentence.format(size, most))


def next_batch(line: deque[Waiting]) -> list[Waiting]:
    """Take from a line what is done together; what nobody waits for any more is left out."""
    batch: list[Waiting] = []
    size = 0
    while line and len(batch) < BATCH_TEXTS:
        if not line[0].answer.done():
            size += line[0].size
            if batch and size > BATCH_CHARACTERS:
                break
            batch.append(line[0])
        line.popleft()
    return batch


def link_together(linker: TextLinker, texts: Sequence[str]) -> list[list[LinkedMention]]:
    """Link several texts at once."""
    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    # The lists are made here, in the thread: mentions come to be when they are looked at.
    linked = [list(one.mentions) for one in linker.link_documents(documents)]
    if len(linked) != len(texts):
        raise RuntimeError(f"{len(texts)} texts gave {len(linked)} answers.")
    return linked


def _caught(work: Callable[[], Done]) -> Done | Exception:
    try:
        return work()
    except Exception as error:
        return error
