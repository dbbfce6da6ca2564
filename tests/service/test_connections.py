"""Slow and greedy clients cannot keep others out."""

import socket
import time

import httpx

from stamo.service.app import create_app
from stamo.service.security import ConnectionLimits, limited_protocol
from tests.service.support import make_parts, running

HEAD = b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def place(address):
    host, _, port = address.removeprefix("http://").partition(":")
    return host, int(port)


def serve(root, **limits):
    protocol = limited_protocol(ConnectionLimits(**limits))
    return running(create_app(make_parts(root)), http=protocol)


def until_closed(line):
    line.settimeout(10)
    start = time.monotonic()
    data = b""
    while part := line.recv(65536):
        data += part
    return data, time.monotonic() - start


def test_connections_that_send_nothing_are_closed(root):
    """An idle connection ends after the time for a head, and so does half a head."""
    with serve(root, header_seconds=0.3) as address:
        for sent in (b"", HEAD):
            with socket.create_connection(place(address)) as line:
                line.sendall(sent)
                data, seconds = until_closed(line)
            assert data == b""
            assert seconds < 5


def test_a_head_that_drips_is_closed_also_after_a_first_request(root):
    """A connection that was fine once may not be held open by single bytes."""
    with serve(root, header_seconds=0.3) as address, socket.create_connection(place(address)) as c:
        c.sendall(HEAD + b"\r\n")
        assert c.recv(65536).startswith(b"HTTP/1.1 200")
        start = time.monotonic()
        try:
            for _ in range(100):
                c.sendall(b"G")
                time.sleep(0.05)
                if time.monotonic() - start > 4:
                    break
        except OSError:
            pass
        assert time.monotonic() - start < 4


def test_one_client_cannot_take_all_connections(root):
    """Above the cap of a client it gets 503 with Retry-After; when others leave, it is served."""
    with serve(root, per_client=5, header_seconds=30) as address:
        idle = [socket.create_connection(place(address)) for _ in range(5)]
        time.sleep(0.2)
        full = httpx.get(f"{address}/api/status")
        assert full.status_code == 503
        assert full.headers["retry-after"] == "1"
        assert "too many connections" in full.json()["error"]
        for line in idle:
            line.close()
        time.sleep(0.2)
        assert httpx.get(f"{address}/api/status").status_code == 200


def test_idle_connections_do_not_keep_others_out_for_long(root):
    """With more idle connections than are allowed in all, the service is back after the timeout."""
    with serve(root, total=20, per_client=30, header_seconds=0.5) as address:
        idle = [socket.create_connection(place(address)) for _ in range(25)]
        time.sleep(1.5)
        assert httpx.get(f"{address}/api/status").status_code == 200
        for line in idle:
            line.close()
