"""The route of GERBIL, against the real linker and under attack."""

import httpx
import pytest
from starlette.exceptions import HTTPException

from stamo.corpus.nif import NOT_IN_KB, NifPhrase, format_nif, parse_nif
from stamo.corpus.types import Document, Mention
from stamo.linking.linker import Linker
from stamo.service.parts import Limits
from stamo.service.routes import annotate_nif, mention_layers
from stamo.service.security import SecuritySettings
from tests.linking.small import small_kb, untrained

IRI = "http://example.org/news-1#char=0,30"
TEXT = "Java lies near Sumatra. Nobody."


def ask(client, data, **headers):
    return client.post(
        "/nif", content=data, headers={"Content-Type": "application/x-turtle"} | headers
    )


def test_real_annotation_and_disambiguation():
    """Without phrases names are found (A2KB); with them these are linked, overlapping or not."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb))
    plain = format_nif([(IRI, TEXT, [])])
    (found,) = parse_nif(annotate_nif(plain, linker, (), Limits()))
    assert found.id == IRI
    assert [(m.surface, m.entity) for m in found.mentions] == [
        (m.surface, m.entity) for m in linker.link(TEXT)
    ]
    spans = [(0, 4), (0, 9), (24, 30)]
    given = format_nif([(IRI, TEXT, [NifPhrase(a, b, "urn:x") for a, b in spans])])
    (linked,) = parse_nif(annotate_nif(given, linker, (), Limits()))
    assert [(m.start, m.end) for m in linked.mentions] == spans
    assert linked.mentions[0].entity == linker.link("Java")[0].entity
    assert linked.mentions[2].entity == f"{NOT_IN_KB}Nobody"


def test_the_route_speaks_turtle(reader):
    """The answer has the context's own IRI and the type that was asked for."""
    data = format_nif([(IRI, TEXT, [])])
    answer = ask(reader, data, Accept="application/x-turtle")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-turtle; charset=utf-8"
    assert ask(reader, data).headers["content-type"] == "text/turtle; charset=utf-8"
    (document,) = parse_nif(answer.content)
    assert (document.id, document.text) == (IRI, TEXT)
    assert [m.entity for m in document.mentions] == ["Java", "Sumatra", f"{NOT_IN_KB}Nobody"]


def test_a_program_needs_no_header_of_ours(serve):
    """GERBIL knows nothing of our headers; the route changes nothing and asks for none."""
    with serve(headers={}) as client:
        assert ask(client, format_nif([(IRI, TEXT, [])])).status_code == 200


def test_the_token_guards_it_where_others_can_reach_it(serve):
    """As all data, unless reading is public."""
    settings = SecuritySettings(token="t" * 20, allowed_hosts=frozenset({"127.0.0.1"}))
    with serve(headers={}, security=settings) as client:
        assert ask(client, format_nif([(IRI, TEXT, [])])).status_code == 401
        token = {"Authorization": f"Bearer {'t' * 20}"}
        assert ask(client, format_nif([(IRI, TEXT, [])]), **token).status_code == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 422),
        (b"nonsense", 422),
        (b"[" * 200_000, 422),
        (b"# " + b"x" * 2**20, 413),
        (format_nif([(IRI, "Rey " * 2501, [])]), 413),
        (b"<a> <b> " + b",".join(b"%d" % i for i in range(25_000)) + b" .", (422, 503)),
    ],
)
def test_bad_requests_are_one_sentence(reader, data, status):
    """Whatever comes, the answer is a sentence and the service goes on."""
    answer = ask(reader, data)
    # Where the machine is busy, much to read may take longer than a request is given.
    assert answer.status_code in (status if isinstance(status, tuple) else (status,))
    assert answer.json()["error"].endswith(".")
    assert reader.get("/api/status").status_code == 200


def test_layers_keep_every_mention():
    """Overlapping mentions go to copies of the document in which none overlaps."""
    mentions = tuple(Mention("x" * (b - a), a, b) for a, b in [(0, 4), (0, 9), (4, 6), (8, 9)])
    layers = mention_layers(Document("a", "x" * 10, mentions))
    assert [[(m.start, m.end) for m in layer.mentions] for layer in layers] == [
        [(0, 4), (4, 6), (8, 9)],
        [(0, 9)],
    ]
    assert mention_layers(Document("a", "x")) == [Document("a", "x")]


def test_other_methods_are_refused(reader):
    """There is nothing to get."""
    assert isinstance(reader, httpx.Client)
    assert reader.get("/nif").status_code == 405


def test_overlapping_mentions_count_as_often_as_they_are_linked():
    """A short request cannot ask for the same text a thousand times."""
    kb = small_kb()
    linker, text = Linker(kb, untrained(kb)), TEXT * 4
    spans = [NifPhrase(0, end, "urn:x") for end in range(1, 41)]
    data = format_nif([(IRI, text, spans)])
    assert annotate_nif(data, linker, (), Limits())
    with pytest.raises(HTTPException, match="overlap so often that 4960 characters"):
        annotate_nif(data, linker, (), Limits(link_characters=3000))
