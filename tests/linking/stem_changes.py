"""Names whose stems change in some of their forms, and words that are no forms of them.

Half of the names of each language were written down before the rules were.
"""

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
        "Liberec": "Liberce Liberci",
        "Lenka": "Lence Lenku",
        "Pavel": "Pavla Pavlovi Pavle",
        "Zuzana": "Zuzaně Zuzanou",
    },
    "pl": {
        "Łódź": "Łodzi Łodzią",
        "Praga": "Pradze Pragę",
        "Marek": "Marka Markowi Markiem",
        "Paweł": "Pawła Pawłowi Pawle",
        "Kraków": "Krakowa Krakowie",
        "Anna": "Annie Annę",
        "Bydgoszcz": "Bydgoszczy",
        "Sopot": "Sopocie Sopotu",
    },
    "sk": {
        "Marek": "Marka Markovi",
        "Košice": "Košíc Košiciach",
        "Pezinok": "Pezinka Pezinku",
        "Peter": "Petra Petrovi",
        "Lučenec": "Lučenca Lučenci",
        "Trnava": "Trnave Trnavou",
    },
    "sl": {
        "Marko": "Marka Marku",
        "Koper": "Kopra Kopru",
        "Kranjec": "Kranjca Kranjcu",
        "Bohinj": "Bohinja Bohinju",
        "Slovenec": "Slovenca",
        "Ptuj": "Ptuja Ptuju",
    },
    "hr": {
        "Rijeka": "Rijeci Rijeku",
        "Osijek": "Osijeka",
        "Sisak": "Siska Sisku",
        "Karlovac": "Karlovca Karlovcu",
        "Luka": "Luki Luku",
        "Požega": "Požezi Požegu",
    },
    "uk": {
        "Ольга": "Ользі Ольгу",
        "Канів": "Канева",
        "Павло": "Павла Павлові",
        "Луцьк": "Луцька Луцьку",
        "Харків": "Харкова Харкові",
        "Рига": "Ризі Ригу",
        "Чернігів": "Чернігова Чернігові",
        "Андрієць": "Андрійця",
    },
    "ru": {
        "Павел": "Павла Павлу Павлом",
        "Орёл": "Орла Орле",
        "Елец": "Ельца Ельце",
        "Пётр": "Петра Петру",
        "Королёв": "Королева Королёва",
        "Лев": "Льва Львом",
        "Череповец": "Череповца Череповце",
        "Кострома": "Костроме Костромой",
    },
    "lv": {
        "Gulbis": "Gulbja Gulbim",
        "Brālis": "Brāļa",
        "Lācis": "Lāča",
        "Zutis": "Zuša",
        "Briedis": "Brieža",
        "Ozoliņš": "Ozoliņa Ozoliņam",
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
        "Lappi": "Lapissa Lapin",
        "Kuopio": "Kuopiossa",
        "Vantaa": "Vantaalla",
        "Kotka": "Kotkassa Kotkan",
    },
    "et": {
        "Tartu": "Tartus Tartusse",
        "Tallinn": "Tallinnas Tallinna",
        "Mägi": "Mäe Mäele",
        "Rebane": "Rebase Rebasele",
        "Sepp": "Sepa Sepale",
        "Pärnu": "Pärnus Pärnust",
        "Tamm": "Tamme Tammele",
        "Põld": "Põllu",
    },
    "tr": {
        "Zonguldak": "Zonguldağı Zonguldağa",
        "Mehmet": "Mehmedi",
        "Gaziantep": "Gaziantebin",
        "Tokat": "Tokadı Tokatın",
        "Uşak": "Uşağa Uşağı",
        "Ahmet": "Ahmedin",
    },
    "el": {
        "Πέτρος": "Πέτρου Πέτρο",
        "Όλυμπος": "Ολύμπου Όλυμπο",
        "Πάρις": "Πάρη",
        "Κωνσταντίνος": "Κωνσταντίνου",
        "Γιώργος": "Γιώργου Γιώργο",
        "Ελένη": "Ελένης",
        "Κόρινθος": "Κορίνθου",
    },
    "is": {
        "Katla": "Kötlu",
        "Hekla": "Heklu",
        "Egill": "Egils",
        "Askja": "Öskju",
        "Jón": "Jóns Jóni",
        "Akureyri": "Akureyrar",
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
