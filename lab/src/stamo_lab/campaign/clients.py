"""Slow, many and busy clients of the real service, which runs in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import psutil

from stamo.corpus.reading import read_documents
from stamo.service.app import create_app
from stamo.service.security import ConnectionLimits, limited_protocol
from stamo_lab.campaign.scenarios import NAME, Work
from stamo_lab.campaign.table import Attack, Row, run_apart
from tests.service.support import running

LIMITS = ConnectionLimits(header_seconds=3)
PER_ADDRESS = 90
MOST_P99 = 1.0
"""Seconds that linking may take beside learning."""
MOST_GROWTH = 100
"""Megabytes that the service may grow by under load; its caches fill first."""
HEADERS = {"X-Stamo": "1"}


@dataclass
class Load:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    """Of answers; those that were turned away are not among them."""
    n_turned_away: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """All requests."""
        return len(self.seconds) + self.n_turned_away

    def percentile(self, share: float) -> float:
        """Return a percentile of the time of an answer."""
        return float(np.percentile(self.seconds, share)) if self.seconds else 0.0

    def take(self, answer: Answer, seconds: float) -> None:
        """Count an answer."""
        if answer.status == 503 and answer.retry_after:
            self.n_turned_away += 1
        elif answer.status == 200:
            self.seconds.append(seconds)
        else:
            self.wrong.append(f"{answer.status} {answer.body[:100]!r}")


class Answer(NamedTuple):
    """What came back."""

    status: int
    retry_after: float
    """Seconds; 0 where it does not say."""
    body: bytes
    is_last: bool
    """Whether the connection ends with it."""


def processor_seconds_of(process: psutil.Process) -> float:
    """Return what a process has computed, whatever else ran."""
    times = process.cpu_times()
    return float(times.user + times.system)


def others() -> str:
    """Tell how busy the machine is: times on the clock hold for that."""
    return f"{psutil.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run the service; yield its address and its process."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(folder, sender))
    process.start()
    try:
        yield receiver.recv(), psutil.Process(process.pid)
    finally:
        process.kill()
        process.join()


def _serve(folder: Path, address: Connection) -> None:
    logging.disable()
    work = Work(folder)
    app = create_app(work.service(work.fresh_copy("served", "load")))
    with running(app, http=limited_protocol(LIMITS)) as where:
        address.send(where)
        signal.pause()


class Asker:
    """One client with one connection; plain sockets, so that the service is what is measured."""

    def __init__(self, address: str, number: int) -> None:
        self.host, self.port = address.removeprefix("http://").split(":")
        self.local = (f"127.0.0.{1 + number // PER_ADDRESS}", 0)
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes) -> Answer:
        """Ask for one text to be linked."""
        if self.streams is None:
            where = (self.host, int(self.port))
            self.streams = await asyncio.open_connection(*where, local_addr=self.local)
        reader, writer = self.streams
        head = f"POST /api/link HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        fields = dict(line.split(": ", 1) for line in told[1:] if line)
        data = await reader.readexactly(int(fields["content-length"]))
        is_last = fields.get("connection") == "close"
        if is_last:
            self.close()
        return Answer(int(told[0][9:12]), float(fields.get("retry-after", 0)), data, is_last)

    def close(self) -> None:
        """Give the connection up."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def _client(
    address: str, number: int, bodies: list[bytes], load: Load, until: Callable[[Load], bool]
) -> None:
    asker = Asker(address, number)
    while not until(load):
        start = time.perf_counter()
        try:
            answer = await asyncio.wait_for(asker.ask(bodies[(number + load.n) % len(bodies)]), 60)
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            asker.close()
            load.wrong.append(repr(error))
            continue
        load.take(answer, time.perf_counter() - start)
        if answer.status == 503:
            await asyncio.sleep(answer.retry_after)
    asker.close()


def press(address: str, n_clients: int, texts: list[str], until: Callable[[Load], bool]) -> Load:
    """Let many clients link at once."""
    load = Load()
    bodies = [json.dumps({"text": text}).encode() for text in texts]

    async def all_clients() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(n_clients):
                group.create_task(_client(address, number, bodies, load, until))

    asyncio.run(all_clients())
    return load


def _texts(folder: Path) -> list[str]:
    pile = Work(folder).world.paths.pile_path
    return [document.text[:300] for document in read_documents([pile])]


def busy(folder: Path, n_clients: int, n_requests: int, *, is_too_much: bool = False) -> Attack:
    """Return what links with many clients, perhaps too many, and watches the service's memory."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        texts = _texts(folder)
        with service(folder) as (address, process):
            press(address, n_clients, texts, lambda load: load.n >= n_requests // 20)
            before = process.memory_info().rss >> 20
            start, computed = time.monotonic(), processor_seconds_of(process)
            load = press(address, n_clients, texts, lambda load: load.n >= n_requests)
            seconds = time.monotonic() - start
            computed = processor_seconds_of(process) - computed
            after = process.memory_info().rss >> 20
        _fill(row, load)
        row.megabytes = after
        row.note = (
            f"{len(load.seconds) / seconds:.0f} answers/s, p50 {1000 * load.percentile(50):.0f} ms,"
            f" p99 {1000 * load.percentile(99):.0f} ms, {1000 * computed / load.n:.1f} ms of the "
            f"processor each, {load.n_turned_away:,} turned away, memory {before} MB before and "
            f"{after} MB after; {others()}"
        )
        if is_too_much != bool(load.n_turned_away):
            row.fail(f"{load.n_turned_away:,} of {load.n:,} requests were turned away")
        if after > before + MOST_GROWTH:
            row.fail(f"the service grew from {before} to {after} MB")
        tell()

    return run


class Jobs:
    """Starts one learning job after the other."""

    def __init__(self, client: httpx.Client, n: int) -> None:
        self.client, self.n, self.next_look = client, n, 0.0
        self.ended: list[str] = []

    def are_done(self, load: Load) -> bool:
        """Tell whether all have ended; look, and start the next, twice a second."""
        if time.monotonic() >= self.next_look:
            self.next_look = time.monotonic() + 0.5
            jobs = self.client.get("/api/jobs").json()
            self.ended = [job["state"] for job in jobs if job["state"] in ("done", "failed")]
            if len(self.ended) == len(jobs) < self.n:
                self.client.post(f"/api/workspaces/{NAME}/learn", headers=HEADERS)
        return len(self.ended) >= self.n


def beside_learning(folder: Path, n_clients: int, n_jobs: int) -> Attack:
    """Return what links while the service learns."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        texts = _texts(folder)
        with (
            service(folder) as (address, process),
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            at_rest = process.memory_info().rss >> 20
            jobs = Jobs(client, n_jobs)
            load = press(address, n_clients, texts, jobs.are_done)
            after = process.memory_info().rss >> 20
        _fill(row, load)
        row.megabytes = after - at_rest  # what learning and linking took, not the service itself
        p99 = load.percentile(99)
        row.note = (
            f"p50 {1000 * load.percentile(50):.0f} ms, p99 {1000 * p99:.0f} ms, memory {at_rest} MB"
            f" before and {after} MB after; {others()}"
        )
        if p99 > MOST_P99 or set(jobs.ended) != {"done"}:
            row.fail(f"p99 {p99:.2f} s, jobs {jobs.ended}")
        tell()

    return run


def _fill(row: Row, load: Load) -> None:
    row.n_trials, row.n_refused = load.n, load.n_turned_away
    row.worst_seconds = max(load.seconds, default=0.0)
    for wrong in load.wrong:
        row.fail(wrong)


def slow(folder: Path, n_idle: int) -> Attack:
    """Return what holds connections that send nothing, or a byte now and then, and asks beside."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        with service(folder) as (address, _):
            host, port = address.removeprefix("http://").split(":")
            held = []
            for number in range(n_idle):
                local = (f"127.0.0.{2 + number // PER_ADDRESS}", 0)
                held.append(socket.create_connection((host, int(port)), 10, local))
                if number % 2:
                    held[-1].sendall(b"POST /api/link HTTP/1.1\r\nHost: ")
            begin, load = time.monotonic(), Load()
            while time.monotonic() < begin + 3 * LIMITS.header_seconds:
                start, n_away = time.perf_counter(), load.n_turned_away
                got = httpx.get(f"{address}/api/status")
                answer = Answer(
                    got.status_code, float(got.headers.get("retry-after", 0)), got.content, True
                )
                load.take(answer, time.perf_counter() - start)
                for connection in held[1::2]:
                    with suppress(OSError):
                        connection.send(b"x")
                is_free = time.monotonic() > begin + 2 * LIMITS.header_seconds
                if is_free and load.n_turned_away > n_away:
                    load.wrong.append("turned away although all slow clients had their time")
                time.sleep(0.2)
            for connection in held:
                connection.close()
        _fill(row, load)
        row.n_trials += n_idle
        tell()

    return run


def rows(folder: Path, n_requests: int, only: str = "") -> Iterator[Row]:
    """Let slow, many and busy clients come."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parts = {
        "clients, 400 slow": slow(folder, 400),
        "load of 8 clients": busy(folder, 8, n_requests),
        "load of 200 clients": busy(folder, 200, n_requests),
        "overload, 300 clients": busy(folder, 300, n_requests // 4, is_too_much=True),
        "load beside learning": beside_learning(folder, 8, 3),
    }
    for name, attack in parts.items():
        if only in name:
            yield run_apart(name, attack, 1200)
