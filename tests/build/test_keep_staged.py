"""Staged tables can be kept for others to count on."""

import duckdb
import pyarrow.parquet as pq
import pytest

from stamo.build.build import build_knowledge_base
from stamo.build.settings import BuildSettings
from stamo.build.staging import STAGED_TABLES
from stamo.errors import DumpError, KnowledgeBaseError
from tests.build.dumps import write_dump


def settings(**others):
    return BuildSettings(dimensions=0, held_out=0, **others)


def test_tables_are_kept_as_documented(tmp_path):
    """They have the documented columns, and the counts of a KB can be had from them."""
    dump, kept = write_dump(tmp_path / "dump.xml"), tmp_path / "kept" / "tables"
    summary = build_knowledge_base(dump, tmp_path / "kb", settings(keep_staged=kept))
    for name, schema in STAGED_TABLES.items():
        assert pq.read_schema(kept / f"{name}.parquet") == schema
    query = f"SELECT COUNT(DISTINCT title) FROM '{kept}/page.parquet' WHERE kind = 'article'"
    assert duckdb.sql(query).fetchall() == [(summary.counts["articles"],)]


def test_existing_folder_is_left_alone(tmp_path):
    """Nothing is built into a folder that is there."""
    dump = write_dump(tmp_path / "dump.xml")
    (tmp_path / "kept").mkdir()
    with pytest.raises(KnowledgeBaseError, match="does not exist yet"):
        build_knowledge_base(dump, tmp_path / "kb", settings(keep_staged=tmp_path / "kept"))
    assert not (tmp_path / "kb").exists()


def test_failed_build_keeps_nothing(tmp_path):
    """The folder goes with the build."""
    (tmp_path / "dump.xml").write_text("no dump")
    with pytest.raises(DumpError):
        build_knowledge_base(
            tmp_path / "dump.xml", tmp_path / "kb", settings(keep_staged=tmp_path / "kept")
        )
    assert not (tmp_path / "kept").exists()
