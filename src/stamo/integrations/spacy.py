"""The spaCy component `stamo`: entities for `doc.ents`, or spans of its own.

    nlp = spacy.blank("en")
    nlp.add_pipe("stamo", config={"kb": "kb", "model": "deeped.safetensors", "packs": ["packs"]})
    doc = nlp("Rey leaves Jakku.")
    [(span.text, span.kb_id_, span._.stamo["confidence"]) for span in doc.spans["stamo"]]

Where a document has `doc.ents`, these are linked and get their `kb_id_`; where it has none, names
are detected. Either way the linked spans stand in `doc.spans["stamo"]`, and `span._.stamo` is the
record that `stamo link` would print. A mention that is not linked has spaCy's id "NIL".

To save a pipeline copies the model and the packs, which are small, and notes where the knowledge
base is; it is opened when the first text is linked, and must be the one that it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline.pipe import Pipe
from spacy.tokens import Doc, Span, SpanGroup

from stamo.corpus.formats import parse_json
from stamo.corpus.types import Document, Mention
from stamo.errors import SettingsError, StamoError
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings, MentionChoice
from stamo.linking.linker import Linker, open_linker
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.models.store import TrainedModel, load_model
from stamo.packs.pack import PACK_SUFFIX, EntityPack
from stamo.system.files import write_atomic

NAME = "stamo"
NIL = "NIL"
"""What spaCy's own entity linker writes where it links to nothing."""
RECORDS = "stamo"
"""The key of `doc.user_data` that holds the records of linked spans by their offsets."""
_SAVED, _MODEL = "component.json", "model.safetensors"


@dataclass(frozen=True)
class ComponentSettings:
    """The config of the component."""

    kb: str = ""
    """Directory of the knowledge base."""
    model: str = ""
    """File of the trained model."""
    packs: list[str] = field(default_factory=list)
    """Entity packs, or folders of them."""
    mentions: MentionChoice = "auto"
    """`given` links `doc.ents` only, `detect` leaves them alone, `auto` detects where none are."""
    threshold: float = 0.0
    """A mention whose best candidate has a lower confidence is not linked."""
    spans_key: str = NAME
    """The linked spans stand in `doc.spans` under this name."""
    label: str = "ENTITY"
    """The label of detected spans; entities keep theirs."""
    keep_nil: bool = False
    """Whether mentions that are not linked stand in `doc.spans` too."""


@Language.factory(
    NAME,
    assigns=["doc.spans", "token.ent_kb_id", "span._.stamo"],
    default_config=asdict(ComponentSettings()),
)
def make_component(
    nlp: Language,
    name: str,
    kb: str,
    model: str,
    packs: list[str],
    mentions: MentionChoice,
    threshold: float,
    spans_key: str,
    label: str,
    keep_nil: bool,
) -> StamoComponent:
    """Make the component; what it needs is opened with the first text."""
    settings = ComponentSettings(
        kb, model, list(packs), mentions, threshold, spans_key, label, keep_nil
    )
    return StamoComponent(settings, name)


def _record_of(span: Span) -> dict[str, Any] | None:
    found: dict[str, Any] | None = span.doc.user_data.get(RECORDS, {}).get(_place(span))
    return found


def _place(span: Span) -> str:
    # A string, because spaCy's own formats keep the keys of user data as such.
    return f"{span.start_char}-{span.end_char}"


class StamoComponent(Pipe):
    """Links the entities of documents, or names that it finds itself."""

    def __init__(self, settings: ComponentSettings, name: str = NAME) -> None:
        """Keep the settings.

        Raises:
            SettingsError: A setting is out of range.
        """
        self.name = name
        self.settings = settings
        self.link_settings = LinkerSettings(settings.threshold, settings.mentions)
        self._saved: tuple[TrainedModel, list[EntityPack]] | None = None
        if not Span.has_extension(RECORDS):
            Span.set_extension(RECORDS, getter=_record_of)

    @cached_property
    def linker(self) -> Linker:
        """The linker, opened when it is first used.

        Raises:
            StamoError: The config does not say what to open, or it does not fit together.
        """
        settings, saved = self.settings, self._saved
        for key, value in (("kb", settings.kb), ("model", settings.model or saved)):
            if not value:
                raise SettingsError(
                    f"The component {self.name!r} has no {key}; add it with "
                    'config={"kb": DIRECTORY, "model": FILE}.'
                )
        if saved is None:
            return open_linker(settings.kb, settings.model, settings.packs, self.link_settings)
        trained, packs = saved
        kb = KnowledgeBase.open(Path(settings.kb))
        return Linker(kb, trained, packs, settings=self.link_settings)

    def __call__(self, doc: Doc) -> Doc:
        """Link one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Link documents, many at once."""
        left = iter(stream)
        while docs := list(islice(left, batch_size)):
            try:
                linked = list(self.linker.link_documents(map(self._document, docs)))
            except StamoError as error:
                self.get_error_handler()(self.name, self, docs, error)
                continue
            for doc, result in zip(docs, linked, strict=True):
                if result.error is not None:
                    self.get_error_handler()(self.name, self, [doc], ValueError(result.error))
                else:
                    self._annotate(doc, result)
                    yield doc

    def _document(self, doc: Doc) -> Document:
        entities = () if self.settings.mentions == "detect" else doc.ents
        given = tuple(Mention(e.text, e.start_char, e.end_char) for e in entities)
        return Document("doc", doc.text, given)

    def _annotate(self, doc: Doc, linked: LinkedDocument) -> None:
        """Write what was linked into a document."""
        entity_at = {} if self.settings.mentions == "detect" else {_place(e): e for e in doc.ents}
        spans, records = [], {}
        for mention in linked.mentions:
            kb_id = mention.entity or NIL
            entity = entity_at.get(f"{mention.start}-{mention.end}")
            if entity is not None:
                for token in entity:
                    token.ent_kb_id_ = kb_id
            span = _span(doc, mention, entity.label_ if entity else self.settings.label, kb_id)
            records[_place(span)] = mention.to_record()
            if mention.entity is not None or self.settings.keep_nil:
                spans.append(span)
        doc.user_data[RECORDS] = records
        doc.spans[self.settings.spans_key] = SpanGroup(doc, spans=spans)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save model, packs and where the knowledge base is."""
        packs = self.linker.packs
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        self.linker.trained.save(folder / _MODEL)
        names = [f"{number}{PACK_SUFFIX}" for number in range(len(packs))]
        for pack, name in zip(packs, names, strict=True):
            pack.save(folder / name)
        record = {"kb": str(Path(self.settings.kb).absolute()), "packs": names}
        write_atomic(folder / _SAVED, json.dumps(record, indent=1).encode() + b"\n")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> StamoComponent:
        """Load what `to_disk` saved; a knowledge base that was moved is given in the config.

        Raises:
            SettingsError: The folder does not hold a component.
        """
        folder = Path(path)
        kb, names = _read_saved(folder / _SAVED)
        if not self.settings.kb or not Path(self.settings.kb).is_dir():
            self.settings = replace(self.settings, kb=kb)
        packs = [EntityPack.load(folder / name) for name in names]
        self._saved = load_model(folder / _MODEL), packs
        self.__dict__.pop("linker", None)
        return self


def _read_saved(path: Path) -> tuple[str, list[str]]:
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
        names = [Path(name).name for name in record["packs"]]  # nothing outside the folder
        kb = str(record["kb"])
        if b"\0" in os.fsencode("/".join([kb, *names])):
            raise ValueError("a path in it holds a zero byte")
        return kb, names
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{path} is not a saved component ({error}); save the pipeline again."
        ) from error


def _span(doc: Doc, mention: LinkedMention, label: str, kb_id: str) -> Span:
    # A name may end inside a token of spaCy's; the token is then marked as a whole.
    span = doc.char_span(mention.start, mention.end, label, kb_id, alignment_mode="expand")
    assert span is not None  # None is for offsets outside the text
    return span
