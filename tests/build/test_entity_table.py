"""A table of entities as a knowledge base."""

import gzip
import json

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.errors import DumpError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from tests.build.products import products, write_products

TABLE = """id,name,aliases,description,count,type,price
p1,Falcon,Falcon Trail|FT1,"A running shoe, light and dry.",30,shoe,9
p2,Falcon,,"A drone
with a camera.",10,drone,8
p3,heron_2,,,,,7
"""


def build(path, content=None, **settings):
    """Write a table, build it without vectors unless asked for, and open the result."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    kb = path.parent / "kb"
    build_knowledge_base(path, kb, BuildSettings(**{"dimensions": 0, **settings}))
    return KnowledgeBase.open(kb)


def counts_of(kb):
    """Return names and counts of every entity."""
    return {kb.title(e): dict(kb.aliases_of(e)) for e in range(kb.n_entities)}


def test_rows_become_entities_with_names_counts_ids_and_articles(tmp_path):
    """Titles that repeat get their type in brackets, and stay candidates of the plain name."""
    kb = build(tmp_path / "p.csv", TABLE)
    assert counts_of(kb) == {
        "Falcon (shoe)": {"Falcon": 30, "Falcon Trail": 30, "FT1": 30, "Falcon (shoe)": 0},
        "Falcon (drone)": {"Falcon": 10, "Falcon (drone)": 0},
        "heron 2": {"heron 2": 0, "heron_2": 0},
    }
    found = kb.candidates("Falcon")
    assert kb.titles(found.ids) == ["Falcon (shoe)", "Falcon (drone)"]
    assert kb.external_ids(found.ids) == ["p1", "p2"]
    assert kb.title(kb.entity_id("FT1")) == "Falcon (shoe)"
    (batch,) = kb.articles(columns=["title", "text"])
    texts = dict(zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True))
    assert texts["Falcon (drone)"] == "A drone\nwith a camera."
    assert kb.manifest.sources["entities"].name == "p.csv"
    assert kb.manifest.skipped == {"column not used: 'price'": 3}


@pytest.mark.parametrize("form", ["tsv", "jsonl", "csv.gz", "txt", "16.csv", "16.jsonl"])
def test_forms_of_a_table_say_the_same(tmp_path, form):
    """Tabs, JSON lines, compressed files and UTF-16 are told by their content."""
    rows = [
        {"id": "p1", "name": "Falcon", "aliases": ["FT1"], "description": "A shoe.", "count": 3},
        {"id": "p2", "name": "Heron", "aliases": [], "description": "A drone.", "count": 0},
    ]
    table = [list(rows[0]), *([*row.values()] for row in rows)]
    cells = [["|".join(c) if isinstance(c, list) else str(c) for c in row] for row in table]
    content = {
        "tsv": "\n".join("\t".join(row) for row in cells).encode(),
        "jsonl": "\n".join(map(json.dumps, rows)).encode(),
        "csv.gz": gzip.compress("\n".join(",".join(row) for row in cells).encode()),
        "16.csv": "\n".join(",".join(row) for row in cells).encode("utf-16"),
        "16.jsonl": ("\ufeff" + "\n".join(map(json.dumps, rows))).encode("utf-16-be"),
        "txt": "\ufeff" + "\r\n".join(";".join(row) for row in cells),
    }[form]
    kb = build(tmp_path / f"p.{form}", content, source="entities")
    assert counts_of(kb) == {"Falcon": {"Falcon": 3, "FT1": 3}, "Heron": {"Heron": 0}}
    assert kb.external_ids([kb.entity_id("Heron")]) == ["p2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "p.csv has no first line"),
        ("id,name\n", "has headings and no entity"),
        ("id,title\n1,Falcon\n", "line 1 has the headings id, title"),
        ("id,name\n1,Falcon\n2,\n", "line 3 has no name"),
        ("id,name\n1,\x01\x02\n", "line 2 has a name without a visible sign"),
        ("id,name\n1,Falcon\n\n1,Heron\n", "line 4 has the id '1', as line 2 has"),
        ("name\nFalcon\nFalcon\n", "line 3 has the name 'Falcon' and no id, as line 2 has"),
        ("id,name\n1,Falcon,shoe\n", "line 2 has 3 fields under 2 headings"),
        ('id,name\n1,"Fal"con\n', "line 2 is no CSV"),
        ("name,count\nFalcon,many\n", "line 2 has the count 'many'"),
        (f"name,count\nFalcon,{'9' * 5000}\n", "line 2 has the count '999"),
        ("name,count\nFalcon,2147483647\nHeron,1\n", "more than 2,147,483,647 together by line 3"),
        ("name\n" + "x" * 201 + "\n", "line 2 has a name of more than 200 characters"),
        ("id,name\n" + "x" * 101 + ",a\n", "line 2 has an id"),
        (b"name\nCaf\xe9\n", "line 2 is not UTF-8"),
        (b"name\nF\0n\n", "line 2 holds a zero byte"),
        (
            gzip.compress(b"name\nFalcon\n" + bytes(range(97, 123)) * 3, mtime=0)[:-9],
            "cannot be read whole",
        ),
        ('{"name": "a"}\n{"name": 1.5}\n', "line 2 has a float as name"),
        ('{"name": "a"}\n{"name"}\n', "line 2 is no JSON"),
        ('{"name": "' + "x" * (1 << 20) + '"}\n', "a line has more than 1 MiB"),
    ],
)
def test_a_faulty_table_is_one_sentence_with_its_line(tmp_path, content, message):
    """Nothing is half-written."""
    with pytest.raises(DumpError) as caught:
        build(tmp_path / "p.csv", content)
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_listed_names_are_found_whatever_the_descriptions_say(tmp_path):
    """Where nothing is ever a link, a name in many descriptions is a name all the same."""
    rows = "".join(f"c{i},Case {i},A case for the Falcon.\n" for i in range(20))
    kb = build(tmp_path / "p.csv", f"id,name,description\np1,Falcon,A phone.\n{rows}")
    found = {m.surface: m.entity for m in Linker(kb).link("The Falcon with Case 7 is here.")}
    assert found == {"Falcon": "Falcon", "Case 7": "Case 7"}


def test_names_without_any_description_link_by_prior(tmp_path):
    """Without text there are no vectors, and counts decide."""
    content = "id,name,count\n1,Falcon,1\n2,Falcon,5\n"
    kb = build(tmp_path / "p.csv", content, dimensions=10)
    assert kb.dimensions == 0
    (mention,) = Linker(kb).link("The Falcon is here.")
    assert mention.entity == "Falcon (2)"


def test_descriptions_tell_entities_of_one_name_apart(tmp_path):
    """By the words around: all 40 products are found, where counts alone find one of each name."""
    kb = build(write_products(tmp_path / "p.csv"), dimensions=100)
    linker = Linker(kb)
    found = [linker.link(near)[0] for *_, near, _ in products()]
    assert [m.entity for m in found] == [f"{name} ({kind})" for _, name, kind, *_ in products()]
