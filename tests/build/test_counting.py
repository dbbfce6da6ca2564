"""The SQL statements on tables small enough to check by hand."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stamo.build import counting
from stamo.build.staging import STAGED_TABLES

ARTICLE, REDIRECT, DISAMBIGUATION = "article", "redirect", "disambiguation"


def connect(directory, pages, links=(), names=()):
    """Open a database over pages (title, kind, target, held_out) and links (page, text, target).

    Names are (surface, target, count).
    """
    page_rows = [(i, i + 100, *page) for i, page in enumerate(pages)]
    link_rows = [
        (page, i, 0, 1, surface, target) for i, (page, surface, target) in enumerate(links)
    ]
    for name, rows in {"page": page_rows, "link": link_rows, "name": names}.items():
        schema = STAGED_TABLES[name]
        dicts = [dict(zip(schema.names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(dicts, schema=schema), directory / f"{name}.parquet")
    return counting.open_database(directory, memory="200MB", threads=2)


def run(directory, pages, links=(), names=(), *, missing_targets=True, guess_redirects=True):
    """Count, and return a function that runs queries; `run.counted` is what was counted."""
    connection = connect(directory, pages, links, names)
    run.counted, run.omitted = counting.count(
        connection, missing_targets=missing_targets, guess_redirects=guess_redirects
    )
    return lambda query: connection.execute(query).fetchall()


def article(title, *, held_out=False):
    return (title, ARTICLE, None, held_out)


def redirect(source, target):
    return (source, REDIRECT, target, False)


def test_redirects_are_followed_through_chains_of_any_length(tmp_path):
    """A chain of 100 redirects ends at its article, and so does every link of it."""
    chain = [redirect(f"R{i}", f"R{i + 1}") for i in range(99)] + [redirect("R99", "End")]
    query = run(tmp_path, [*chain, article("End")])
    assert query("SELECT DISTINCT target FROM redirect") == [("End",)]


def test_redirects_into_a_cycle_lead_nowhere(tmp_path):
    """Members of a cycle, a redirect to itself and what leads there are marked; others are not."""
    lost = [redirect(*pair) for pair in ("AB", "BC", "CA", "IA", "SS")]
    pages = [*lost, redirect("Fine", "End"), article("End")]
    query = run(tmp_path, pages, [(6, "x", "I"), (6, "y", "Fine")])
    assert query("SELECT source FROM redirect WHERE target IS NULL ORDER BY 1") == [*zip("ABCIS")]
    assert query("SELECT title FROM entity ORDER BY entity") == [("End",)]
    assert run.counted["links to articles"] == 1
    assert run.omitted == {"link to a redirect in a cycle": 1, "redirect in a cycle": 5}


def test_links_count_for_alias_and_documents(tmp_path):
    """count(e, m) counts links, D(e) counts articles once."""
    pages = [article("One"), article("Two"), redirect("Brigg", "Brig")]
    links = [(0, "town", "Brig"), (0, "town", "Brigg"), (1, "Brig", "Brig"), (1, "town", "Corm")]
    query = run(tmp_path, pages, links)
    counts = query(
        "SELECT surface, e.title, n FROM alias_entity a JOIN entity e ON e.entity = a.entity "
        "WHERE n > 0 ORDER BY surface, n DESC"
    )
    assert counts == [("Brig", "Brig", 1), ("town", "Brig", 2), ("town", "Corm", 1)]
    assert query("SELECT n_links, n_documents FROM entity WHERE title = 'Brig'") == [(3, 2)]
    assert query("SELECT title FROM entity WHERE entity = 0") == [("Brig",)]


@pytest.mark.parametrize(("missing_targets", "titles"), [(True, {"One", "Gone"}), (False, {"One"})])
def test_targets_without_a_page_are_a_setting(tmp_path, missing_targets, titles):
    """They are entities without an article, or left out with their links."""
    query = run(tmp_path, [article("One")], [(0, "x", "Gone")], missing_targets=missing_targets)
    assert {title for (title,) in query("SELECT title FROM entity")} == titles
    assert query("SELECT COUNT(*) FROM mention") == [(len(titles) - 1,)]
    assert query("SELECT has_article FROM entity WHERE title = 'One'") == [(1,)]


def test_held_out_articles_are_in_no_statistic(tmp_path):
    """Their links give neither counts nor documents nor entities, but are kept as mentions."""
    pages = [article("One"), article("Hidden", held_out=True)]
    links = [(0, "x", "Brig"), (1, "y", "Brig"), (1, "z", "Only hidden")]
    query = run(tmp_path, pages, links)
    assert query("SELECT n_links, n_documents FROM entity WHERE title = 'Brig'") == [(1, 1)]
    assert query("SELECT surface FROM alias WHERE n > 0") == [("x",)]
    assert query("SELECT title FROM entity ORDER BY title") == [("Brig",), ("Hidden",), ("One",)]
    assert query("SELECT surface FROM mention WHERE held_out") == [("y",)]


def test_overlong_and_empty_surfaces_are_no_aliases(tmp_path):
    """They still count for the entity."""
    query = run(tmp_path, [article("One")], [(0, "", "Brig"), (0, "b" * 201, "Brig")])
    assert query("SELECT surface FROM alias ORDER BY surface") == [("Brig",), ("One",)]
    assert query("SELECT n_links FROM entity WHERE title = 'Brig'") == [(2,)]


def twins(directory, pages, links):
    """Count, and return which titles became redirects to which."""
    return dict(run(directory, pages, links)("SELECT source, target FROM twin"))


def test_without_a_page_the_most_linked_spelling_of_counted_articles_wins(tmp_path):
    """Held-out articles neither decide which spelling it is nor share a link text."""
    pages = [article("One"), article("Two", held_out=True)]
    links = [(0, "a", "Ice Age"), (1, "b", "Ice age"), (1, "c", "Ice age"), (0, "d", "Horse")]
    links += [(1, "d", "Horses")]
    assert twins(tmp_path, pages, links) == {"Ice age": "Ice Age"}


SAME, APART = ("same", "same"), ("one", "other")


@pytest.mark.parametrize(
    ("missing", "title", "texts", "is_same"),
    [
        ("Board of Directors", "Board of directors", APART, True),
        ("Neo-Geo", "Neo Geo", APART, True),
        ("EP Thompson", "E.P. Thompson", APART, True),
        ("Thirty Years War", "Thirty Years' War", APART, True),
        ("Mongols", "Mongol", SAME, True),
        ("Mongols", "Mongol", APART, False),
        ("The New York Times", "New York Times", SAME, True),
        ("The New York Times", "New York Times", APART, False),
        ("Walmart", "Wal-Mart", SAME, True),
        ("1970s", "1970", SAME, False),
        ("1 E-11 m", "1 E11 m", SAME, False),
        ("WHO", "Who", SAME, False),
        ("C++", "C", SAME, False),
    ],
)
def test_other_spellings_of_a_title_are_redirects(tmp_path, missing, title, texts, is_same):
    """Case and signs are enough; plurals, articles and spaces need a link text in common.

    Digits and short titles are not guessed at, and a title with a page is never moved.
    """
    links = [(0, texts[0], missing), (0, texts[1], title)]
    query = run(tmp_path, [article(title)], links)
    expected = {(title, 2)} if is_same else {(title, 1), (missing, 1)}
    assert set(query("SELECT title, n_links FROM entity")) == expected
    assert {surface for (surface,) in query("SELECT surface FROM alias")} >= {missing, title}
    (tmp_path / "both").mkdir()
    assert twins(tmp_path / "both", [article(title), article(missing)], links) == {}


def many(n, surface, target):
    """Return the same link from the first article n times."""
    return [(0, surface, target)] * n


def test_a_name_that_mostly_means_one_longer_title_is_a_redirect_to_it(tmp_path):
    """[[Denver]] without a page is [[Denver, Colorado]], and its links count for it."""
    links = many(4, "Denver", "Denver, Colorado") + many(3, "Denver", "Denver")
    query = run(tmp_path, [article("One")], links)
    assert query("SELECT source, target FROM twin") == [("Denver", "Denver, Colorado")]
    assert ("Denver, Colorado", 7) in query("SELECT title, n_links FROM entity")


@pytest.mark.parametrize(
    ("pages", "links"),
    [
        (["One", "Denver"], many(4, "Denver", "Denver, Colorado") + many(1, "Denver", "Denver")),
        (["One"], many(2, "Denver", "Denver, Colorado") + many(1, "Denver", "Denver")),
        (["One"], many(4, "Denver", "Denver, Colorado") + many(9, "x", "Denver")),
        (
            ["One"],
            many(6, "Portland", "Portland, Oregon")
            + many(2, "Portland", "Portland (ship)")
            + many(1, "Portland", "Portland"),
        ),
        (["One"], many(6, "Opera", "Opera (browser)") + many(1, "Opera", "Opera")),
        (["One"], many(6, "the city", "Denver, Colorado") + many(1, "Denver", "Denver")),
    ],
    ids=["has a page", "too few links", "often linked", "several", "brackets", "other text"],
)
def test_a_name_with_a_meaning_of_its_own_is_no_redirect(tmp_path, pages, links):
    """With a page, many links, several longer titles or other link texts it stays apart."""
    assert twins(tmp_path, list(map(article, pages)), links) == {}


def test_guessing_can_be_left_out(tmp_path):
    """Then every title counts for itself."""
    pages, links = [article("Ice age")], [(0, "x", "Ice Age")]
    query = run(tmp_path, pages, links, guess_redirects=False)
    assert query("SELECT COUNT(*) FROM entity") == [(2,)]
