"""`stamo build simplewiki`: fetching a dump from a mirror, here a server of this machine."""

import bz2
import hashlib
import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import DumpError, KnowledgeBaseError, SettingsError
from stamo.kb.base import KnowledgeBase
from tests.build.dumps import write_dump

NAME = "simplewiki-20260101-pages-articles-multistream.xml.bz2"
SETTINGS = BuildSettings(dimensions=0, held_out=0.0)


class Mirror(BaseHTTPRequestHandler):
    """Serves files by path with ranges, as Wikimedia does; it may break off."""

    def __init__(self, state, *args):
        self.state = state
        super().__init__(*args)

    def do_GET(self):
        data = self.state["files"].get(self.path)
        start = int((re.findall(r"\d+", self.headers.get("Range", "0")) or ["0"])[0])
        start *= self.state.get("ranges", True)
        self.state["asked"].append((self.path.rpartition("/")[2], start))
        if data is None or (start and start >= len(data)):
            self.send_error(404 if data is None else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + self.state["most"] if self.path.endswith(".bz2") else None
        self.wfile.write(data[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A mirror with one dump; what it serves and was asked for."""
    dump = bz2.compress(write_dump(tmp_path / "dump.xml").read_bytes())
    sums = f"{'0' * 40}  other.gz\n{hashlib.sha1(dump).hexdigest()}  {NAME}\n".encode()
    files = {
        "/simplewiki/latest/simplewiki-latest-sha1sums.txt": sums,
        "/simplewiki/20260101/simplewiki-20260101-sha1sums.txt": sums,
        f"/simplewiki/20260101/{NAME}": dump,
        "/frwiki/latest/frwiki-latest-sha1sums.txt": b"",
    }
    state = {"files": files, "asked": [], "most": len(dump), "dump": dump}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Mirror, state))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("STAMO_MIRROR", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.chdir(tmp_path)
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_latest_dump_of_a_wiki_is_fetched_and_built(mirror, tmp_path):
    """The dump stays beside the knowledge base; the next build does not fetch it again."""
    shares = []
    build_knowledge_base("simplewiki", "kb", SETTINGS, lambda step, done: shares.append(step))
    kb = KnowledgeBase.open("kb")
    assert kb.manifest.sources["dump"].name == NAME
    assert (tmp_path / NAME).read_bytes() == mirror["dump"]
    assert shares[0] == "fetching the dump"
    dated = BuildSettings(dimensions=0, held_out=0.0, date="20260101", overwrite=True)
    build_knowledge_base("simplewiki", "kb", dated)
    assert [name for name, _ in mirror["asked"]].count(NAME) == 1
    assert KnowledgeBase.open("kb").fingerprint == kb.fingerprint


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_transfer_goes_on(mirror, tmp_path, ranges):
    """From where it broke off, in one run or in the next; from the start where it has to."""
    size = len(mirror["dump"])
    mirror["most"], mirror["ranges"] = size // 3 + 1, ranges
    if not ranges:
        with pytest.raises(DumpError, match=r"ends early.*by other means"):
            build_knowledge_base("simplewiki", "kb", SETTINGS)
        assert (tmp_path / f"{NAME}.part").stat().st_size == mirror["most"]
        mirror["most"] = size
    build_knowledge_base("simplewiki", "kb", SETTINGS)
    starts = [start for name, start in mirror["asked"] if name == NAME]
    assert starts[:3] == ([0, size // 3 + 1, 2 * (size // 3 + 1)] if ranges else [0, 0, 0])
    assert (tmp_path / NAME).read_bytes() == mirror["dump"]


def test_what_an_earlier_run_left_is_completed(mirror, tmp_path):
    """Also when it was all there but for its name."""
    for n_there in (100, len(mirror["dump"])):
        (tmp_path / NAME).unlink(missing_ok=True)
        (tmp_path / f"{NAME}.part").write_bytes(mirror["dump"][:n_there])
        build_knowledge_base("simplewiki", f"kb{n_there}", SETTINGS)
        assert mirror["asked"][-1] == (NAME, n_there)
        assert (tmp_path / NAME).read_bytes() == mirror["dump"]


def test_a_damaged_file_is_refused_and_removed(mirror, tmp_path):
    """Nothing is built from it."""
    mirror["files"][f"/simplewiki/20260101/{NAME}"] = mirror["dump"][::-1]
    with pytest.raises(DumpError, match=r"checksum is not the one.*removed, run the same command"):
        build_knowledge_base("simplewiki", "kb", SETTINGS)
    assert not list(tmp_path.glob("simplewiki*"))
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize(
    ("wiki", "date", "said"),
    [
        ("nowiki", "latest", r"no dump of nowiki \(latest\); check the name and the date at http"),
        ("simplewiki", "20250101", r"no dump of simplewiki \(20250101\)"),
        ("frwiki", "latest", r"does not list its articles.*--date"),
        ("simplewiki", "2025", "written as 20260101, not '2025'"),
        ("dump.xml", "20260101", "goes with the short name of a wiki"),
    ],
)
def test_what_cannot_be_fetched_is_explained(mirror, wiki, date, said):
    """With the way out."""
    with pytest.raises((DumpError, SettingsError), match=said):
        build_knowledge_base(wiki, "kb", BuildSettings(dimensions=0, date=date))


def test_a_closed_network_is_told_which_file_to_bring(tmp_path, monkeypatch):
    """In one sentence; and a target that may not be replaced is refused before anything else."""
    monkeypatch.setenv("STAMO_MIRROR", "http://127.0.0.1:9")
    monkeypatch.chdir(tmp_path)
    file = r"simplewiki-latest-pages-articles-multistream\.xml\.bz2"
    said = (
        rf"127.0.0.1:9/simplewiki cannot be reached \(.*\); bring http.*/{file} here .*build {file}"
    )
    with pytest.raises(DumpError, match=said):
        build_knowledge_base("simplewiki", "kb", SETTINGS)
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "x").touch()
    with pytest.raises(KnowledgeBaseError):
        build_knowledge_base("simplewiki", "kb", SETTINGS)
