"""The days after the first: the same file name every morning, kills, failures, other encodings."""

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.corpus.types import Document
from stamo.errors import CorpusFormatError
from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace
from tests.workspace.small_world import copy_labelled, make_small_world


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_world(tmp_path_factory)


@pytest.fixture
def here(small, tmp_path, monkeypatch):
    """A folder whose stamo.toml names knowledge base and model."""
    monkeypatch.chdir(tmp_path)
    paths = {"kb": small.kb_path, "model": small.model_path}
    (tmp_path / "stamo.toml").write_text("".join(f'{k} = "{v}"\n' for k, v in paths.items()))
    return tmp_path


def run(*arguments, code=0, **options):
    result = CliRunner().invoke(
        create_app(), list(map(str, arguments)), catch_exceptions=False, **options
    )
    assert result.exit_code == code, result.output
    return result.stdout


BROKEN = """
import os, signal, sys
from stamo.cli.main import main
from stamo.workspace import collect as collecting
if sys.argv[1] == "kill":
    collecting.CHECKPOINT_BYTES, n_left = 1, [1]
    write = collecting.CollectingSpace.write
    def die(*arguments, **options):
        n_left[0] -= 1
        if n_left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        write(*arguments, **options)
    collecting.CollectingSpace.write = die
else:
    sys.modules["resiliparse"] = None  # as if the extra were not installed
del sys.argv[1]
main()
"""


def broken(*arguments):
    command = [sys.executable, "-c", BROKEN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_five_mornings_are_one_collecting(small, here):
    """One is killed and one fails; the pile ends as if all were collected at once."""
    lines = small.world.paths.pile_path.read_text().splitlines(keepends=True)
    mornings = [lines[i * 40 : (i + 1) * 40] for i in range(5)]
    for folder in ("days", "all"):
        run("new", folder, small.entity.id, "--alias", small.entity.aliases[0])
    (here / "page.html").write_text("<html><body>nothing of interest</body></html>")
    for number, morning in enumerate(mornings):
        (here / "kept" / str(number)).mkdir(parents=True)
        for path in (here / "today.jsonl", here / "kept" / str(number) / "today.jsonl"):
            path.write_text("".join(morning))
        if number == 2:
            (here / "yesterday.jsonl").write_text("".join(mornings[1]))  # under another name
            killed = broken("kill", "collect", "days", "--from", "yesterday.jsonl", "--from",
                            "page.html", "--from", "today.jsonl")  # fmt: skip
            assert killed.returncode == -signal.SIGKILL
            assert "interrupted" in run("status", "days")
        if number == 3:
            before = Workspace.open("days").documents.manifest
            (here / "page.html").write_text(f"<html><body>{small.entity.aliases[0]}</body></html>")
            failed = broken("fail", "collect", "days", "--from", "today.jsonl", "--from",
                            "page.html")  # fmt: skip
            assert failed.returncode == 1
            assert "pip install 'stamo[web]'" in failed.stderr
            assert Workspace.open("days").documents.manifest == before
        run("collect", "days", "--from", "today.jsonl")
    run("collect", "days", "--from", "today.jsonl", "--from", here / "kept")
    run("collect", "all", *(w for n in range(5) for w in ("--from", f"kept/{n}/today.jsonl")))
    piles = [list(Workspace.open(folder).documents) for folder in ("days", "all")]
    assert piles[0] == piles[1]
    assert len(piles[0]) > 10


def test_an_update_learns_what_an_interrupted_one_collected(small, here):
    """The same name every morning; documents that were only collected are learned from later."""
    space = copy_labelled(small, here / "rey")
    run("learn", space.path, "--folds", "0", "--encoder", "none")
    alias = small.entity.aliases[0]
    today = here / "today.jsonl"
    for n, text in ((1, "came by boat in the morning"), (2, "left with the last train")):
        today.write_text(json.dumps({"text": f"{alias} {text}, as nobody had thought."}) + "\n")
        if n == 2:
            run("collect", space.path, "--from", today)
        said = run("update", space.path, "--from", today)
        assert f"{2 - n} new document" in said
        documents = EntityPack.load(space.pack_path).notes["documents"]
        assert documents.startswith(f"{len(list(space.documents))} from ")
    assert "pack version 3" in said
    assert (
        "stay as they are"
        in CliRunner()
        .invoke(create_app(), ["update", str(space.path), "--from", str(today)])
        .stderr
    )


TEXT = "Rey drinks a café crème."


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (TEXT.encode(), []),
        (TEXT.encode("utf-8-sig"), []),
        (TEXT.encode("utf-16"), []),
        (TEXT.encode("cp1252"), ["--encoding", "WINDOWS-1252"]),
        (TEXT.encode("utf-16-le"), ["--encoding", "UTF-16-LE"]),
    ],
    ids=["utf-8", "mark", "utf-16", "named", "unmarked"],
)
def test_every_command_reads_the_same_encodings(here, data, options):
    """Documents, JSON lines, tables of entities, labels and what is linked."""

    def encode(text):
        mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        name = options[1] if options else "utf-16" if data.startswith(b"\xff\xfe") else "utf-8"
        return mark + text.encode(name)

    (here / "a.txt").write_bytes(data)
    (here / "b.jsonl").write_bytes(encode(json.dumps({"text": TEXT}, ensure_ascii=False) + "\n"))
    for name in ("a.txt", "b.jsonl"):
        (record,) = map(json.loads, run("link", name, *options).splitlines())
        assert "error" not in record
        piped = run("link", *options, input=(here / name).read_bytes())
        assert "error" not in json.loads(piped)
    (here / "list.csv").write_bytes(encode("name,description\nRey,Trinkt Café\n"))
    run("new", "week", "--from", "list.csv", *options)
    assert Workspace.open("week/rey").entity.description == "Trinkt Café"
    run("collect", "week/rey", "--from", "a.txt", *options)
    ((document),) = Workspace.open("week/rey").documents
    assert document.text == TEXT
    table = f"document,start,end,choice\n{document.id},0,3,Café\n"
    (here / "labels.csv").write_bytes(encode(table))
    assert "Added 1 " in run("labels", "import", "week/rey", "labels.csv", *options)
    gold = {"text": TEXT, "index": [[0, 3]], "wikipedia_titles": ["Café"]}
    (here / "gold.jsonl").write_bytes(encode(json.dumps(gold, ensure_ascii=False) + "\n"))
    found = json.loads(run("evaluate", "--zelda", "gold.jsonl", "--samples", 2, "--json", *options))
    assert found["zelda"][0]["n_mentions"] == 1


def test_another_encoding_is_refused_with_a_way_out(here):
    """Each command names the byte, iconv and --encoding, and changes nothing."""
    latin = TEXT.encode("cp1252")
    (here / "a.txt").write_bytes(latin)
    (here / "labels.csv").write_bytes(b"document,start,end,choice\nd,0,3," + latin)
    (here / "list.csv").write_bytes(b"name\n" + latin)
    run("new", "rey", "Rey")
    found = run("collect", "rey", "--from", "a.txt", code=3)
    assert "not valid UTF-8" in found
    linked = json.loads(run("link", "a.txt", code=1))
    refused = [linked["error"]]
    for words in (("labels", "import", "rey", "labels.csv"), ("new", "x", "--from", "list.csv")):
        with pytest.raises(CorpusFormatError) as refusal:
            run(*words)
        refused.append(str(refusal.value))
    for sentence in refused:
        assert "iconv -f" in sentence, sentence
        assert "--encoding" in sentence, sentence
    with pytest.raises(CorpusFormatError, match="is not in ascii"):
        run("labels", "import", "rey", "labels.csv", "--encoding", "ascii")


def test_kb_and_model_are_named_once(small, here, monkeypatch):
    """By options, STAMO_KB and STAMO_MODEL, or stamo.toml, in this order."""
    text = f"On {small.entity.aliases[0]} and nothing else."
    expected = run("link", "--kb", small.kb_path, "--model", small.model_path, input=text)
    assert run("link", input=text) == expected
    assert small.kb.fingerprint[:16] in run("info")
    (here / "stamo.toml").write_text('kb = "nowhere"\n')
    monkeypatch.setenv("STAMO_KB", str(small.kb_path))
    monkeypatch.setenv("STAMO_MODEL", str(small.model_path))
    assert run("link", input=text) == expected
    run("new", "rey", small.entity.id, "--alias", small.entity.aliases[0])
    run("collect", "rey", "--from", small.world.paths.pile_path)
    monkeypatch.setenv("STAMO_KB", "elsewhere")  # the workspace knows its own
    assert "kept" in run("collect", "rey", "--from", small.world.paths.pile_path)
    monkeypatch.delenv("STAMO_KB")
    for text, said in (('kb = "', "cannot be used"), ('kbs = "x"', "something else")):
        (here / "stamo.toml").write_text(text)
        with pytest.raises(ValueError, match=said):
            run("info")


def test_a_reader_that_has_enough_ends_a_command_silently(small, here):
    """`stamo link ... | head -1` ends with 0 and no word."""
    line = json.dumps({"text": small.entity.aliases[0] * 50}) + "\n"
    (here / "many.jsonl").write_text(line * 3000)
    command = f"{sys.executable} -m stamo link many.jsonl | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_label_page_beside_a_service_is_that_of_the_service(small, here):
    """`label` says its address and starts no second one."""
    space = copy_labelled(small, here / "rey")
    command = [sys.executable, "-m", "stamo", "serve", "--port", "0"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = service.stdout.readline().split()[2]
        said = run("label", space.path, "--no-browser", "--who", "ada")
        assert f"{address}/label?workspace=rey&who=ada" in said
    finally:
        service.send_signal(signal.SIGINT)
        service.communicate(timeout=60)
    assert not list(here.glob(".stamo*"))


def test_labels_of_other_mentions_can_be_left_out(small, here):
    """A table from elsewhere names documents that are not here; the rest is added."""
    run("new", "rey", "Rey")
    text = "Rey sleeps. Rey eats."
    (here / "a.jsonl").write_text(json.dumps({"id": "d", "text": text}) + "\n")
    run("collect", "rey", "--from", "a.jsonl")
    (document,) = Workspace.open("rey").documents
    assert document == Document("d", text, document.mentions)
    rows = ["gone,0,3,@emerging", "d,0,3,@emerging", "d,4,10,@none"]
    (here / "t.csv").write_text("\n".join(["document,start,end,choice", *rows]) + "\n")
    label = {"type": "labels", "value": {"start": 12, "end": 15, "labels": ["@none"]}}
    annotations = [{"result": [label]}]
    tasks = [{"data": {"text": other}, "annotations": annotations} for other in (text, "Other")]
    (here / "t.json").write_text(json.dumps(tasks))
    for name, left_out in (("t.csv", 2), ("t.json", 1)):
        with pytest.raises(CorpusFormatError, match="Nothing was added; --skip-unknown"):
            run("labels", "import", "rey", name)
        done = json.loads(run("labels", "import", "rey", name, "--skip-unknown", "--json"))
        assert (done["added"], len(done["left_out"])) == (1, left_out)
