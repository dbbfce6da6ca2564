"""Counting in SQL over Parquet: pages and links become entities, aliases and document sets.

Portability. Every statement below is written once and runs on DuckDB and on Spark SQL: plain joins,
GROUP BY, UNION, CASE, COALESCE and CAST; no QUALIFY, no `::`, no list functions, and
pointer jumping in place of WITH RECURSIVE, which Spark before version 4 lacks. Only
`open_database`, `number_by_window` and `stream` are DuckDB's own. Every result that is written to
disk is ordered by a unique key, so that it does not depend on the number of threads.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

_SMALL = string.ascii_lowercase
_HAS_DIGIT = " OR ".join(f"title LIKE '%{digit}%'" for digit in string.digits)
# Only ASCII letters, because engines do not agree on the others; no quoted apostrophe either.
# Titles in ASCII are told apart, because for them other functions say the same much faster.
_TITLES = """
CREATE TABLE spelling_title AS
SELECT title, has_article, n, CASE WHEN LENGTH(bare) >= 5 THEN light END AS light,
       CASE WHEN LENGTH(bare) < 5 THEN NULL
            WHEN bare LIKE '%s' AND bare NOT LIKE '%ss'
                 AND SUBSTR(bare, LENGTH(bare) - 1, 1) BETWEEN 'a' AND 'z'
            THEN SUBSTR(bare, 1, LENGTH(bare) - 1) ELSE bare END AS loose
FROM (
  SELECT title, has_article, n, light,
         REPLACE(CASE WHEN light LIKE 'the %' THEN SUBSTR(light, 5) ELSE light END, ' ', '') AS bare
  FROM (
    SELECT title, has_article, n,
           CASE WHEN is_ascii AND has_digit THEN LOWER(title)
                WHEN is_ascii
                THEN REPLACE(REPLACE(REPLACE(REPLACE(LOWER(title), '-', ' '), '.', ''), ',', ''),
                             CHR(39), '')
                WHEN has_digit THEN TRANSLATE(title, '{capital}', '{small}')
                ELSE TRANSLATE(title, CONCAT('{capital}-–.,’', CHR(39)), '{small}  ') END AS light
    FROM (
      SELECT title, MAX(has_article) AS has_article, SUM(n) AS n,
             BIT_LENGTH(title) = 8 * LENGTH(title) AS is_ascii, {has_digit} AS has_digit
      FROM (
        SELECT title, 1 AS has_article, 0 AS n FROM page WHERE kind = 'article'
        UNION ALL
        SELECT t.target, 0, t.n
        FROM (
          SELECT l.target, SUM(CASE WHEN s.held_out THEN 0 ELSE 1 END) AS n
          FROM staged_link l JOIN page s ON s.position = l.position
          GROUP BY l.target
        ) t
        LEFT JOIN page p ON p.title = t.target
        WHERE p.title IS NULL OR p.kind = 'article'
      ) parts
      GROUP BY title
    ) titles
  ) lighter
) barer
""".format(capital=_SMALL.upper(), small=_SMALL, has_digit=_HAS_DIGIT)
"""Articles and linked titles without a page, with what is left of them when they are compared.

Short ones have NULL there, which equals nothing; to select by it would take it all twice.
"""

_PAIRS = """
CREATE TABLE spelling_{key} AS
SELECT t.title AS source, f.title AS target
FROM spelling_title t
JOIN (
  SELECT a.title, a.{key},
         ROW_NUMBER() OVER (PARTITION BY a.{key} ORDER BY a.has_article DESC, a.n DESC, a.title)
           AS place
  FROM spelling_title a
  JOIN (SELECT {key} FROM spelling_title GROUP BY {key} HAVING COUNT(*) > 1) same
    ON same.{key} = a.{key}
) f ON f.{key} = t.{key}
WHERE f.place = 1 AND t.has_article = 0 AND t.title <> f.title
"""
"""Titles without a page, each with the first of those that are spelled like it.

Few titles have another like them, and only those are sorted.
"""

_SAME = """
CREATE TABLE spelling_same AS
SELECT source, target FROM spelling_light
UNION ALL
SELECT DISTINCT o.source, o.target
FROM spelling_loose o
LEFT JOIN spelling_light same ON same.source = o.source
JOIN staged_link a ON a.target = o.source
JOIN page pa ON pa.position = a.position AND NOT pa.held_out
JOIN staged_link b ON b.target = o.target AND b.surface = a.surface
JOIN page pb ON pb.position = b.position AND NOT pb.held_out
WHERE same.source IS NULL AND a.surface <> ''
"""
"""Titles that are spelled otherwise. Each leads to one that comes before it, so never back."""

_LONGER = """
CREATE TABLE spelling_longer AS
SELECT l.surface AS source, l.target, COUNT(*) AS n
FROM staged_link l
JOIN page s ON s.position = l.position AND NOT s.held_out
WHERE l.surface <> ''
  AND SUBSTR(l.target, 1, LENGTH(l.surface) + 2)
      IN (CONCAT(l.surface, ', '), CONCAT(l.surface, ' ('))
GROUP BY l.surface, l.target
"""
"""Link texts with the titles that add something to them to tell them from others."""

_TWINS = """
CREATE TABLE twin AS
SELECT source, target FROM spelling_same
UNION ALL
SELECT q.source, q.target
FROM (
  SELECT source, target, n, SUM(n) OVER (PARTITION BY source) AS n_all,
         ROW_NUMBER() OVER (PARTITION BY source ORDER BY n DESC, target) AS place
  FROM spelling_longer
) q
JOIN spelling_title short ON short.title = q.source AND short.has_article = 0
JOIN spelling_title long ON long.title = q.target
LEFT JOIN spelling_same moved ON moved.source = q.source
LEFT JOIN spelling_same gone ON gone.source = q.target
WHERE short.light IS NOT NULL AND long.light IS NOT NULL
  AND q.place = 1 AND q.n >= 3 AND 5 * q.n >= 4 * q.n_all AND 2 * q.n >= short.n
  AND SUBSTR(q.target, LENGTH(q.source) + 1, 1) = ','
  AND moved.source IS NULL AND gone.source IS NULL
"""
"""The titles that count as redirects. A longer title is spelled like none before it, so none leads
back from there."""

STATEMENTS = (
    *(_TITLES, _PAIRS.format(key="light"), _PAIRS.format(key="loose"), _SAME, _LONGER),
    _TWINS,
)
"""Make the table `twin` from `page` and `staged_link`."""
NO_TWINS = "CREATE TABLE twin AS SELECT title AS source, target FROM page WHERE FALSE"
TEMPORARY = tuple(f"spelling_{name}" for name in ("title", "light", "loose", "same", "longer"))


BATCH_ROWS = 131_072
_DATABASE = "counting.duckdb"

_PAGE = """
CREATE TABLE page AS
SELECT p.position, p.page_id, p.title, p.kind, p.target, p.held_out
FROM staged_page p
JOIN (SELECT title, MIN(position) AS position FROM staged_page GROUP BY title) first_page
  ON p.title = first_page.title AND p.position = first_page.position
"""
"""The first page of each title; later ones are counted and left out."""


@dataclass(frozen=True, slots=True)
class NumberedTable:
    """A table whose rows are numbered from 0 in the order of a unique key."""

    name: str
    """Also that of the column of numbers."""
    order: str
    columns: str
    rows: str
    """What follows FROM."""


_DOCUMENT = NumberedTable(
    "document",
    "position",
    "position, page_id, title, held_out",
    "page WHERE kind = 'article'",
)
"""Articles, numbered in the order of the dump."""

_REDIRECT_FIRST_HOP = """
CREATE TABLE redirect_0 AS
SELECT title AS source, target FROM page WHERE kind = 'redirect'
UNION ALL
SELECT source, target FROM twin
"""
"""Redirect pages, and titles that are another spelling of one."""

_REDIRECT_NEXT_HOP = """
CREATE TABLE redirect_{next} AS
SELECT a.source, COALESCE(b.target, a.target) AS target
FROM redirect_{last} a
LEFT JOIN redirect_{last} b ON a.target = b.source
"""
"""Pointer jumping: each step doubles how far a redirect reaches, so long chains take few steps."""

_REDIRECT_OPEN = """
SELECT COUNT(*) FROM redirect_{last} a JOIN redirect_0 b ON a.target = b.source
"""
"""How many redirects still point to a redirect; when it stops falling, the rest are cycles."""

_REDIRECT = """
CREATE TABLE redirect AS
SELECT a.source, CASE WHEN b.source IS NULL THEN a.target END AS target
FROM redirect_{last} a
LEFT JOIN redirect_0 b ON a.target = b.source
"""
"""Where each redirect ends; NULL when it leads into a cycle."""

_TARGET = """
CREATE TABLE target AS
SELECT t.target,
       COALESCE(r.target, t.target) AS title,
       CASE WHEN r.source IS NOT NULL AND r.target IS NULL THEN 'cycle'
            ELSE COALESCE(p.kind, 'missing') END AS kind
FROM (SELECT target FROM staged_link UNION SELECT source FROM redirect) t
LEFT JOIN redirect r ON r.source = t.target
LEFT JOIN page p ON p.title = COALESCE(r.target, t.target)
"""
"""What each title that is linked to, or is a redirect, finally means."""

_LINK = """
CREATE TABLE link AS
SELECT d.document, l.number, l.start, l.stop, l.surface, d.held_out, t.title, t.kind
FROM staged_link l
JOIN document d ON d.position = l.position
JOIN target t ON t.target = l.target
"""
"""Links of the articles that are kept, with the title they finally mean."""

_ENTITY = NumberedTable(
    "entity",
    "n_links DESC, title",
    "title, n_links, n_documents, has_article",
    """(
  SELECT title, CAST(SUM(n_links) AS INT) AS n_links,
         CAST(SUM(n_documents) AS INT) AS n_documents, MAX(has_article) AS has_article
  FROM (
    SELECT title, 0 AS n_links, 0 AS n_documents, 1 AS has_article FROM document
    UNION ALL
    SELECT t.title, 0, 0, 0
    FROM redirect r JOIN target t ON t.target = r.source WHERE t.kind IN ({kinds})
    UNION ALL
    SELECT title, CAST(SUM(n_links) AS INT), CAST(COUNT(*) AS INT), 0
    FROM (
      SELECT title, document, COUNT(*) AS n_links
      FROM link WHERE kind IN ({kinds}) AND NOT held_out GROUP BY title, document
    ) by_document
    GROUP BY title
  ) parts
  GROUP BY title
) counted""",
)
"""Entities, the most linked first: articles, ends of redirects and targets of counted links.

A title that only held-out articles link to is none, or its name would give the answer away.
"""

_MENTION = """
CREATE TABLE mention AS
SELECT l.document, l.number, l.start, l.stop, l.surface, l.held_out, e.entity
FROM link l
JOIN entity e ON e.title = l.title
WHERE l.kind IN ({kinds})
"""

_NAME = """
CREATE TABLE name AS
SELECT title AS surface, entity FROM entity
UNION
SELECT r.source, e.entity FROM redirect r JOIN entity e ON e.title = r.target
UNION
SELECT n.surface, e.entity FROM staged_name n JOIN entity e ON e.title = n.target
"""
"""Titles, redirects and listed names: they count as aliases even when no link uses them."""

_ALIAS_ENTITY = """
CREATE TABLE alias_entity AS
SELECT surface, entity, CAST(SUM(n) AS INT) AS n
FROM (
  SELECT surface, entity, COUNT(*) AS n
  FROM mention WHERE NOT held_out GROUP BY surface, entity
  UNION ALL
  SELECT surface, entity, 0 FROM name
  UNION ALL
  SELECT n.surface, e.entity, n.n FROM staged_name n JOIN entity e ON e.title = n.target
  UNION ALL
  SELECT REGEXP_REPLACE(surface, ' [(][^()]*[)]$', ''), entity, 0 FROM name
) uses
WHERE surface <> '' AND LENGTH(surface) <= {max_surface}
GROUP BY surface, entity
"""
"""count(e, m): how often surface m links to entity e in the counted articles.

The count that a source lists for a name is added.
"""

_ALIAS = NumberedTable(
    "alias",
    "surface",
    "surface, n",
    "(SELECT surface, CAST(SUM(n) AS INT) AS n FROM alias_entity GROUP BY surface) surfaces",
)

_OCCURS_IN = """
CREATE TABLE occurs_in AS
SELECT DISTINCT entity, document FROM mention WHERE NOT held_out
"""
"""D(e): the counted articles that link to an entity, each once."""

ENTITIES_IN_ORDER = """
SELECT entity, title, n_links, n_documents, has_article FROM entity ORDER BY entity
"""
REDIRECTS_IN_ORDER = """
SELECT r.source, e.entity FROM redirect r JOIN entity e ON e.title = r.target
LEFT JOIN entity same ON same.title = r.source
WHERE same.title IS NULL
ORDER BY r.source
"""
ALIASES_IN_ORDER = """
SELECT a.alias, a.surface, a.n,
       CASE WHEN l.surface IS NOT NULL THEN 1
            WHEN a.n = 0 AND a.surface LIKE '% %' AND a.surface NOT LIKE '%)' THEN 1
            ELSE 0 END AS listed
FROM alias a LEFT JOIN (SELECT DISTINCT surface FROM staged_name) l ON l.surface = a.surface
ORDER BY a.alias
"""
"""Aliases; a title of several words that no link uses is as good as a name that a source lists."""
CANDIDATES_IN_ORDER = """
SELECT a.alias, c.entity, c.n
FROM alias_entity c JOIN alias a ON a.surface = c.surface
ORDER BY a.alias, c.n DESC, c.entity
"""
NAMES_IN_ORDER = """
SELECT c.entity, a.alias, c.n
FROM alias_entity c JOIN alias a ON a.surface = c.surface
ORDER BY c.entity, c.n DESC, a.alias
"""
DOCUMENTS_IN_ORDER = "SELECT entity, document FROM occurs_in ORDER BY entity, document"
CONTENTS_IN_ORDER = "SELECT document, entity FROM occurs_in ORDER BY document, entity"
POSITIONS_IN_ORDER = "SELECT position FROM document ORDER BY document"
MENTIONS_IN_ORDER = """
SELECT m.document, m.start, m.stop, m.entity, COALESCE(a.alias, -1) AS alias
FROM mention m LEFT JOIN alias a ON a.surface = m.surface
WHERE m.start >= 0 ORDER BY m.document, m.start, m.number
"""
"""Links with a span; the alias is -1 where their text is too long for one or held out."""

PAGE_COUNTS = "SELECT kind, COUNT(*) FROM page GROUP BY kind ORDER BY kind"
LINK_COUNTS = """
SELECT kind, CASE WHEN start < 0 THEN 0 ELSE 1 END AS in_text,
       CASE WHEN held_out THEN 1 ELSE 0 END AS is_held_out, COUNT(*)
FROM link GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
SINGLE_COUNTS = {
    "link to a title that only held-out articles know": """
        SELECT (SELECT COUNT(*) FROM link WHERE kind IN ({kinds})) - COUNT(*) FROM mention""",
    "page whose title came before": """
        SELECT (SELECT COUNT(*) FROM staged_page) - COUNT(*) FROM page""",
    "redirect in a cycle": "SELECT COUNT(*) FROM redirect WHERE target IS NULL",
    "held-out articles": "SELECT COUNT(*) FROM document WHERE held_out",
    "guessed redirects": "SELECT COUNT(*) FROM twin",
    "link text too long for a name": "SELECT COUNT(*) FROM mention WHERE surface = ''",
}


def open_database(directory: Path, *, memory: str, threads: int) -> duckdb.DuckDBPyConnection:
    """Make a database file in `directory` that spills to disk beyond `memory`."""
    remove_database(directory)
    path = directory / _DATABASE
    connection = duckdb.connect(str(path))
    # It would write to stdout. In a notebook without widgets there is none, and no setting either.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET memory_limit = '{memory}'")
    connection.execute(f"SET threads = {threads:d}")
    # The database lives for a minute: compressing its tables takes longer than writing them.
    connection.execute("SET force_compression = 'uncompressed'")
    connection.execute("SET allocator_flush_threshold = '16MB'")  # what is freed goes back early
    connection.execute(f"SET temp_directory = '{_quoted(directory / 'spill')}'")
    for name in ("page", "text", "link", "name"):
        source = _quoted(directory / f"{name}.parquet")
        connection.execute(f"CREATE VIEW staged_{name} AS SELECT * FROM read_parquet('{source}')")
    return connection


def remove_database(directory: Path) -> None:
    """Remove the file of a database that is closed: half of what a build takes on disk."""
    (directory / _DATABASE).unlink(missing_ok=True)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def kept_kinds(missing_targets: bool) -> str:
    """Return the kinds of link targets that are entities, as a list in SQL."""
    return "'article', 'missing'" if missing_targets else "'article'"


NumberRows = Callable[[duckdb.DuckDBPyConnection, "NumberedTable"], None]
"""Makes a numbered table."""


def number_by_window(connection: duckdb.DuckDBPyConnection, table: NumberedTable) -> None:
    """Make a numbered table with a window over all of its rows."""
    connection.execute(
        f"CREATE TABLE {table.name} AS "
        f"SELECT CAST(ROW_NUMBER() OVER (ORDER BY {table.order}) - 1 AS INT) AS {table.name}, "
        f"{table.columns} FROM {table.rows}"
    )


def count(
    connection: duckdb.DuckDBPyConnection,
    *,
    missing_targets: bool,
    max_surface: int,
    guess_redirects: bool = True,
    number_rows: NumberRows = number_by_window,
) -> None:
    """Run all statements; afterwards the tables above hold the knowledge base.

    Args:
        connection: A database with the staged tables.
        missing_targets: Whether a link target without a page is an entity too.
        max_surface: Longest link text that counts as a name, in characters.
        guess_redirects: Whether titles without a page may be other spellings of titles.
        number_rows: Makes a numbered table; an engine of many machines has its own way.
    """
    kinds = kept_kinds(missing_targets)
    # Tables need no order, and making them without takes less memory.
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(_PAGE)
    number_rows(connection, _DOCUMENT)
    guess = STATEMENTS if guess_redirects else (NO_TWINS,)
    for sql in guess:
        connection.execute(sql)
    drop(connection, *(TEMPORARY if guess_redirects else ()))
    resolve_redirects(connection)
    for statement in (_TARGET, _LINK, _ENTITY, _MENTION, _NAME, _ALIAS_ENTITY, _ALIAS, _OCCURS_IN):
        if isinstance(statement, NumberedTable):
            rows = statement.rows.format(kinds=kinds)
            number_rows(connection, replace(statement, rows=rows))
        else:
            connection.execute(statement.format(kinds=kinds, max_surface=max_surface))
    connection.execute("SET preserve_insertion_order = true")


def drop(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Drop tables that are done with, so that their memory is there for the next query."""
    for name in names:
        connection.execute(f"DROP TABLE {name}")


def resolve_redirects(connection: duckdb.DuckDBPyConnection) -> None:
    """Follow redirects through chains; mark those that never arrive."""
    connection.execute(_REDIRECT_FIRST_HOP)
    last = 0
    n_open = single(connection, _REDIRECT_OPEN.format(last=last))
    while n_open:
        connection.execute(_REDIRECT_NEXT_HOP.format(last=last, next=last + 1))
        last += 1
        n_open, n_before = single(connection, _REDIRECT_OPEN.format(last=last)), n_open
        if n_open == n_before:
            break
    connection.execute(_REDIRECT.format(last=last))


def single(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the one number a query gives."""
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def stream(
    connection: duckdb.DuckDBPyConnection, query: str, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the result of a query batch by batch, never the whole of it."""
    # A cursor of its own, since several streams run side by side.
    relation: Any = connection.cursor().sql(query)
    # Releases of DuckDB before 1.4 know the same method under another name.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    yield from reader(rows)
