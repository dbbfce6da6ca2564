"""The manifest: what belongs to a knowledge base, and whether it still is as it was built."""

import json

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
        files=describe_files(tmp_path, ["b.bin", "a.bin"]),
    )
    manifest.save(tmp_path)
    return tmp_path


def change(directory, **values):
    """Overwrite entries of a saved manifest."""
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_saved_manifest_is_loaded_as_it_was(saved):
    """What was saved comes back, and its files verify."""
    manifest = Manifest.load(saved)
    assert manifest.counts == {"entities": 2}
    assert manifest.sources["dump"] == SourceFile("dump.xml", 3, "0" * 64)
    manifest.verify(saved)


def test_fingerprint_depends_on_content_only(saved, tmp_path_factory):
    """Equal files give equal fingerprints wherever they lie; one changed byte another."""
    other = tmp_path_factory.mktemp("other")
    for name in ("a.bin", "b.bin"):
        (other / name).write_bytes((saved / name).read_bytes())
    files = describe_files(other, ["a.bin", "b.bin"])
    manifest = Manifest.load(saved)
    twin = Manifest({}, {}, {}, {}, {}, files)
    assert twin.fingerprint == manifest.fingerprint
    (other / "a.bin").write_bytes(b"alphA")
    changed = Manifest({}, {}, {}, {}, {}, describe_files(other, ["a.bin", "b.bin"]))
    assert changed.fingerprint != manifest.fingerprint


def test_missing_file_is_named(saved):
    """A file that is gone makes the knowledge base incomplete."""
    (saved / "b.bin").unlink()
    with pytest.raises(KnowledgeBaseError, match=r"incomplete.*b\.bin"):
        Manifest.load(saved).verify(saved, index_only=True)


def test_file_of_another_size_is_named(saved):
    """A file cut short is found without reading it."""
    (saved / "b.bin").write_bytes(b"be")
    with pytest.raises(KnowledgeBaseError, match=r"corrupted.*b\.bin has 2 bytes instead of 4"):
        Manifest.load(saved).verify(saved, index_only=True)


def test_changed_content_of_the_same_size_is_found_by_verify(saved):
    """Only reading everything finds a flipped byte; `verify` does."""
    (saved / "b.bin").write_bytes(b"betA")
    manifest = Manifest.load(saved)
    manifest.verify(saved, index_only=True)
    with pytest.raises(KnowledgeBaseError, match=r"b\.bin has changed"):
        manifest.verify(saved)


def test_other_version_is_refused(saved):
    """Another format version is told apart from damage."""
    change(saved, version=99)
    with pytest.raises(KnowledgeBaseError, match="format version 99"):
        Manifest.load(saved)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read"),
        ('{"format": "another thing"}', "not a knowledge base"),
        ("[]", "not a knowledge base"),
        ('{"format": "stamo knowledge base", "version": 2}', "unexpected content"),
    ],
)
def test_damaged_manifest_says_what_is_wrong(saved, text, reason):
    """Whatever stands in manifest.json, the error is ours and says why."""
    (saved / "manifest.json").write_text(text)
    with pytest.raises(KnowledgeBaseError, match=reason):
        Manifest.load(saved)


def test_changed_file_list_does_not_match_the_fingerprint(saved):
    """A manifest whose list of files was edited is refused."""
    change(saved, files={})
    with pytest.raises(KnowledgeBaseError, match="fingerprint"):
        Manifest.load(saved)


def test_directory_without_manifest_is_no_knowledge_base(saved, tmp_path):
    """Only a directory with our manifest counts as a knowledge base, of whatever version."""
    assert is_knowledge_base(saved)
    change(saved, version=99)
    assert is_knowledge_base(saved)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not is_knowledge_base(empty)
    with pytest.raises(KnowledgeBaseError, match="not a knowledge base"):
        Manifest.load(empty)
