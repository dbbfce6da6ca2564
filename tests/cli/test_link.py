"""`stamo link`, `stamo evaluate` and `stamo bench link` from the outside."""

import csv
import gzip
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.corpus.nif import NifPhrase, context_iri, entity_iri, format_nif, parse_nif
from stamo.errors import (
    ArtifactMismatchError,
    KnowledgeBaseError,
    ModelError,
    PackError,
    SettingsError,
)
from tests.corpus.archives import page
from tests.linking.small import small_kb, untrained, world_kb


@pytest.fixture
def app():
    return create_app(["link"])


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "model.safetensors"
    untrained(small_kb()).save(path)
    return path


@pytest.fixture
def run(app, model_path):
    def run(*args, stdin=None, command="link", kb=None, model=None):
        kb_path = str((kb or small_kb()).path)
        both = ["--kb", kb_path, "--model", str(model or model_path)]
        line = [*command.split(), *both, *map(str, args)]
        return CliRunner().invoke(app, line, input=stdin)

    return run


def records(result):
    return [json.loads(line) for line in result.stdout.splitlines() if line]


def test_text_from_stdin(run):
    """Plain text on stdin is one document; the output is a line of JSON."""
    (record,) = records(run(stdin="Java lies near Sumatra."))
    assert [m["surface"] for m in record["mentions"]] == ["Java", "Sumatra"]


def test_candidates_when_asked_for(run):
    """The lines are short; with --all-candidates they hold the same and all candidates."""
    text = "Java lies near Sumatra."
    (short,), (full,) = (records(run(*o, stdin=text)) for o in ([], ["--all-candidates"]))
    assert len(full["mentions"][0]["candidates"]) == 2
    for mention in full["mentions"]:
        del mention["runner_up"], mention["candidates"]
    assert short == full


def test_jsonl_with_bad_lines(run):
    """A bad line becomes an error record, the others are linked, and the exit code is 0."""
    result = run("--jsonl", stdin='{"id": "a", "text": "Java"}\nnonsense\n{"text": "York"}\n')
    first, bad, last = records(result)
    assert (first["id"], last["id"]) == ("a", "-:3")
    assert "not valid JSON" in bad["error"]
    assert result.exit_code == 0
    assert "1 of 3" in result.stderr


def test_compressed_lines_and_pages(run, tmp_path):
    """A compressed file is unpacked and of a page only its text is linked, not its markup."""
    lines, html = tmp_path / "x.jsonl.gz", tmp_path / "a.html"
    lines.write_bytes(gzip.compress(b'{"id": "a", "text": "Java"}\n'))
    html.write_bytes(page("On Java.", title="York").replace(b"Rey", b"Sumatra"))
    first, second = records(run(lines, html))
    assert (first["id"], second["id"]) == ("a", str(html))
    assert [m["surface"] for m in first["mentions"] + second["mentions"]] == ["Java"] * 2


def test_nothing_could_be_done(run, tmp_path):
    """When every document is bad, the exit code is 1 and each has its record."""
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9")
    result = run(path, tmp_path / "missing.txt")
    assert result.exit_code == 1
    assert [sorted(record) for record in records(result)] == [["error", "id"]] * 2


def test_files_workers_and_explanations(run, tmp_path):
    """Files are linked in order by several processes, with explanations when asked for."""
    paths = [tmp_path / f"{i}.txt" for i in range(3)]
    for path in paths:
        path.write_text("Java and York", encoding="utf-8")
    found = records(run(*paths, "--workers", 2, "--explain", "--batch-size", 1))
    assert [record["id"] for record in found] == [str(path) for path in paths]
    assert set(found[0]["mentions"][0]["why"]) >= {"prior", "relatedness"}


def test_given_mentions_and_threshold(run):
    """Given mentions are linked as they are; above the threshold of 1 nothing is."""
    line = json.dumps({"text": "on Java now", "mentions": [{"start": 3, "end": 7}]})
    (record,) = records(run("--jsonl", "--mentions", "given", "--threshold", "1", stdin=line))
    assert [(m["start"], m["entity"]) for m in record["mentions"]] == [(3, None)]


def test_lone_surrogates_stay_json(run):
    """Broken Unicode escapes in the input come out as valid JSON in UTF-8."""
    (record,) = records(run("--jsonl", stdin='{"id": "\\ud800", "text": "Java \\udfff"}'))
    assert record["id"] == "\ud800"
    assert len(record["mentions"]) == 1


def test_long_text_in_parts(run):
    """A text beyond the window comes in numbered parts whose offsets are those of the whole."""
    text = "Java is an island.\n\n" * 300
    parts = records(run("--window", 1000, stdin=text))
    assert [record["part"] for record in parts] == list(range(len(parts)))
    starts = [m["start"] for record in parts for m in record["mentions"]]
    assert [text[start : start + 4] for start in starts] == ["Java"] * 300


def test_coloured_text(run):
    """With --format text the entities stand in the text, and a legend below."""
    result = run("--format", "text", "--explain", stdin="on Java")
    assert "on Java [Java" in result.stdout
    assert "NIL: not linked" in result.stdout


def test_other_formats(run):
    """The same links as CSV, NIF and HTML, in one process or two."""
    (record,) = records(run(stdin="Java lies near Sumatra."))
    links = [(m["start"], m["end"], m["entity"]) for m in record["mentions"]]
    rows = list(
        csv.DictReader(run("--format", "csv", stdin="Java lies near Sumatra.").stdout.splitlines())
    )
    assert [(int(r["start"]), int(r["end"]), r["entity"]) for r in rows] == links
    turtle = run("--format", "nif", "--workers", 2, stdin="Java lies near Sumatra.").stdout
    (document,) = parse_nif(turtle.encode())
    assert [(m.start, m.end, m.entity) for m in document.mentions] == links
    assert records(run("--json", stdin="Java lies near Sumatra."))[0]["mentions"][0]["start"] == 0
    page = run("--format", "html", stdin="Java lies near Sumatra.").stdout
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert [entity in page for *_, entity in links] == [True, True]


def test_evaluate(run, tmp_path):
    """Held-out articles and gold files are measured in one call, as JSON or Markdown."""
    kb = world_kb()
    model = tmp_path / "world.safetensors"
    untrained(kb).save(model)
    gold = tmp_path / "gold.jsonl"
    title = kb.title(0)
    gold.write_text(
        json.dumps({"text": title, "index": [[0, len(title)]], "wikipedia_titles": [title]}) + "\n"
    )
    nif = tmp_path / "gold.ttl"
    phrase = NifPhrase(0, len(title), entity_iri(title))
    nif.write_bytes(format_nif([(context_iri("a", len(title)), title, [phrase])]))
    args = ("--held-out", "--zelda", gold, "--nif", nif, "--samples", 20)
    figure = tmp_path / "curve.png"
    result = run(*args, "--json", "--figure", figure, command="evaluate", kb=kb, model=model)
    report = json.loads(result.stdout)
    assert report["held_out"]["rows"][0]["name"] == "prior alone"
    assert report["zelda"][0]["n_in_kb"] == report["nif"][0]["n_in_kb"] == 1
    assert figure.exists()
    tables = run(*args, "--markdown", command="evaluate", kb=kb, model=model).stdout
    assert "| prior alone |" in tables
    for some in (args, args[:1], args[1:3]):  # with gold files and held-out articles, or only one
        assert "prior alone" in run(*some, command="evaluate", kb=kb, model=model).stdout


def test_linking_starts_without_heavy_parts(tmp_path):
    """Loading them takes longer than linking a page; DeepED as saved does without."""
    kb = small_kb()
    model, text = tmp_path / "model.safetensors", tmp_path / "a.txt"
    untrained(kb).save(model)
    text.write_text("Java lies near Sumatra.", encoding="utf-8")
    code = (
        "import sys; from stamo.cli.main import create_app\n"
        f"create_app(['link'])(['link', '--kb', {str(kb.path)!r}, '--model', {str(model)!r}, "
        f"{str(text)!r}], standalone_mode=False)\n"
        "heavy = {'torch', 'scipy', 'pyarrow', 'asyncio', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [m["surface"] for m in json.loads(done.stdout)["mentions"]] == ["Java", "Sumatra"]


def test_without_a_model_prior_and_relatedness_decide(app, tmp_path):
    """No model is needed, and one that is named elsewhere need not be used."""
    (tmp_path / "text.txt").write_text("Sun Microsystems used C++ before Java.")
    line = ["link", "--kb", str(small_kb().path), "--model", "none", str(tmp_path / "text.txt")]
    result = CliRunner().invoke(app, line)
    (record,) = records(result)
    assert record["mentions"][-1]["entity"] == "Java (language)"
    piped = CliRunner().invoke(app, line[:3], input="Sun Microsystems used C++ before Java.")
    assert [r["mentions"] for r in records(piped)] == [record["mentions"]]


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("link --kb KB --model MODLE TEXT", ModelError, "modle"),
        ("link --kb NOKB TEXT", KnowledgeBaseError, "'NOKB' is not a knowledge base"),
        ("link NOKB TEXT", SettingsError, "give --kb, set STAMO_KB"),
        ("link --kb KB KB MODEL TEXT", SettingsError, "is no text to link; name it with --kb"),
        ("link --kb KB MODEL TEXT", SettingsError, "is no text to link; name it with --model"),
        ("link --kb WORLD --model MODEL TEXT", ArtifactMismatchError, "train"),
        ("link --kb KB --model MODEL TEXT --with FOLDER", PackError, "no pack in the folder"),
        ("link --kb KB TEXT --encoding klingon", SettingsError, "no encoding 'klingon'"),
        ("evaluate --kb KB --model MODEL", SettingsError, "nothing to measure on"),
    ],
)
def test_what_does_not_fit_is_refused(app, model_path, tmp_path, words, error, said):
    """What is missing, foreign or in the wrong place is named, and nothing is linked."""
    paths = {"KB": small_kb().path, "WORLD": world_kb().path, "MODEL": model_path}
    paths |= {"MODLE": tmp_path / "modle", "TEXT": tmp_path / "text.txt", "FOLDER": tmp_path}
    (tmp_path / "text.txt").write_text("Java lies near Sumatra.")
    result = CliRunner().invoke(app, [str(paths.get(word, word)) for word in words.split()])
    assert isinstance(result.exception, error)
    assert said in str(result.exception)
    assert result.stdout == ""
