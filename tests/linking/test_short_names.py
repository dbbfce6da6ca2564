"""Names that are not written as the knowledge base writes them."""

from functools import cache

import pytest

from stamo.corpus.types import Document, Mention
from stamo.features.mentions import surface_candidates
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.linking.names import name_forms, shortened, spelled_alike
from tests.linking.small import build_wiki, folder, untrained

PAGES = {
    "Katy Perry": "'''Katy Perry''' sings. [[Luke Perry]] acts. [[Kalamazoo Observatory]].",
    "Luke Perry": "'''Luke Perry''' acts. [[Luke Perry|Perry]] met [[Katy Perry]] in [[Asheville, "
    "North Carolina]]. [[Luke Perry|Perry]] also met the [[National Comet Institute]].",
    "Comet": "A [[comet]] is ice; [[Lectionary|lectionary]] readings name it. [[Nevada]] has none. "
    "[[Cardiff]] and [[Cardiff University]]. [[Katy Perry]] saw [[Luke Perry]].",
    "Lectionary": "A [[lectionary]] is a book. [[Nevada]] prints it, and so does [[Cardiff]].",
    "Cardiff University": "[[Cardiff University]] is in [[Cardiff]]. The [[National Comet "
    "Institute]] is not, nor is [[Asheville, North Carolina]].",
}


@cache
def names_kb() -> KnowledgeBase:
    return build_wiki(folder("names"), "en", PAGES, dimensions=8)


def given(text: str, *surfaces: str) -> Document:
    mentions, place = [], 0
    for surface in surfaces:
        place = text.index(surface, place)
        mentions.append(Mention(surface, place, place + len(surface)))
        place += len(surface)
    return Document("d", text, tuple(mentions))


def candidates(document: Document, extra: tuple[str, ...] = ()) -> list[dict[str, float]]:
    kb = names_kb()
    settings = LinkerSettings(mentions="given" if document.mentions else "detect")
    linker = Linker(kb, untrained(kb), settings=settings, extra_aliases=extra)
    corpus = linker.locate([document]).corpus
    ids, priors = surface_candidates(corpus, kb, corpus.surfaces, None)
    return [
        dict(zip(kb.titles(row[row >= 0]), p[row >= 0].tolist(), strict=True))
        for row, p in zip(ids, priors, strict=True)
    ]


@pytest.mark.parametrize(
    ("document", "meant"),
    [
        # Alone, "Perry" means Luke; beside "Katy Perry" it may mean her, and more likely does.
        (given("Perry left.", "Perry"), [["Luke Perry"]]),
        (
            given("Katy Perry came. Perry left.", "Katy Perry", "Perry"),
            [["Katy Perry"], ["Katy Perry", "Luke Perry"]],
        ),
        (
            Document("d", "Katy Perry came. Then Perry left."),
            [["Katy Perry"], ["Katy Perry", "Luke Perry"]],
        ),
        # Initials; and a name with another capital, which is not cut: who Bob Perry is, "Perry"
        # does not tell.
        (
            given("The National Comet Institute (NCI).", "National Comet Institute", "NCI"),
            [["National Comet Institute"], ["National Comet Institute"]],
        ),
        (given("Bob Perry", "Bob Perry"), [[]]),
    ],
)
def test_a_short_name_gains_the_candidates_of_the_full_name_in_its_document(document, meant):
    """In order of their priors, which still add up to one."""
    found = candidates(document)
    assert [list(row) for row in found] == meant
    assert all(sum(row.values()) == pytest.approx(1.0) for row in found if row)


def test_a_full_name_in_another_document_changes_nothing():
    kb = names_kb()
    linker = Linker(kb, untrained(kb), settings=LinkerSettings(mentions="given"))
    documents = [given("Katy Perry came.", "Katy Perry"), given("Perry left.", "Perry")]
    corpus = linker.locate(documents).corpus
    ids, _ = surface_candidates(corpus, kb, corpus.surfaces, None)
    assert kb.titles(ids[1][ids[1] >= 0]) == ["Luke Perry"]


def test_a_title_is_short_for_nothing():
    """Cardiff stays the town in a text about its university, when detected and when given."""
    text = "Cardiff University is in Cardiff."
    for document in (Document("d", text), given(text, "Cardiff University", "Cardiff")):
        assert max(candidates(document)[1].items(), key=lambda item: item[1])[0] == "Cardiff"
    assert list(candidates(Document("d", text))[1]) == ["Cardiff"]


@pytest.mark.parametrize(
    ("surface", "title"),
    [
        ("lectionaries", "Lectionary"),
        ("COMETS", "Comet"),
        ("Asheville", "Asheville, North Carolina"),
        ("State of Nevada", "Nevada"),
        ("southern Nevada", "Nevada"),
        ("National-Comet Institute's", "National Comet Institute"),
    ],
)
def test_given_names_are_found_in_other_forms(surface: str, title: str):
    (found,) = candidates(given(f"Here: {surface}!", surface))
    assert title in found


def test_names_of_packs_keep_their_own_candidates():
    """What a pack has learned against is what it is linked against."""
    document = given("Katy Perry came. Perry left.", "Katy Perry", "Perry")
    assert list(candidates(document, extra=("Perry",))[1]) == ["Luke Perry"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Jean Luc Godard", "Jean-Luc Godard"),
        ("MPEG4", "MPEG-4"),
        ("Pink Panther", "The Pink Panther"),
        ("US Virgin Islands", "U.S. Virgin Islands"),
        ("AO Scott", "A. O. Scott"),
        ("Tulsa Oklahoma", "Tulsa, Oklahoma"),
        ("Fortune magazine", "Fortune (magazine)"),
        ("Bachelor of Arts (Honours)", "Bachelor of Arts"),
        ("Geneva University", "University of Geneva"),
        ("St. Patricks Day", "St. Patrick's Day"),
        ("Radio Shack", "RadioShack"),
        ("Java's", "Java"),
        ('"Sumatra"', "Sumatra"),
        ("the Indonesia", "Indonesia"),
        ("NEW YORK", "New York"),
        ("o’neill", "O'Neill"),
    ],
)
def test_given_names_are_looked_for_in_other_spellings(written: str, name: str):
    assert name in set(spelled_alike(written))


def test_spellings_of_hostile_names_end():
    for name in ("", " ", "'s", "-" * 50, "S" * 2000, "the the the"):
        assert len(list(spelled_alike(name))) < 200
    assert not any(name_forms(names_kb(), name) for name in ("", "'s", "\ud800", "x" * 5000))


def test_a_short_name_is_not_hidden_by_the_same_letters_in_another_case():
    """What a document is linked to does not depend on the names of others in its batch."""
    short, full = shortened(["PERRY", "Perry", "perry", "Katy Perry"])
    assert list(zip(short.tolist(), full.tolist(), strict=True)) == [(0, 3), (1, 3)]
    document = given("Katy Perry came. PERRY left.", "Katy Perry", "PERRY")
    other = given("The perry was cold, and Perry drank.", "perry", "Perry")
    linker = Linker(names_kb(), settings=LinkerSettings(mentions="given"))
    (alone,) = linker.link_documents([document])
    for batch in ([document, other], [other, document]):
        linked = dict(zip(map(id, batch), linker.link_documents(batch), strict=True))
        assert linked[id(document)].mentions == alone.mentions
