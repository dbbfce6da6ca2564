"""What those who run a service look at: the command, health, metrics, the list of routes."""

import json
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families

from stamo import __version__
from stamo.cli import serve as cli_serve
from stamo.corpus.nif import context_iri, format_nif
from stamo.errors import PackError, SettingsError
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from tests.documents import ROOT, blocks
from tests.service.support import CHANGE, built, make_pack


def samples(client):
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_health_needs_no_token(serve):
    """A balancer may ask, whatever guards the data."""
    settings = SecuritySettings(token="t" * 20, allowed_hosts=frozenset({"127.0.0.1"}))
    with serve(headers={}, security=settings) as client:
        assert client.get("/healthz").json() == {"status": "ok", "version": __version__}
        assert client.get("/metrics").status_code == 401
        elsewhere = {"Host": "10.0.0.7:8017"}
        assert client.get("/healthz", headers=elsewhere).status_code == 200
        assert client.get("/api/status", headers=elsewhere).status_code == 421


RUN = """
from stamo.cli import main, serve
serve.SHUTDOWN_SECONDS = 1
main.main()
"""


def start(tmp_path, *options):
    """Start `stamo serve` on the small knowledge base."""
    folder = built()[0]
    both = ["--kb", folder / "kb", "--model", folder / "model.safetensors"]
    command = [sys.executable, "-c", RUN, "serve", *both]
    command += ["--port", "0", "--workspaces", tmp_path, *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*map(str, command)], **pipes, cwd=tmp_path)


def test_the_command_serves_and_stops_on_request(tmp_path):
    """It prints its address, serves, and a request that is under way leaves no trace."""
    process = start(tmp_path)
    try:
        address = process.stdout.readline().split()[2]
        assert httpx.get(f"{address}/api/status", timeout=30).json()["knowledge_base"] == "kb"
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /api/link HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"
            )
            process.send_signal(signal.SIGINT)
            line.shutdown(socket.SHUT_WR)
            errors = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert "Traceback" not in errors
    assert process.returncode == 130


def test_other_addresses_get_a_token(tmp_path):
    """Bound elsewhere, a token is made up and printed, and changes need it."""
    process = start(tmp_path, "--host", "0.0.0.0")
    try:
        port = process.stdout.readline().split()[2].rpartition(":")[2]
        token = process.stdout.readline().split()[-1]
        url = f"http://127.0.0.1:{port}/api/packs"
        assert len(token) >= 32
        assert httpx.post(url, content=b"x", headers=CHANGE, timeout=30).status_code == 401
        right = CHANGE | {"Authorization": f"Bearer {token}"}
        assert httpx.post(url, content=b"x", headers=right, timeout=30).status_code == 422
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_token_that_was_given_stays_secret(capsys, monkeypatch, tmp_path):
    """Logs are read by many: only a token that was made up here is printed."""
    token = "correct-horse-battery"
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    security = SecuritySettings("127.0.0.1", token, frozenset(), public_read=False)
    for show in (False, True):
        with cli_serve.listen("127.0.0.1", 0) as listener:
            cli_serve.run(FastAPI(), listener, security, tmp_path, show_token=show)
        printed = capsys.readouterr().out
        assert "the token" in printed
        assert (token in printed) is show


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workspaces": Path("wek")}, "There is no folder 'wek'"),
        ({"workspaces": Path(), "packs": Path("pakcs")}, "There is no folder 'pakcs'"),
    ],
)
def test_a_misspelled_folder_is_refused(tmp_path, monkeypatch, options, match):
    """It would be served empty."""
    monkeypatch.chdir(tmp_path)
    defaults = {"packs": None, "found": None, "host": "127.0.0.1", "port": 0, "token": None}
    with pytest.raises((SettingsError, PackError), match=match):
        cli_serve.serve(Path("kb"), Path("model"), **(defaults | options), allowed_host=None)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("host", "port", "advice"),
    [("192.0.2.1", 0, "an address of this machine"), ("127.0.0.1", 99999, "another port")],
)
def test_where_it_cannot_listen_it_says_what_to_choose(host, port, advice):
    """An address of another machine is not mended by another port."""
    with pytest.raises(SettingsError, match=f"choose {advice}"):
        cli_serve.listen(host, port)
    with (
        cli_serve.listen("127.0.0.1", 0) as taken,
        pytest.raises(SettingsError, match="choose another port"),
    ):
        cli_serve.listen("127.0.0.1", taken.getsockname()[1])


def test_requests_are_counted_by_route(client):
    """Routes are named by their pattern, and unknown ones together."""
    for _ in range(2):
        client.post("/api/link", json={"text": "Rey"})
    for path in ("/api/packs/nothing", "/no/such/page", "/another"):
        client.get(path)
    client.request("STRANGE", "/api/link")
    found = samples(client)
    assert found["stamo_http_requests_total", "/api/link", "200", "POST"] == 2
    assert found["stamo_http_requests_total", "/api/packs/{key}", "404", "GET"] == 1
    assert found["stamo_http_requests_total", "404", "GET", "none"] == 2
    assert not any("STRANGE" in labels or "/another" in labels for labels in found)
    assert found["stamo_http_request_duration_seconds_count", "/api/link", "POST"] == 2
    assert found["stamo_linking",] == 0
    assert found["stamo_packs",] == 0
    assert found["process_resident_memory_bytes",] > 1e6


def test_status_tells_what_is_served(reader):
    """The page learns the knowledge base's name and whether a token is needed."""
    status = reader.get("/api/status").json()
    assert (status["knowledge_base"], status["token_needed"], status["n_packs"]) == ("kb", False, 0)


def arrays(node):
    """Find the arrays of a schema."""
    if isinstance(node, dict):
        if node.get("type") == "array":
            yield node
        node = list(node.values())
    for value in node if isinstance(node, list) else ():
        yield from arrays(value)


def test_openapi_describes_every_route(reader):
    """The description is valid, says what each route does, and loads nothing from elsewhere."""
    described = reader.get("/api/openapi.json").json()
    validate(described)
    routes = described["paths"]
    for path, methods in routes.items():
        for method, operation in methods.items():
            assert operation.get("description") or path == "/metrics", (path, method)
    assert "http" not in json.dumps(routes).replace("HTTPValidationError", "")
    found = list(arrays(described))
    assert found
    assert all("items" in node and "prefixItems" not in node for node in found)


def test_lost_visitors_are_told_the_way(reader):
    """People get a page, programs a sentence; neither shows what was asked for as markup."""
    page = reader.get("/nowhere/<b>", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "There is no such page" in page.text
    assert "nowhere" not in page.text
    answer = reader.get("/api/nowhere").json()
    assert answer["error"] == "There is no route '/api/nowhere'; GET /docs lists those there are."
    assert "pack" in reader.get("/api/packs/x").json()["error"]


@pytest.mark.browser
def test_the_list_of_routes_works_offline(address, open_page):
    """Everything comes from the service itself, and a route can be tried."""
    foreign = []
    page = open_page(f"{address}/docs", viewport={"width": 1280, "height": 800})
    page.on("request", lambda r: r.url.startswith((address, "data:")) or foreign.append(r.url))
    page.reload()
    page.click("#operations-linking-status_api_status_get button.opblock-summary-control")
    page.click("text=Try it out")
    page.click("button.execute")
    page.wait_for_selector("text=knowledge_base")
    assert page.locator(".opblock").count() > 10
    assert foreign == []


def curl(client, line, replace):
    """Do what a line of curl does; return the route's answer."""
    words = shlex.split(line)[1:]
    method, headers, body, url = "", {}, None, ""
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0).encode()
        elif word == "--data-binary":
            body = Path(words.pop(0).removeprefix("@")).read_bytes()
        elif word == "-o":
            words.pop(0)
        else:
            url = word.removeprefix("http://127.0.0.1:8017")
    for name, value in replace.items():
        url = url.replace(name, value)
    return client.request(method or ("POST" if body else "GET"), url, content=body, headers=headers)


def test_the_documented_examples_work(serve, root, tmp_path, monkeypatch):
    """Every line of the page does what it says, and every route has one.

    This service has no proposals, and says so; tests/service/test_found.py asks one that has.
    """
    monkeypatch.chdir(tmp_path)
    Path("rey.stamo").write_bytes(make_pack().to_bytes())
    text = "Rey left."
    Path("texts.ttl").write_bytes(format_nif([(context_iri("a", len(text)), text, [])]))
    workspace = Workspace.open(root / "rey")
    report = workspace.path / "report.html"
    report.write_text("<p>A report.</p>")
    lines = [
        line
        for block in blocks(ROOT / "docs" / "service.md")
        for line in block.code.splitlines()
        if line.startswith("curl ")
    ]
    replace, seen = {}, set()
    with serve(headers={}) as client:
        for line in lines:
            answer = curl(client, line, replace)
            if "PROPOSAL" in line:
                assert "start it with --found" in answer.json()["error"]
            elif "/packs/of/" in line:
                assert "learn it first" in answer.json()["error"]
            else:
                assert answer.status_code < 300, (line, answer.text)
            path = answer.request.url.path.replace("PROPOSAL", "{key}")
            for name, value in replace.items():
                path = path.replace(value, {"KEY": "{key}", "JOB": "{key}"}[name])
            seen.add(path.replace("/rey", "/{name}"))
            if line.endswith("/api/packs") and answer.status_code == 200:
                replace["KEY"] = answer.json()[0]["key"]
            if line.endswith("/learn"):
                replace["JOB"] = answer.json()["id"]
        assert seen == set(client.get("/api/openapi.json").json()["paths"])
