"""The manifest: what belongs to a knowledge base, and whether it still is as it was built."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from stamo.errors import KnowledgeBaseError
from stamo.kb.manifest import Manifest, SourceFile, describe_files, is_knowledge_base


@pytest.fixture
def saved(tmp_path):
    """A directory with two files and their manifest."""
    (tmp_path / "a.bin").write_bytes(b"alpha")
    (tmp_path / "b.bin").write_bytes(b"beta")
    manifest = Manifest(
        sources={"dump": SourceFile("dump.xml", 3, "0" * 64)},
        settings={"held_out": 0.1},
        site={"language": "en"},
        counts={"entities": 2},
        skipped={},
        files=describe_files(tmp_path),
    )
    manifest.save(tmp_path)
    return tmp_path


def test_saved_manifest_is_loaded_as_it_was(saved):
    """What was saved comes back, and its files verify."""
    manifest = Manifest.load(saved)
    assert manifest.counts == {"entities": 2}
    assert manifest.sources["dump"] == SourceFile("dump.xml", 3, "0" * 64)
    manifest.verify(saved)


@pytest.mark.parametrize(
    ("content", "index_only", "reason"),
    [
        (None, True, r"incomplete.*b\.bin"),
        (b"be", True, r"corrupted.*b\.bin has 2 bytes instead of 4"),
        (b"betA", False, r"b\.bin has changed"),
        (b"betA", True, None),
    ],
)
def test_files_are_compared_with_the_manifest(saved, content, index_only, reason):
    """A file that is gone, cut short or changed is named; only reading all finds a wrong byte."""
    if content is None:
        (saved / "b.bin").unlink()
    else:
        (saved / "b.bin").write_bytes(content)
    expected = pytest.raises(KnowledgeBaseError, match=reason) if reason else nullcontext()
    with expected:
        Manifest.load(saved).verify(saved, index_only=index_only)


def test_fingerprint_depends_on_content_only(saved):
    """One changed byte of a file gives another fingerprint, another setting the same."""
    before = Manifest.load(saved)
    assert replace(before, settings={}).fingerprint == before.fingerprint
    (saved / "a.bin").write_bytes(b"alphA")
    assert replace(before, files=describe_files(saved)).fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "not a knowledge base"),
        ("{", "cannot be read"),
        ('{"format": "another thing"}', "not a knowledge base"),
        ("[]", "not a knowledge base"),
        ('{"format": "stamo knowledge base", "version": 2}', "unexpected content"),
        ({"version": 99}, "format version 99"),
        ({"files": {}}, "fingerprint"),
    ],
)
def test_damaged_manifest_says_what_is_wrong(saved, text, reason):
    """Whatever stands in manifest.json, the error is ours and says why."""
    path = saved / "manifest.json"
    assert is_knowledge_base(saved)
    if text is None:
        path.unlink()
    else:
        changed = text if isinstance(text, str) else json.loads(path.read_text()) | text
        path.write_text(changed if isinstance(text, str) else json.dumps(changed))
    assert is_knowledge_base(saved) == isinstance(text, dict) or "version" in str(text)
    with pytest.raises(KnowledgeBaseError, match=reason):
        Manifest.load(saved)
