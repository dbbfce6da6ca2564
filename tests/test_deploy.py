"""The files to run the service elsewhere are well-formed and speak of commands that exist.

No container is built here: that needs Docker. A linter reads the Dockerfile, systemd its unit.
"""

import configparser
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import yaml
from typer.main import get_command

from stamo.cli.main import create_app
from tests.documents import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = ROOT / "deploy" / "stamo.service"


def program(name):
    """A program of this environment or of the system; the test skips where it is not."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    return found or pytest.skip(f"no {name}")


def parse(words):
    """Let the command line parse the arguments of `stamo`; it complains about unknown ones."""
    command = get_command(create_app()).commands[words[0]]
    return command.make_context("stamo", list(words[1:])).params


def commands():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNIT)
    return {
        "Dockerfile": json.loads(re.search(r"^CMD (\[.*)$", DOCKERFILE, re.M)[1]),
        "unit": shlex.split(unit["Service"]["ExecStart"])[1:],
    }


def test_the_linter_finds_nothing():
    """hadolint, with all its rules."""
    done = subprocess.run(
        [program("hadolint"), str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("where", ["Dockerfile", "unit"])
def test_the_service_is_started_with_options_that_exist(where):
    """Arguments are parsed as the command would; both serve the same folders."""
    found = parse(commands()[where])
    assert (str(found["kb"]), str(found["model"])) == ("kb", "deeped.safetensors")
    assert (found["packs"], str(found["workspaces"])) == (None, "workspaces")
    assert found["port"] == 8017
    assert "EXPOSE 8017" in DOCKERFILE


def test_what_is_copied_exists_and_reaches_the_build():
    """The image is made of this repository alone, and of no more than it needs."""
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M):
        for name in line.split():
            assert (ROOT / name).exists()
            assert name in allowed
    extras = re.search(r"'\.\[(.*?)\]'", DOCKERFILE)[1].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras) <= set(known["optional-dependencies"])
    # A pack that was learned with the sentence encoder cannot be served without it.
    readme = re.search(r"pip install '\.\[(.*?)\]'", (ROOT / "README.md").read_text())
    assert set(readme[1].split(",")) <= set(extras)


def test_the_compose_file_keeps_the_service_small():
    """A token is demanded, the port is this machine's, and the container can do little."""
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["stamo"]
    assert service["environment"]["STAMO_TOKEN"].startswith("${STAMO_TOKEN:?")
    assert service["ports"] == ["127.0.0.1:8017:8017"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["volumes"] == ["./data:/data"]


def test_systemd_accepts_the_unit(tmp_path):
    """`systemd-analyze verify` has nothing to say but that the program is not installed here."""
    copy = tmp_path / "stamo.service"
    text = UNIT.read_text().replace("/opt/stamo/bin/stamo", "/bin/true")
    copy.write_text(text.replace("User=stamo\nGroup=stamo\n", ""))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    about = [line for line in done.stderr.splitlines() if copy.name in line]
    assert about == []


class Echo(BaseHTTPRequestHandler):
    """Stands for the service behind the proxy."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "9")
        self.end_headers()
        self.wfile.write(self.headers["host"].encode()[:9])

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture
def proxy(tmp_path):
    """The nginx of `deploy`, without TLS and with short timeouts; its address."""
    nginx = program("nginx")
    behind = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=behind.serve_forever, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    text = re.sub(r" *ssl_certificate.*\n", "", text).replace("443 ssl", f"127.0.0.1:{port}")
    text = text.replace("10s", "1s").replace(":8017", f":{behind.server_port}")
    temporary = "".join(f"{kind}_temp_path {tmp_path};" for kind in ("client_body", "proxy"))
    head = f"pid {tmp_path}/pid; daemon off; error_log {tmp_path}/log; events {{}}"
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"{head} http {{ access_log off; {temporary} {text} }}")
    running = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(conf)])
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.05)
    yield "127.0.0.1", port
    running.terminate()
    running.wait()
    behind.shutdown()
    behind.server_close()


def test_the_proxy_passes_requests_on_and_slow_clients_do_not_get_through(proxy):
    """Bodies are bounded, hosts are kept, and who never ends a request shuts nobody out."""
    url = f"http://{proxy[0]}:{proxy[1]}/api/link"
    assert httpx.post(url, content=b"x", headers={"Host": "some.name"}).text == "some.name"
    assert httpx.post(url, content=b"x" * (6 << 20)).status_code == 413
    slow = [socket.create_connection(proxy) for _ in range(10)]
    for number, client in enumerate(slow):
        whole = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
        client.sendall(whole if number % 2 else whole[:20])
    assert httpx.post(url, content=b"x").status_code == 200
    for client in slow:
        client.settimeout(30)
        answer = client.recv(1000)
        assert answer == b"" or b" 408 " in answer
        client.close()
