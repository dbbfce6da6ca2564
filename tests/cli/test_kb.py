"""`stamo build`, `stamo info` and `stamo show` as a person uses them."""

import json

import pytest
from typer.testing import CliRunner

from stamo.cli.main import create_app
from stamo.errors import KnowledgeBaseError, SettingsError, UnknownEntityError
from stamo.kb.base import KnowledgeBase
from tests.build.dumps import write_dump

OPTIONS = ["--workers", "1", "--held-out", "0", "--dimensions", "0"]


def run(*arguments):
    """Run one command and return what it printed."""
    app = create_app(["build"])
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, list(map(str, arguments)))
    if result.exception is not None:
        raise result.exception
    return result.stdout


@pytest.fixture(scope="module")
def kb_path(tmp_path_factory):
    """A small knowledge base made by the command itself."""
    folder = tmp_path_factory.mktemp("cli")
    run("build", write_dump(folder / "dump.xml"), folder / "kb", *OPTIONS)
    return folder / "kb"


def test_build_ends_with_a_summary(tmp_path):
    """Pages, redirects, disambiguations, links, what was left out, seconds and memory are told."""
    shown = run("build", write_dump(tmp_path / "dump.xml"), tmp_path / "kb", *OPTIONS)
    for words in (
        "disambiguation pages",
        "redirect pages",
        "links in running text",
        "link to a redirect in a cycle",
        "counting (seconds)",
        "peak memory",
        "fingerprint",
    ):
        assert words in shown


def test_build_summary_as_json(tmp_path):
    """Programs get the same numbers."""
    dump = write_dump(tmp_path / "dump.xml")
    record = json.loads(run("build", dump, tmp_path / "kb", *OPTIONS, "--json"))
    assert record["counts"]["articles"] == 5
    assert record["skipped"]["redirect in a cycle"] == 2
    assert record["path"] == str(tmp_path / "kb")


def test_build_refuses_and_overwrites(kb_path):
    """The target is only replaced with --overwrite."""
    dump = kb_path.parent / "dump.xml"
    with pytest.raises(KnowledgeBaseError, match="--overwrite"):
        run("build", dump, kb_path, *OPTIONS)
    assert "Knowledge base kb" in run("build", dump, kb_path, *OPTIONS, "--overwrite")


def test_info_shows_sizes_and_ambiguity(kb_path, tmp_path):
    """Counts and the distribution of ambiguity are printed, and drawn on request."""
    shown = run("info", "--kb", kb_path, "--figure", tmp_path / "ambiguity.png", "--verify")
    assert "dump.xml" in shown
    assert "How many entities a name may mean" in shown
    assert "█" in shown
    assert (tmp_path / "ambiguity.png").read_bytes().startswith(b"\x89PNG")


def test_info_as_json_adds_up(kb_path):
    """The classes of ambiguity hold every alias and every counted link once."""
    record = json.loads(run("info", "--kb", kb_path, "--json"))
    assert sum(c["n_aliases"] for c in record["ambiguity"]) == record["counts"]["aliases"]
    assert sum(c["n_links"] for c in record["ambiguity"]) == record["counts"]["counted links"]
    assert len(record["fingerprint"]) == 64


def test_show_a_name_and_its_likeliest_entity(kb_path):
    """A name that is no title shows its candidates and the entity it most likely means."""
    shown = run("show", "--kb", kb_path, "Avalon")
    assert "“Avalon” as a name: 2 entities; 3 links" in " ".join(shown.split())
    assert "0.667" in shown
    assert "“Avalon (river)” as an entity" in shown
    record = json.loads(run("show", "--kb", kb_path, "Avalon", "--json"))
    assert [row["entity"] for row in record["alias"]["candidates"]] == [
        "Avalon (river)",
        "Avalon (film)",
    ]
    assert record["entity"]["entity"] == "Avalon (river)"


def test_show_follows_redirects_and_limits_rows(kb_path):
    """A redirect shows the entity it leads to; -n limits every table."""
    record = json.loads(run("show", "--kb", kb_path, "Town of Brig", "--json", "-n", "1"))
    assert record["entity"]["entity"] == "Brig"
    assert len(record["entity"]["aliases"]) == 1
    assert record["entity"]["n_aliases"] == 4
    assert len(record["entity"]["related"]) == 1


def test_show_suggests_what_was_meant(kb_path):
    """An unknown name is an error that offers similar names."""
    with pytest.raises(UnknownEntityError, match=r"no entity or name 'Dara Vos'.*'Dara Voss'"):
        run("show", "--kb", kb_path, "Dara Vos")
    with pytest.raises(UnknownEntityError, match="nothing like it"):
        run("show", "--kb", kb_path, "Qwertz")


BARE_DUMP = """<mediawiki>
<page><title>Kraków</title><ns>0</ns><id>1</id><revision><text>[[Plik:a.jpg|thumb]] [[Kraków]] leży
nad rzeką [[wisła]]. [[Grafika:b.jpg]] [[Kategoria:Miasta]]</text></revision></page></mediawiki>"""


def test_build_takes_the_language_of_a_dump_that_does_not_say_it(tmp_path):
    """Then files and categories of that language are no entities, and names are inflected."""
    dump = tmp_path / "bare.xml"
    dump.write_text(BARE_DUMP)
    options = ["--language", "PL", "--workers", "1", "--dimensions", "0", "--held-out", "0"]
    run("build", dump, tmp_path / "kb", *options)
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert kb.language == "pl"
    assert sorted(kb.title(i) for i in range(kb.n_entities)) == ["Kraków", "Wisła"]
    dump.write_text(BARE_DUMP.replace("<mediawiki>", '<mediawiki xml:lang="cs">'))
    with pytest.raises(SettingsError, match="says that its language is cs, not PL"):
        run("build", dump, tmp_path / "other", *options)


def test_build_tells_notes_and_tables_by_what_they_are(tmp_path):
    """A folder is notes, a .csv is a table of entities, and --as says it for other names."""
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "Ada.md").write_text("Ada met [[Bob]].")
    (tmp_path / "p.csv").write_text("id,name\np1,Falcon\n")
    (tmp_path / "p.list").write_text("id,name\np1,Falcon\n")
    options = ["--workers", "1", "--dimensions", "0", "--json"]
    for source, kind in (("vault", "notes"), ("p.csv", "entities"), ("p.list", "entities")):
        given = [] if source != "p.list" else ["--as", "entities"]
        kb = tmp_path / f"kb-{source}"
        run("build", tmp_path / source, kb, "--language", "de", *options, *given)
        record = json.loads(run("info", "--kb", kb, "--json"))
        assert record["sources"][kind]["name"] == source
        assert record["site"]["language"] == "de"
        assert record["settings"]["held_out"] == 0
    shown = json.loads(run("show", "--kb", tmp_path / "kb-vault", "Bob", "--json"))
    assert shown["entity"]["n_links"] == 1
