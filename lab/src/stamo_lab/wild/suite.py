"""A suite of real new entities: the pile of each as `stamo collect` keeps it, and what was judged.

The judged mention is the first candidate mention of its document; its label holds for all mentions
of that alias there. Documents, model and labels lie in the suite's directory, so that a problem is
loaded as plain documents.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import CorpusFormatError, SuiteError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel, load_model
from stamo.workspace.collect import collect
from stamo.workspace.documents import DocumentParts
from stamo.workspace.folder import Workspace
from stamo_lab.suites.store import OpenedSuite, new_suite, read_manifest, write_manifest

WILD = "wild"
ENTITIES, PILES, MODEL = "entities.json", "piles", "model.safetensors"
_CREATED = datetime(2000, 1, 1, tzinfo=UTC)
"""Same inputs, same bytes: when a suite was made is no part of it."""


@dataclass(frozen=True)
class Judged:
    """A mention that a person judged by reading."""

    document: str
    mention: int
    """Its index in the document's mentions."""
    is_entity: bool
    sense: str
    """What else it means, in words."""


@dataclass(frozen=True)
class WildProblem:
    """A new entity with the judged mentions of its pile."""

    title: str
    aliases: tuple[str, ...]
    about: str
    """One line about the entity; may be empty."""
    judged: tuple[Judged, ...]

    @property
    def n_positive(self) -> int:
        """Return how many judged mentions mean the entity."""
        return sum(j.is_entity for j in self.judged)

    @property
    def entity(self) -> EmergingEntity:
        """Return the emerging entity, with the line about it where entities have one."""
        return EmergingEntity(self.title, self.aliases, self.about)


class WildSuite(OpenedSuite[WildProblem]):
    """An opened suite of real new entities."""

    @cached_property
    def trained(self) -> TrainedModel:
        """The linking model that linked the context of the piles."""
        return load_model(self.path / MODEL)

    def corpus(self, number: int) -> Corpus:
        """Return the pile of a problem; its candidate mentions are not linked."""
        return _pile(self.path, number).read()


def open_wild(path: Path, kb: KnowledgeBase) -> WildSuite:
    """Open a suite and check that it is complete, unchanged and made with this knowledge base."""
    manifest = read_manifest(path, kb)
    if manifest.get("kind") != WILD:
        raise SuiteError(f"{path} is a {manifest.get('kind')} suite, not one of real new entities.")
    problems = tuple(
        WildProblem(
            p["title"], tuple(p["aliases"]), p["about"], tuple(Judged(**j) for j in p["judged"])
        )
        for p in json.loads((path / ENTITIES).read_text())
    )
    return WildSuite(path, manifest, problems)


@dataclass(frozen=True)
class WildEntity:
    """An entity of the file of entities."""

    key: str
    """What the file of labels calls it, besides its aliases."""
    name: str
    aliases: tuple[str, ...]
    about: str = ""


@dataclass(frozen=True)
class WildLabel:
    """A line of the file of labels."""

    alias: str
    document: str
    offset: int
    """Where the mention starts, in characters."""
    is_entity: bool
    sense: str


def read_wild_entities(path: Path) -> list[WildEntity]:
    """Read `{key: {"name", "aliases", "about"}}`.

    Raises:
        CorpusFormatError: The file has another form.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return [
            WildEntity(key, v["name"], tuple(v["aliases"]), v.get("about", ""))
            for key, v in values.items()
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorpusFormatError(
            f"{path} is no file of entities ({error!r}); give an object like "
            '{"Rey": {"name": "Rey (film)", "aliases": ["Rey"], "about": "a film"}}.'
        ) from error


def read_wild_labels(path: Path) -> list[WildLabel]:
    """Read a table with the columns alias, document, offset, label (1 or 0) and sense.

    Raises:
        CorpusFormatError: The file has another form.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t")
            missing = {"alias", "document", "offset", "label"} - {*(rows.fieldnames or ())}
            if missing:
                raise ValueError(f"no column {min(missing)}")
            return [_label(row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusFormatError(
            f"{path} is no file of labels ({error!r}); give a table with the columns alias, "
            "document, offset, label and sense, separated by tabs."
        ) from error


def _label(row: Mapping[str, str]) -> WildLabel:
    if row["label"] not in {"0", "1"}:
        raise ValueError(f"the label {row['label']!r} is neither 0 nor 1")
    is_entity, sense = row["label"] == "1", row.get("sense") or ""
    return WildLabel(row["alias"], row["document"], int(row["offset"]), is_entity, sense)


def make_wild(
    kb: KnowledgeBase,
    trained: TrainedModel,
    entities: Sequence[WildEntity],
    labels: Sequence[WildLabel],
    sources: Sequence[Path],
    out: Path,
    *,
    overwrite: bool = False,
) -> WildSuite:
    """Collect the piles of all entities in one pass, and find the judged mentions in them."""
    if not entities:
        raise SuiteError("There are no entities to make a suite of.")
    with new_suite(out, overwrite=overwrite) as directory, TemporaryDirectory() as folder:
        (directory / PILES).mkdir()
        trained.save(directory / MODEL)
        workspaces = [
            Workspace.create(
                Path(folder) / f"{number}",
                EmergingEntity(given.name, given.aliases, given.about),
                created_by="suite",
                at=_CREATED,
            )
            for number, given in enumerate(entities)
        ]
        collect(workspaces, sources, kb, trained)
        problems = []
        for number, (given, workspace) in enumerate(zip(entities, workspaces, strict=True)):
            pile = workspace.documents.read()
            _pile(directory, number).append(pile.documents, state={}, complete=True)
            problems.append(_judged_problem(given, labels, pile))
        n_judged = sum(len(p.judged) for p in problems)
        if not n_judged:
            raise SuiteError(
                f"None of the {len(labels)} judged mentions is among the collected documents; "
                "give the corpus that they were judged in."
            )
        described = json.dumps([asdict(p) for p in problems], ensure_ascii=False, indent=1)
        (directory / ENTITIES).write_text(described)
        about = {
            "kind": WILD,
            "corpus": ", ".join(path.name for path in sources),
            "model": trained.fingerprint,
            "settings": {},
            "counts": {
                "entities": len(problems),
                "judged": n_judged,
                "positive": sum(p.n_positive for p in problems),
                "not found": len(labels) - n_judged,
            },
        }
        write_manifest(directory, about, kb)
    return open_wild(out, kb)


def _pile(directory: Path, number: int) -> DocumentParts:
    return DocumentParts(directory / PILES / f"{number:04d}")


def _judged_problem(given: WildEntity, labels: Sequence[WildLabel], pile: Corpus) -> WildProblem:
    """Find the judged mentions of an entity in its pile."""
    places = {
        (document.id, mention.start): index
        for document in pile
        for index, mention in enumerate(document.mentions)
        if mention.surface in given.aliases
    }
    judged = tuple(
        Judged(w.document, places[w.document, w.offset], w.is_entity, w.sense)
        for w in labels
        if w.alias in {given.key, *given.aliases} and (w.document, w.offset) in places
    )
    return WildProblem(given.name, given.aliases, given.about, judged)
