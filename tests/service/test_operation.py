"""What those who run a service look at: health, figures, the list of routes, lost visitors."""

import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from prometheus_client.parser import text_string_to_metric_families

from stamo import __version__
from stamo.cli import serve as cli_serve
from stamo.corpus.nif import context_iri, format_nif
from stamo.errors import SettingsError
from stamo.service.security import SecuritySettings
from stamo.workspace.folder import Workspace
from tests.documents import ROOT, blocks
from tests.service.support import BROWSER_FLAGS, make_pack


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


SLOW_SERVICE = """
import time
from fastapi import FastAPI
from stamo.cli import serve
from stamo.service.security import SecuritySettings
serve.SHUTDOWN_SECONDS = 0
app = FastAPI()

@app.get("/")
def slow():
    print("asked", flush=True)
    time.sleep(2)

try:
    serve.run(app, serve.listen("127.0.0.1", 0), SecuritySettings())
except KeyboardInterrupt:  # the command says that it was stopped
    pass
"""


def test_stopping_gives_no_trace_of_a_running_request():
    """Ctrl-C while somebody waits for an answer is told in a line or two."""
    command = [sys.executable, "-c", SLOW_SERVICE]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as service:
        host, port = service.stdout.readline().split("//")[1].split()[0].split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert service.stdout.readline() == "asked\n"
            service.send_signal(signal.SIGINT)
            said = service.communicate(timeout=60)[1]
    assert "Traceback" not in said


def test_a_missing_folder_of_workspaces_is_not_made(tmp_path):
    """A misspelled name would serve an empty list."""
    missing = tmp_path / "wek"
    with pytest.raises(SettingsError, match="There is no folder"):
        cli_serve.serve(tmp_path / "kb", tmp_path / "model", workspaces=missing)
    assert not missing.exists()


@pytest.mark.parametrize(
    ("host", "port", "advice"),
    [("192.0.2.1", 0, "an address of this machine"), ("127.0.0.1", 99999, "another port")],
)
def test_where_it_cannot_listen_it_says_what_to_choose(host, port, advice):
    """An address of another machine is not mended by another port."""
    with pytest.raises(SettingsError, match=f"choose {advice}"):
        cli_serve.listen(host, port)


def test_requests_are_counted_by_route(client):
    """Routes are named by their pattern; refused and unknown ones are counted too."""
    client.post("/api/link", json={"text": "Rey"})
    client.post("/api/link", json={"text": "Rey"})
    client.get("/api/packs/nothing")
    client.get("/no/such/page")
    client.get("/another")
    client.request("STRANGE", "/api/link")
    client.post("/api/packs", headers={"Origin": "http://evil.example"})
    found = samples(client)
    assert found["stamo_requests_total", "/api/link", "200", "POST"] == 2
    assert found["stamo_requests_total", "/api/packs/{key}", "404", "GET"] == 1
    assert found["stamo_requests_total", "404", "GET", "other"] == 2
    assert found["stamo_requests_total", "403", "POST", "other"] == 1
    assert not any("STRANGE" in labels or "/another" in labels for labels in found)
    assert found["stamo_request_seconds_count", "/api/link"] == 3
    assert found["stamo_linking",] == 0
    assert found["stamo_packs",] == 0
    assert found["process_resident_memory_bytes",] > 1e6


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
def test_the_list_of_routes_works_offline(reader, chromium):
    """Everything comes from the service itself, and a route can be tried."""
    address = str(reader.base_url).rstrip("/")
    foreign, complaints = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(15_000)
        page.on("request", lambda r: r.url.startswith((address, "data:")) or foreign.append(r.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
        page.goto(f"{address}/docs")
        page.click("#operations-linking-status_api_status_get button.opblock-summary-control")
        page.click("text=Try it out")
        page.click("button.execute")
        page.wait_for_selector("text=a small world")
        assert page.locator(".opblock").count() > 10
        browser.close()
    assert foreign == []
    assert complaints == []


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
