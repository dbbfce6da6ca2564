"""Files that appear whole: the old content or the new one, and nothing left beside them."""

import os

import pytest

from stamo.errors import SuiteError
from stamo.system.files import (
    RESULT_DIR,
    DirectoryKind,
    check_writable,
    replaced_file,
    staged_directory,
    sweep,
    write_atomic,
)

KIND = DirectoryKind("thing", lambda path: (path / "mark").is_file(), SuiteError)


def test_a_failed_write_changes_nothing(tmp_path):
    """Where writing fails, the old content stays and what was written so far is removed."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replaced_file(path) as beside:
        raise ZeroDivisionError(beside.write_bytes(b"half"))
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])


def test_a_new_file_replaces_none(tmp_path):
    """What is there already is an error and keeps its content."""
    path = tmp_path / "a"
    write_atomic(path, b"first", is_new=True)
    with pytest.raises(FileExistsError):
        write_atomic(path, b"second", is_new=True)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"first", [path])


def make(target, content, overwrite=False):
    with staged_directory(target, KIND, overwrite=overwrite) as work:
        (work / RESULT_DIR / "mark").write_text(content)
        assert not target.exists() or (target / "mark").read_text() != content


def test_a_directory_appears_whole_and_is_replaced_only_on_demand(tmp_path):
    """It is there when its block ends; an old one is replaced when asked for, others never."""
    target = tmp_path / "deep" / "thing"
    make(target, "one")
    with pytest.raises(SuiteError, match=r"The thing .* exists already; add --overwrite"):
        make(target, "two")
    make(target, "two", overwrite=True)
    assert (target / "mark").read_text() == "two"
    assert list(target.parent.iterdir()) == [target]
    with pytest.raises(SuiteError, match="is not a thing, so it is left alone"):
        make(tmp_path / "deep", "one", overwrite=True)


def test_a_directory_that_fails_leaves_the_old_one(tmp_path):
    """An error inside keeps the old directory; that of the system becomes one sentence."""
    target = tmp_path / "thing"
    make(target, "one")
    with (
        pytest.raises(SuiteError, match="what was there is unchanged"),
        staged_directory(target, KIND, overwrite=True),
    ):
        raise OSError("the cable came off")
    assert (target / "mark").read_text() == "one"
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_writer_left_is_swept(tmp_path):
    """A leftover goes; a file that is being written, and everything else, stays."""
    (tmp_path / ".a.json.1-2.tmp").write_text("left")
    (tmp_path / "b.tmp").write_text("mine")
    with replaced_file(tmp_path / "c") as beside:
        beside.write_text("new")
        sweep(tmp_path)
        assert beside.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tmp", "c"]


def test_a_place_is_tried_without_a_trace(tmp_path):
    """What is there stays; what cannot be written is refused now."""
    (tmp_path / "a").write_text("old")
    (tmp_path / ".a.1-2.tmp").write_text("left")
    check_writable(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"
    for path in (tmp_path, tmp_path / "a" / "b", tmp_path / "no" / "b"):
        with pytest.raises(OSError, match="directory"):
            check_writable(path)


def test_modes_follow_the_umask(tmp_path):
    """Who keeps files to himself keeps those that are written here, too."""
    old = os.umask(0o077)
    try:
        write_atomic(tmp_path / "replaced", b"x")
        write_atomic(tmp_path / "new", b"x", is_new=True)
        with staged_directory(tmp_path / "folder", KIND, overwrite=False) as work:
            (work / RESULT_DIR / "file").write_bytes(b"x")
    finally:
        os.umask(old)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"replaced": 0o600, "new": 0o600, "folder": 0o700, "file": 0o600}
