"""News, tweets and posts written for the tests, with the names to find and words to leave alone.

`[[Bush|George W. Bush]]` is a name and the title of its entity, `{{turkey}}` a word that is no name
there. A small wiki of the same titles stands for an English encyclopaedia.
"""

import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from tests.linking.small import build_wiki, folder

NEWS = (
    "WASHINGTON, March 3 - President [[George W. Bush]] met [[Tony Blair]] at the [[White House]] "
    "on Tuesday. [[Bush|George W. Bush]] said the [[United States]] and [[Britain|United Kingdom]] "
    "would work with the [[United Nations]] in [[Iraq]]. [[Blair|Tony Blair]]'s {{visit}} is his "
    "third this {{year}}. The [[U.N.|United Nations]] had no {{comment}}.",
    "TRIP TO [[INDIA|India]] AND [[PAKISTAN|Pakistan]]\n\n[[NEW DELHI|New Delhi]] - Mr. [[George "
    "W. Bush]] will travel to [[India]] next {{week}}, officials said.",
    "[[Roger Federer]] beat [[Rafael Nadal]] in the {{final}}. [[Federer|Roger Federer]] has now "
    "won four {{titles}} there. [[Nadal|Rafael Nadal]]'s {{knee}} had hurt, and Maria Nadal, no "
    "{{relative}}, came second.",
    "[[U.S.|United States]] {{stocks}} rose on Friday. [[General Motors]] gained two {{percent}} "
    "and [[IBM]] three. [[GM|General Motors]] plans to close a {{plant}} in [[Ohio]]. [[Alan "
    "Greenspan]] warned of {{inflation}}. [[Greenspan|Alan Greenspan]] retires soon.",
    "[[MOSCOW|Moscow]], [[Russia]] - [[Vladimir Putin]] received [[Jacques Chirac]] and [[Gerhard "
    "Schröder]]. [[Putin|Vladimir Putin]] praised the [[French|France]] president. "
    "[[Chirac|Jacques Chirac]] and [[Schröder|Gerhard Schröder]] opposed the {{war}} in [[Iraq]].",
    "[[LONDON|London]] (agency) - The {{airline}} [[British Airways]], whose planes fly to "
    "[[Australia]] and [[Hong Kong]], will buy from [[Airbus]]. [[Margaret Thatcher]] sold it. "
    "Lady [[Thatcher|Margaret Thatcher]]'s {{government}} sold others as well.",
)
TWEETS = (
    "back in [[london|London]]!! so cold {{today}} lol",
    "watching [[star wars|Star Wars]] again with my {{brother}} :) #[[StarWars|Star Wars]]",
    "RT @friend: [[Microsoft]] should buy it #[[microsoft|Microsoft]] {{may}} regret it",
    "i want an {{apple}} and a {{window}} seat to [[paris|Paris]] pls",
    "OMG [[THE BEATLES|The Beatles]] ARE THE BEST BAND EVER #[[TheBeatles|The Beatles]]",
    "@[[NASA]] launches tonight!!! {{who}} is up?",
    "LOVE the new [[Harry Potter]] book, so much {{fun}} #[[HarryPotter|Harry Potter]]",
    "[[u.s.|United States]] and [[uk|United Kingdom]] at it again in [[iraq|Iraq]], {{will}} see",
    "on the [[bbc|BBC]] now, [[nasa|NASA]] and a {{cat}}",
)
POSTS = (
    "Hi all, I'm running [[Debian]] on an old laptop. [[Linux]]'s sound drivers won't load. "
    "{{Thanks}} in {{advance}}, {{mark}}",
    "> I think [[Bob Dylan]] is overrated\n\nNo way. [[Dylan|Bob Dylan]]'s early {{songs}} are the "
    "best. [[Joan Baez]] agrees, so did [[John Lennon]]. [[Lennon|John Lennon]] covered him!",
    "anyone here been to [[japan|Japan]]? i'm flying to [[tokyo|Tokyo]] in {{may}} and want to see "
    "[[mount fuji|Mount Fuji]]. is [[kyoto|Kyoto]] worth a {{day}}?",
    "EDIT: found it, it was in [[C++]] all along. It {{might}} be easier; [[Guido van Rossum]] "
    "designed his so.",
    "They invaded [[Poland]] in 1939, not 1940. [[Winston Churchill]] wasn't PM {{yet}}. "
    "[[Churchill|Winston Churchill]] came in {{spring}}.",
    "The [[Chicago Bulls]] were better when [[Michael Jordan]] played. He {{retired}}.",
)
GENRES = {"news": NEWS, "tweets": TWEETS, "posts": POSTS}
OTHER_NAMES = {
    "United Kingdom": ("Britain", "UK"),
    "United States": ("U.S.",),
    "United Nations": ("U.N.",),
    "France": ("French",),
    "General Motors": ("GM",),
}
"""Names that links show, besides titles."""
_MARK = re.compile(r"\[\[([^\]|]*)(?:\|([^\]]*))?\]\]|\{\{(.*?)\}\}")
Span = tuple[int, int]


def unmark(document: str) -> tuple[str, dict[Span, str], list[Span]]:
    """Take the marks out; return the text, its names with their titles, and the other words."""
    names: dict[Span, str] = {}
    others: list[Span] = []
    text, last = "", 0
    for match in _MARK.finditer(document):
        text += document[last : match.start()]
        word = match[1] if match[3] is None else match[3]
        span = len(text), len(text) + len(word)
        if match[3] is None:
            names[span] = match[2] or match[1]
        else:
            others.append(span)
        text, last = text + word, match.end()
    return text + document[last:], names, others


def titles() -> list[str]:
    """Return the titles of all entities."""
    return sorted({t for docs in GENRES.values() for d in docs for t in unmark(d)[1].values()})


@cache
def genre_kb() -> KnowledgeBase:
    """Build a wiki in which every article links its own title, its other names and the next."""
    all_titles = titles()
    words = "You may see who said that it will be so again today, and who might retire. "
    pages = {}
    for title, other in pairwise([*all_titles, all_titles[0]]):
        names = "".join(f"[[{title}|{name}]] is a name. " for name in OTHER_NAMES.get(title, ()))
        pages[title] = f"[[{title}]] stands here beside [[{other}]]. {names}{words}"
    return build_wiki(folder("genres"), "en", pages, dimensions=8)


def faults(linker: Linker, documents: Iterable[str]) -> list[str]:
    """Return the names that are missed or linked wrongly, and the words taken for names."""
    wrong = []
    for document in documents:
        text, names, others = unmark(document)
        found = {(m.start, m.end): m.entity for m in linker.link(text)}
        known = linker.kb.entity_ids(list(names.values()))
        wrong += [
            f"{text[slice(*span)]}: {title}"
            for (span, title), entity in zip(names.items(), known.tolist(), strict=True)
            if entity >= 0 and found.get(span) != linker.kb.title(entity)
        ]
        for start, end in others:
            if any(a < end and start < b for a, b in found):
                wrong.append(f"{text[start:end]}: no name")
    return wrong
