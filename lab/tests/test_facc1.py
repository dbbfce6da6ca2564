"""ClueWeb12 pages and FACC1 annotations, in their exact file formats, become linked documents."""

import gzip
import html

import pytest

from stamo.corpus.reading import SkipCounter
from stamo_lab.facc1 import (
    read_facc1,
    read_freebase_keys,
)
from tests.corpus.archives import http_answer, page, warc_record

TITLES = {"/m/0dl567": "Rey (film)", "/m/02j71": "Earth", "/m/06c62": "Café (song)"}
FILLER = "This sentence only makes the page long enough to have content. " * 4


def annotate(
    trec_id, raw, mention, mid, *, occurrence=0, encoding="UTF-8", shift=0, confidence=0.9
):
    """Write the FACC1 line of one occurrence of a mention in the raw page."""
    needle = mention.encode(encoding)
    start = -1
    for _ in range(occurrence + 1):
        start = raw.index(needle, start + 1)
    start += shift
    span = f"{start}\t{start + len(needle)}"
    return f"{trec_id}\t{encoding}\t{mention}\t{span}\t{confidence}\t6.67e-05\t{mid}\n"


def trec(n, segment="0000tw-00"):
    return f"clueweb12-{segment}-{n:05d}"


def write(tmp_path, pages, tsv, name="0000tw-00"):
    """Write one WARC file (a gzip member per record) and one FACC1 file."""
    info = warc_record(b"WARC file version 0.18", type="warcinfo")
    records = [warc_record(http_answer(raw), trec_id=id) for id, raw in pages.items()]
    warc = tmp_path / f"{name}.warc.gz"
    warc.write_bytes(b"".join(map(gzip.compress, [info, *records])))
    annotations = tmp_path / f"{name}.anns.tsv"
    annotations.write_text(tsv)
    return warc, annotations


def read(warcs, annotations):
    skips = SkipCounter()
    return list(read_facc1(warcs, annotations, TITLES, on_skip=skips)), skips


def test_mentions_find_their_place_in_the_main_content(tmp_path):
    """The annotated occurrence is linked, not an equal word nearby or in the menu."""
    raw = page(FILLER + "Rey is shown. <b>Rey</b> &amp; the Earth. " + FILLER)
    # The page's script and menu hold six more times "Rey".
    tsv = annotate(trec(7), raw, "Rey", "/m/0dl567", occurrence=7) + annotate(
        trec(7), raw, "Earth", "/m/02j71"
    )
    (document,), skips = read(*([path] for path in write(tmp_path, {trec(7): raw}, tsv)))
    assert document.id == trec(7)
    assert document.title == "A page"
    second = document.text.index("Rey", document.text.index("Rey") + 1)
    assert [(m.surface, m.start, m.entity) for m in document.mentions] == [
        ("Rey", second, "Rey (film)"),
        ("Earth", document.text.index("Earth"), "Earth"),
    ]
    assert all(document.text[m.start : m.end] == m.surface for m in document.mentions)
    assert "\ue000" not in document.text
    assert not skips.skipped


@pytest.mark.parametrize(
    ("text", "mention", "encoding", "options"),
    [
        # Characters of several bytes before and inside a mention do not move it.
        *(("naïve. The Café opens.", "Café", e, {}) for e in ("ISO-8859-1", "windows-1252")),
        ("naïve. The Café opens.", "Café", "UTF-8", {}),
        # The base that spells the mentions is found for each page.
        ("On Earth again.", "Earth", "UTF-8", {"shift": len(http_answer(b""))}),
        # A mention written with character references is recognised by its plain form.
        ("Caf&eacute; opens.", "Caf&eacute;", "UTF-8", {}),
        # A page that holds our signs already is read like any other.
        ("\ue000\ue010 On Earth\ue001.", "Earth", "UTF-8", {}),
        # Damage to the name of an encoding costs no page.
        *(
            ("On Earth.", "Earth", name, {"encoding": "UTF-8"})
            for name in ("UTF-8\0", "hex", "undefined", "idna", "punycode", "no such")
        ),
    ],
)
def test_a_mention_is_found_by_its_bytes(tmp_path, text, mention, encoding, options):
    """Whatever the encoding, the signs before it, or where offsets begin to count."""
    known = options.get("encoding", encoding)
    raw = page(f"Déjà vu. {FILLER} {text}").decode().encode(known)
    line = annotate(trec(1), raw, mention, "/m/02j71", **{"encoding": known, **options})
    line = line.replace(f"\t{known}\t", f"\t{encoding}\t").replace("Caf&eacute;", "Café")
    documents, skips = read(*([path] for path in write(tmp_path, {trec(1): raw}, line)))
    (document,), plain = documents, html.unescape(mention)
    assert [(m.surface, document.text[m.start : m.end]) for m in document.mentions] == [
        (plain, plain)
    ]
    assert document.text.startswith("Déjà vu.")
    assert not skips.skipped


def test_mentions_that_cannot_be_placed_are_counted(tmp_path):
    """Wrong offsets, the menu, unknown entities and overlaps are left out with their reason."""
    raw = page(FILLER + "Rey lives on Earth.")
    tsv = (
        annotate(trec(1), raw, "Earth", "/m/02j71")
        + annotate(trec(1), raw, "Earth", "/m/02j71", shift=3)
        + annotate(trec(1), raw, "Rey", "/m/0dl567", occurrence=1)
        + annotate(trec(1), raw, "Rey", "/m/0unknown", occurrence=6)
        + f"{trec(1)}\tno columns\n"
    )
    warc, annotations = write(tmp_path, {trec(1): raw, trec(2): page("No annotations")}, tsv)
    (document,), skips = read([warc], [annotations])
    assert [m.surface for m in document.mentions] == ["Earth"]
    assert skips.skipped == {
        "mention not at its byte offsets": 1,
        "mention outside the main content": 1,
        "mention of an entity without Wikipedia title": 1,
        "page without annotations": 1,
        "annotation without eight columns": 1,
    }


def test_freebase_ids_become_wikipedia_titles(tmp_path):
    """Both two columns and the triples of a Freebase dump are read, by the key of page ids."""
    titles = {9228: "Earth", 42: "Rey (film)"}
    columns = tmp_path / "keys.tsv"
    columns.write_text("/m/02j71\t9228\nm.0dl567\t42\n/m/0none\t1\nnonsense\n")
    skips = SkipCounter()
    expected = {"/m/02j71": "Earth", "/m/0dl567": "Rey (film)"}
    assert read_freebase_keys(columns, titles, on_skip=skips) == expected
    assert skips.skipped.total() == 2
    space = "http://rdf.freebase.com"
    triples = tmp_path / "freebase.gz"
    triples.write_bytes(
        gzip.compress(
            f'<{space}/ns/m.02j71>\t<{space}/key/wikipedia.en_id>\t"9228"\t.\n'
            f'<{space}/ns/m.02j71>\t<{space}/key/wikipedia.en>\t"Earth"\t.\n'
            f'<{space}/ns/m.0dl567>\t<{space}/key/wikipedia.en_id>\t"42"\t.\n'.encode()
        )
    )
    assert read_freebase_keys(triples, titles) == expected
