"""Decompression: every format, concatenated, cut, damaged, hostile; always bounded."""

import bz2
import gzip
import io
import lzma
import random
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stamo.system.streams import ByteStream

COMPRESS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
ARCHIVES = [kind for kind in COMPRESS if kind != "plain"]


def xml(n_bytes: int, seed: int = 0) -> bytes:
    """Letters that no compressor makes much smaller, in the shape of XML."""
    letters = random.Random(seed).choices(b"abcdefghijklmnopqrstuvwxyz <&", k=n_bytes)
    return b"<xml>" + bytes(letters)


def read(data: bytes) -> tuple[bytes, ByteStream]:
    stream = ByteStream(io.BytesIO(data))
    blocks = list(stream)
    assert all(blocks), "an empty block would look like the end"
    return b"".join(blocks), stream


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("n_bytes", [0, 1, 70_000, 400_000])
def test_reads_back_what_was_compressed(kind, n_bytes):
    """Each format is told from its first bytes and gives the original bytes without a fault."""
    content = xml(n_bytes)
    got, stream = read(COMPRESS[kind](content))
    assert (got, stream.kind, stream.fault) == (content, kind, None)


@pytest.mark.parametrize("kind", ARCHIVES)
@given(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=6))
def test_concatenated_members_read_as_one(kind, sizes):
    """Archives written one after the other (multistream, parallel compressors) join up."""
    parts = [xml(size, seed) for seed, size in enumerate(sizes)]
    got, stream = read(b"".join(COMPRESS[kind](part) for part in parts))
    assert got == b"".join(parts)
    assert stream.fault is None


@pytest.mark.parametrize("kind", ARCHIVES)
def test_cut_archive_gives_a_prefix_and_the_reason(kind):
    """Its beginning comes out; the fault gives the place, the reason to count it by does not."""
    content = xml(3000)
    data = COMPRESS[kind](content)
    for cut in range(8, len(data), 7):
        faults: list[str] = []
        stream = ByteStream(io.BytesIO(data[:cut]), on_fault=faults.append)
        assert content.startswith(b"".join(stream))
        assert stream.fault == f"archive ends early after {cut:,} bytes"
        assert faults == ["archive ends early"]


@pytest.mark.parametrize("kind", ARCHIVES)
def test_complete_members_before_damage_survive(kind):
    """A damaged member costs nothing that stands in the members before it."""
    first, second = xml(5000, 1), xml(200_000, 2)
    damaged = bytearray(COMPRESS[kind](second))
    middle = len(damaged) // 2
    damaged[middle : middle + 64] = bytes(64)
    got, stream = read(COMPRESS[kind](first) + bytes(damaged))
    assert got.startswith(first)
    assert got != first + second
    assert "damaged" in stream.fault


@pytest.mark.parametrize("kind", ARCHIVES)
@given(noise=st.binary(max_size=200), place=st.floats(0, 1))
def test_noise_never_raises(kind, noise, place):
    """Bytes overwritten anywhere after the magic number end the stream at worst."""
    data = bytearray(COMPRESS[kind](xml(500)))
    start = 6 + int(place * (len(data) - 6))
    data[start : start + len(noise)] = noise
    got, stream = read(bytes(data))
    assert isinstance(got, bytes)
    assert stream.fault is None or stream.fault.startswith("archive")


FOREIGN = "archive is followed by bytes that do not belong to it"
SKIPPABLE = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"stamo"


@pytest.mark.parametrize(
    ("kind", "before", "between", "behind", "fault"),
    [
        *((kind, b"", b"", b"and now for something else", FOREIGN) for kind in ARCHIVES),
        *((kind, b"", bytes(8), bytes(512), None) for kind in ("gzip", "xz")),
        ("zstd", SKIPPABLE, SKIPPABLE, SKIPPABLE, None),
    ],
)
def test_what_stands_between_members_is_no_content(kind, before, between, behind, fault):
    """Padding with zeros and frames of application data are passed over, other bytes reported."""
    data = before + COMPRESS[kind](b"<a>") + between + COMPRESS[kind](b"</a>") + behind
    got, stream = read(data)
    assert (got, stream.fault) == (b"<a></a>", fault)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_decompression_bomb_streams_in_bounded_memory(kind):
    """32 MiB of one letter, tiny when compressed, pass through in small blocks."""
    data = COMPRESS[kind](b"<" + b"x" * (32 << 20))
    tracemalloc.start()
    try:
        stream = ByteStream(io.BytesIO(data))
        n_bytes = 0
        for block in stream:
            assert len(block) <= 1 << (24 if kind == "zstd" else 17)
            n_bytes += len(block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_bytes == (32 << 20) + 1
    assert peak < 40 << 20


XZ_DICTIONARY = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 28}]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (lzma.LZMACompressor(filters=XZ_DICTIONARY).compress(b"<xml/>") + bytes(100), "memory"),
        (b"\x28\xb5\x2f\xfd\x00" + bytes([20 << 3]) + b"\x31\x00\x00abcdef", "damaged"),
    ],
    ids=["xz", "zstd"],
)
def test_an_archive_that_wants_too_much_memory_is_a_fault(data, fault):
    """A dictionary or window above the stated bound is refused, not allocated."""
    got, stream = read(data)
    assert got == b""
    assert fault in stream.fault.lower()


def test_read_error_ends_the_stream_as_a_fault():
    """A disk that fails keeps what was read before, and is asked once."""
    faults: list[str] = []

    class FailingFile(io.BytesIO):
        def read1(self, size=-1):
            assert not faults
            if self.tell() > 1000:
                raise OSError("Input/output error")
            return super().read1(min(size, 600))

    for compress in (bytes, gzip.compress):
        stream = ByteStream(FailingFile(compress(xml(5000))), on_fault=faults.append)
        got = b"".join(stream)
        assert got == xml(5000)[:1208] or (xml(5000).startswith(got) and compress is not bytes)
        assert stream.fault.startswith("reading failed after 1,208 bytes")
        assert faults == ["reading failed (Input/output error)"]
        faults.clear()


def read_past(data: bytes) -> tuple[bytes, list[str]]:
    faults: list[str] = []
    stream = ByteStream(io.BytesIO(data), on_fault=faults.append)
    stream.skips_damage = True
    return b"".join(stream), faults


@pytest.mark.parametrize("n_bytes", [300, 300_000])
def test_members_after_damage_are_found_again(n_bytes):
    """Where every page is a member, a damaged or cut one costs nothing that comes after it."""
    pages = [b"\npage %d\n" % i + xml(n_bytes, i) for i in range(6)]
    members = [gzip.compress(page) for page in pages]
    middle = len(members[1]) // 2
    members[1] = members[1][:middle] + bytes(64) + members[1][middle + 64 :]
    members[3] = members[3][:-20]
    got, faults = read_past(b"".join(members))
    assert [i for i in range(6) if pages[i] in got] in ([0, 2, 4, 5], [0, 2, 3, 4, 5])
    assert len(faults) >= 2
    assert all(fault.startswith("archive is") for fault in faults)
    data = gzip.compress(pages[0])
    assert read_past(data + b"xyz" + data) == (pages[0] + b"\n" + pages[0], [FOREIGN])
