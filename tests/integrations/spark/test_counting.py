"""Counting on Spark gives the tables that counting on DuckDB gives."""

import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stamo.build import counting
from stamo.build.dump import DumpReader
from stamo.build.staging import (
    GIVEN_NAME_SCHEMA,
    LINK_SCHEMA,
    MAX_SURFACE,
    PAGE_SCHEMA,
    TEXT_SCHEMA,
    ExtractSettings,
    extract_chunk,
    rows_batch,
)
from stamo.errors import MissingExtraError, SettingsError
from stamo.integrations.spark.jobs import TABLES, count_on_spark
from stamo.integrations.spark.session import spark_session
from stamo_lab.world import WorldSettings, generate_world

pytestmark = pytest.mark.slow

FAR = 1 << 40
"""A position behind every page of the world."""

IN_ORDER = {
    "entities": counting.ENTITIES_IN_ORDER,
    "redirects": counting.REDIRECTS_IN_ORDER,
    "aliases": counting.ALIASES_IN_ORDER,
    "candidates": counting.CANDIDATES_IN_ORDER,
    "names": counting.NAMES_IN_ORDER,
    "documents": counting.DOCUMENTS_IN_ORDER,
    "contents": counting.CONTENTS_IN_ORDER,
    "mentions": counting.MENTIONS_IN_ORDER,
}
"""The ordered queries from which a knowledge base is written."""

HARD_PAGES = [
    ("Loop A", "redirect", "Loop B", False),
    ("Loop B", "redirect", "Loop A", False),
    ("Into loop", "redirect", "Loop A", False),
    ("Chain 1", "redirect", "Chain 2", False),
    ("Chain 2", "redirect", "Chain 3", False),
    ("Chain 3", "redirect", "Mercury (planet)", False),
    ("Mercury (planet)", "article", None, False),
    ("Mercury (planet)", "article", None, False),  # the second page of one title
    ("Mercury", "disambiguation", None, False),
    ("\U0001f600 smile", "article", None, False),  # sorts differently in UTF-16 and in UTF-8
    ("\uff21 wide", "article", None, False),
    ("Secret", "article", None, True),
]
HARD_LINKS = [
    (6, "Mercury", "Chain 1"),
    (6, "Mercury", "Mercury"),
    (6, "loop", "Into loop"),
    (6, "smile", "\U0001f600 smile"),
    (7, "twice", "Mercury (planet)"),
    (9, "nothing here", "Never written"),
    (9, "", "Mercury (planet)"),
    (6, "the gods", "Gods’ İstanbul's"),
    (9, "of the gods", "Gods' İSTANBULs"),
    (9, "of the gods", "Gods' İstanbuls"),
    (6, "tiles", "İznik-Tiles"),
    (10, "tiles", "The İznik tile"),
    (11, "only here", "Known to the held-out article alone"),
    (11, "Mercury", "Mercury (planet)"),
]


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """The staged Parquet of a small world, with the hard cases behind it."""
    directory = tmp_path_factory.mktemp("staged")
    made = generate_world(
        WorldSettings(n_articles=260, n_emerging=1, documents_per_entity=9), directory / "world"
    )
    hard_pages = [(FAR + i, i, *row) for i, row in enumerate(HARD_PAGES)]
    hard_links = [
        (FAR + page, i, 10 * i, 10 * i + 5, surface, target)
        for i, (page, surface, target) in enumerate(HARD_LINKS)
    ]
    with (
        DumpReader(made.paths.dump_path) as reader,
        pq.ParquetWriter(directory / "page.parquet", PAGE_SCHEMA, compression="lz4") as pages,
        pq.ParquetWriter(directory / "text.parquet", TEXT_SCHEMA) as texts,
        pq.ParquetWriter(directory / "name.parquet", GIVEN_NAME_SCHEMA) as names,
        pq.ParquetWriter(directory / "link.parquet", LINK_SCHEMA, compression="lz4") as links,
    ):
        settings = ExtractSettings(reader.site, 0.1, frozenset())
        for chunk in reader.chunks():
            part = extract_chunk(chunk, settings)
            names.write_batch(rows_batch([("Listed name", "Nowhere", 3)], GIVEN_NAME_SCHEMA))
            pages.write_batch(part.pages)
            texts.write_batch(part.texts)
            links.write_batch(part.links)
        pages.write_table(rows_table(hard_pages, PAGE_SCHEMA))
        links.write_table(rows_table(hard_links, LINK_SCHEMA))
    return directory


def rows_table(rows, schema):
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.fixture(scope="module")
def duck(staged):
    with counting.open_database(staged, memory="1GB", threads=1) as connection:
        counting.count(connection, missing_targets=True, max_surface=MAX_SURFACE)
        yield connection


@pytest.fixture(scope="module")
def tables(spark, staged):
    return count_on_spark(spark, staged, database="counted")


def plain(rows):
    """Rows of whole numbers and strings, whatever width the engine gives its sums."""
    return [tuple(v if v is None or isinstance(v, str) else int(v) for v in row) for row in rows]


@pytest.mark.parametrize("name", TABLES)
def test_tables_equal_those_of_duckdb(name, duck, tables):
    """Each table holds the same rows, each as often, on both engines."""
    columns = ", ".join(tables[name].columns)
    ours = plain(duck.execute(f"SELECT {columns} FROM {name}").fetchall())
    assert ours
    assert Counter(plain(tables[name].collect())) == Counter(ours)


@pytest.mark.parametrize("name", IN_ORDER)
def test_ordered_queries_give_the_same_rows_in_the_same_order(name, duck, spark, tables):
    """What a knowledge base is written from comes in one order on both engines."""
    ours = plain(duck.execute(IN_ORDER[name]).fetchall())
    assert ours
    assert plain(spark.sql(IN_ORDER[name]).collect()) == ours


def test_summary_queries_agree(duck, spark, tables):
    """The numbers of the closing summary are the same on both engines."""
    kinds = counting.kept_kinds(True)
    queries = [counting.PAGE_COUNTS, counting.LINK_COUNTS]
    queries += [query.format(kinds=kinds) for query in counting.SINGLE_COUNTS.values()]
    for query in queries:
        assert plain(spark.sql(query).collect()) == plain(duck.execute(query).fetchall())


def test_existing_database_is_left_alone(spark, staged, tables):
    """Counting refuses a database that is there instead of mixing two runs in it."""
    with pytest.raises(SettingsError, match="has a database 'counted' already"):
        count_on_spark(spark, staged, database="counted")


def test_database_name_is_a_word(spark, staged):
    """A name that would be SQL of its own is refused."""
    with pytest.raises(SettingsError, match="letters, digits and underscores"):
        count_on_spark(spark, staged, database="a; DROP DATABASE counted")


def test_missing_pyspark_is_one_clear_sentence(monkeypatch):
    """Without pyspark the message names the extra to install."""
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"stamo\[spark\]"), spark_session():
        pass
