"""Names whose stems change in some of their forms, and words that are no forms of them."""

from collections.abc import Sequence
from pathlib import Path

from stamo.kb.base import KnowledgeBase
from stamo.linking.forms import find_alias_forms
from tests.linking.languages import build_wiki

FORMS = {
    "cs": {
        "Praha": "Praze Prahu Prahou",
        "Olga": "Olze Olgu",
        "Marek": "Marka Markovi Markem",
        "Karel": "Karla Karlovi",
    },
    "pl": {
        "Łódź": "Łodzi Łodzią",
        "Praga": "Pradze Pragę",
        "Marek": "Marka Markowi Markiem",
        "Paweł": "Pawła Pawłowi Pawle",
    },
    "sk": {
        "Marek": "Marka Markovi",
        "Košice": "Košíc Košiciach",
        "Pezinok": "Pezinka Pezinku",
        "Peter": "Petra Petrovi",
    },
    "sl": {
        "Marko": "Marka Marku",
        "Koper": "Kopra Kopru",
        "Kranjec": "Kranjca Kranjcu",
        "Bohinj": "Bohinja Bohinju",
    },
    "hr": {
        "Rijeka": "Rijeci Rijeku",
        "Osijek": "Osijeka",
        "Sisak": "Siska Sisku",
        "Karlovac": "Karlovca Karlovcu",
    },
    "uk": {
        "Ольга": "Ользі Ольгу",
        "Канів": "Канева",
        "Павло": "Павла Павлові",
        "Луцьк": "Луцька Луцьку",
    },
    "ru": {
        "Павел": "Павла Павлу Павлом",
        "Орёл": "Орла Орле",
        "Елец": "Ельца Ельце",
        "Пётр": "Петра Петру",
    },
    "lv": {
        "Gulbis": "Gulbja Gulbim",
        "Brālis": "Brāļa",
        "Lācis": "Lāča",
        "Zutis": "Zuša",
    },
    "lt": {
        "Vilnius": "Vilniuje Vilniaus",
        "Kaunas": "Kaune Kauno",
        "Šiauliai": "Šiauliuose Šiaulių",
        "Jonas": "Jono Jonui",
    },
    "fi": {
        "Turku": "Turussa Turun Turkuun",
        "Lahti": "Lahdessa Lahden",
        "Hanko": "Hangossa Hangon",
        "Virtanen": "Virtasen Virtaselle",
    },
    "et": {
        "Tartu": "Tartus Tartusse",
        "Tallinn": "Tallinnas Tallinna",
        "Mägi": "Mäe Mäele",
        "Rebane": "Rebase Rebasele",
    },
    "tr": {
        "Zonguldak": "Zonguldağı Zonguldağa",
        "Mehmet": "Mehmedi",
        "Gaziantep": "Gaziantebin",
        "Tokat": "Tokadı Tokatın",
    },
    "el": {
        "Πέτρος": "Πέτρου Πέτρο",
        "Όλυμπος": "Ολύμπου Όλυμπο",
        "Πάρις": "Πάρη",
        "Κωνσταντίνος": "Κωνσταντίνου",
    },
    "is": {
        "Katla": "Kötlu",
        "Hekla": "Heklu",
        "Egill": "Egils",
        "Askja": "Öskju",
    },
}

NO_FORMS = {
    "cs": {"Praha": "Pražský Pražan Pravda", "Karel": "Karta Kara", "Marek": "Markýz"},
    "pl": {"Łódź": "Łodyga", "Praga": "Prawda Praski", "Marek": "Marchew", "Paweł": "Pawilon"},
    "ru": {"Павел": "Павлин Павловский", "Орёл": "Орловский Орден", "Елец": "Ельцин"},
    "uk": {"Ольга": "Ользький", "Канів": "Канада", "Харків": "Харківський"},
    "fi": {"Turku": "Turkulainen Turha", "Lahti": "Lahtelainen Lahja", "Hanko": "Hankala"},
    "et": {"Tartu": "Tartlane Tartlased", "Mägi": "Mägine"},
    "tr": {"Zonguldak": "Zonguldaklı"},
    "hr": {"Rijeka": "Riječki Rijetko", "Sisak": "Sisački"},
}


def bare_wiki(folder: Path, language: str) -> KnowledgeBase:
    """Build a wiki that teaches nothing of its language."""
    pages = {"Aaaa": "[[Bbbb]].", "Bbbb": "[[Aaaa]]."}
    return build_wiki(folder, language, pages)


def forms_found(kb: KnowledgeBase, name: str, words: Sequence[str]) -> list[str]:
    """Return which words are found as forms of a new name, in a sentence each."""
    forms = find_alias_forms([name], kb)
    assert forms is not None
    found = []
    for word in words:
        text = f"… {word} …"
        if any(text[m.start : m.end] == word for m in forms.mentions(text)) or word == name:
            found.append(word)
    return found
