"""The service under load, beside an application of FastAPI that only sends back what it got."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil

ECHO = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class Text(BaseModel):
    text: str
app = FastAPI()
@app.post("/api/link")
async def echo(text: Text) -> Text:
    return text
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


@dataclass
class Answers:
    """What came back in one run."""

    seconds: list[float] = field(default_factory=list)
    n_busy: int = 0
    """Refused with 503 and a time after which to come again."""
    n_wrong: int = 0
    took: float = 0.0


async def ask(
    address: str, texts: list[str], n_clients: int, seconds: float, rate: float
) -> Answers:
    """Let clients link texts, at a rate for all of them together or, at 0, as fast as it goes."""
    answers, begin = Answers(), time.perf_counter()
    n_asked = 0

    async def one(client: httpx.AsyncClient) -> None:
        nonlocal n_asked
        while (now := time.perf_counter()) < begin + seconds:
            number, n_asked = n_asked, n_asked + 1
            if rate and (early := begin + number / rate - now) > 0:
                await asyncio.sleep(early)
            start = time.perf_counter()
            try:
                got = await client.post("/api/link", json={"text": texts[number % len(texts)]})
            except httpx.HTTPError:
                answers.n_wrong += 1
                continue
            if got.status_code == 503 and "retry-after" in got.headers:
                answers.n_busy += 1
            elif got.is_success:
                answers.seconds.append(time.perf_counter() - start)
            else:
                answers.n_wrong += 1

    limits = httpx.Limits(max_connections=n_clients)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await asyncio.gather(*(one(client) for _ in range(n_clients)))
    answers.took = time.perf_counter() - begin
    return answers


@contextmanager
def running(words: list[str], address: str) -> Iterator[psutil.Process]:
    """Run a service until it answers, then until the block ends."""
    with (
        tempfile.TemporaryDirectory() as home,
        subprocess.Popen(
            words, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            while process.poll() is None:
                with suppress(httpx.TransportError):
                    httpx.post(f"{address}/api/link", json={"text": "Rey"}, timeout=60)
                    break
                time.sleep(0.1)
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def free_port() -> int:
    """Return a port that nobody listens on."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def measure_load(
    kb: Path,
    model: Path,
    texts: list[str],
    *,
    n_clients: int,
    seconds: float,
    say: Callable[[str], object] = lambda text: None,
) -> list[dict[str, str | float | None]]:
    """Measure the echo and the service: flat out, at 80 % of that, and with too many clients."""
    rows: list[dict[str, str | float | None]] = []

    def measure(
        what: str, address: str, process: psutil.Process, n: int = n_clients, rate: float = 0.0
    ) -> float:
        say(what)
        before = process.memory_info().rss >> 20
        with ThreadPoolExecutor(1) as thread:  # another loop may run in this one
            asked = ask(address, texts, n, seconds, rate)
            got = thread.submit(asyncio.run, asked).result()
        p50, p99 = np.percentile(got.seconds, (50, 99)) if got.seconds else (np.nan, np.nan)
        per_second = len(got.seconds) / got.took
        rows.append(
            {
                "what": what,
                "clients": n,
                "links/s": per_second,
                "p50 ms": 1000 * float(p50),
                "p99 ms": 1000 * float(p99),
                "503": got.n_busy,
                "errors": got.n_wrong,
                "MB before": before,
                "MB after": process.memory_info().rss >> 20,
            }
        )
        return per_second

    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with running([sys.executable, "-c", ECHO, str(port)], address) as process:
        measure("an echo of FastAPI", address, process)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    both = ["--kb", str(kb.resolve()), "--model", str(model.resolve())]
    serve = ["serve", *both, "--port", str(port)]
    with running([sys.executable, "-m", "stamo", *serve], address) as process:
        capacity = measure("stamo serve, flat out", address, process, min(n_clients, 50))
        measure("at 80 %", address, process, rate=0.8 * capacity)
        measure("too many clients", address, process, 3 * n_clients)
        measure("at 80 % again", address, process, rate=0.8 * capacity)
    return rows
