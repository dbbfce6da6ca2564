"""NIF: what GERBIL writes is read, what we write is read back, and the rest is a sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stamo.corpus import nif
from stamo.corpus.nif import (
    EMERGING_IRI,
    NOT_IN_KB,
    NifPhrase,
    context_iri,
    entity_iri,
    format_nif,
    parse_nif,
    title_of,
)
from stamo.corpus.reading import SkipCounter, read_chunks, read_documents
from stamo.corpus.types import Mention
from stamo.errors import CorpusFormatError

# As GERBIL sends a document, down to types and spaces; the text is ours.
GERBIL = """@prefix rdf:   <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix xsd:   <http://www.w3.org/2001/XMLSchema#> .
@prefix itsrdf: <http://www.w3.org/2005/11/its/rdf#> .
@prefix nif:   <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .
@prefix rdfs:  <http://www.w3.org/2000/01/rdf-schema#> .

<http://example.org/sentence-7#char=0,40>
        a               nif:RFC5147String , nif:String , nif:Context ;
        nif:beginIndex  "0"^^xsd:nonNegativeInteger ;
        nif:endIndex    "40"^^xsd:nonNegativeInteger ;
        nif:isString    "The ferry to Java was late, said Zork. \U0001f6a2"^^xsd:string .

<http://example.org/sentence-7#char=13,17>
        a                     nif:RFC5147String , nif:String , nif:Phrase ;
        nif:anchorOf          "Java"^^xsd:string ;
        nif:beginIndex        "13"^^xsd:nonNegativeInteger ;
        nif:endIndex          "17"^^xsd:nonNegativeInteger ;
        nif:referenceContext  <http://example.org/sentence-7#char=0,40> ;
        itsrdf:taIdentRef     <http://dbpedia.org/resource/Java_%28island%29> ,
                              <http://www.wikidata.org/entity/Q3757> .

<http://example.org/sentence-7#char=33,37>
        a                     nif:RFC5147String , nif:String , nif:Phrase ;
        nif:anchorOf          "Zork"^^xsd:string ;
        nif:beginIndex        "33"^^xsd:nonNegativeInteger ;
        nif:endIndex          "37"^^xsd:nonNegativeInteger ;
        nif:referenceContext  <http://example.org/sentence-7#char=0,40> ;
        itsrdf:taIdentRef     <http://aksw.org/notInWiki/Zork> .
"""


def test_gerbils_own_form_is_read():
    """Text, spans, titles, and entities of no knowledge base."""
    (document,) = parse_nif(GERBIL.encode())
    assert document.id == "http://example.org/sentence-7#char=0,40"
    assert document.text.endswith("Zork. \U0001f6a2")
    assert document.mentions == (
        Mention("Java", 13, 17, "Java (island)"),
        Mention("Zork", 33, 37, f"{NOT_IN_KB}Zork"),
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=3, max_size=40)


@given(text=TEXTS, name=TEXTS, title=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_back(text, name, title):
    """Any text, any id and any title survive Turtle."""
    title = title.replace("_", " ")
    phrases = [
        NifPhrase(0, 1, entity_iri(title), 0.25),
        NifPhrase(2, 3, entity_iri(title, EMERGING_IRI)),
    ]
    iri = context_iri(name, len(text))
    (document,) = parse_nif(format_nif([(iri, text, phrases)]))
    assert (document.id, document.text) == (iri, text)
    assert [(m.start, m.end) for m in document.mentions] == [(0, 1), (2, 3)]
    assert document.mentions[0].entity == title
    assert document.mentions[1].entity.startswith(EMERGING_IRI)


@pytest.mark.parametrize(
    ("iri", "title"),
    [
        ("http://dbpedia.org/resource/New_York_City", "New York City"),
        ("http://de.dbpedia.org/resource/K%C3%B6ln", "Köln"),
        ("https://en.wikipedia.org/wiki/AC/DC", "AC/DC"),
        ("http://www.wikidata.org/entity/Q3757", None),
    ],
)
def test_titles_of_entities(iri, title):
    """IRIs of DBpedia and Wikipedia are titles."""
    assert title_of(iri) == title


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no text in it"),
        (b"\xff\xfe nonsense", "not valid Turtle"),
        (b"this is no turtle", "not valid Turtle"),
        (b"[" * 100_000, "nested too deeply"),
        (GERBIL.replace('"17"', '"170"').encode(), "does not fit its text of 40 characters"),
        (GERBIL.replace('"Java"', '"Sumatra"').encode(), "does not fit"),
        (GERBIL.replace('"13"', '"x"').encode(), "beginIndex"),
        (GERBIL.replace('"13"', '"-4"').encode(), "does not fit"),
    ],
)
def test_bad_nif_is_a_sentence(data, message):
    """What is wrong is said; nothing is half-read."""
    with pytest.raises(CorpusFormatError, match=message):
        parse_nif(data)


@pytest.mark.parametrize("name", ["gold.ttl", "gold.nif", "no-name"])
def test_nif_comes_through_the_one_door(tmp_path, name):
    """A NIF file is told by its name or its content, to collect and to link."""
    (tmp_path / name).write_text(GERBIL)
    (document,) = read_documents([tmp_path])
    assert [m.entity for m in document.mentions] == ["Java (island)", f"{NOT_IN_KB}Zork"]
    (part,) = read_chunks([tmp_path], 10_000)
    assert [m.entity for m in part.document.mentions] == [None, None]
    assert part.document.text == document.text


def test_a_file_of_too_many_triples_is_left_out(tmp_path, monkeypatch):
    """It is counted with its reason before it takes time and memory; the next file is read."""
    monkeypatch.setattr(nif, "MAX_TRIPLES", 60)
    many = GERBIL + "".join(f"<http://a/{i}> <http://b> {i} .\n" for i in range(60))
    (tmp_path / "a.ttl").write_text(many)
    (tmp_path / "b.ttl").write_text(GERBIL)
    skips = SkipCounter()
    assert len(list(read_documents([tmp_path], on_skip=skips))) == 1
    (reason,) = skips.skipped
    assert "more than 60 triples" in reason


def test_utf16_offsets_after_many_wide_characters():
    """Each of them moves what comes after it by one."""
    names = [f"Rey{i:03d}" for i in range(50)]
    text = "\U0001f6a2 ".join(["", *names])
    turtle = f'@prefix nif: <{nif.NIF}> .\n<urn:c> nif:isString "{text}" .\n'
    for name in names:
        start = len(text[: text.index(name)].encode("utf-16-le")) // 2
        turtle += f"<urn:{name}> nif:referenceContext <urn:c> ; nif:beginIndex {start} ; "
        turtle += f'nif:endIndex {start + len(name)} ; nif:anchorOf "{name}" .\n'
    (document,) = parse_nif(turtle.encode())
    assert [m.surface for m in document.mentions] == names


def test_phrases_that_cover_a_text_again_and_again_are_refused(monkeypatch):
    """Each would be kept as a text of its own."""
    monkeypatch.setattr(nif, "MAX_PHRASES_LENGTH", 1000)
    text = "x" * 100
    few, many = ([NifPhrase(i, 100, "urn:x") for i in range(n)] for n in (9, 20))
    assert parse_nif(format_nif([("urn:d", text, few)]))
    with pytest.raises(CorpusFormatError, match="cover more than 1000 characters"):
        parse_nif(format_nif([("urn:d", text, many)]))


def test_an_iri_that_turtle_cannot_hold_is_escaped():
    """A context may be named by what is no IRI; the answer can be written all the same."""
    assert parse_nif(format_nif([('urn:a"b c', "Rey", [])]))[0].id == "urn:a%22b%20c"
