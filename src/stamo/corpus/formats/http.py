"""Answers of web servers as crawls keep them: header fields, and the body without its codings."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"\s*([0-9a-fA-F]{1,8})[^\n]*\n")


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """The answer of a web server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        """Return the media type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """Return the character set of the header, if it names one."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found.group(1) if found else None


def split_head(data: bytes) -> tuple[bytes, int]:
    """Find the empty line behind header fields; return the head and the size with that line."""
    ends = [(data.find(mark), len(mark)) for mark in (b"\r\n\r\n", b"\n\n")]
    found = min((end for end in ends if end[0] >= 0), default=(-1, 0))
    return (data[: found[0]], found[0] + found[1]) if found[0] >= 0 else (b"", 0)


def header_fields(head: bytes) -> dict[str, str]:
    """Return the fields behind the first line by their lower-case names."""
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def parse_http(block: bytes, max_bytes: int) -> HttpMessage | None:
    """Parse an HTTP answer, undoing chunks and compression; None where it is not one.

    Args:
        block: Status line, header fields, empty line and body.
        max_bytes: The body is cut here when it unpacks to more.
    """
    head, size = split_head(block)
    status = head[:64].split(None, 2)
    if not head.startswith(b"HTTP/") or len(status) < 2 or not status[1].isdigit():
        return None
    headers = header_fields(head)
    body = block[size:]
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    body = _unpack(body, headers.get("content-encoding", "").lower(), max_bytes)
    return HttpMessage(int(status[1]), headers, body)


def header_size(block: bytes) -> int:
    """Return how many bytes an HTTP message's header takes, with the empty line; 0 without one."""
    return split_head(block)[1] if block.startswith(b"HTTP/") else 0


def _join_chunks(body: bytes) -> bytes:
    """Join HTTP chunks; many archives store the body joined already, which is returned as is."""
    chunks: list[bytes] = []
    at = 0
    while found := _CHUNK_SIZE.match(body, at):
        size = int(found.group(1), 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(body[found.end() : found.end() + size])
        at = found.end() + size
    return b"".join(chunks) if chunks else body


def _unpack(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Undo gzip and deflate up to `max_bytes`; some archives keep the header but not the coding."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return body
    # With a gzip or zlib header; what calls itself deflate may also have none.
    for wbits in (47, -15) if encoding == "deflate" else (47,):
        try:
            return zlib.decompressobj(wbits).decompress(body, max_bytes)
        except zlib.error:
            continue
    return body
