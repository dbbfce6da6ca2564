"""Documents in NIF 2.1, the exchange format of GERBIL: Turtle with texts, spans and entities.

A `nif:Context` is a document and its `nif:Phrase`s are mentions. Entities are IRIs; those of
DBpedia and Wikipedia stand for titles. Offsets count characters (code points), as the standard
says; a file that counts UTF-16 units instead is noticed by its `nif:anchorOf` and read rightly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from stamo.corpus.reading import (
    MAX_RECORD_BYTES,
    BadRecordError,
    ReadItem,
    ReadTask,
    Record,
    read_whole,
)
from stamo.corpus.types import Document, Mention
from stamo.errors import CorpusFormatError, need

if TYPE_CHECKING:
    from rdflib import Graph, Literal, URIRef

NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"
ITSRDF = "http://www.w3.org/2005/11/its/rdf#"
DBPEDIA = "http://dbpedia.org/resource/"
NOT_IN_KB = "http://aksw.org/notInWiki/"
"""GERBIL's namespace for mentions whose entity no knowledge base holds."""
EMERGING_IRI = "urn:stamo:entity:"
"""Our namespace for the entities of packs; GERBIL takes what it does not know as emerging."""
DOCUMENT = "urn:stamo:document:"
MAX_TRIPLES = 200_000
"""Of one file: each takes some thirty microseconds and more than a kilobyte."""

MAX_ESCAPES = 500_000
"""Backslashes of one file: what each takes grows with the length of its text."""
MAX_PHRASES_LENGTH = 1 << 24
"""Characters of all phrases of one file together."""

_TITLE = re.compile(r"https?://(?:[\w-]+\.)?(?:dbpedia\.org/resource|(?:m\.)?wikipedia\.org/wiki)/")
_SCHEME = re.compile(r"(?:https?|urn|file):", re.IGNORECASE)
_POSITION = re.compile(r"#(?:char=|offset_)\d+[,_]\d+$")
_FORBIDDEN = re.compile(r"[\x00-\x20\"#%<>?\[\\\]^`{|}\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
_EXAMPLE = "give Turtle with a nif:Context that has a nif:isString"


def read_contexts(blocks: Iterator[bytes], task: ReadTask) -> Iterator[ReadItem]:
    """Read all contexts of the file."""
    raw = read_whole(blocks, MAX_RECORD_BYTES + 1)
    if len(raw) > MAX_RECORD_BYTES:
        raise BadRecordError("NIF larger than the limit", "give it in several files")
    for document in parse_nif(raw, MAX_TRIPLES):
        mentions, where = document.mentions, document.id
        yield Record(document.text, where, document.id, mentions=mentions, is_checked=True)


def parse_nif(data: bytes, max_triples: int | None = None) -> list[Document]:
    """Read the contexts of a NIF file in the order of their IRIs.

    A mention's entity is a title where its IRI is one of DBpedia or Wikipedia, else the IRI, and
    None where the phrase has none.

    Args:
        data: Turtle in UTF-8.
        max_triples: A file that says more is refused before it costs time and memory.

    Raises:
        CorpusFormatError: It is not Turtle, has no text, or a span does not fit its text.
        MissingExtraError: rdflib is not installed.
    """
    graph = _parse(data, max_triples)
    texts = {s: str(o) for s, o in graph.subject_objects(_uri(f"{NIF}isString"))}
    if not texts:
        raise CorpusFormatError(f"There is no text in it; {_EXAMPLE}.")
    mentions: dict[Any, dict[tuple[int, int], Mention]] = {context: {} for context in texts}
    # A phrase that is all of a text has the IRI of its context.
    phrases = set(graph.subjects(None, _uri(f"{NIF}Phrase")))
    pair_ends: dict[Any, list[int]] = {context: [] for context in texts}
    n_covered = 0
    for phrase, context in graph.subject_objects(_uri(f"{NIF}referenceContext")):
        if context in texts and (phrase not in texts or phrase in phrases):
            mention = _mention(graph, phrase, texts[context], pair_ends[context])
            mentions[context][mention.start, mention.end] = mention
            n_covered += len(mention.surface)
            if n_covered > MAX_PHRASES_LENGTH:
                raise CorpusFormatError(
                    f"Its phrases cover more than {MAX_PHRASES_LENGTH} characters, most of them "
                    "many times; give the phrases that are names."
                )
    return [
        Document(str(context), texts[context], tuple(found[span] for span in sorted(found)))
        for context, found in sorted(mentions.items())
    ]


def _parse(data: bytes, max_triples: int | None) -> Graph:
    need("rdflib", "nif", "NIF")
    from rdflib import Graph, Literal
    from rdflib.plugins.parsers.notation3 import RDFSink, SinkParser

    class Sink(RDFSink):
        n_statements = 0

        def makeStatement(self, quadruple: Any, why: Any = None) -> None:  # noqa: N802
            self.n_statements += 1
            if max_triples is not None and self.n_statements > max_triples:
                raise CorpusFormatError(
                    f"It says more than {max_triples} triples; give fewer texts at once."
                )
            super().makeStatement(quadruple, why)

        def newLiteral(self, s: str, dt: Any, lang: Any) -> Literal:  # noqa: N802
            return Literal(s)  # with its type rdflib would parse it: dates, and XML with entities

    if data.count(b"\\") > MAX_ESCAPES:
        raise CorpusFormatError(
            f"It has more than {MAX_ESCAPES:,} escaped characters; write them as they are."
        )
    graph = Graph()
    try:
        text = data.decode("utf-8-sig")
        SinkParser(Sink(graph), baseURI=graph.absolutize(""), turtle=True).loadBuf(text)
    except CorpusFormatError:
        raise
    except RecursionError:
        raise CorpusFormatError("The Turtle is nested too deeply; NIF needs no nesting.") from None
    # A parser of untrusted text may trip over anything; all of it means the same here.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise CorpusFormatError(f"It is not valid Turtle ({reason}); {_EXAMPLE}.") from None
    return graph


def _uri(iri: str) -> URIRef:
    from rdflib import URIRef

    return URIRef(iri)


def _mention(graph: Graph, phrase: Any, text: str, pair_ends: list[int]) -> Mention:
    try:
        start, end = (
            int(str(graph.value(phrase, _uri(NIF + key)))) for key in ("beginIndex", "endIndex")
        )
    except ValueError:
        raise CorpusFormatError(
            f"{phrase} has no nif:beginIndex and nif:endIndex that are numbers; give both."
        ) from None
    anchor = graph.value(phrase, _uri(f"{NIF}anchorOf"))
    fits = 0 <= start < end <= len(text)
    if anchor is not None and (not fits or text[start:end] != str(anchor)):
        if not pair_ends:
            pairs = _TWO_UNITS.finditer(text)
            pair_ends += [pair.end() + before + 1 for before, pair in enumerate(pairs)]
        # Offsets in UTF-16 units, of which some characters before them take two.
        start, end = (offset - bisect_right(pair_ends, offset) for offset in (start, end))
        fits = 0 <= start < end <= len(text) and text[start:end] == str(anchor)
    if not fits:
        raise CorpusFormatError(
            f"{phrase} does not fit its text of {len(text)} characters; give offsets in characters."
        )
    references = sorted(map(str, graph.objects(phrase, _uri(f"{ITSRDF}taIdentRef"))))
    # Of several IRIs of one entity, one that stands for a title, else the first.
    titles = (title for title in map(title_of, references) if title is not None)
    entity = next(titles, references[0] if references else None)
    return Mention(text[start:end], start, end, entity)


def title_of(iri: str) -> str | None:
    """Return the title that an IRI of DBpedia or Wikipedia stands for."""
    found = _TITLE.match(iri)
    return unquote(iri[found.end() :]).replace("_", " ") if found else None


def entity_iri(entity: str, namespace: str = DBPEDIA) -> str:
    """Return the IRI of an entity: its title as DBpedia writes it."""
    return namespace + _escaped(entity.replace(" ", "_"))


def context_iri(id: str, length: int) -> str:
    """Return the IRI of a document's text."""
    iri = id if _SCHEME.match(id) else DOCUMENT + _escaped(id)
    return f"{_escaped(_POSITION.sub('', iri), keep='#%?')}#char=0,{length}"


def _escaped(text: str, keep: str = "") -> str:
    def encode(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else f"%{ord(found[0]):02X}"

    return _FORBIDDEN.sub(encode, _SURROGATE.sub("\ufffd", text))


class NifPhrase(NamedTuple):
    """A span of a text and the entity that it means."""

    start: int
    end: int
    entity: str
    """The entity's IRI."""
    confidence: float | None = None


def format_nif(documents: Iterable[tuple[str, str, Iterable[NifPhrase]]]) -> bytes:
    """Write documents as Turtle; the results of several calls may be joined to one file.

    Args:
        documents: The IRI, the text and the phrases of each.

    Raises:
        MissingExtraError: rdflib is not installed.
    """
    need("rdflib", "nif", "NIF")
    from rdflib import RDF, XSD, Graph, Literal, URIRef

    graph = Graph(bind_namespaces="none")
    for prefix, namespace in (("nif", NIF), ("itsrdf", ITSRDF), ("xsd", XSD)):
        graph.bind(prefix, namespace)

    def add(iri: str, kinds: tuple[str, ...], values: dict[str, Literal | URIRef]) -> None:
        for kind in (*kinds, "String", "RFC5147String"):
            graph.add((URIRef(iri), RDF.type, URIRef(NIF + kind)))
        for name, value in values.items():
            graph.add((URIRef(iri), URIRef(name), value))

    def span(start: int, end: int) -> dict[str, Literal | URIRef]:
        number = XSD.nonNegativeInteger
        return {
            f"{NIF}beginIndex": Literal(start, datatype=number),
            f"{NIF}endIndex": Literal(end, datatype=number),
        }

    for given, raw, phrases in documents:
        iri, text = _escaped(given, keep="#%?[]"), _SURROGATE.sub("\ufffd", raw)
        add(iri, ("Context",), span(0, len(text)) | {f"{NIF}isString": Literal(text)})
        base = _POSITION.sub("", iri)
        for phrase in phrases:
            values = span(phrase.start, phrase.end) | {
                f"{NIF}referenceContext": URIRef(iri),
                f"{NIF}anchorOf": Literal(text[phrase.start : phrase.end]),
                f"{ITSRDF}taIdentRef": URIRef(phrase.entity),
            }
            if phrase.confidence is not None:
                sure = f"{phrase.confidence:.4f}"
                values[f"{ITSRDF}taConfidence"] = Literal(sure, datatype=XSD.double)
            add(f"{base}#char={phrase.start},{phrase.end}", ("Phrase",), values)
    return bytes(graph.serialize(format="turtle", encoding="utf-8"))
