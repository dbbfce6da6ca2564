"""Names of new entities inside words and in other forms, in small wikis of many languages."""

import json

import numpy as np
import pytest

from stamo.corpus.aliases import AliasGroups, AliasMatcher
from stamo.linking.detect import MentionDetector
from stamo.linking.forms import find_alias_forms, matcher_for
from stamo.linking.texts import join_texts
from tests.linking.languages import wiki_kb
from tests.linking.small import small_kb

STEMMED = {"ru", "fi", "tr", "hi"}
"""Languages whose forms need the extra `languages`."""

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
]


def need_extra(language):
    if language in STEMMED:
        pytest.importorskip("snowballstemmer")
    if language == "zh":
        pytest.importorskip("opencc")


@pytest.mark.parametrize(("language", "alias", "text", "expected"), FORMS)
def test_forms_are_found_with_exact_spans(language, alias, text, expected):
    """Particles and prefixes stay outside, an inflected form is the span, capitals count."""
    need_extra(language)
    found = find_alias_forms([alias], wiki_kb(language)).mentions(text)
    assert [text[m.start : m.end] for m in found] == expected
    assert {m.surface for m in found} <= {alias}


@pytest.mark.parametrize(("language", "alias", "text", "expected"), FORMS)
def test_a_form_is_known_by_its_name(language, alias, text, expected):
    """A pack knows its names as they were declared; other text stays what it is."""
    need_extra(language)
    forms = find_alias_forms([alias], wiki_kb(language))
    assert {forms.name_of(form) for form in expected} <= {alias}
    assert forms.name_of("Zzz") == "Zzz"


@pytest.mark.parametrize(("language", "alias", "text", "expected"), FORMS)
def test_linking_finds_them_too(language, alias, text, expected):
    """What is learned from forms is linked in forms; a name as it is comes in the usual way."""
    need_extra(language)
    detector = MentionDetector(wiki_kb(language), extra_aliases=["Zzz", alias])
    found = detector.detect(join_texts([text]))
    mine = [
        text[s:e] for s, e, x in zip(found.starts, found.ends, found.extras, strict=True) if x == 1
    ]
    assert mine == expected
    nobody = detector.detect(join_texts([text]), np.array([[True, False]]))
    assert 1 not in nobody.extras


@pytest.mark.parametrize(("language", "alias", "text", "expected"), FORMS)
def test_no_text_with_a_form_is_ruled_out(language, alias, text, expected):
    """Neither by the look at raw bytes nor by the one that tells whose document it is."""
    need_extra(language)
    kb = wiki_kb(language)
    matcher = matcher_for([alias], kb)
    owners = AliasGroups([["Zzz"], [alias]], stems=[(), find_alias_forms([alias], kb).stems])
    if expected:
        assert matcher.may_be_in_text(text.encode())
        assert matcher.may_be_in_json(json.dumps(text).encode())
        assert matcher.may_be_in_json(json.dumps(text, ensure_ascii=False).encode())
        assert matcher.may_be_in_html(f"<p>{text}</p>".encode())
        assert 1 in owners.of(text)


def test_other_texts_are_ruled_out():
    """A stem in ASCII is looked for in web pages as well."""
    pytest.importorskip("snowballstemmer")
    matcher = matcher_for(["Otso"], wiki_kb("fi"))
    assert not matcher.may_be_in_html("<p>Helsingissä sataa</p>".encode())
    assert not matcher.may_be_in_json(json.dumps("Helsingissä sataa").encode())


def test_a_form_that_is_another_name_is_not_taken():
    """Самара is a city and no form of Самар; Самаре is one of Самара, known or new."""
    kb = wiki_kb("ru")
    assert find_alias_forms(["Самар"], kb).mentions("Самара стоит на Волге") == []
    assert [m.start for m in find_alias_forms(["Самара"], kb).mentions("В Самаре тепло")] == [2]


def test_names_as_they_are_given_are_no_forms():
    """The exact matcher finds those; English has no others and pays nothing."""
    text = "Спектр и Новый Мост"
    assert find_alias_forms(["Спектр", "Новый Мост"], wiki_kb("ru")).mentions(text) == []
    assert find_alias_forms(["Rey"], small_kb()) is None
    assert AliasMatcher(["Rey"]).stems == matcher_for(["Rey"], small_kb()).stems == ()
