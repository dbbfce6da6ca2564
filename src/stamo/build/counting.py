"""Counting in SQL over Parquet: pages and links become entities, aliases and document sets.

`count` runs the statements, which stand here in its order. Every result that is written to disk is
ordered by a unique key, so that it does not depend on the number of threads.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

MAX_SURFACE = 200
"""Longer link texts (whole sentences) are no names; the link counts, its surface does not."""
BATCH_ROWS = 131_072
_DATABASE = "counting.duckdb"

_PAGE = """
CREATE TABLE page AS
SELECT p.position, p.page_id, p.title, p.kind, p.target, p.held_out
FROM staged_page p
SEMI JOIN (SELECT MIN(position) AS position FROM staged_page GROUP BY title) f
  ON f.position = p.position
"""
"""The first page of each title; later ones are counted and left out."""

_DOCUMENT = """
CREATE TABLE document AS
SELECT CAST(ROW_NUMBER() OVER (ORDER BY position) - 1 AS INT) AS document,
       position, page_id, title, held_out
FROM page WHERE kind = 'article'
"""
"""Articles, numbered in the order of the dump."""

_SMALL = string.ascii_lowercase
_HAS_DIGIT = " OR ".join(f"title LIKE '%{digit}%'" for digit in string.digits)
# Only ASCII letters change their case. Titles in ASCII are told apart, because for them other
# functions say the same much faster.
_SPELLING_TITLE = """
CREATE TABLE spelling_title AS
SELECT title, has_article, n, CASE WHEN LENGTH(bare) >= 5 THEN light END AS light,
       CASE WHEN LENGTH(bare) < 5 THEN NULL
            WHEN bare LIKE '%s' AND bare NOT LIKE '%ss'
                 AND SUBSTR(bare, LENGTH(bare) - 1, 1) BETWEEN 'a' AND 'z'
            THEN SUBSTR(bare, 1, LENGTH(bare) - 1) ELSE bare END AS loose
FROM (
  SELECT title, MAX(has_article) AS has_article, SUM(n) AS n,
         BIT_LENGTH(title) = 8 * LENGTH(title) AS is_ascii, {has_digit} AS has_digit,
         CASE WHEN is_ascii AND has_digit THEN LOWER(title)
              WHEN is_ascii
              THEN REPLACE(REPLACE(REPLACE(REPLACE(LOWER(title), '-', ' '), '.', ''), ',', ''),
                           '''', '')
              WHEN has_digit THEN TRANSLATE(title, '{capital}', '{small}')
              ELSE TRANSLATE(title, '{capital}-–.,’''', '{small}  ') END AS light,
         REPLACE(CASE WHEN light LIKE 'the %' THEN SUBSTR(light, 5) ELSE light END, ' ', '') AS bare
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
  )
  GROUP BY title
)
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
ANTI JOIN spelling_light same ON same.source = o.source
JOIN staged_link a ON a.target = o.source
JOIN page pa ON pa.position = a.position AND NOT pa.held_out
JOIN staged_link b ON b.target = o.target AND b.surface = a.surface
JOIN page pb ON pb.position = b.position AND NOT pb.held_out
WHERE a.surface <> ''
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
ANTI JOIN spelling_same moved ON moved.source = q.source
ANTI JOIN spelling_same gone ON gone.source = q.target
WHERE short.light IS NOT NULL AND long.light IS NOT NULL
  AND q.place = 1 AND q.n >= 3 AND 5 * q.n >= 4 * q.n_all AND 2 * q.n >= short.n
  AND SUBSTR(q.target, LENGTH(q.source) + 1, 1) = ','
"""
"""The titles that count as redirects. A longer title is spelled like none before it, so none leads
back from there."""

_GUESS = (_SPELLING_TITLE, *(_PAIRS.format(key=k) for k in ("light", "loose")), _SAME, _LONGER)
_SPELLINGS = ("spelling_title", "spelling_light", "spelling_loose", "spelling_same",
              "spelling_longer")  # fmt: skip
_NO_TWINS = "CREATE TABLE twin AS SELECT title AS source, target FROM page WHERE FALSE"

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

_ENTITY = """
CREATE TABLE entity AS
SELECT CAST(ROW_NUMBER() OVER (ORDER BY n_links DESC, title) - 1 AS INT) AS entity,
       title, n_links, n_documents, has_article
FROM (
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
    )
    GROUP BY title
  )
  GROUP BY title
)
"""
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
)
WHERE surface <> '' AND LENGTH(surface) <= {max_surface}
GROUP BY surface, entity
"""
"""count(e, m): how often surface m links to entity e in the counted articles.

The count that a source lists for a name is added.
"""

_ALIAS = """
CREATE TABLE alias AS
SELECT CAST(ROW_NUMBER() OVER (ORDER BY surface) - 1 AS INT) AS alias, surface, n
FROM (SELECT surface, CAST(SUM(n) AS INT) AS n FROM alias_entity GROUP BY surface)
"""

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
ANTI JOIN entity same ON same.title = r.source
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

_LINK_COUNTS = """
SELECT kind, start >= 0 AS in_text, held_out, COUNT(*) FROM link GROUP BY ALL ORDER BY ALL
"""
_OMITTED = {
    "link to a title that only held-out articles know": """
        SELECT (SELECT COUNT(*) FROM link WHERE kind IN ({kinds})) - COUNT(*) FROM mention""",
    "page whose title came before": """
        SELECT (SELECT COUNT(*) FROM staged_page) - COUNT(*) FROM page""",
    "redirect in a cycle": "SELECT COUNT(*) FROM redirect WHERE target IS NULL",
    "link text too long for a name": "SELECT COUNT(*) FROM mention WHERE surface = ''",
}
_DROPPED_LINKS = {
    "disambiguation": "link to a disambiguation page",
    "cycle": "link to a redirect in a cycle",
    "missing": "link to a title without a page",
}


def open_database(directory: Path, *, memory: str, threads: int) -> duckdb.DuckDBPyConnection:
    """Make a database file in `directory` that spills to disk beyond `memory`."""
    remove_database(directory)
    connection = duckdb.connect(str(directory / _DATABASE))
    # It would write to stdout. In a notebook without widgets there is none, and no setting either.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET memory_limit = '{memory}'")
    connection.execute(f"SET threads = {threads:d}")
    # The database lives for a minute: compressing its tables takes longer than writing them.
    connection.execute("SET force_compression = 'uncompressed'")
    connection.execute("SET allocator_flush_threshold = '16MB'")  # what is freed goes back early
    folder = str(directory).replace("'", "''")
    connection.execute(f"SET temp_directory = '{folder}/spill'")
    for name in ("page", "link", "name"):
        source = f"read_parquet('{folder}/{name}.parquet')"
        connection.execute(f"CREATE VIEW staged_{name} AS SELECT * FROM {source}")
    return connection


def remove_database(directory: Path) -> None:
    """Remove the file of a database that is closed: half of what a build takes on disk."""
    (directory / _DATABASE).unlink(missing_ok=True)


def count(
    connection: duckdb.DuckDBPyConnection, *, missing_targets: bool, guess_redirects: bool
) -> tuple[dict[str, int], dict[str, int]]:
    """Run all statements; afterwards the tables above hold the knowledge base.

    Args:
        connection: A database with the staged tables.
        missing_targets: Whether a link target without a page is an entity too.
        guess_redirects: Whether titles without a page may be other spellings of titles.

    Returns:
        The numbers of pages and links of each kind, and how many were left out, by reason.
    """
    kinds = "'article', 'missing'" if missing_targets else "'article'"
    # Tables need no order, and making them without takes less memory.
    connection.execute("SET preserve_insertion_order = false")
    connection.execute(_PAGE)
    connection.execute(_DOCUMENT)
    for statement in (*_GUESS, _TWINS) if guess_redirects else (_NO_TWINS,):
        connection.execute(statement)
    drop(connection, *(_SPELLINGS if guess_redirects else ()))
    _resolve_redirects(connection)
    for statement in (_TARGET, _LINK, _ENTITY, _MENTION, _NAME, _ALIAS_ENTITY, _ALIAS, _OCCURS_IN):
        connection.execute(statement.format(kinds=kinds, max_surface=MAX_SURFACE))
    connection.execute("SET preserve_insertion_order = true")
    omitted = {name: _single(connection, sql.format(kinds=kinds)) for name, sql in _OMITTED.items()}
    counts = _count_pages(connection)
    for kind, in_text, is_held_out, n in connection.execute(_LINK_COUNTS).fetchall():
        if f"'{kind}'" not in kinds:
            reason = _DROPPED_LINKS[kind]
            omitted[reason] = omitted.get(reason, 0) + n
            continue
        counts["links in running text" if in_text else "links in tables, captions, notes"] += n
        to_article = kind == "article"
        counts["links to articles" if to_article else "links to titles without a page"] += n
        counts["links of held-out articles" if is_held_out else "counted links"] += n
    drop(connection, "link", "target", "name", "page")
    return counts, {reason: n for reason, n in omitted.items() if n}


def _count_pages(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return the numbers of pages, and 0 for each kind of link, in the order of the summary."""
    pages = connection.execute("SELECT kind, COUNT(*) FROM page GROUP BY kind").fetchall()
    n_pages = dict.fromkeys(("article", "redirect", "disambiguation"), 0) | dict(pages)
    n_held_out = _single(connection, "SELECT COUNT(*) FROM document WHERE held_out")
    return {
        "articles": n_pages["article"],
        "held-out articles": n_held_out,
        "counted articles": n_pages["article"] - n_held_out,
        "redirect pages": n_pages["redirect"],
        "guessed redirects": _single(connection, "SELECT COUNT(*) FROM twin"),
        "disambiguation pages": n_pages["disambiguation"],
        "links in running text": 0,
        "links in tables, captions, notes": 0,
        "links to articles": 0,
        "links to titles without a page": 0,
        "counted links": 0,
        "links of held-out articles": 0,
    }


def drop(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Drop tables that are done with, so that their memory is there for the next query."""
    for name in names:
        connection.execute(f"DROP TABLE {name}")


def _resolve_redirects(connection: duckdb.DuckDBPyConnection) -> None:
    """Follow redirects through chains; mark those that never arrive."""
    connection.execute(_REDIRECT_FIRST_HOP)
    last = 0
    n_open = _single(connection, _REDIRECT_OPEN.format(last=last))
    while n_open:
        connection.execute(_REDIRECT_NEXT_HOP.format(last=last, next=last + 1))
        last += 1
        n_open, n_before = _single(connection, _REDIRECT_OPEN.format(last=last)), n_open
        if n_open == n_before:
            break
    connection.execute(_REDIRECT.format(last=last))


def _single(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the one number a query gives."""
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def stream(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    """Yield the result of a query batch by batch, never the whole of it."""
    # A cursor of its own, since several streams run side by side.
    relation: Any = connection.cursor().sql(query)
    # Releases of DuckDB before 1.4 know the same method under another name.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    yield from reader(BATCH_ROWS)
