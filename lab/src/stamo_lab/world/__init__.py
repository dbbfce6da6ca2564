"""The generator of the embedded world: an invented encyclopaedia and later documents about it.

Everything here is made up: names are built from syllables, sentences from our own templates.
"""

from __future__ import annotations

import bz2
import json
import random
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stamo.kb.manifest import sha256_of
from stamo.world import World, fresh_world
from stamo_lab.world.articles import dump_pages, settle_titles, write_dump
from stamo_lab.world.catalogue import Catalogue, Scene, build_catalogue
from stamo_lab.world.lexicon import load_lexicon
from stamo_lab.world.pile import (
    Emergence,
    PileDocument,
    WorldSettings,
    add_emerging,
    plan_citations,
    title_emerging,
    write_pile,
)

__all__ = ["WorldSettings", "generate_world", "pack_world"]


def _gold(
    documents: Sequence[PileDocument], emergences: Sequence[Emergence], catalogue: Catalogue
) -> Iterator[dict[str, Any]]:
    """Yield the lines of `gold.jsonl`: every mention of each document.

    `entity` is the title of a known entity or the id of an emerging one. `candidate_of` is the
    emerging entity whose alias the mention is, whatever it means; None for all other mentions.
    """
    owner = {alias: one.entity.title for one in emergences for alias in one.aliases}
    for number, document in enumerate(documents):
        mentions = [
            {
                "start": start,
                "end": end,
                "surface": (surface := document.text[start:end]),
                "entity": catalogue.get(entity).title,
                "candidate_of": owner.get(surface),
            }
            for start, end, entity in document.spans
        ]
        about = None if document.about is None else catalogue.get(document.about).title
        yield {"id": f"doc-{number:06d}", "about": about, "mentions": mentions}


def describe(
    emergence: Emergence, catalogue: Catalogue, documents: Sequence[PileDocument]
) -> dict[str, Any]:
    """Return what `world.json` says of an emerging entity."""
    entity, aliases = emergence.entity, frozenset(emergence.aliases)
    country = catalogue.get(catalogue.country_of_region[entity.region])
    rng = random.Random(f"description/{entity.title}")
    scene = Scene(catalogue, rng, entity, [(entity.kind.topic, 1.0)], encyclopaedic=False)
    gloss = scene.text(entity.kind.gloss)
    counts: Counter[int] = Counter(
        known
        for document in documents
        for start, end, known in document.spans
        if document.text[start:end] in aliases
    )
    return {
        "id": entity.title,
        "aliases": list(emergence.aliases),
        "description": f"{gloss} ({country.base}), first heard of in 2021.",
        "kind": entity.kind.name,
        "topic": entity.kind.topic,
        "n_mentions": counts[entity.index],
        "n_candidate_mentions": counts.total(),
        "rivals": [
            {"title": catalogue.entities[i].title, "n_mentions": counts[i]}
            for i in emergence.rivals
        ],
    }


def _write_lines(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def generate_world(settings: WorldSettings, out_dir: Path) -> World:
    """Write the dump, the pile, the gold and `world.json` of an invented world into a folder.

    Args:
        settings: Size and seed.
        out_dir: The folder; it is made where it does not exist, and a world in it is replaced.

    Returns:
        The world with its paths and emerging entities.
    """
    with fresh_world(out_dir) as folder:
        _write_files(settings, folder)
    return World.open(out_dir)


def pack_world(settings: WorldSettings, path: Path) -> None:
    """Write a world as the one file that `stamo.world` unpacks; same settings, same bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _write_files(settings, folder)
        with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT, preset=9) as archive:
            for file in sorted(folder.iterdir()):
                member = tarfile.TarInfo(file.name)
                member.size = file.stat().st_size
                with file.open("rb") as stream:
                    archive.addfile(member, stream)


def _write_files(settings: WorldSettings, folder: Path) -> None:
    rng = random.Random(f"{settings.seed}/world")
    catalogue, pools = build_catalogue(settings.n_articles, load_lexicon(), rng)
    emergences = add_emerging(catalogue, pools, settings.n_emerging, rng)
    titles = settle_titles(catalogue, rng)
    title_emerging(emergences, catalogue, titles)
    citations = plan_citations(emergences, catalogue, rng)

    dump_path = folder / ("dump.xml.bz2" if settings.compress else "dump.xml")
    # Bytes and not text, so that line ends are the same on every platform.
    opener = bz2.open if settings.compress else open
    with opener(dump_path, "wb") as stream:
        pages = dump_pages(catalogue, titles, citations, settings.seed)
        n_pages = write_dump(pages, stream, settings.seed)
    documents = write_pile(emergences, catalogue, settings)
    texts = (
        {"id": f"doc-{number:06d}", "title": document.title, "text": document.text}
        for number, document in enumerate(documents)
    )
    _write_lines(texts, folder / "pile.jsonl")
    _write_lines(_gold(documents, emergences, catalogue), folder / "gold.jsonl")
    description = {
        "format": 1,
        "settings": asdict(settings),
        "dump": dump_path.name,
        "n_pages": n_pages,
        "n_articles": settings.n_articles,
        "n_redirects": len(titles.redirects),
        "n_disambiguations": len(titles.disambiguations),
        "n_documents": len(documents),
        "emerging": [describe(emergence, catalogue, documents) for emergence in emergences],
        "sha256": {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
    }
    text = json.dumps(description, ensure_ascii=False, indent=2) + "\n"
    (folder / "world.json").write_text(text, encoding="utf-8", newline="\n")
