"""From a table of entities to the staged tables of a build."""

from __future__ import annotations

from dataclasses import dataclass, field

from stamo.build.dump.site import Site
from stamo.build.engine import BuildState
from stamo.build.entity_rows import MAX_COUNT, EntityRow, EntityTable
from stamo.build.extract import TEXT_SCHEMA, rows_batch
from stamo.build.listing import Listed, choose_titles, tidy_title
from stamo.build.settings import Report
from stamo.build.settling import AsWritten, settle_articles
from stamo.build.source import plain_site
from stamo.build.wikitext.style import sanitise
from stamo.errors import DumpError

_ROWS = 1 << 12


@dataclass
class _Entities:
    """The entities of a table, without their descriptions."""

    file: str
    site: Site
    listed: dict[int, Listed] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    line_of: dict[tuple[str, ...], int] = field(default_factory=dict)
    n_uses: int = 0

    def add(self, row: EntityRow) -> None:
        """Take one row.

        Raises:
            DumpError: It is an entity that was there before, or cannot be counted.
        """
        title = tidy_title(row.name, self.site)
        if not title:
            raise DumpError(f"{self.file}, line {row.line} has a name without a visible sign.")
        key = (row.id,) if row.id else (title, row.type)
        before = self.line_of.setdefault(key, row.line)
        if before != row.line:
            same = f"the id {row.id!r}" if row.id else f"the name {title!r} and no id"
            raise DumpError(
                f"{self.file}, line {row.line} has {same}, as line {before} has; give every "
                "entity an id of its own."
            )
        names = (row.name, *row.aliases)
        self.n_uses += row.count * len(names)
        if self.n_uses > MAX_COUNT:
            raise DumpError(
                f"{self.file}: the counts of all names are more than {MAX_COUNT:,} together by "
                f"line {row.line}; divide them all by the same number."
            )
        names = tuple(sanitise(name) for name in names)
        qualifiers = (tidy_title(row.type, self.site), tidy_title(row.id, self.site))
        self.listed[len(self.listed)] = Listed(title, qualifiers, names, row.count)
        self.ids.append(row.id)


def stage_entities(build: BuildState, report: Report) -> Site:
    """Read a table of entities: names with their counts, and descriptions as articles."""
    table = EntityTable(build.source.path)
    sample = EntityTable(build.source.path).rows()
    site = plain_site(build.language(f"{row.name}\n{row.description}" for row in sample))
    entities = _Entities(table.path.name, site)
    texts: list[tuple[int, int, str, str, bool]] = []
    with AsWritten(build.work) as written:
        for at, row in enumerate(table.rows()):
            entities.add(row)
            texts.append((at, at + 1, "", sanitise(row.description), False))
            if len(texts) == _ROWS:
                written.append(rows_batch(texts, TEXT_SCHEMA))
                texts = []
                report(None)
        written.append(rows_batch(texts, TEXT_SCHEMA))
    build.skipped.update(table.unused)
    chosen = choose_titles([*entities.listed.values()])
    build.ids = [(title, id) for title, id in zip(chosen, entities.ids, strict=True) if id]
    titles = dict(enumerate(chosen))
    settle_articles(build, entities.listed, titles, written, lambda target, at: None)
    return site
