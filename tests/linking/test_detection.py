"""Names are found as whole words, in the right case, the longest first."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stamo.linking import detect
from stamo.linking.detect import MentionDetector, resolve_overlaps
from stamo.linking.linker import Linker
from stamo.linking.texts import compose, join_texts
from tests.linking.genres import GENRES, faults, genre_kb
from tests.linking.small import small_kb


@pytest.fixture(scope="module", autouse=True)
def _small_letters_are_names_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detect, "LEAST_FOR_SMALL", 0.0)
        yield


@pytest.fixture(scope="module")
def detector():
    return MentionDetector(small_kb(), 0.0, extra_aliases=["Rey Skywalker", "rey"])


def found(detector, *texts):
    """Return the text of each mention, at its place in the text as it was given."""
    joined = join_texts(texts)
    mentions = detector.detect(joined)
    documents = joined.document_of(mentions.starts)
    starts, ends = (joined.local(documents, p) for p in (mentions.starts, mentions.ends))
    rows = zip(documents.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [texts[d][a:b] for d, a, b in rows]


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        # The longest name wins; of two that cross, the longer one.
        ("She left New York City for York.", ["New York City", "York"]),
        ("York City Hall", ["York City"]),
        # Whole words only, with the signs that belong to a name.
        ("Javanese Yorkshire Sumatran", []),
        ("They wrote C++, not Java.", ["C++", "Java"]),
        ("Java's and China's", ["Java"]),
        # Scripts without spaces, and from right to left.
        ("私は東京に住んでいます。", ["東京"]),
        ("ביקרתי אתמול ירושלים היפה", ["ירושלים"]),
        # A sentence's start loses its capital.
        *(
            (f"{before}Monetary policy failed.", ["Monetary policy"])
            for before in ("It rained. ", "¿", "Really? ¡", "«‹", "Անձրև է։ ")
        ),
        # Beside names with capitals one in small letters is not found.
        ("the city of new york and york, not Java", ["Java"]),
        ("We drank java in Indonesia.", ["Indonesia"]),
        # White space, typography and composed characters do not hide a name; a paragraph does.
        ("New\n  York and O’Neill", ["New\n  York", "O’Neill"]),
        ("New\n\nYork City", ["York City"]),
        ("Cafés in Sa\u0303o Paulo", ["Sa\u0303o Paulo"]),
        # Texts without capitals are read with them.
        ("going 2 indonesia, i love sumatra", ["indonesia", "sumatra"]),
        ("so back in são paulo lol", ["são paulo"]),
        ("the united states of america and java!!", ["united states of america", "java"]),
        ("I am in sun microsystems now", ["sun microsystems"]),
        ("about monetary policy", ["monetary policy"]),
        # Tags are cut where a capital begins; the sign is not in the span.
        ("Watching #NewYorkCity with @SunMicrosystems!", ["NewYorkCity", "SunMicrosystems"]),
        ("Rain in #java, says @sumatra.", ["java", "sumatra"]),
        ("Such a nice view #LoveNewYork", ["NewYork"]),
        ("#UnitedStatesOfAmerica Day", ["UnitedStatesOfAmerica"]),
        ("No tag: NewYorkCity, a@b, # Java", ["Java"]),
        ("#XNewYorkY #YorkA #A", ["NewYork", "York"]),
    ],
)
def test_names_are_found_where_they_stand(detector, text, mentions):
    assert found(detector, text) == mentions


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Java is hot.", ["Java"]),
        ("UNITED STATES OF AMERICA AND NEW YORK", ["United States of America", "New York"]),
    ],
)
def test_the_name_as_written_comes_first(detector, text, names):
    """A headline in capitals is read in title case, also with short words small."""
    aliases = detector.detect(join_texts([text])).aliases
    assert small_kb().aliases(aliases) == names


def test_batches_do_not_mix(detector):
    """A name does not reach from one text into the next; empty texts do no harm."""
    assert found(detector, "New", "York", "", "...") == ["York"]
    texts = "We drank java in Indonesia.", "she lives on java"
    assert found(detector, *texts) == ["Indonesia", "java"]


def test_extra_aliases_may_count_in_some_texts_only():
    """Each text is searched for its own extra names, as if the others did not exist."""
    text = "Rey met Java on New York Java"
    names = ["Rey", "Java", "York Java"]
    chosen = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0]], np.bool_)
    together = MentionDetector(small_kb(), extra_aliases=names).detect(
        joined := join_texts([text] * len(chosen)), chosen
    )
    owner = joined.document_of(together.starts)
    for number, own in enumerate(chosen.tolist()):
        mine = [name for name, counts in zip(names, own, strict=True) if counts]
        alone = MentionDetector(small_kb(), extra_aliases=mine).detect(join_texts([text]))
        rows = owner == number
        assert (together.starts[rows] - joined.offsets[number]).tolist() == alone.starts.tolist()
        assert (together.ends[rows] - joined.offsets[number]).tolist() == alone.ends.tolist()
        assert together.aliases[rows].tolist() == alone.aliases.tolist()
        assert [names[e] for e in together.extras[rows] if e >= 0] == [
            mine[e] for e in alone.extras if e >= 0
        ]


def test_link_probability_keeps_names_out(monkeypatch):
    """A name below it is not looked for, unless it is an extra alias; common nouns need more."""
    assert small_kb().link_probability[small_kb().alias_id("Java")] < 1
    assert found(MentionDetector(small_kb(), 1.0), "on Java") == []
    assert found(MentionDetector(small_kb(), 1.0, ["Java"]), "on Java") == ["Java"]
    monkeypatch.setattr(detect, "LEAST_FOR_SMALL", 1.0)
    assert found(MentionDetector(small_kb()), "about monetary policy and java") == ["java"]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 8), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_resolved_spans_are_greedy(spans):
    """The result equals taking spans by length, then priority, then place, one by one."""
    starts = np.array([s for s, _, _ in spans])
    ends = starts + np.array([n for _, n, _ in spans])
    priority = np.array([p for _, _, p in spans], dtype=float)
    chosen = resolve_overlaps(starts, ends, priority)
    order = sorted(range(len(spans)), key=lambda i: (starts[i] - ends[i], -priority[i], starts[i]))
    taken: list[int] = []
    for i in order:
        if all(ends[i] <= starts[j] or ends[j] <= starts[i] for j in taken):
            taken.append(i)
    pairs = [(int(starts[i]), int(ends[i]), priority[i]) for i in chosen]
    assert pairs == sorted((int(starts[i]), int(ends[i]), priority[i]) for i in taken)


# Texts end to end


@pytest.mark.parametrize("text", ["কোচ", "கொச்சி", "ಕೋಟೆ", "ශෝ", "ဦး", "Hà Nội", "서울", "й", "ড়"])
def test_whatever_unicode_composes_is_composed(text):
    """Also vowel signs that are two characters, of which neither is a combining one."""
    whole, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    composed, places = compose(apart)
    assert composed == whole
    assert len(places) == len(whole) + 1
    assert join_texts([apart]).text[:-1] == whole
    assert not join_texts([whole]).moved  # only where that changes the text


# Short forms of names that stand before them


def short(text):
    """Return each mention of the small wiki of genres with the alias behind it."""
    mentions = MentionDetector(genre_kb()).detect(joined := join_texts([text]))
    spans = zip(mentions.starts.tolist(), mentions.ends.tolist(), strict=True)
    surfaces = [joined.text[a:b] for a, b in spans]
    return list(zip(surfaces, genre_kb().aliases(mentions.aliases), strict=True))


@pytest.mark.parametrize("genre", GENRES)
def test_names_of_every_genre_are_found_and_common_words_are_not(genre: str):
    """Short forms, possessives, capitals, tags and small letters; the entity is the right one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detect, "LEAST_FOR_SMALL", 0.5)
        assert faults(Linker(genre_kb()), GENRES[genre]) == []


@pytest.mark.parametrize(
    ("text", "more"),
    [
        # Before the full name, and without it, nobody is meant.
        ("Today Federer won. Roger Federer is old.", []),
        ("Roger Federer won. So Federer is glad.", [("Federer", "Roger Federer")]),
        # Beside another word with a capital, or in other case, it is part of another name.
        ("Roger Federer won. Maria Federer won.", []),
        ("Roger Federer won. The Federer Cup is new.", []),
        ("Roger Federer won. Anti-Federer songs.", []),
        ("Roger Federer won. Some federer or other.", []),
        ("Roger Federer won. FEDERER!", []),
        # Titles and common words before it do no harm.
        ("Roger Federer won. Mr. Federer won.", [("Federer", "Roger Federer")]),
        ("Roger Federer won. Who Federer met is open.", [("Federer", "Roger Federer")]),
        ("Roger Federer won. (Federer)", [("Federer", "Roger Federer")]),
        ("Roger Federer won. Federer's", [("Federer", "Roger Federer")]),
        # The nearest full name counts; initials need a link that shows them.
        ("George W. Bush came. So Bush left.", [("Bush", "George W. Bush")]),
        ("General Motors fell. Then GM rose.", [("GM", "GM")]),
        ("British Airways fell. Then BA rose.", []),
    ],
)
def test_short_forms_are_names_after_the_full_one(text, more):
    assert short(text)[1:] == more


def test_a_short_form_belongs_to_its_own_document():
    texts = ["Roger Federer won.", "So Federer is glad."]
    mentions = MentionDetector(genre_kb()).detect(joined := join_texts(texts))
    assert joined.document_of(mentions.starts).tolist() == [0]
