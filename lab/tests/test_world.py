"""The generator of invented worlds: the embedded world byte for byte, and worlds of other sizes."""

import json
import lzma
import re
from importlib import resources
from itertools import pairwise
from xml.etree import ElementTree

from typer.testing import CliRunner

from stamo.world import World
from stamo_lab.cli.main import create_app
from stamo_lab.world import WorldSettings, generate_world

NS = "{http://www.mediawiki.org/xml/export-0.11/}"


def test_the_embedded_world_is_what_the_generator_makes(tmp_path):
    """The file of the package holds the same bytes, whatever its compression."""
    path = tmp_path / "world.tar.xz"
    done = CliRunner().invoke(create_app(), ["world", str(path), "--packed"])
    assert done.exit_code == 0, done.output
    embedded = resources.files("stamo").joinpath("world.tar.xz").read_bytes()
    assert lzma.decompress(path.read_bytes()) == lzma.decompress(embedded)


def test_the_command_writes_a_world_and_shows_its_emerging_entities(tmp_path):
    """Spans of the gold are exact, and wherever an alias stands, the gold says what it means."""
    sizes = ["--articles", "260", "--emerging", "2", "--documents", "9", "--seed", "3"]
    done = CliRunner().invoke(
        create_app(), ["world", str(tmp_path), *sizes], env={"COLUMNS": "200"}
    )
    assert done.exit_code == 0, done.output
    world = World.open(tmp_path)
    assert all(entity.id in done.output for entity in world.emerging)
    names = re.compile("|".join(re.escape(e.aliases[0]) for e in world.emerging))
    files = (world.paths.pile_path, world.paths.gold_path)
    for text, gold in zip(*(path.read_text().splitlines() for path in files), strict=True):
        document, answers = json.loads(text), json.loads(gold)["mentions"]
        spans = [(m["start"], m["end"]) for m in answers]
        assert [document["text"][a:b] for a, b in spans] == [m["surface"] for m in answers]
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        for match in names.finditer(document["text"]):
            assert any(a <= match.start() and match.end() <= b for a, b in spans)


def test_size_is_as_asked(tmp_path):
    """The number of articles is exact, titles are unique, and redirects end at an article."""
    settings = WorldSettings(n_articles=731, n_emerging=0, background_documents=3, compress=False)
    world = generate_world(settings, tmp_path)
    pages = ElementTree.parse(world.paths.dump_path).getroot().findall(f"{NS}page")
    described = json.loads(world.paths.description_path.read_text())
    titles = [page.findtext(f"{NS}title") for page in pages]
    assert len(set(titles)) == len(titles) == described["n_pages"]
    redirects = {
        page.findtext(f"{NS}title"): page.find(f"{NS}redirect").get("title")
        for page in pages
        if page.find(f"{NS}redirect") is not None
    }
    main = {page.findtext(f"{NS}title") for page in pages if page.findtext(f"{NS}ns") == "0"}
    assert len(main - redirects.keys()) == 731 + described["n_disambiguations"]
    for target in redirects.values():
        while target in redirects:
            target = redirects[target]
        assert target in main
    assert world.emerging == ()
