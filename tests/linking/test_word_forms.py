"""Names inside words and in other letters, in small wikis of twelve languages."""

import pytest

from stamo.linking.detect import MentionDetector
from stamo.linking.forms import WordForms
from stamo.linking.letters import (
    FormRules,
    changed_endings,
    changed_words,
    form_rules,
    learn_affixes,
    linked_affixes,
    other_letters,
    stemmer,
    strong_root,
)
from tests.linking.languages import (
    SENTENCES,
    WIKIS,
    found_spans,
    recall_and_precision,
    wiki_kb,
)
from tests.linking.more_sentences import MORE_SENTENCES
from tests.linking.small import small_kb

EXTRAS = {"zh": "opencc", "ru": "snowballstemmer", "fi": "snowballstemmer"}
"""Languages whose numbers need a package of the extra `languages`."""
LEAST_PRECISION = {"ja": 0.9, "zh": 0.8, "ru": 0.8, "de": 0.8}
"""Where it is not perfect: 東京 in 東京都庁, 中国 in 发展中国家, Росси, der Berliner."""


@pytest.mark.parametrize("sentences", [SENTENCES, MORE_SENTENCES], ids=["first", "more"])
@pytest.mark.parametrize("language", WIKIS)
def test_names_are_found_in_new_sentences(language: str, sentences):
    if language in EXTRAS:
        pytest.importorskip(EXTRAS[language])
    recall, precision = recall_and_precision(language, word_forms=True, sentences=sentences)
    assert recall == 1.0
    assert precision >= LEAST_PRECISION.get(language, 1.0)


@pytest.mark.parametrize(
    ("form", "name"),
    [("suome", "suomi"), ("lahd", "lahti"), ("helsing", "helsinki"), ("ruots", "ruotsi")],
)
def test_finnish_stems_that_change_meet_their_dictionary_form(form: str, name: str):
    assert strong_root(form) == strong_root(name)
    assert strong_root("turku") != strong_root("tampere")


@pytest.mark.parametrize("language", ["ko", "he", "ar", "fa", "ru", "de"])
def test_whole_words_alone_find_less(language: str):
    with_forms = recall_and_precision(language, word_forms=True)
    assert recall_and_precision(language, word_forms=False)[0] < with_forms[0]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("ko", "서울은 크다", {(0, 2): "서울"}),
        ("ko", "서울대학교", {}),
        ("he", "בפריז", {(1, 5): "פריז"}),
        ("ar", "وفرنسا", {(1, 6): "فرنسا"}),
        ("fa", "ايران", {(0, 5): "ایران"}),
        ("ru", "в Берлине", {(2, 9): "Берлин"}),
        ("ru", "берлине", {}),
        ("ja", "ＪＲ", {(0, 2): "JR"}),
    ],
)
def test_spans_are_exact(language: str, text: str, expected: dict[tuple[int, int], str]):
    """Particles and prefixes stay outside; an inflected form is the span; capitals count."""
    assert found_spans(language, text) == expected


def test_a_wiki_teaches_what_stands_in_one_word_with_its_links():
    assert {"은", "에서"} <= linked_affixes(wiki_kb("ko"))[1]
    assert {"ב", "מ"} <= linked_affixes(wiki_kb("he"))[0]


def test_a_wiki_teaches_the_endings_of_its_piped_links():
    assert changed_endings(changed_words(wiki_kb("ru"))) == {"е": ("а",), "а": ("",)}
    assert changed_endings(changed_words(wiki_kb("fi")))["ssa"] == ("",)


def test_without_the_extra_the_wiki_and_the_lists_still_teach():
    """Москве follows a rule of the wiki's own links, Москвой a list; no stemmer is needed."""
    kb = wiki_kb("ru")
    for language, found in (("ru", True), ("hsb", False)):
        alone = WordForms(kb, FormRules(learn_affixes(kb, language), None))
        assert alone.reading("москве") == (0, 0, kb.alias_id("Москва"))
        assert (alone.reading("москвой") == (0, 0, kb.alias_id("Москва"))) == found
    if stemmer("ru") is not None:
        with_stems = WordForms(kb, form_rules(kb))
        assert with_stems.reading("москвой") == (0, 0, kb.alias_id("Москва"))


def test_english_is_left_alone():
    assert MentionDetector(small_kb())._forms is None
    assert other_letters("en") == ()


@pytest.mark.parametrize(
    "text", ["", "은", "은은은은은은은", "\ud800은", "은" * 10_000, "서울" * 500]
)
def test_odd_words_are_harmless(text: str):
    assert found_spans("ko", text) == {}
