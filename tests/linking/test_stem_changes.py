"""Names whose stems change when they are inflected: by the wiki's own links, and by lists."""

import pytest

from stamo.linking.detect import MentionDetector
from stamo.linking.forms import find_alias_forms, matcher_for
from stamo.linking.letters import (
    accented,
    changed_endings,
    changed_stems,
    changed_words,
    listed_changes,
    with_dots,
)
from stamo.linking.texts import join_texts
from tests.linking.languages import build_wiki
from tests.linking.stem_changes import (
    FORMS,
    MORE_FORMS,
    NO_FORMS,
    bare_wiki,
    count_found,
    forms_found,
)

STEMMED = {"el", "et", "hr", "lt", "ru"}
"""Languages of which some forms need the extra `languages`."""
MISSED = {"el": 1, "et": 1, "is": 1}
"""Forms that are not found: Πάρη of Πάρις, Mäe of Mägi, Öskju of Askja."""


@pytest.fixture(scope="module", params=FORMS)
def bare(request, tmp_path_factory):
    if request.param in STEMMED:
        pytest.importorskip("snowballstemmer")
    return request.param, bare_wiki(tmp_path_factory.mktemp(request.param), request.param)


def test_forms_are_found_and_words_that_are_none_are_not(bare):
    """Also those that were written down before the rules were."""
    language, kb = bare
    n_found = n_all = 0
    for table in (FORMS, MORE_FORMS):
        found, all_ = count_found(kb, table[language])
        n_found, n_all = n_found + found, n_all + all_
    assert n_all - n_found == MISSED.get(language, 0)
    assert count_found(kb, NO_FORMS.get(language, {}))[0] == 0


def test_no_text_with_such_a_form_is_ruled_out(bare):
    """The look at raw bytes knows in which ways a stem may change."""
    language, kb = bare
    for name, forms in FORMS[language].items():
        matcher = matcher_for([name], kb)
        for form in forms_found(kb, name, forms.split()):
            assert matcher.may_be_in_text(f"… {form} …".encode()), form


PAGES = {
    "Praha": "[[Praha]]. [[Praha|Praze]] [[Ostrawa|Ostrawe]].",
    "Dobroha": "[[Dobroha]]. [[Dobroha|Dobroze]] [[Breslawa|Breslawe]].",
    "Ostrawa": "[[Ostrawa]] [[Breslawa]] [[Nowa Huta|Nowe Hute]].",
    "Riha": "[[Riha]] [[Dobroha]] [[Praha]].",
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    """A wiki in a language of which nothing is listed."""
    return build_wiki(tmp_path_factory.mktemp("hsb"), "hsb", PAGES)


def test_piped_links_teach_how_stems_change(kb):
    """Endings come from names of one or several words, the rest of a change is the stem's."""
    assert listed_changes("hsb", "endings") == {}
    changes = changed_words(kb)
    endings = changed_endings(changes)
    assert endings["e"] == ("a",)
    assert changed_stems([(1, ("ze", "ha")), (2, ("ze", "ha"))], {"e": ("a",)}) == {"z": ("h",)}
    assert changed_stems([(1, ("ze", "ha"))], {"e": ("a",)}) == {}


def test_what_links_teach_is_found_of_known_and_of_new_names(kb):
    joined = join_texts(["W Rize a w Mize."])
    found = MentionDetector(kb, extra_aliases=["Miha"]).detect(joined)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    assert [joined.text[i:j] for i, j in spans] == ["Rize", "Mize"]
    assert [m.start for m in find_alias_forms(["Miha"], kb).mentions("W Mize.")] == [2]


def test_a_known_name_is_found_by_lists_alone(tmp_path):
    """No link of the wiki shows a form."""
    pages = {"Praha": "[[Praha]] a [[Marek]].", "Marek": "[[Marek]] a [[Praha]]."}
    kb = build_wiki(tmp_path, "cs", pages)
    joined = join_texts(["Byl v Praze bez Marka."])
    found = MentionDetector(kb).detect(joined)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    assert [joined.text[i:j] for i, j in spans] == ["Praze", "Marka"]


def test_a_letter_class_is_the_same_letter_in_name_and_form():
    stems = listed_changes("fi", "stems")
    assert "rku" in stems["ru"]
    assert "rka" not in stems["ru"]


def test_other_spellings_of_a_word():
    assert list(with_dots("орел")) == ["орёл"]
    assert next(with_dots("орёл")) == "орел"
    assert list(accented("νέα")) == []
