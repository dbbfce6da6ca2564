"""Requests that are made from the service's own OpenAPI schema, right ones and wrong ones."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from stamo_lab.campaign.clients import processor_seconds_of, service
from stamo_lab.campaign.table import Attack, Row, last_lines, run_apart

HEADERS = {"X-Stamo": "1"}
REAL = st.sampled_from([None, "rey", "rey", "new", "..%2Frey", "%2E%2E", "rey%01"])
"""What a path names: what was made up, or what is there."""


def attack(folder: Path, seconds: float, first_seed: int) -> Attack:
    """Return what asks every route, round by round."""

    def run(row: Row, tell: Callable[[], None]) -> None:
        logging.disable()
        with service(folder) as (address, process), httpx.Client(timeout=30) as client:
            client.base_url = httpx.URL(address)
            schema = schemathesis.openapi.from_dict(client.get("/api/openapi.json").json())
            operations = [result.ok() for result in schema.get_all_operations()]
            end, turn = time.monotonic() + seconds, first_seed
            # What the service needs without any request is not what a request takes.
            at_rest = process.memory_info().rss >> 20
            while time.monotonic() < end:
                turn += 1
                for operation in operations:
                    mode = random.Random(turn).choice(list(GenerationMode))
                    cases = operation.as_strategy(generation_mode=mode)
                    _ask(cases, client, row, turn, process)
                grown = (process.memory_info().rss >> 20) - at_rest
                row.megabytes = max(row.megabytes, grown)
                tell()

    return run


def _ask(
    cases: st.SearchStrategy[Case],
    client: httpx.Client,
    row: Row,
    turn: int,
    process: psutil.Process,
) -> None:
    """Ask one route; a request is judged by the service's processor time, whatever else runs."""

    @seed(turn)
    @settings(
        max_examples=20,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, real=REAL)
    def ask(case: Case, real: str | None) -> None:
        if real is not None and case.path_parameters:
            case.path_parameters = dict.fromkeys(case.path_parameters, real)
        start = processor_seconds_of(process)
        try:
            _send(case, client, row)
        except Exception:
            row.fail(f"{case.method} {case.path}: {last_lines()}")
        row.took(processor_seconds_of(process) - start)

    with suppress(Unsatisfiable):  # a route that takes nothing cannot be asked wrongly
        ask()


def _send(case: Case, client: httpx.Client, row: Row) -> None:
    parts = case.as_transport_kwargs(base_url=str(client.base_url))
    body = parts.get("data", parts.get("json"))
    is_json = "json" in parts
    request = client.build_request(
        parts["method"],
        parts["url"],
        params=parts.get("params"),
        headers={**HEADERS, **{k: str(v) for k, v in (parts.get("headers") or {}).items()}},
        **({"json": body} if is_json else {"content": body} if body is not None else {}),
    )
    answer = client.send(request)
    row.n_refused += 400 <= answer.status_code < 500
    if answer.status_code == 503 and "retry-after" in answer.headers:
        return
    if answer.status_code >= 500:
        row.fail(f"{case.method} {case.path}: {answer.status_code} {answer.text[:200]}")
    elif answer.status_code >= 400 and answer.json().keys() != {"error"}:
        row.fail(f"{case.method} {case.path}: {answer.status_code} is no sentence")


def rows(folder: Path, seconds: float, first_seed: int) -> Iterator[Row]:
    """Ask for some time."""
    yield run_apart("requests", attack(folder, seconds, first_seed), seconds)
