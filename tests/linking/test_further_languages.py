"""Names with their exact spans in further languages: case, endings, marks."""

import unicodedata

import pytest

from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import MentionDetector
from stamo.linking.texts import join_texts
from tests.linking.further_languages import SENTENCES, WIKIS
from tests.linking.languages import build_wiki, unmark

STEMMED = frozenset({"pl", "cs", "hu", "el", "ta", "sv", "eu", "sr", "tr"})
"""Languages whose forms need a package of the extra `languages`."""


@pytest.fixture(scope="module", params=WIKIS)
def wiki(request, tmp_path_factory) -> tuple[str, KnowledgeBase]:
    language = request.param
    if language in STEMMED:
        pytest.importorskip("snowballstemmer")
    folder = tmp_path_factory.mktemp(language)
    return language, build_wiki(folder, language, WIKIS[language])


def found_in(kb: KnowledgeBase, text: str) -> list[str]:
    joined = join_texts([text])
    found = MentionDetector(kb).detect(joined)
    nowhere = joined.document_of(found.starts)
    starts, ends = (joined.local(nowhere, places) for places in (found.starts, found.ends))
    return [text[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)]


def test_names_are_found_in_decomposed_text(wiki):
    """Places are those of the text as it came, with accents and vowel signs apart."""
    language, kb = wiki
    for sentence in SENTENCES[language]:
        text, spans = unmark(unicodedata.normalize("NFD", sentence))
        assert found_in(kb, text) == [text[i:j] for i, j in sorted(spans)], sentence


def test_names_are_found_after_characters_beyond_the_first_plane(wiki):
    language, kb = wiki
    for sentence in SENTENCES[language]:
        text, spans = unmark(f"\U0001f600 {sentence} 𝒜")
        assert found_in(kb, text) == [text[i:j] for i, j in sorted(spans)], sentence


def test_names_are_found_as_they_stand_and_nothing_else_is(wiki):
    language, kb = wiki
    for sentence in SENTENCES[language]:
        text, spans = unmark(sentence)
        assert found_in(kb, text) == [text[i:j] for i, j in sorted(spans)], sentence
