"""Redirects that a dump lacks: titles without a page that are another spelling of a title.

A cut or young wiki has links to "The New York Times" and "New York Times", to "African-American"
and "African American", and no redirect between them. Counted apart, one entity is two that share
their names. A title without a page counts as a redirect when it differs from another

- in case, hyphens, full stops, commas or apostrophes alone; or
- also in spaces, an article or the plural's s, and some text is a link to both: "Mongols" is
  [[Mongols]] here and [[Mongol]]s there, but "Windows" is never a [[window]]; or
- in what stands behind a comma, and the longer title is what its name mostly means: "Denver" is
  [[Denver, Colorado]] far more often than any other [[Denver, ...]], and [[Denver]] is not linked
  more than twice as often.

Titles with digits differ in case alone, short ones not at all. A title with a page is never moved.
"""

from __future__ import annotations

import string

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
