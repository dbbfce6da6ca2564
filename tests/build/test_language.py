"""The language of notes and tables that do not say it."""

import pytest

from stamo.build.build import BuildSettings, build_knowledge_base
from stamo.build.language import guess_language
from stamo.kb.base import KnowledgeBase
from tests.linking.further_languages import WIKIS as FURTHER
from tests.linking.languages import WIKIS

TEXTS = {
    "cs": "Řeka teče přes město a je dlouhá. Ve městě se pije pivo, které je dobré.",
    "da": "Byen ligger ved havet og er ikke stor. Det blev en del af landet af Jylland.",
    "de": "Die Stadt liegt an der Elbe und ist nicht groß. Der Hafen ist auch alt.",
    "en": "The city is on the river and it is not large. The harbour is old, too.",
    "es": "La ciudad está en la costa y no es grande. El puerto es más antiguo que los otros.",
    "fi": "Kaupunki on joen varrella ja se ei ole iso. Satama on myös vanha, mutta hyvä.",
    "fr": "La ville est sur la côte et elle n'est pas grande. Le port est dans les vieux murs.",
    "hu": "A város a folyó mellett van, és nem nagy. A kikötő is régi, de hogy jó, az igaz.",
    "it": "La città è sul mare e non è grande. Il porto della città è più vecchio di altri.",
    "nl": "De stad ligt aan het water en is niet groot. De haven van de stad is ook oud.",
    "pl": "Miasto leży nad rzeką i nie jest duże. Port jest stary, ale dobry, jak się mówi.",
    "pt": "A cidade fica na costa e não é grande. O porto é mais velho do que os outros.",
    "ru": "Город стоит на реке и не очень велик. Порт у него старый, но хороший, как говорят.",
    "sv": "Staden ligger vid havet och är inte stor. Det är en hamn som har varit där länge.",
    "tr": "Şehir nehrin kıyısındadır ve çok büyük değildir. Limanı da eski bir limandır, ama iyi.",
    "uk": "Місто стоїть на річці і не дуже велике. Порт у нього старий, але добрий, як це кажуть.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_two_sentences_are_enough(language):
    """Words that are in most sentences tell, and letters that few languages have."""
    assert guess_language([TEXTS[language]]).code == language


@pytest.mark.parametrize("language", ["ko", "ja", "zh", "he", "th", "ka", "el", "bn", "ta"])
def test_a_script_of_one_language_tells(language):
    pages = WIKIS.get(language) or FURTHER[language]
    assert guess_language(pages.values()).code == language


def test_where_nothing_tells_it_is_english_and_said_to_be_assumed():
    """Names alone tell little."""
    for texts in ([], ["Falcon"], ["Falcon", "Heron 2", "Duna"]):
        guess = guess_language(texts)
        assert (guess.code, guess.is_told) == ("en", False)
    assert str(guess).startswith("The language is assumed to be en, as its text tells no other;")
    assert "--language CODE" in str(guess)


@pytest.mark.parametrize("is_table", [True, False])
def test_a_build_takes_the_language_of_its_text_and_says_so(tmp_path, is_table):
    """What is set counts more, and nothing is said then."""
    source = tmp_path / ("a.csv" if is_table else "notes")
    if is_table:
        source.write_text(f'name,description\nTampere,"{TEXTS["fi"]}"\n', encoding="utf-8")
    else:
        source.mkdir()
        (source / "Tampere.md").write_text(f"---\ntitle: Tampere\n---\n{TEXTS['fi']}")
    told = build_knowledge_base(source, tmp_path / "kb", BuildSettings(dimensions=0))
    assert KnowledgeBase.open(tmp_path / "kb").language == "fi"
    assert "assumed to be fi" in told.assumed_language
    settings = BuildSettings(dimensions=0, language="et", overwrite=True)
    assert not build_knowledge_base(source, tmp_path / "kb", settings).assumed_language
    assert KnowledgeBase.open(tmp_path / "kb").language == "et"
