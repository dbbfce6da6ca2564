"""Compose the wikitext of an article."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from stamo_lab.world.catalogue import Catalogue, Entity, Scene, variant
from stamo_lab.world.lexicon import TOPICS, Piece

PRIMARY_SHARE = 0.6
AMBIGUOUS = 3


@dataclass
class Titles:
    """Who has which title."""

    taken: dict[str, int | None] = field(default_factory=dict)
    """Every title; the entity of an article, None for any other page."""
    redirects: list[tuple[str, str, int]] = field(default_factory=list)
    """Title, the title it points to, and the entity that is reached in the end."""
    disambiguations: list[tuple[str, list[int]]] = field(default_factory=list)
    redirects_of: dict[int, list[str]] = field(default_factory=dict)

    def give(self, entity: Entity, catalogue: Catalogue, *, bare: bool) -> None:
        """Give an entity its name as title, or with what tells it from others."""
        entity.title = entity.name if bare else _distinct_title(entity, catalogue, self.taken)
        self.taken[entity.title] = entity.index


def settle_titles(catalogue: Catalogue, rng: random.Random) -> Titles:
    """Give each entity its title, then add disambiguation pages and redirects."""
    titles = Titles(taken={title: None for title in catalogue.lexicon.concepts})
    by_name: defaultdict[str, list[Entity]] = defaultdict(list)
    for entity in catalogue.entities:
        by_name[entity.name].append(entity)
    for name, namesakes in by_name.items():
        namesakes.sort(key=lambda entity: (-entity.weight, entity.index))
        has_primary = len(namesakes) == 1 or rng.random() < PRIMARY_SHARE
        for i, entity in enumerate(namesakes):
            bare = i == 0 and has_primary and name not in titles.taken
            titles.give(entity, catalogue, bare=bare)
    add_disambiguations(catalogue, titles)
    add_redirects(catalogue, titles, rng)
    return titles


def _distinct_title(entity: Entity, catalogue: Catalogue, taken: Container[str]) -> str:
    """Return a title with the shortest qualifier that is free."""
    label = entity.kind.label
    regions = catalogue.local[entity.region, "region"]
    region = catalogue.entities[regions[0]].name if regions else "abroad"
    when = f"born {entity.year}" if entity.kind.person else f"{entity.year}"
    more = (when, region, f"{region}, {when}", f"{region}, {entity.index}")
    qualifiers = [label, *(f"{label}, {one}" for one in more)]
    candidates = (f"{entity.name} ({qualifier})" for qualifier in qualifiers)
    return next(title for title in candidates if title not in taken)


def add_disambiguations(catalogue: Catalogue, titles: Titles) -> None:
    """Add a page for each name that several entities share."""
    by_base: defaultdict[str, list[int]] = defaultdict(list)
    for entity in catalogue.entities:
        if entity.kind.shortened:
            by_base[entity.base].append(entity.index)
    for base, members in by_base.items():
        if len(members) >= AMBIGUOUS:
            title = base if base not in titles.taken else f"{base} (disambiguation)"
            titles.taken[title] = None
            titles.disambiguations.append((title, members))


def add_redirects(catalogue: Catalogue, titles: Titles, rng: random.Random) -> None:
    """Add the other names by which a reader may look for an entity."""
    for entity in catalogue.entities:
        wanted = []
        if entity.short != entity.name:
            wanted.append(entity.short)
        if entity.kind.abbreviated:
            wanted.append(entity.abbreviation)
        if entity.kind.person and rng.random() < 0.12:
            given = entity.name.removesuffix(f" {entity.base}")
            wanted.append(f"{entity.base}, {given}")
        if rng.random() < 0.12:
            wanted.append(variant(entity.name, rng))
        target = entity.title
        for title in wanted:
            if title in titles.taken:
                continue
            titles.taken[title] = None
            titles.redirects.append((title, target, entity.index))
            titles.redirects_of.setdefault(entity.index, []).append(title)
            # Now and then a redirect points to a redirect, as in real wikis.
            target = title if rng.random() < 0.35 else entity.title


@dataclass
class Page:
    """One article while it is written; an entity is mostly linked only where it first appears."""

    entity: Entity
    scene: Scene
    titles: Titles
    linked: set[int] = field(default_factory=set)

    def sentence(self, template: str, me: Piece | None = None) -> str:
        """Return a filled template as wikitext."""
        return self.write(self.scene.fill(template, me))

    def write(self, pieces: Iterable[Piece]) -> str:
        """Return the wikitext of a sentence."""
        return "".join(map(self._write_piece, pieces))

    def _write_piece(self, piece: Piece) -> str:
        if piece.concept is not None:
            return concept_link(piece.text, piece.concept)
        if piece.entity is None:
            return piece.text
        italic = "''" if self.scene.catalogue.entities[piece.entity].kind.italic else ""
        if piece.entity == self.entity.index or (
            piece.entity in self.linked and self.scene.rng.random() < 0.7
        ):
            return f"{italic}{piece.text}{italic}"
        self.linked.add(piece.entity)
        return f"{italic}{self.link(piece.entity, piece.text)}{italic}"

    def link(self, entity: int, surface: str | None = None) -> str:
        """Return a link to an entity that shows as `surface`, by default its name."""
        known, rng = self.scene.catalogue.entities[entity], self.scene.rng
        surface, title = surface or known.name, known.title
        aliases = self.titles.redirects_of.get(entity, [])
        draw = rng.random()
        if surface in aliases and draw < 0.7:
            return f"[[{surface}]]"
        if aliases and draw < 0.06:
            title = rng.choice(aliases)
        trail = surface.removeprefix(title)
        if trail != surface and trail.isalpha() and trail.islower() and trail.isascii():
            return f"[[{title}]]{trail}"
        if draw > 0.97:
            return f"[[{title}#{rng.choice(['History', 'Legacy'])}|{surface}]]"
        if draw > 0.94:
            title = title.replace(" ", "_")
        return f"[[{title}]]" if title == surface else f"[[{title}|{surface}]]"


def concept_link(surface: str, concept: str) -> str:
    """Return the link of a common noun: `[[goalkeeper]]s`, `[[tributary|tributaries]]`."""
    if surface.casefold().startswith(concept.casefold()):
        head, trail = surface[: len(concept)], surface[len(concept) :]
        if not trail or (trail.isalpha() and trail.islower()):
            return f"[[{head}]]{trail}"
    return f"[[{concept}|{surface}]]"


PERSON_SECTIONS = ("Life", "Career", "Work", "Early years", "Later years")
THING_SECTIONS = ("History", "Background", "Description", "Development", "Details")
LAST_SECTIONS = ("Legacy", "Reception", "In culture", "Notes on the name", "Trivia")
PLACES = ("city", "town", "stadium", "castle", "hospital", "restaurant")
LANGUAGES = ("de", "fr", "nl", "sv", "eo", "fi")
COMMENTS = ("check this date", "source needed", "please do not add a list here", "expand")


def write_article(
    entity: Entity, catalogue: Catalogue, titles: Titles, cited: Sequence[int], rng: random.Random
) -> str:
    """Return the wikitext of an entity's article; `cited` are entities it has to mention."""
    mixture = [(entity.kind.topic, 0.98), (rng.choice(TOPICS), 0.02)]
    scene = Scene(catalogue, rng, entity, mixture, encyclopaedic=True)
    page = Page(entity, scene, titles)
    facts = rng.sample(entity.kind.facts, len(entity.kind.facts) - rng.randint(0, 1))
    scene.defining = True
    other, parts = f"{entity.base} (disambiguation)", list[str]()
    if entity.title == entity.base and other in titles.taken:
        parts.append(f"{{{{about|the {entity.kind.label}|other uses|{other}}}}}")
    parts += [_infobox(page), _picture(page)]
    lead = page.sentence(rng.choice(entity.kind.lead))
    scene.defining = False
    parts.append(lead + " " + page.sentence(facts.pop()))
    parts += [*_body(page, facts), *_citations(page, cited), *_tail(page)]
    return "\n\n".join(filter(None, parts))


def _infobox(page: Page) -> str:
    if page.scene.rng.random() < 0.25:
        return ""
    rows = [f"| {name} = {page.sentence(value)}" for name, value in page.entity.kind.infobox]
    # What stands in a box is not yet introduced to the reader of the text.
    page.linked.clear()
    page.scene.seen.clear()
    head = f"{{{{Infobox {page.entity.kind.label}\n| name = {page.entity.name}"
    return "\n".join([head, *rows, "}}"])


def _picture(page: Page) -> str:
    rng = page.scene.rng
    if rng.random() > 0.35:
        return ""
    place = page.link(page.scene.catalogue.related(page.entity, "town", rng))
    file = page.entity.name.replace(" ", "_")
    view = rng.choice(["in an old photograph", "from the south", "on a postcard", "today"])
    return f"[[File:{file}.jpg|thumb|upright|{page.entity.name} {view}, near {place}]]"


def _body(page: Page, facts: Sequence[str]) -> list[str]:
    """Return sections that mix what is known of the entity with sentences of its topic."""
    rng = page.scene.rng
    fillers = page.scene.catalogue.lexicon.topics[page.entity.kind.topic].wiki
    sentences = [*facts, *rng.sample(fillers, rng.randint(3, 6))]
    rng.shuffle(sentences)
    names = rng.sample(PERSON_SECTIONS if page.entity.kind.person else THING_SECTIONS, 2)
    half = (len(sentences) + 1) // 2
    parts = []
    for name, chosen in zip(names, (sentences[:half], sentences[half:]), strict=True):
        text = " ".join(_annotated(page, page.sentence(template)) for template in chosen)
        parts += [f"== {name} ==", text]
    if rng.random() < 0.35:
        topic = rng.choice([name for name in TOPICS if name != page.entity.kind.topic])
        scene = replace(page.scene, mixture=[(topic, 1.0)])
        stray = scene.fill(rng.choice(scene.catalogue.lexicon.topics[topic].wiki))
        parts[-1] += " " + page.write(stray)
    if rng.random() < 0.2:
        parts.append(_table(page))
    return parts


def _annotated(page: Page, sentence: str) -> str:
    """Now and then add a reference or a comment behind a sentence."""
    rng = page.scene.rng
    draw = rng.random()
    someone = rng.choice(page.scene.catalogue.bystanders)
    year = rng.randint(1960, 2018)
    if draw < 0.18:
        cite = f"{{{{cite book|author={someone}|title={rng.choice(THING_SECTIONS)}|year={year}}}}}"
        return f"{sentence}<ref>{cite}</ref>"
    if draw < 0.22:
        note = f"{someone}, {year}, p.&nbsp;{rng.randint(2, 300)}."
        return f'{sentence}<ref name="n{year}">{note}</ref>'
    if draw < 0.25:
        return f"{sentence}<!-- {rng.choice(COMMENTS)} -->"
    return sentence


def _table(page: Page) -> str:
    rng, catalogue = page.scene.rng, page.scene.catalogue
    n = rng.randint(3, 9)
    places = dict.fromkeys(page.link(catalogue.sample("city", rng)) for _ in range(n))
    years = sorted(rng.randint(1950, 2018) for _ in places)
    rows = [
        f"|-\n| {year} || {place} || align=right | {rng.randint(2, 990)}"
        for year, place in zip(years, places, strict=True)
    ]
    return "\n".join(['{| class="wikitable"\n! Year !! Place !! Number', *rows, "|}"])


def _citations(page: Page, cited: Sequence[int]) -> list[str]:
    """Return the last section, which mentions entities from near and far."""
    rng, catalogue = page.scene.rng, page.scene.catalogue
    kinds = catalogue.lexicon.kinds
    own_topic = [name for name in kinds if kinds[name].topic == page.entity.kind.topic]
    chosen = list(cited)
    for _ in range(rng.randint(2, 4)):
        kind = rng.choice(own_topic if rng.random() < 0.5 else list(kinds))
        chosen.append(catalogue.related(page.entity, kind, rng))
    rng.shuffle(chosen)
    host = page.entity.kind
    mark = "@place " if host.name in PLACES else "@person " if host.person else "@none "
    sentences = []
    used: list[str] = []
    for index in dict.fromkeys(chosen):
        # Of the sentences about it, those that make sense in an article on a place or a person.
        cites = catalogue.entities[index].kind.cites
        suitable = [template for template in cites if not template.startswith("@")]
        suitable += [t.removeprefix(mark) for t in cites if t.startswith(mark)]
        free = [template for template in suitable if template not in used]
        if index == page.entity.index or not free:
            continue
        template = rng.choice(free)
        used.append(template)
        me = page.scene.mention(index, template.partition("{me}")[0])
        sentences.append(page.sentence(template, me))
    return [f"== {rng.choice(LAST_SECTIONS)} ==", " ".join(sentences)] if sentences else []


def _tail(page: Page) -> list[str]:
    rng, entity, catalogue = page.scene.rng, page.entity, page.scene.catalogue
    parts = []
    if rng.random() < 0.4:
        near = [catalogue.related(entity, entity.kind.name, rng) for _ in range(2)]
        titles = dict.fromkeys(catalogue.entities[i].title for i in near if i != entity.index)
        if titles:
            parts.append("\n* ".join(["== See also ==", *(f"[[{title}]]" for title in titles)]))
    parts.append("== References ==\n{{reflist}}")
    if rng.random() < 0.2:
        link = f"[http://www.example.org/{entity.index} Official page]"
        parts.append(f"== External links ==\n* {link}")
    if rng.random() < 0.3:
        parts.append(f"{{{{{entity.kind.topic.capitalize()} in the provinces}}}}")
    place = catalogue.entities[catalogue.country_of_region[entity.region]].base
    last = [f"Category:{place}", f"Category:{entity.kind.label.capitalize()}|{entity.base}"]
    if entity.kind.person:
        last.append(f"Category:{entity.year} births")
    last += [f"{code}:{entity.name}" for code in LANGUAGES if rng.random() < 0.2]
    return [*parts, "\n".join(f"[[{link}]]" for link in last)]


def write_disambiguation(
    title: str, members: Sequence[int], catalogue: Catalogue, rng: random.Random
) -> str:
    """Return the wikitext of a page that lists who shares a name."""
    name = title.removesuffix(" (disambiguation)")
    lines = [f"'''{name}''' may refer to:"]
    for index in members:
        entity = catalogue.entities[index]
        scene = Scene(catalogue, rng, entity, [(entity.kind.topic, 1.0)], encyclopaedic=False)
        gloss = scene.text(entity.kind.gloss)
        lines.append(f"* [[{entity.title}]], {gloss[0].lower()}{gloss[1:]}")
    template = rng.choice(["{{disambiguation}}", "{{disambig}}", "{{disambiguation|surname}}"])
    return "\n".join([*lines, "", template])


NAMESPACES = {
    -2: "Media", -1: "Special", 0: "", 1: "Talk", 2: "User", 3: "User talk", 4: "Project",
    5: "Project talk", 6: "File", 7: "File talk", 8: "MediaWiki", 9: "MediaWiki talk",
    10: "Template", 11: "Template talk", 12: "Help", 13: "Help talk", 14: "Category",
    15: "Category talk",
}  # fmt: skip
HEADER = """\
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo>
    <sitename>Almanac of the Provinces</sitename>
    <dbname>provinces</dbname>
    <base>http://www.example.org/wiki/Main_Page</base>
    <generator>MediaWiki 1.39.0</generator>
    <case>first-letter</case>
    <namespaces>"""
EDITORS = ("Quillon", "Marrowfat", "Tessellate", "Old Almanac", "Brimble")
OTHER_PAGES = (
    (10, "Template:Reflist", "<references/><noinclude>Shows the notes.</noinclude>"),
    (10, "Template:Disambiguation", "''This page lists things of the same name.''"),
    (1, "Talk:Football", "Should the rules have [[Goalkeeper|a section]] of their own? ~~~~"),
    (2, "User:Brimble", "I write about [[bird]]s and correct commas."),
    (4, "Project:About", "This encyclopaedia is '''invented'''."),
    (6, "File:Map.png", "A map of the provinces."),
    (14, "Category:Football", "[[Category:Topics]]"),
)


@dataclass(frozen=True, slots=True)
class DumpPage:
    """A page before it becomes XML."""

    namespace: int
    title: str
    text: str
    redirect: str | None = None


def dump_pages(
    catalogue: Catalogue, titles: Titles, citations: Mapping[int, list[int]], seed: int
) -> Iterator[DumpPage]:
    """Yield the pages of the dump one by one, each from a random stream of its own."""
    yield from (DumpPage(*page) for page in OTHER_PAGES)
    for title, (topic, text) in catalogue.lexicon.concepts.items():
        yield DumpPage(0, title, f"{text}\n\n[[Category:{topic.capitalize()}]]")
    for entity in catalogue.entities:
        rng = random.Random(f"{seed}/article/{entity.index}")
        cited = citations.get(entity.index, [])
        yield DumpPage(0, entity.title, write_article(entity, catalogue, titles, cited, rng))
    for title, target, entity_index in titles.redirects:
        rng = random.Random(f"{seed}/redirect/{entity_index}/{title}")
        section = "#History" if rng.random() < 0.05 else ""
        mark = rng.choice(["#REDIRECT ", "#REDIRECT ", "#redirect", "#Redirect: "])
        note = "\n\n{{R from other name}}" if rng.random() < 0.3 else ""
        yield DumpPage(0, title, f"{mark}[[{target}{section}]]{note}", redirect=target)
    for title, members in titles.disambiguations:
        rng = random.Random(f"{seed}/disambiguation/{title}")
        yield DumpPage(0, title, write_disambiguation(title, members, catalogue, rng))


def write_dump(pages: Iterable[DumpPage], stream: IO[bytes], seed: int) -> int:
    """Write a dump and return the number of its pages."""
    stream.write(_header().encode())
    n_pages = 0
    rng = random.Random(f"{seed}/revisions")
    for n_pages, page in enumerate(pages, start=1):
        stream.write(_page_xml(page, n_pages, rng).encode())
    stream.write(b"</mediawiki>\n")
    return n_pages


def _header() -> str:
    rows = [
        f'      <namespace key="{key}" case="first-letter"'
        + (f">{name}</namespace>" if name else " />")
        for key, name in NAMESPACES.items()
    ]
    return "\n".join([HEADER, *rows, "    </namespaces>", "  </siteinfo>", ""])


def _page_xml(page: DumpPage, number: int, rng: random.Random) -> str:
    data = page.text.encode()
    digest = sha1(data, usedforsecurity=False).hexdigest()
    month, day = rng.randint(1, 12), rng.randint(1, 28)
    clock = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    redirect = page.redirect
    lines = [
        "  <page>",
        f"    <title>{escape(page.title)}</title>",
        f"    <ns>{page.namespace}</ns>",
        f"    <id>{number * 3 + 7}</id>",
        *([f"    <redirect title={quoteattr(redirect)} />"] if redirect else []),
        "    <revision>",
        f"      <id>{number * 17 + 1000}</id>",
        f"      <timestamp>2019-{month:02d}-{day:02d}T{clock}Z</timestamp>",
        "      <contributor>",
        f"        <username>{rng.choice(EDITORS)}</username>",
        f"        <id>{rng.randint(2, 99)}</id>",
        "      </contributor>",
        "      <model>wikitext</model>",
        "      <format>text/x-wiki</format>",
        f'      <text bytes="{len(data)}" sha1="{digest}" xml:space="preserve">'
        f"{escape(page.text)}</text>",
        f"      <sha1>{digest}</sha1>",
        "    </revision>",
        "  </page>",
        "",
    ]
    return "\n".join(lines)
