"""Write the pile without its answers, and the answers."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stamo.world.emerging import Emergence
from stamo.world.entities import Catalogue
from stamo.world.pile import PileDocument
from stamo.world.scene import Scene


def document_id(number: int) -> str:
    """Return the id of the document with this number in the pile."""
    return f"doc-{number:06d}"


def write_texts(documents: Sequence[PileDocument], path: Path) -> None:
    """Write `pile.jsonl`: id, title and text of each document."""
    _write_lines(
        (
            {"id": document_id(i), "title": document.title, "text": document.text}
            for i, document in enumerate(documents)
        ),
        path,
    )


def write_gold(
    documents: Sequence[PileDocument],
    emergences: Sequence[Emergence],
    catalogue: Catalogue,
    path: Path,
) -> None:
    """Write `gold.jsonl`: every mention of each document.

    `entity` is the title of a known entity or the id of an emerging one. `candidate_of` is the
    emerging entity whose alias the mention is, whatever it means; None for all other mentions.
    """
    owner = {
        alias: emergence.entity.title for emergence in emergences for alias in emergence.aliases
    }

    def line(number: int, document: PileDocument) -> dict[str, Any]:
        mentions = [
            {
                "start": span.start,
                "end": span.end,
                "surface": (surface := document.text[span.start : span.end]),
                "entity": catalogue.get(span.entity).title,
                "candidate_of": owner.get(surface),
            }
            for span in document.spans
        ]
        about = None if document.about is None else catalogue.get(document.about).title
        return {"id": document_id(number), "about": about, "mentions": mentions}

    _write_lines((line(i, document) for i, document in enumerate(documents)), path)


def describe(
    emergence: Emergence, catalogue: Catalogue, documents: Sequence[PileDocument]
) -> dict[str, Any]:
    """Return what `world.json` says of an emerging entity."""
    entity = emergence.entity
    aliases = frozenset(emergence.aliases)
    counts: Counter[int] = Counter(
        span.entity
        for document in documents
        for span in document.spans
        if document.text[span.start : span.end] in aliases
    )
    return {
        "id": entity.title,
        "aliases": list(emergence.aliases),
        "description": _one_line(emergence, catalogue),
        "kind": entity.kind.name,
        "topic": entity.kind.topic,
        "n_mentions": counts[entity.index],
        "n_candidate_mentions": counts.total(),
        "rivals": [
            {"title": catalogue.entities[i].title, "n_mentions": counts[i]}
            for i in emergence.rivals
        ],
    }


def _one_line(emergence: Emergence, catalogue: Catalogue) -> str:
    entity = emergence.entity
    country = catalogue.get(catalogue.country_of_region[entity.region])
    rng = random.Random(f"description/{entity.title}")
    scene = Scene(catalogue, rng, entity, [(entity.kind.topic, 1.0)], encyclopaedic=False)
    gloss = "".join(piece.text for piece in scene.fill(entity.kind.gloss))
    return f"{gloss} ({country.base}), first heard of in 2021."


def _write_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
