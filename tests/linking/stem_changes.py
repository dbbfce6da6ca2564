"""Names whose stems change in some of their forms, and words that are no forms of them.

The rules were written with the first table in sight; the second one was written before them and
looked at afterwards.
"""

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
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
        "Plzeň": "Plzně Plzni",
    },
    "pl": {
        "Łódź": "Łodzi Łodzią",
        "Praga": "Pradze Pragę",
        "Marek": "Marka Markowi Markiem",
        "Paweł": "Pawła Pawłowi Pawle",
        "Kraków": "Krakowa Krakowie",
        "Sosnowiec": "Sosnowca Sosnowcu",
    },
    "sk": {"Marek": "Marka Markovi", "Košice": "Košíc Košiciach", "Pezinok": "Pezinka Pezinku"},
    "sl": {"Marko": "Marka Marku", "Koper": "Kopra Kopru", "Kranjec": "Kranjca Kranjcu"},
    "hr": {"Rijeka": "Rijeci Rijeku", "Osijek": "Osijeka", "Sisak": "Siska Sisku"},
    "uk": {
        "Ольга": "Ользі Ольгу",
        "Канів": "Канева",
        "Павло": "Павла Павлові",
        "Луцьк": "Луцька Луцьку",
        "Харків": "Харкова Харкові",
        "Чернівці": "Чернівців",
    },
    "ru": {
        "Павел": "Павла Павлу Павлом",
        "Орёл": "Орла Орле",
        "Елец": "Ельца Ельце",
        "Пётр": "Петра Петру",
        "Королёв": "Королева Королёва",
    },
    "lv": {"Gulbis": "Gulbja Gulbim", "Brālis": "Brāļa", "Lācis": "Lāča"},
    "lt": {"Vilnius": "Vilniuje Vilniaus", "Kaunas": "Kaune Kauno"},
    "fi": {
        "Turku": "Turussa Turun Turkuun",
        "Lahti": "Lahdessa Lahden",
        "Hanko": "Hangossa Hangon",
        "Virtanen": "Virtasen Virtaselle",
        "Lappi": "Lapissa Lapin",
        "Nurmes": "Nurmeksen Nurmeksessa",
    },
    "et": {
        "Tartu": "Tartus Tartusse",
        "Tallinn": "Tallinnas Tallinna",
        "Mägi": "Mäe Mäele",
        "Rebane": "Rebase Rebasele",
        "Sepp": "Sepa Sepale",
    },
    "tr": {"Zonguldak": "Zonguldağı Zonguldağa", "Mehmet": "Mehmedi", "Gaziantep": "Gaziantebin"},
    "el": {
        "Πέτρος": "Πέτρου Πέτρο",
        "Όλυμπος": "Ολύμπου Όλυμπο",
        "Πάρις": "Πάρη",
        "Κωνσταντίνος": "Κωνσταντίνου",
    },
    "is": {"Katla": "Kötlu", "Hekla": "Heklu", "Egill": "Egils"},
}

MORE_FORMS = {
    "cs": {
        "Lenka": "Lence Lenku",
        "Pavel": "Pavla Pavlovi Pavle",
        "Zuzana": "Zuzaně Zuzanou",
        "Kolín": "Kolína Kolíně",
        "Hradec": "Hradce Hradci",
        "Kateřina": "Kateřině",
        "Tábor": "Táboře Tábora",
    },
    "pl": {
        "Anna": "Annie Annę",
        "Bydgoszcz": "Bydgoszczy",
        "Sopot": "Sopocie Sopotu",
        "Ostrołęka": "Ostrołęce Ostrołękę",
        "Radom": "Radomiu",
        "Piotr": "Piotrze Piotra",
        "Marta": "Marcie Martę",
    },
    "sk": {"Peter": "Petra Petrovi", "Lučenec": "Lučenca Lučenci", "Trnava": "Trnave Trnavou"},
    "sl": {"Bohinj": "Bohinja Bohinju", "Slovenec": "Slovenca", "Ptuj": "Ptuja Ptuju"},
    "hr": {"Karlovac": "Karlovca Karlovcu", "Luka": "Luki Luku", "Požega": "Požezi Požegu"},
    "uk": {
        "Рига": "Ризі Ригу",
        "Чернігів": "Чернігова Чернігові",
        "Андрієць": "Андрійця",
        "Львів": "Львова",
        "Прага": "Празі",
        "Василько": "Василька",
    },
    "ru": {
        "Лев": "Льва Львом",
        "Череповец": "Череповца Череповце",
        "Кострома": "Костроме Костромой",
        "Фёдор": "Федора Фёдору",
        "Городок": "Городка Городку",
    },
    "lv": {"Zutis": "Zuša", "Briedis": "Brieža", "Ozoliņš": "Ozoliņa Ozoliņam"},
    "lt": {"Šiauliai": "Šiauliuose Šiaulių", "Jonas": "Jono Jonui"},
    "fi": {
        "Kuopio": "Kuopiossa",
        "Vantaa": "Vantaalla",
        "Kotka": "Kotkassa Kotkan",
        "Salmi": "Salmen Salmella",
        "Leppänen": "Leppäsen",
        "Porvoo": "Porvoossa",
        "Imatra": "Imatralla",
        "Joki": "Joen Joella",
        "Mäntti": "Mäntissä",
        "Sampo": "Sammon Sammolla",
    },
    "et": {
        "Pärnu": "Pärnus Pärnust",
        "Tamm": "Tamme Tammele",
        "Põld": "Põllu",
        "Kask": "Kase",
        "Narva": "Narvas Narva",
    },
    "tr": {"Tokat": "Tokadı Tokatın", "Uşak": "Uşağa Uşağı", "Ahmet": "Ahmedin"},
    "el": {
        "Γιώργος": "Γιώργου Γιώργο",
        "Ελένη": "Ελένης",
        "Κόρινθος": "Κορίνθου",
        "Λάρισα": "Λάρισας",
    },
    "is": {"Askja": "Öskju", "Jón": "Jóns Jóni", "Akureyri": "Akureyrar"},
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


def count_found(
    kb: KnowledgeBase, table: Mapping[str, str], missed: list[str] | None = None
) -> tuple[int, int]:
    """Return how many forms of a language are found, and how many there are."""
    n_found = n_all = 0
    for name, listed in table.items():
        words = listed.split()
        found = forms_found(kb, name, words)
        n_found, n_all = n_found + len(found), n_all + len(words)
        if missed is not None:
            missed += [f"{name}: {word}" for word in words if word not in found]
    return n_found, n_all


def main() -> None:
    """Print how many forms are found in each language, and how many words that are none."""
    with tempfile.TemporaryDirectory() as folder:
        for language in FORMS:
            kb = bare_wiki(Path(folder), language)
            cells, missed = [], []
            for table in (FORMS, MORE_FORMS, NO_FORMS):
                n, all_ = count_found(
                    kb, table.get(language, {}), missed if table is not NO_FORMS else None
                )
                cells.append(f"{n} of {all_}")
            line = re.sub(r"\s+", " ", f"| {language} | {' | '.join(cells)} |")
            sys.stdout.write(f"{line}  missed: {', '.join(missed) or 'none'}\n")


if __name__ == "__main__":
    main()
