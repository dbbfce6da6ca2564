"""Odd requests, odd headers and many clients of the real `stamo serve`, in a process of its own."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from stamo import read_documents
from stamo.workspace.labels import LabelStore
from stamo_lab.campaign.artifacts import (
    COLLECTED,
    KB,
    LABELLED,
    MODEL,
    NAME,
    TEMPLATES,
    WORLD,
    fresh,
)
from stamo_lab.campaign.documents import nif
from stamo_lab.campaign.table import Attack, Row, Target, last_lines

MOST_GROWTH = 150
"""Megabytes that the service may grow by; its caches fill first."""
HEADERS = {"X-Stamo": "1"}
BATCH = 200
"""Requests after which a row is told."""


@contextmanager
def service(
    folder: Path, home: Path | None = None
) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """Run the command on a folder of workspaces, a fresh one without; yield a client and it."""
    home = home or fresh(folder / TEMPLATES / LABELLED, folder / "served")
    both = ("--kb", folder / KB, "--model", folder / MODEL)
    words = ["serve", *both, "--workspaces", home, "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "stamo", *map(str, words)],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[2]
        with httpx.Client(base_url=address, timeout=60, headers=HEADERS) as client:
            while True:
                with suppress(httpx.ConnectError):  # what the first text loads is at rest too
                    client.post("/api/link", json={"text": "Rey met Finn."})
                    break
                time.sleep(0.05)
            yield client, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def judge(row: Row, answer: httpx.Response) -> None:
    """Fail when an answer is an error of the service, or a refusal without a sentence."""
    status, what = answer.status_code, f"{answer.request.method} {answer.request.url.path}"
    row.n_refused += 400 <= status < 500
    if status == 503 and "retry-after" in answer.headers:
        return
    if status >= 500:
        row.fail(f"{what}: {status} {answer.text[:200]}")
    elif status >= 400 and answer.json().keys() != {"error"}:
        row.fail(f"{what}: {status} is no sentence")


@contextmanager
def judged(row: Row, process: psutil.Process) -> Iterator[None]:
    """Judge a request by the service's processor time, whatever else runs."""
    start = process.cpu_times()
    try:
        yield
    except Exception:
        row.fail(last_lines())
    end = process.cpu_times()
    row.took(end.user + end.system - start.user - start.system)


def watched(
    folder: Path, ask: Callable[[Row, httpx.Client, psutil.Process], Iterator[None]]
) -> Attack:
    """Return what asks a service and watches its memory: what it takes at rest does not count."""

    def attack(row: Row) -> Iterator[None]:
        with service(folder) as (client, process):
            at_rest = process.memory_info().rss >> 20
            for _ in ask(row, client, process):
                row.megabytes = max(row.megabytes, (process.memory_info().rss >> 20) - at_rest)
                yield

    return attack


REAL = st.sampled_from([None, NAME, NAME, "new", "..%2Frey", "%2E%2E", "rey%01"])
"""What a path names: what was made up, or what is there."""


def ask_routes(
    first: int, row: Row, client: httpx.Client, process: psutil.Process
) -> Iterator[None]:
    """Ask every route as the service's own OpenAPI schema says, rightly and wrongly."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    operations = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    for turn in range(first, sys.maxsize):
        for number, operation in enumerate(operations, start=turn):
            mode = list(GenerationMode)[number % 2]

            @seed(turn)
            @settings(
                max_examples=10,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode), real=REAL)
            def ask(case: Case[Any], real: str | None) -> None:
                if real is not None and case.path_parameters:
                    case.path_parameters = dict.fromkeys(case.path_parameters, real)
                with judged(row, process):
                    judge(row, client.send(_request(case, client)))

            with suppress(Unsatisfiable):  # a route that takes nothing cannot be asked wrongly
                ask()
            yield


def _request(case: Case[Any], client: httpx.Client) -> httpx.Request:
    parts = case.as_transport_kwargs(base_url=str(client.base_url))
    body = parts.get("data")
    return client.build_request(
        parts["method"],
        parts["url"],
        params=parts.get("params"),
        headers={k: str(v) for k, v in (parts.get("headers") or {}).items()},
        **({"json": parts["json"]} if "json" in parts else {"content": body} if body else {}),
    )


VALUES = ("", "http://[", "[::1", "127.0.0.1", "@", "Bearer x", "a" * 5000, "stamo-pass=;")
NAMES = ("host", "origin", "cookie", "authorization", "x-stamo", "sec-fetch-site", "content-type")


def ask_oddly(
    first: int, row: Row, client: httpx.Client, process: psutil.Process
) -> Iterator[None]:
    """Send odd headers, and odd NIF to be linked."""
    rng = random.Random(first)
    while True:
        with judged(row, process):
            headers = {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.3}
            path = rng.choice(("/", "/api/link", "/api/packs", "/api/../x", "//"))
            judge(row, client.request(rng.choice(("GET", "POST", "PUT")), path, headers=headers))
        with judged(row, process):
            turtle = {"Content-Type": "text/turtle"}
            judge(row, client.post("/api/nif", content=nif(rng), headers=turtle))
        yield


def press(
    n_clients: int,
    texts: list[str],
    beside: Callable[[httpx.Client], None],
    row: Row,
    client: httpx.Client,
    process: psutil.Process,
) -> Iterator[None]:
    """Let many clients link at once, with something else beside them."""
    seconds: list[float] = []
    address = str(client.base_url)

    async def one(number: int) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as asking:
            for turn in range(BATCH // n_clients):
                start = time.perf_counter()
                text = texts[(number + turn) % len(texts)]
                answer = await asking.post("/api/link", json={"text": text})
                row.n_trials += 1
                if answer.status_code == 503:
                    row.n_refused += 1
                    await asyncio.sleep(float(answer.headers["retry-after"]))
                    continue
                judge(row, answer)
                seconds.append(time.perf_counter() - start)

    async def all_clients(number: int) -> None:
        await asyncio.gather(*(one(number + client) for client in range(n_clients)))

    for number in range(0, sys.maxsize, BATCH):
        beside(client)
        try:
            asyncio.run(all_clients(number))
        except Exception:
            row.fail(last_lines())
        row.worst_seconds = max(seconds, default=0.0)
        if seconds:
            p50, p99 = np.percentile(seconds, (50, 99))
            cpu = process.cpu_times()
            each = (cpu.user + cpu.system) / row.n_trials
            row.note = (
                f"p50 {p50:.3f} s, p99 {p99:.3f} s, {1000 * each:.1f} ms of the processor each"
            )
        yield


def kill_labelling(folder: Path, seed: str, row: Row) -> Iterator[None]:
    """Kill the service while people label; all that it acknowledged is there when it is back."""
    home, said = fresh(folder / TEMPLATES / COLLECTED, folder / "killed"), set[str]()
    asked: Any = None
    rng, who = random.Random(seed), {"who": "ada"}
    place = f"/api/workspaces/{NAME}"
    while True:
        with service(folder, home) as (client, process):
            killer = threading.Timer(rng.uniform(0.3, 4), process.kill)
            killer.start()
            with suppress(httpx.TransportError):
                while asked := client.post(f"{place}/next", json=who).json()["question"]:
                    label = {"document": asked["document"], "mention": asked["mention"]}
                    label |= {"choice": rng.choice(("@none", "@emerging"))} | who
                    answer = client.post(f"{place}/labels", json=label)
                    judge(row, answer)
                    if answer.is_success:
                        said.add(asked["document"])
            killer.join()
        with LabelStore.read(home / NAME / "labels.sqlite") as store:
            found = {event.target.document for event in store.events()}
        if said - found:
            row.fail(f"lost: {sorted(said - found)[:3]}")
        row.n_trials += 1
        row.note = f"{len(said)} labels were acknowledged"
        if not asked or len(said) > 50:  # all is labelled: begin again
            home, said = fresh(folder / TEMPLATES / COLLECTED, folder / "killed"), set()
        yield


N_SLOW = 500


def wait_slowly(row: Row, client: httpx.Client, process: psutil.Process) -> Iterator[None]:
    """Hold many connections that never send a whole request, and ask beside them."""
    host, port = client.base_url.host, client.base_url.port
    while True:
        held = []
        for _ in range(N_SLOW):
            with suppress(OSError):
                slow = socket.create_connection((host, port), timeout=5)
                slow.sendall(b"POST /api/link HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
                held.append(slow)
        row.n_trials += len(held)
        with httpx.Client(base_url=client.base_url, timeout=20, headers=HEADERS) as beside:
            during = beside.post("/api/link", json={"text": "Rey met Finn."}).status_code
            for slow in held:
                slow.close()
            time.sleep(0.5)
        with httpx.Client(base_url=client.base_url, timeout=20, headers=HEADERS) as after:
            judge(row, after.post("/api/link", json={"text": "Rey met Finn."}))
        row.note = f"{len(held)} slow clients: others get {during} beside them, links behind them"
        yield


def keep_learning(client: httpx.Client) -> None:
    """Start a learning job where none is under way."""
    jobs = client.get("/api/jobs").json()
    failed = [job for job in jobs if job["state"] == "failed"]
    assert not failed, failed[0]
    if all(job["state"] == "done" for job in jobs):
        client.post(f"/api/workspaces/{NAME}/learn")


def targets(folder: Path, seed: str) -> Iterator[Target]:
    """Yield requests and clients."""
    first = int(seed)
    asks = {"requests, schema": ask_routes, "requests, odd headers and NIF": ask_oddly}
    for name, ask in asks.items():
        yield Target(name, watched(folder, partial(ask, first)), 4, MOST_GROWTH)
    pile = folder / WORLD / "pile.jsonl"
    texts = [document.text[:300] for document in read_documents([pile])]
    for n_clients in (8, 200):
        clients = partial(press, n_clients, texts, lambda client: None)
        yield Target(f"load, {n_clients} clients", watched(folder, clients), 2, MOST_GROWTH)
    yield Target("slow clients", watched(folder, wait_slowly), 1, MOST_GROWTH)
    yield Target("kills, serve", partial(kill_labelling, folder, seed), 3, max_megabytes=None)
    learning = partial(press, 8, texts, keep_learning)
    yield Target("load, 8 clients beside learning", watched(folder, learning), 3, None)
