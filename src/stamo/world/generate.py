"""Generate a world and write its files."""

from __future__ import annotations

import bz2
import json
import random
import tempfile
from dataclasses import asdict
from pathlib import Path

from stamo.kb.manifest import sha256_of
from stamo.system.files import in_use, sweep
from stamo.world.catalogue import build_catalogue
from stamo.world.dump_writer import DumpStream, dump_pages, write_dump
from stamo.world.emerging import add_emerging, plan_citations, title_emerging
from stamo.world.gold import describe, write_gold, write_texts
from stamo.world.lexicon import load_lexicon
from stamo.world.pile import write_pile
from stamo.world.settings import World, WorldSettings
from stamo.world.titles import settle_titles


def generate_world(settings: WorldSettings, out_dir: Path) -> World:
    """Write the dump, the pile, the gold and `world.json` of an invented world into a folder.

    The files are complete before any of them appears; `world.json` is replaced last, so a folder
    that has it holds the other files of the same world.

    Args:
        settings: Size and seed.
        out_dir: The folder; it is made where it does not exist, and a world in it is replaced.

    Returns:
        The world with its paths and emerging entities.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    sweep(out_dir, ".world-*")
    with (
        tempfile.TemporaryDirectory(prefix=".world-", dir=out_dir) as scratch,
        in_use(Path(scratch)),
    ):
        folder = Path(scratch)
        _write_files(settings, folder)
        (out_dir / "world.json").unlink(missing_ok=True)
        for stale in ("dump.xml", "dump.xml.bz2"):
            (out_dir / stale).unlink(missing_ok=True)
        names = sorted(path.name for path in folder.iterdir())
        for name in sorted(names, key=lambda name: name == "world.json"):
            (folder / name).replace(out_dir / name)
    return World.open(out_dir)


def _write_files(settings: WorldSettings, folder: Path) -> None:
    rng = random.Random(f"{settings.seed}/world")
    catalogue, pools = build_catalogue(settings.n_articles, load_lexicon(), rng)
    emergences = add_emerging(catalogue, pools, settings.n_emerging, rng)
    titles = settle_titles(catalogue, rng)
    title_emerging(emergences, catalogue, titles)
    citations = plan_citations(emergences, catalogue, rng)

    dump_path = folder / ("dump.xml.bz2" if settings.compress else "dump.xml")
    with _open_dump(dump_path) as stream:
        pages = dump_pages(catalogue, titles, citations, settings.seed)
        n_pages = write_dump(pages, stream, settings.seed)
    documents = write_pile(emergences, catalogue, settings)
    write_texts(documents, folder / "pile.jsonl")
    write_gold(documents, emergences, catalogue, folder / "gold.jsonl")
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


def _open_dump(path: Path) -> DumpStream:
    # Bytes and not text, so that line ends are the same on every platform.
    return bz2.open(path, "wb") if path.suffix == ".bz2" else path.open("wb")
