import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from stamo.errors import SettingsError
from stamo.service.app import PAGES, STATIC
from stamo.service.security import SecuritySettings, is_loopback, refusal
from tests.service.support import HOST, WordLinker, make_app, make_pack, running

TOKEN = "correct-horse-battery"
OPEN = SecuritySettings("0.0.0.0", TOKEN)


def check(settings, headers, method="POST", path="/api/packs"):
    refused = refusal(settings, method, path, {"host": HOST, **headers})
    return None if refused is None else refused[0]


def test_only_this_machine_may_go_without_a_token():
    """Listening elsewhere without a token, or with a guessable one, is refused."""
    SecuritySettings("127.0.0.1")
    SecuritySettings("::1")
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(SettingsError, match="token"):
            SecuritySettings(host)
    with pytest.raises(SettingsError, match="short"):
        SecuritySettings("0.0.0.0", "1234")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_told_apart(host, expected):
    """Only addresses that stay on this machine count as such."""
    assert is_loopback(host) is expected


THIS, PROXY = SecuritySettings(), SecuritySettings("0.0.0.0", TOKEN, frozenset({"stamo.example"}))
PUBLIC = SecuritySettings("0.0.0.0", TOKEN, public_read=True)
OURS = {"x-stamo": "1"}
RIGHT = {"authorization": f"Bearer {TOKEN}"}
OWN_PAGE = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


@pytest.mark.parametrize(
    ("settings", "headers", "changing", "reading", "linking"),
    [
        # The usual names of this machine pass; a page that points its own name here gets nothing.
        *((THIS, OURS | {"host": h}, None, None, None) for h in ("127.0.0.1:9", "localhost:8017")),
        *((THIS, OURS | {"host": h}, None, None, None) for h in ("LOCALHOST", "[::1]:8017")),
        *((THIS, OURS | {"host": h}, 421, 421, 421) for h in ("evil.example:8017", "", "[::1")),
        *((THIS, OURS | {"host": h}, 421, 421, 421) for h in ("127.0.0.1.evil.example", "@")),
        # Behind a proxy its name is allowed and no other.
        (PROXY, RIGHT | OURS | {"host": "stamo.example"}, None, None, None),
        (PROXY, RIGHT | OURS | {"host": "evil.example"}, 421, 421, 421),
        # A page of another site changes nothing; programs send no origin.
        (THIS, {}, 403, None, None),
        (THIS, OURS | OWN_PAGE, None, None, None),
        *((THIS, OURS | {"origin": o}, 403, None, 403) for o in ("http://evil.example", "null")),
        *((THIS, OURS | {"origin": o}, 403, None, 403) for o in ("http://[", "http://127.0.0.1:9")),
        *(
            (THIS, OURS | {"sec-fetch-site": s}, 403, None, 403)
            for s in ("cross-site", "same-site")
        ),
        # Where others can reach the service, only the right token changes, reads and links.
        (OPEN, OURS, 401, 401, 401),
        (OPEN, OURS | RIGHT, None, None, None),
        (OPEN, OURS | {"authorization": f"bearer {TOKEN}"}, None, None, None),
        *((OPEN, OURS | {"authorization": f"Bearer {w}"}, 401, 401, 401) for w in ("", "é")),
        (OPEN, OURS | {"authorization": f"Bearer {TOKEN}x"}, 401, 401, 401),
        (OPEN, OURS | {"authorization": f"Bearer {TOKEN[:-1]}"}, 401, 401, 401),
        (OPEN, OURS | {"authorization": f"Basic {TOKEN}"}, 401, 401, 401),
        (OPEN, OURS | {"authorization": TOKEN}, 401, 401, 401),
        # Reading can be made public aloud; changes still need the token.
        (PUBLIC, OURS, 401, None, None),
    ],
)
def test_who_may_do_what(settings, headers, changing, reading, linking):
    """What a request that changes something, one that reads and one that links is answered."""
    assert check(settings, headers) == changing
    assert check(settings, headers, method="GET") == reading
    assert check(settings, headers, path="/api/link") == linking


def test_pages_are_open_and_a_browser_that_has_shown_the_token_may_follow_links(serve):
    """The pages ask for the token; then a cookie lets reports and files be opened, no more."""
    with serve(security=OPEN, headers={}) as client:
        assert client.get("/").status_code == 200
        assert client.get("/static/api.js").status_code == 200
        assert client.get("/api/workspaces").status_code == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        shown = client.get("/api/workspaces", headers=right)
        assert shown.status_code == 200
        cookie = shown.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        given = {"Cookie": cookie.partition(";")[0]}
        assert client.get("/api/workspaces", headers=given).status_code == 200
        wrong = {"Cookie": "stamo-pass=" + "0" * 64}
        client.cookies.clear()
        assert client.get("/api/workspaces", headers=wrong).status_code == 401
        change = {**given, "X-Stamo": "1"}
        assert client.post("/api/packs", content=b"x", headers=change).status_code == 401


def test_the_token_is_asked_for_on_every_changing_route(serve):
    """No route that changes state is reachable without the token."""
    with serve(security=OPEN) as client:
        right = {"Authorization": f"Bearer {TOKEN}"}
        routes = client.get("/openapi.json", headers=right).json()["paths"]
        changing = [
            (method, path)
            for path, methods in routes.items()
            for method in methods
            if method != "get" and path not in ("/api/link", "/api/reconcile")
        ]
        assert len(changing) >= 6
        for method, path in changing:
            url = path.format(name="rey", key="x")
            assert client.request(method, url, json={}).status_code == 401, path
        data = make_pack().to_bytes()
        assert client.post("/api/packs", content=data, headers=right).status_code == 201
        strange = client.request("STRANGE", "/api/packs", headers=right)
        assert (strange.status_code, "error" in strange.json()) == (405, True)


@pytest.mark.parametrize(
    "path", ["/", "/label", "/try", "/static/api.js", "/api/status", "/api/nothing", "/nothing"]
)
def test_every_answer_has_the_headers(reader, path):
    """Pages, scripts, data and errors alike carry the policy."""
    headers = reader.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_refused_requests_have_the_headers_too(serve):
    """A refusal is as well protected as an answer."""
    with serve(headers={}) as client:
        response = client.post("/api/packs", content=b"x")
        assert response.status_code == 403
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def test_cross_origin_preflights_are_not_answered(reader):
    """A foreign page that asks for permission to send our header does not get it."""
    headers = {
        "Origin": "http://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-stamo",
    }
    response = reader.options("/api/packs", headers=headers)
    assert response.status_code == 405
    assert response.json()["error"].startswith("OPTIONS is not for '/api/packs'; GET /docs lists")
    assert "GET" in response.headers["allow"]
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_long_bodies_are_refused(serve):
    """A body over the limit gives 413, whether its length is told beforehand or not."""
    with serve(security=SecuritySettings(max_body=1000)) as client:
        assert client.post("/api/packs", content=b"x" * 1001).status_code == 413

        def parts():
            for _ in range(20):
                yield b"x" * 100

        assert client.post("/api/packs", content=parts()).status_code == 413
        assert client.post("/api/packs", content=b"x" * 1000).status_code == 422


def test_a_body_that_never_ends_is_cut_off(root):
    """The server stops reading at the limit, while the sender still sends."""
    app = make_app(root, security=SecuritySettings(max_body=10_000))
    with running(app) as address, socket.create_connection(_place(address)) as line:
        head = "POST /api/packs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Stamo: 1\r\n"
        line.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        line.settimeout(10)
        try:
            for _ in range(10_000):
                line.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        except OSError:
            pass
        else:
            pytest.fail("ten megabytes were taken")


def _place(address):
    host, port = address.removeprefix("http://").split(":")
    return host, int(port)


def test_no_page_holds_code_or_loads_from_elsewhere():
    """Scripts and styles are files of ours, and no script makes markup of text."""
    for file in PAGES.values():
        for name in ("style.css", "icon.svg", f"{file.removesuffix('.html')}.js"):
            assert f"/static/{name}" in (STATIC / file).read_text()
            assert (STATIC / name).is_file()
    for path in STATIC.glob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path.name
        assert not re.search(r"\s(on\w+|style)\s*=", text), path.name
        for link in re.findall(r'(?:src|href)="([^"]*)"', text):
            assert link.startswith("/"), (path.name, link)
            assert not link.startswith("//"), (path.name, link)
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
        assert not re.search(banned, text), path.name
        assert "http:" not in text.replace("http://127.0.0.1", ""), path.name
    assert "@import" not in (STATIC / "style.css").read_text()
    assert "url(" not in (STATIC / "style.css").read_text()


def test_shutting_down_lets_requests_end(root):
    """A text that is being linked when the server is told to stop still gets its answer."""
    gate = WordLinker()
    app = make_app(root, linker=gate)
    with ThreadPoolExecutor() as pool:
        with running(app) as address:
            answer = pool.submit(
                httpx.post, f"{address}/api/link", json={"text": "wait Paris"}, timeout=30
            )
            assert gate.began.wait(20)
            threading.Timer(0.3, gate.go_on.set).start()
        assert answer.result().json()["mentions"][0]["entity"] == "Paris"
