"""A folder of notes as a knowledge base."""

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.build.notes import MAX_NOTE_BYTES
from stamo.kb.base import KnowledgeBase

NOTES = {
    "Project Falcon.md": "---\naliases: [Falcon]\n---\n"
    "Led by [[Ada Lovelace|Ada]] and [Bob](sub/bob.md).",
    "Ada Lovelace.md": "Ada works on [[falcon]] with [[sub/bob|Bob]] and on the [[Missing Note]].",
    "sub/bob.md": "---\ntitle: Robert Roe\n---\n"
    "Bob likes [her](../Ada%20Lovelace.md). [no](../../x.md)",
    "sub/Index.md": "The index of sub.",
    "Index.md": "The index: [[sub/Index]], [[Index]].",
}


def write_notes(root, notes=NOTES):
    """Write notes by their paths."""
    for below, text in notes.items():
        path = root / below
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def build(root, kb, **settings):
    """Build without vectors unless they are asked for."""
    summary = build_knowledge_base(root, kb, BuildSettings(**{"dimensions": 0, **settings}))
    return KnowledgeBase.open(kb), summary


def counts_of(kb):
    """Return every count(e, m) of a knowledge base."""
    return {kb.title(e): sorted(kb.aliases_of(e)) for e in range(kb.n_entities)}


def test_links_find_their_notes_by_path_name_and_alias(tmp_path):
    """Each note is an article, its aliases are names, and links count as in a dump."""
    kb, summary = build(write_notes(tmp_path / "vault"), tmp_path / "kb")
    counts = counts_of(kb)
    assert counts["Project Falcon"] == [("Falcon", 0), ("Project Falcon", 0), ("falcon", 1)]
    assert counts["Robert Roe"] == [("Bob", 2), ("Robert Roe", 0)]
    assert counts["Ada Lovelace"] == [("Ada", 1), ("Ada Lovelace", 0), ("her", 1)]
    assert kb.title(kb.entity_id("Falcon")) == "Project Falcon"
    assert not kb.has_article[kb.entity_id("Missing Note")]
    assert kb.has_article[kb.entity_id("Ada Lovelace")]
    assert summary.skipped == {"link: out of the folder": 1}


def test_notes_of_one_title_are_told_apart_by_their_folders(tmp_path):
    """Both are candidates of the name, and a path leads to the right one."""
    kb, _ = build(write_notes(tmp_path / "vault"), tmp_path / "kb")
    found = kb.candidates("Index")
    assert {kb.title(e): n for e, n in zip(found.ids, found.counts, strict=True)} == {
        "Index": 1,
        "Index (sub)": 1,
    }


def test_broken_files_are_counted_by_reason(tmp_path):
    """Other encodings, binaries, huge files, links out and foreign files leave the others alone."""
    root = write_notes(
        tmp_path / "vault",
        {
            "good.md": "See [[good]].",
            "latin.md": "Caf\xe9".encode("latin-1"),
            "wide.md": "The [[wide]] one.".encode("utf-16"),
            "zero.md": b"a\0b",
            "huge.md": b"x" * (MAX_NOTE_BYTES + 1),
            "picture.png": b"\x89PNG",
            "con\x01trol\nname.md": "---\ntitle: 'a\tb'\n---\nText",
            ".obsidian/config.md": "hidden",
            "é/" * 60 + "deep.md": "deep",
        },
    )
    (tmp_path / "secret.md").write_text("secret [[good]]")
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "folder").symlink_to(tmp_path)
    (root / "loop").symlink_to(root)
    kb, summary = build(root, tmp_path / "kb")
    assert {kb.title(e) for e in range(kb.n_entities)} == {"good", "wide", "deep", "a b"}
    assert summary.skipped == {
        "note that is not UTF-8": 1,
        "note that is a binary file": 1,
        "note of more than 8 MiB": 1,
        "file that is no Markdown": 1,
        "symbolic link that leaves the folder": 1,
        "symbolic link to a folder": 2,
    }
