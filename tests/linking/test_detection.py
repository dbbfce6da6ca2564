"""Names are found as whole words, in the right case, the longest first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stamo.errors import SettingsError
from stamo.linking.detect import DetectionSettings, MentionDetector, is_searchable, resolve_overlaps
from stamo.linking.texts import join_texts
from tests.linking.small import small_kb

ALL = DetectionSettings(least_link_probability=0.0, least_link_probability_small=0.0)


@pytest.fixture(scope="module")
def detector():
    return MentionDetector(small_kb(), ALL, extra_aliases=["Rey Skywalker", "rey"])


def found(detector, *texts):
    joined = join_texts(texts)
    mentions = detector.detect(joined)
    documents = joined.document_of(mentions.starts)
    starts = joined.local(documents, mentions.starts)
    ends = joined.local(documents, mentions.ends)
    rows = zip(documents.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [texts[d][a:b] for d, a, b in rows]


def names(detector, text):
    """The aliases behind the mentions of a text."""
    mentions = detector.detect(join_texts([text]))
    return [small_kb().alias(a) if a >= 0 else None for a in mentions.aliases.tolist()]


def test_longest_name_wins(detector):
    """The name "New York City" is one mention, not "New York", "York" or "York City"."""
    assert found(detector, "She left New York City for York.") == ["New York City", "York"]


def test_crossing_names_are_resolved_by_length(detector):
    """Of "York City" and "City Hall" the longer one wins, and what is left stays free."""
    assert found(detector, "York City Hall") == ["York City"]


def test_only_whole_words_match(detector):
    """A name inside a longer word is no mention."""
    assert found(detector, "Javanese Yorkshire Sumatran") == []


def test_signs_belong_to_names(detector):
    """The name "C++" is found with its signs and at the end of a sentence."""
    assert found(detector, "They wrote C++, not Java.") == ["C++", "Java"]


def test_scripts_without_spaces(detector):
    """A name is found inside a run of Han characters."""
    assert found(detector, "私は東京に住んでいます。") == ["東京"]


def test_right_to_left_text(detector):
    """Hebrew names are found at their logical offsets."""
    assert found(detector, "ביקרתי אתמול ירושלים היפה") == ["ירושלים"]


@pytest.mark.parametrize("before", ["It rained. ", "¿", "Really? ¡", "«‹", "Անձրև է։ "])
def test_sentence_start_loses_its_capital(detector, before):
    """A name like "Monetary policy" at the start of a sentence is found in its small form."""
    assert found(detector, f"{before}Monetary policy failed.") == ["Monetary policy"]


def test_exact_case_comes_first(detector):
    """The alias as written wins over a case variant of the same span."""
    assert names(detector, "Java is hot.") == ["Java"]


def test_capitals_hide_title_case(detector):
    """A headline in capitals is read in title case, also with short words small."""
    text = "UNITED STATES OF AMERICA AND NEW YORK"
    assert names(detector, text) == ["United States of America", "New York"]


def test_lower_case_is_not_guessed(detector):
    """Beside names with capitals one in small letters is not found: "york" is no mention."""
    assert found(detector, "the city of new york and york, not Java") == ["Java"]


def test_white_space_and_typography_are_folded(detector):
    """Line ends, several spaces and a typographic apostrophe do not hide a name."""
    assert found(detector, "New\n  York and O’Neill") == ["New\n  York", "O’Neill"]


def test_paragraphs_separate(detector):
    """A name does not reach over the end of a paragraph."""
    assert found(detector, "New\n\nYork City") == ["York City"]


def test_decomposed_text_keeps_its_offsets(detector):
    """Names are found in NFD text, and the spans are those of the text as given."""
    text = "Cafés in Sa\u0303o Paulo"
    assert found(detector, text) == ["Sa\u0303o Paulo"]


def test_batches_do_not_mix(detector):
    """A name does not reach from one text into the next, and empty texts are harmless."""
    assert found(detector, "New", "York", "", "...") == ["York"]


def test_extra_aliases_are_always_found(detector):
    """An extra alias is found whatever the knowledge base knows; it has no alias number."""
    mentions = detector.detect(join_texts(["Rey Skywalker met rey on Java"]))
    assert mentions.extras.tolist() == [0, 1, -1]
    assert (mentions.aliases < 0).tolist() == [True, True, False]


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


def test_link_probability_keeps_names_out():
    """A name below the threshold is not looked for, unless it is an extra alias."""
    strict = DetectionSettings(least_link_probability=1.0, least_link_probability_small=1.0)
    rare = MentionDetector(small_kb(), strict)
    assert small_kb().link_probability[small_kb().alias_id("Java")] < 1
    assert found(rare, "on Java") == []
    assert found(MentionDetector(small_kb(), strict, ["Java"]), "on Java") == ["Java"]


def test_thresholds_are_shares():
    """A link probability above one is refused."""
    with pytest.raises(SettingsError, match="from 0 to 1"):
        DetectionSettings(least_link_probability=1.5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("!!!", False), ("1984", False), ("A", False), ("C++", True), ("京", True), ("Bo", True)],
)
def test_names_worth_searching(name, expected):
    """Signs, numbers and single letters are not looked for; single Han characters are."""
    assert is_searchable(name) is expected


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
