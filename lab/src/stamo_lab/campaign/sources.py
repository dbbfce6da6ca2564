"""Notes, tables of entities and lists of ids: what a knowledge base and workspaces are made of."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from stamo.build.build import build_knowledge_base
from stamo.build.entities import ENTITY_COLUMNS, EntityTable
from stamo.build.ids import write_external_ids
from stamo.build.notes import NoteIndex, extract_notes, list_notes
from stamo.build.settings import BuildSettings
from stamo.build.site import Site
from stamo.build.staging import choose_titles
from stamo.kb.base import KnowledgeBase
from stamo.workspace.entities import create_workspaces, read_entities
from stamo_lab.campaign.readers import mutate, odd_value

MARKDOWN = (
    *(
        "---\n",
        "title: ",
        "aliases: [",
        "aliases:\n- ",
        "&a [*a,*a]",
        "]\n",
        "\n",
        "# ",
        "> ",
        "- ",
    ),
    *(
        "[[",
        "]]",
        "|",
        "[a](",
        ")",
        "<b.md>",
        "![[",
        "`",
        "```\n",
        "~~~",
        "%%",
        "$$",
        "<!--",
        "-->",
    ),
    *(
        "[^1]",
        "[^1]: ",
        "[a]: b",
        "**",
        "__",
        "==",
        "<pre",
        "</pre>",
        "<a href='",
        "\\",
        "\t",
        "    ",
    ),
    *(
        "../../etc/passwd",
        "/",
        "#x",
        "!redirects Rey",
        "Rey",
        "{{<x>}}",
        "\x02",
        "\x03",
        "\r\n",
        '"',
    ),
    *(
        "!!python/object:os.system [x]",
        "&#x0;",
        "&amp;",
        "\u2028",
        "^id",
        "e\u0301",
        "%2e%2e%2f",
        "'",
    ),
)
ODD_FOLDERS = ("a", "..", "../x", "/tmp/x", ".", "a/b", "con\0", "a" * 300)
PATHS = ("a.md", "b/a.md", "B/A.MD", "b/c/d.markdown", "..md", "a b.md", "x" * 200 + ".md", "n.txt")


def _write_notes(root: Path, rng: random.Random) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for name in rng.sample(PATHS, rng.choice((1, 3, len(PATHS)))):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pieces = rng.choices(MARKDOWN, k=rng.choice((5, 50, 200)))
        text = "".join(piece * rng.choice((1, 1, 1, 1, 500)) for piece in pieces)
        data = ("---\n" * (rng.random() < 0.5) + text).encode()
        path.write_bytes(data if rng.random() < 0.7 else mutate(data, rng))
    kind = rng.randrange(6)
    if kind == 0:
        (root / "loop").symlink_to(root)
        (root / "out.md").symlink_to("/etc/hostname")
    elif kind == 1:
        os.mkfifo(root / "pipe.md")
    elif kind == 2:
        (root / "folder.md").mkdir()
        (root / os.fsdecode(b"\xff.md")).write_text("[[a]]")


def read_notes(folder: Path, rng: random.Random) -> int:
    """Read a folder of odd notes up to its links; nothing outside of it is read."""
    root, site = folder / "notes", Site(namespaces={})
    _write_notes(root, rng)
    skipped: Counter[str] = Counter()
    extract = extract_notes(list_notes(root, skipped), site)
    texts = extract.texts.to_pylist()
    outside = Path("/etc/hostname").read_text().strip()
    if any(note.below == "out" for note in extract.notes):
        raise RuntimeError(f"a link out of the folder was followed: {outside}")
    titles = choose_titles([note.listed for note in extract.notes])
    by_position = {n.position: t for n, t in zip(extract.notes, titles, strict=True)}
    index = NoteIndex(extract.notes, by_position, site)
    for link in extract.links.to_pylist():
        index.title(str(link["target"]), int(link["position"]))
    return len(texts)


def _odd_cell(rng: random.Random, column: str) -> str:
    odd = ("", "Rey", "Rey|Finn|", "9" * 5000, "-1", "1e9", "\x1b", "a" * 5000, '"', "\u2028", "²")
    if rng.random() < 0.9:
        return "7" if column == "count" else f"{column} {rng.randrange(99)}"
    return rng.choice((column, "7", *odd))


def _entity_table(path: Path, rng: random.Random, columns: tuple[str, ...]) -> None:
    rows = [{c: _odd_cell(rng, c) for c in columns} for _ in range(rng.choice((1, 4)))]
    if rng.random() < 0.5:
        for row in rows:
            if rng.random() < 0.3:
                row[rng.choice(columns)] = odd_value(rng)  # type: ignore[assignment]
        text = "\n".join(json.dumps(row) for row in rows)
    else:
        mark, quote = rng.choice(",;\t"), rng.choice(('"', '"', ""))
        lines = [columns, *(row.values() for row in rows)]
        text = "\n".join(mark.join(f"{quote}{cell}{quote}" for cell in line) for line in lines)
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(data if rng.random() < 0.7 else mutate(data, rng))


def read_entity_table(folder: Path, rng: random.Random) -> int:
    """Read an odd table of entities to build from."""
    path = folder / "entities.csv"
    _entity_table(path, rng, ENTITY_COLUMNS)
    return len(list(EntityTable(path).rows()))


def declare_entities(folder: Path, rng: random.Random) -> int:
    """Make workspaces from an odd table; they all stay below their folder."""
    path, root = folder / "declared.csv", folder / "declared"
    shutil.rmtree(root, ignore_errors=True)
    columns = ("name", "aliases", "description", "id", "type", "url", "folder")
    rows = [[_odd_cell(rng, column) for column in columns] for _ in range(3)]
    for row in rows:
        row[-1] = rng.choice(("", "", "", "", "b c", "d.e", *ODD_FOLDERS))
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in (columns, *rows))
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(data if rng.random() < 0.7 else mutate(data, rng))
    at = datetime(2024, 5, 1, tzinfo=UTC)
    made = create_workspaces(root, read_entities(path), created_by="ada", at=at).made
    if any(space.path.resolve().parent != root.resolve() for space in made):
        raise RuntimeError("a workspace lies outside of its folder")
    return len(made)


def build_from(folder: Path, rng: random.Random) -> int:
    """Build a knowledge base from odd notes or an odd table, open it and look around."""
    source = folder / "notes"
    if rng.random() < 0.5:
        source = folder / "entities.csv"
        _entity_table(source, rng, ENTITY_COLUMNS)
    else:
        _write_notes(source, rng)
    shutil.rmtree(folder / "odd-kb", ignore_errors=True)
    build_knowledge_base(source, folder / "odd-kb", BuildSettings(dimensions=4))
    kb = KnowledgeBase.open(folder / "odd-kb")
    kb.candidates("Rey")
    return sum(len(batch) for batch in kb.articles())


IDS = (
    *("INSERT INTO `page_props` VALUES ", "INSERT INTO `wb_items_per_site` VALUES ", "Rey\tQ1\n"),
    *("(12,'wikibase_item','Q6199',NULL),", "(55,6199,'enwiki','Anarchism'),", "(55,", "'", "\\'"),
    *("Rey,Q1\n", '"', ",", "\n", "\\", "9" * 400, "'enwiki','" + "\\'" * 600, ");", "\0", "'),("),
)


def read_ids(folder: Path, rng: random.Random) -> int:
    """Give a knowledge base ids from odd SQL or an odd table; SQL is never run."""
    target = folder / "kb-with-ids"
    if not target.exists():
        shutil.copytree(folder / "kb", target)
    pieces = rng.choices(IDS, k=rng.choice((2, 20, 60)))
    path = folder / "ids.sql"
    text = "".join(piece * rng.choice((1, 1, 1, 300)) for piece in pieces)
    path.write_bytes(mutate(text.encode(), rng) if rng.random() < 0.3 else text.encode())
    n = KnowledgeBase.open(folder / "kb").n_entities
    return write_external_ids(path, target, Site(), n).n_rows
