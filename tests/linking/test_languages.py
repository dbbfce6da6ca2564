"""Names inside words, in other forms and other letters, in small wikis of many languages."""

import json
import unicodedata

import numpy as np
import pytest

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.linking.detect import MentionDetector
from stamo.linking.forms import (
    CapitalNames,
    WordForms,
    find_alias_forms,
    learn_name_starts,
    matcher_for,
)
from stamo.linking.letters import (
    changed_endings,
    changed_stems,
    changed_words,
    form_rules,
    learn_rules,
    listed_changes,
    other_letters,
    stemmer,
)
from stamo.linking.texts import join_texts
from tests.linking import further_languages, stem_changes
from tests.linking.languages import (
    WIKIS,
    build_wiki,
    found_spans,
    recall_and_precision,
    unmark,
    wiki_kb,
)
from tests.linking.small import small_kb

STEMMED = frozenset(
    ["cs", "el", "et", "eu", "fi", "hi", "hr", "hu", "lt", "pl", "ru", "sr", "sv", "ta", "tr"]
)
"""Languages of which some forms need the extra `languages`."""
LEAST_PRECISION = {"ja": 0.9, "zh": 0.8, "ru": 0.8, "de": 0.7}
"""Where it is not perfect: 東京 in 東京都庁, 中国 in 发展中国家, Росси, der Hamburger Hafen."""
MISSED = {"el": 1, "et": 1, "is": 1}
"""Forms that are not found: Πάρη of Πάρις, Mäe of Mägi, Öskju of Askja."""


def need_extra(language):
    if language in STEMMED:
        pytest.importorskip("snowballstemmer")
    if language == "zh":
        pytest.importorskip("opencc")


def found_in(kb, text, *extras):
    """Return the text of each mention, as it was given."""
    joined = join_texts([text])
    found = MentionDetector(kb, extra_aliases=extras).detect(joined)
    nowhere = joined.document_of(found.starts)
    starts, ends = (joined.local(nowhere, places) for places in (found.starts, found.ends))
    return [text[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]


# Names of the knowledge base


@pytest.mark.parametrize("language", WIKIS)
def test_names_are_found_in_new_sentences(language: str):
    need_extra(language)
    recall, precision = recall_and_precision(language)
    assert recall == 1.0
    assert precision >= LEAST_PRECISION.get(language, 1.0)


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
        # Odd words are harmless.
        *(("ko", text, {}) for text in ("", "은", "은은은은은은은", "\ud800은", "은" * 10_000)),
        ("ko", "서울" * 500, {}),
    ],
)
def test_spans_are_exact(language, text, expected):
    """Particles and prefixes stay outside; an inflected form is the span; capitals count."""
    assert found_spans(language, text) == expected


@pytest.mark.parametrize("language", further_languages.WIKIS)
def test_names_are_found_as_they_stand_and_nothing_else_is(language, tmp_path):
    """Also in decomposed text, and after characters beyond the first plane."""
    need_extra(language)
    kb = build_wiki(tmp_path, language, further_languages.WIKIS[language])
    for sentence in further_languages.SENTENCES[language]:
        apart = unicodedata.normalize("NFD", sentence)
        for written in (sentence, apart, f"\U0001f600 {sentence} 𝒜"):
            text, spans = unmark(written)
            assert found_in(kb, text) == [text[i:j] for i, j in sorted(spans)], written


def test_without_the_extra_the_wiki_and_the_lists_still_teach():
    """Москве follows a rule of the wiki's own links, Москвой a list; no stemmer is needed."""
    kb = wiki_kb("ru")
    moscow = (0, 0, kb.alias_id("Москва"))
    for language, is_listed in (("ru", True), ("hsb", False)):
        alone = WordForms(kb, learn_rules(kb, language))
        assert alone.by_word["москве"] == moscow
        assert (alone.by_word["москвой"] == moscow) == is_listed
    if stemmer("ru") is not None:
        assert WordForms(kb, form_rules(kb)).by_word["москвой"] == moscow


def test_english_is_left_alone():
    assert MentionDetector(small_kb())._forms is None
    assert other_letters("en") == ()
    assert find_alias_forms(["Rey"], small_kb()) is None
    assert AliasMatcher(["Rey"]).stems == matcher_for(["Rey"], small_kb()).stems == ()


# Names of new entities

FORMS = [
    ("ko", "아라온", "아라온은 남극으로 갔다", ["아라온"]),
    ("ko", "아라온", "쇄빙선 아라온에서도", ["아라온"]),
    ("ko", "아라온", "아라온호의 선장", []),
    ("he", "בראשית", "ולבראשית יש", ["בראשית"]),
    ("he", "בראשית", "לבראשית יש", ["בראשית"]),
    ("ar", "الأمل", "والأمل بخير", ["الأمل"]),
    ("fa", "نوین", "نوین\u200cها رفتند", ["نوین"]),
    ("fa", "نوین", "شرکت نوين", ["نوين"]),
    ("zh", "台積電", "台积电很大", ["台积电"]),
    ("ru", "Спектр", "о Спектре и за Спектром", ["Спектре", "Спектром"]),
    ("ru", "Спектр", "о спектре", []),
    ("ru", "Новый Мост", "у Нового Моста, на Новом  Мосту", ["Нового Моста", "Новом  Мосту"]),
    ("ru", "Новый Мост", "у Нового, Моста", []),
    ("fi", "Otso", "Otson jälkeen Otsolla", ["Otson", "Otsolla"]),
    ("fi", "New Horizons", "New Horizonsin kuvat", ["New Horizonsin"]),
    ("de", "Rosetta", "Rosettas Landung", ["Rosettas"]),
    ("tr", "Göktürk", "Göktürkler geldi", ["Göktürkler"]),
    ("hi", "चंद्रयान", "चंद्रयानों में", ["चंद्रयानों"]),
    # A form that is another name is not taken; a name as it is given is no form.
    ("ru", "Самар", "Самара стоит на Волге", []),
    ("ru", "Самара", "В Самаре тепло", ["Самаре"]),
    ("ru", "Спектр", "Спектр и Мост", []),
]


@pytest.mark.parametrize(("language", "alias", "text", "expected"), FORMS)
def test_forms_of_new_names_are_found(language, alias, text, expected):
    """With exact spans, by their name, when linking, and in no text that is ruled out unread."""
    need_extra(language)
    kb = wiki_kb(language)
    forms = find_alias_forms([alias], kb)
    found = forms.mentions(text)
    assert [text[m.start : m.end] for m in found] == expected
    assert {m.surface for m in found} <= {alias}
    assert {forms.name_of(form) for form in expected} <= {alias}
    assert forms.name_of("Zzz") == "Zzz"
    if alias not in text or expected:
        detector = MentionDetector(kb, extra_aliases=["Zzz", alias])
        linked = detector.detect(join_texts([text]))
        mine = np.flatnonzero(linked.extras == 1)
        assert [text[linked.starts[i] : linked.ends[i]] for i in mine] == expected
        nobody = detector.detect(join_texts([text]), np.array([[True, False]]))
        assert 1 not in nobody.extras
    if expected:
        matcher = matcher_for([alias], kb)
        assert matcher.may_be_in_text(text.encode())
        assert matcher.may_be_in_json(json.dumps(text).encode())
        assert matcher.may_be_in_json(json.dumps(text, ensure_ascii=False).encode())
        assert matcher.may_be_in_html(f"<p>{text}</p>".encode())
        assert 1 in AliasGroups([["Zzz"], [alias]], stems=[(), forms.stems]).of(text)


def test_other_texts_are_ruled_out():
    """A stem in ASCII is looked for in web pages as well."""
    need_extra("fi")
    matcher = matcher_for(["Otso"], wiki_kb("fi"))
    assert not matcher.may_be_in_html("<p>Helsingissä sataa</p>".encode())


# Stems that change


@pytest.mark.parametrize("language", stem_changes.FORMS)
def test_changed_stems_are_found_and_words_that_are_none_are_not(language, tmp_path):
    """Raw bytes rule none of the forms out."""
    need_extra(language)
    kb = stem_changes.bare_wiki(tmp_path, language)
    n_missed = 0
    for name, listed in stem_changes.FORMS[language].items():
        found = stem_changes.forms_found(kb, name, listed.split())
        n_missed += len(listed.split()) - len(found)
        matcher = matcher_for([name], kb)
        assert all(matcher.may_be_in_text(f"… {form} …".encode()) for form in found)
    assert n_missed == MISSED.get(language, 0)
    for name, words in stem_changes.NO_FORMS.get(language, {}).items():
        assert stem_changes.forms_found(kb, name, words.split()) == []


def test_piped_links_teach_how_stems_change(tmp_path):
    """In a language of which nothing is listed; endings come from names of several words too."""
    pages = {
        "Praha": "[[Praha]]. [[Praha|Praze]] [[Ostrawa|Ostrawe]].",
        "Dobroha": "[[Dobroha]]. [[Dobroha|Dobroze]] [[Breslawa|Breslawe]].",
        "Ostrawa": "[[Ostrawa]] [[Breslawa]] [[Nowa Huta|Nowe Hute]].",
        "Riha": "[[Riha]] [[Dobroha]] [[Praha]].",
    }
    kb = build_wiki(tmp_path, "hsb", pages)
    assert listed_changes("hsb", "endings") == {}
    assert changed_endings(changed_words(kb))["e"] == ("a",)
    assert changed_stems([(1, ("ze", "ha")), (2, ("ze", "ha"))], {"e": ("a",)}) == {"z": ("h",)}
    assert changed_stems([(1, ("ze", "ha"))], {"e": ("a",)}) == {}
    assert found_in(kb, "W Rize a w Mize.", "Miha") == ["Rize", "Mize"]
    assert [m.start for m in find_alias_forms(["Miha"], kb).mentions("W Mize.")] == [2]


def test_lists_teach_where_no_link_does(tmp_path):
    pages = {"Praha": "[[Praha]] a [[Marek]].", "Marek": "[[Marek]] a [[Praha]]."}
    kb = build_wiki(tmp_path, "cs", pages)
    assert found_in(kb, "Byl v Praze bez Marka.") == ["Praze", "Marka"]
    stems = listed_changes("fi", "stems")  # a letter class is the same letter in name and form
    assert "rku" in stems["ru"]
    assert "rka" not in stems["ru"]


# Headlines


@pytest.mark.parametrize(
    ("alias", "text", "is_name"),
    [
        ("Kepler", "KEPLER TELESCOPE FINDS PLANET", True),
        ("Kepler", "NASA: NEW KEPLER PLANET", True),
        ("Kepler", "News today\nTHE KEPLER'S BIG DAY\nmore", True),
        # A word in capitals inside of other text is an abbreviation.
        ("Kepler", "the KEPLER experiment at NASA", False),
        ("Kepler", "KEPLER", False),
        ("Kepler", "FEA, MENA, KEPLER, SEA, NASA", False),
        ("Kepler", "Operation NEW KEPLER in Iraq", False),
        ("Kepler", "SEVERAL WORDS ABOVE\nKEPLER, as it is called", False),
        # A name of several words is told anywhere.
        ("New Kepler", "Operation NEW KEPLER in Iraq", True),
        # A name that is linked in small letters is a word; "WHO" is another name.
        ("Dawn", "DAWN AND WHO AND KEPLER FOUND", False),
        ("Who", "DAWN AND WHO AND KEPLER FOUND", False),
    ],
)
def test_a_name_in_a_headline_is_the_name(alias, text, is_name, headline_kb):
    surface = alias.upper()
    start = text.index(surface)
    name = CapitalNames([alias], headline_kb).name_of(surface, text, start, start + len(surface))
    assert name == (alias if is_name else surface)


@pytest.fixture(scope="module")
def headline_kb(tmp_path_factory):
    pages = {"Dawn": "The [[Dawn|dawn]] comes. [[WHO]] and [[Kepler]].", "WHO": "[[Kepler]]"}
    return build_wiki(tmp_path_factory.mktemp("headlines"), "en", pages)


def test_greek_names_of_several_words_lose_their_accents(tmp_path):
    """Known and new ones; the span is as it stands."""
    pages = {
        "Νέα Υόρκη": "Η [[Νέα Υόρκη]] και η [[Αθήνα]].",
        "Αθήνα": "Η [[Αθήνα]] και η [[Νέα Υόρκη]].",
    }
    kb = build_wiki(tmp_path, "el", pages)
    found = found_in(kb, "Η ΝΕΑ ΥΟΡΚΗ ΚΑΙ ΤΟ ΑΣΠΡΟ ΠΛΟΙΟ", "Άσπρο Πλοίο")
    assert found == ["ΝΕΑ ΥΟΡΚΗ", "ΑΣΠΡΟ ΠΛΟΙΟ"]
    assert find_alias_forms(["Άσπρο Πλοίο"], kb).name_of("ΑΣΠΡΟ ΠΛΟΙΟ") == "Άσπρο Πλοίο"


# Runs of Han characters


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("ja", "東日本は広い。", []),
        ("ja", "ＪＲ東日本の駅だ。", ["JR"]),
        ("ja", "日本東京に住む。", ["日本", "東京"]),
        ("ja", "2002年日本で、１２月京都で。", ["日本", "京都"]),
        ("ja", "日本人は京都生まれだ。", ["日本", "京都"]),
        ("ja", "大日本東京", []),
        ("zh", "他从北京来到上海。", ["北京", "上海"]),
    ],
)
def test_a_name_begins_where_the_links_of_a_wiki_begin(language, text, names):
    """After Kana, a number or a name, in Japanese; after any character in Chinese."""
    assert [*found_spans(language, text).values()] == names


def test_characters_before_names_are_learned_one_by_one(tmp_path):
    """Links after 在 teach that names follow it; 東日本, which nobody links, that none does."""
    line = "在[[日本]]の人。東日本は広い。[[東京]]は遠い。東日本の山。"
    pages = {f"記事{i}": line for i in range(30)}
    pages |= {"日本": "[[東京]]がある。", "東京": "[[日本]]。"}
    kb = build_wiki(tmp_path, "ja", pages)
    starts = learn_name_starts(kb)
    assert starts.share_by_code[ord("在")] > 0.8
    assert starts.share_by_code[ord("東")] < 0.1
    found = MentionDetector(kb).detect(join_texts(["在日本の東日本。全日本。"]))
    assert found.starts[0] == 1
    assert 6 not in found.starts
    assert learn_name_starts(wiki_kb("ko")) is learn_name_starts(wiki_kb("th")) is None


def test_han_names_that_are_asked_for_and_chains_of_names():
    """An extra name is found everywhere; each name vouches for the next, however long the text."""
    assert found_in(wiki_kb("ja"), "東日本", "日本") == ["日本"]
    n = 20_000
    found = MentionDetector(wiki_kb("ja")).detect(join_texts(["日本東京" * n]))
    assert len(found) == 2 * n
