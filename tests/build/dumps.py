"""Small dumps that tests write, and a knowledge base built from one."""

import random
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.3/" version="0.3" xml:lang="en">
  <siteinfo>
    <case>first-letter</case>
    <namespaces>
      <namespace key="0" />
      <namespace key="1">Talk</namespace>
      <namespace key="4">Wikipedia</namespace>
      <namespace key="6">Image</namespace>
      <namespace key="14">Category</namespace>
    </namespaces>
  </siteinfo>
"""

PAGES = [
    (
        "Avalon (river)",
        "The '''Avalon''' flows through [[Brig]] to the [[Lake Corm|lake]]. Avalon!",
    ),
    ("Avalon (film)", "'''Avalon''' is a film made in [[Brig]] by [[Dara Voss]]. See [[Avalon]]."),
    ("Avalon", "'''Avalon''' may be [[Avalon (river)]] or [[Avalon (film)]]. {{disambig}}"),
    ("Brig", "Brig is a town on the [[Avalon (river)|Avalon]], home of [[Dara Voss|Voss]]."),
    ("Brigg", "#REDIRECT [[Brig]]"),
    ("Old Brig", "#REDIRECT [[Brigg]]"),
    ("Town of Brig", "#REDIRECT [[Old Brig#History]]"),
    ("Loop", "#REDIRECT [[Pool]]"),
    ("Pool", "#REDIRECT [[Loop]]"),
    ("Dara Voss", "Voss made [[Avalon (film)|Avalon]] in [[Old Brig]] near the [[Loop]]."),
    (
        "Corm",
        "Corm is a town near [[Brig]] on the [[Avalon (river)|Avalon]]. [[Dara Voss]] left it.",
    ),
    ("Brig", "A second page with the title Brig that links to [[Nowhere]]."),
    ("Talk:Brig", "Talk about [[Brig]]."),
    ("Blank", "   "),
]
"""A world of one river, one film, two towns and one director."""


def write_dump(path: Path, pages: Iterable[tuple[str, str]] = PAGES) -> Path:
    """Write pages as a MediaWiki XML dump."""
    body = "".join(
        f"  <page>\n    <title>{escape(title)}</title>\n    <id>{number}</id>\n"
        f'    <revision><text xml:space="preserve">{escape(text)}</text></revision>\n  </page>\n'
        for number, (title, text) in enumerate(pages, start=1)
    )
    path.write_text(f"{HEADER}{body}</mediawiki>\n", encoding="utf-8")
    return path


def make_pages(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Make pages of random words that link to each other, enough to learn vectors from.

    There are so many words that none is frequent enough to be a stop word.
    """
    rng = random.Random(seed)
    ends = [f"{a}{b}" for a in "bdfgklmnprst" for b in "aeiou"]
    words = [first + second for first in ends for second in ends[::2]]
    titles = [f"{rng.choice(words).title()} {i}" for i in range(n)]
    pages = []
    for title in titles:
        parts = rng.choices(words, k=200)
        for target in rng.choices(titles, k=4):
            parts.insert(rng.randrange(len(parts)), f"[[{target}|{target.split()[0]}]]")
        pages.append((title, " ".join(parts)))
    return pages
