"""Knowledge bases and models: make them, and look into them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from typer import Argument, Option

from stamo.build import SourceKind
from stamo.cli import AsJson, EngineOption, KbPath, MasterOption, start_engine
from stamo.cli.output import Console, progress_view, rich_table, warn
from stamo.cli.output import show as show_result
from stamo.errors import need
from stamo.kb import show as views
from stamo.kb.base import KnowledgeBase
from stamo.kb.manifest import Manifest

if TYPE_CHECKING:
    from stamo.build.build import BuildSummary


def build(
    source: Path = Argument(
        ...,
        metavar="SOURCE",
        help="MediaWiki XML dump (plain, bz2, gz, xz or zst), the short name of a wiki to "
        "fetch (such as simplewiki), a folder of Markdown notes, or a table of entities.",
    ),
    kb: Path = Argument(..., metavar="KB", help="Directory to make."),
    kind: SourceKind | None = Option(
        None, "--as", help="What SOURCE is, if its name does not tell."
    ),
    date: str = Option("latest", help="The dump of a wiki to fetch, such as 20260101."),
    language: str | None = Option(None, help="Language code; taken from the dump, or guessed."),
    vectors: Path | None = Option(None, help="Word vectors: GloVe, word2vec, fastText, .npz."),
    dimensions: int = Option(100, help="Dimensions of vectors to learn; 0 for none."),
    workers: int = Option(os.cpu_count() or 1, help="Processes; the result is the same."),
    held_out: float | None = Option(
        None,
        help="Share of articles kept out of every statistic.",
        show_default="0.1 of a dump, 0 of notes",
    ),
    missing_targets: bool = Option(True, help="Whether link targets without a page are entities."),
    guess_redirects: bool = Option(True, help="Whether other spellings of titles are redirects."),
    ids: Path | None = Option(None, help="Ids of entities: SQL of Wikidata, or two columns."),
    disambiguation_template: list[str] | None = Option(
        None, help="Another template that marks disambiguation pages."
    ),
    overwrite: bool = Option(
        False, "--overwrite", help="Replace a knowledge base of the same name."
    ),
    engine: EngineOption = "embedded",
    master: MasterOption = None,
    as_json: AsJson = False,
) -> None:
    """Build a knowledge base from a MediaWiki dump, Markdown notes or a table of entities."""
    from stamo.build.build import BuildSettings, build_knowledge_base

    settings = BuildSettings(
        source=kind,
        date=date,
        language=language,
        vectors=vectors,
        dimensions=dimensions,
        workers=workers,
        held_out=held_out,
        missing_targets=missing_targets,
        guess_redirects=guess_redirects,
        ids=ids,
        disambiguation_templates=frozenset(disambiguation_template or ()),
        overwrite=overwrite,
    )
    with start_engine(engine, master) as spark, _progress() as progress:
        map_chunks = None
        if spark is not None:
            from stamo.integrations.spark.jobs import SparkWorkers

            map_chunks = SparkWorkers(spark).map
        summary = build_knowledge_base(source, kb, settings, progress, map_chunks)
    if summary.assumed_language:
        warn(summary.assumed_language)
    show_result(summary, [_summary_table(summary)], as_json=as_json)


def info(
    kb: KbPath,
    verify: bool = Option(False, "--verify", help="Compare every file with its hash."),
    as_json: AsJson = False,
) -> None:
    """Tell what a knowledge base holds and how ambiguous its names are."""
    if verify:
        Manifest.load(kb).verify(kb)  # before anything damaged is opened
    base = KnowledgeBase.open(kb)
    manifest, classes = base.manifest, views.ambiguity(base)
    record = {
        "name": base.name,
        "fingerprint": base.fingerprint,
        "version": manifest.version,
        "bytes": sum(entry["size"] for entry in manifest.files.values()),
        "sources": manifest.sources,
        "settings": manifest.settings,
        "site": manifest.site,
        "counts": manifest.counts,
        "skipped": manifest.skipped,
        "ambiguity": classes,
    }
    about = [
        *((key, f"{s.name} ({s.size / 1e6:,.1f} MB)") for key, s in manifest.sources.items()),
        ("language", str(manifest.site.get("language", ""))),
        ("on disk", f"{record['bytes'] / 1e6:,.1f} MB"),
        ("fingerprint", base.fingerprint[:16]),
    ]
    counts = _values_table(f"Knowledge base {base.name}", about, manifest.counts.items())
    show_result(record, [counts, _ambiguity_table(classes)], as_json=as_json)


def show(
    kb: KbPath,
    name: str = Argument(..., metavar="NAME", help="A title, an alias, or words of one."),
    n: int = Option(10, "-n", min=1, help="Rows of each table."),
    as_json: AsJson = False,
) -> None:
    """Show what a name or words of it may mean, and the names and neighbours of an entity."""
    base = KnowledgeBase.open(kb)
    alias = views.view_alias(base, name, n) if base.alias_id(name) >= 0 else None
    entity = views.view_entity(base, views.entity_of(base, name), n)
    found = views.view_found(base, name, n)
    listed = ", ".join(f"{title} ({n_links:,} links)" for title, n_links in found)
    view: list[RenderableType] = [] if alias is None else [_alias_table(alias)]
    view += [f"\nEntities with “{name}” in a name: {listed}", *_entity_view(entity)]
    show_result({"alias": alias, "found": found, "entity": entity}, view, as_json=as_json)


@contextmanager
def _progress() -> Iterator[Callable[[str, float | None], None]]:
    """Show one bar for each step, with the time it will still take."""
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description:<18}"),
        rich.BarColumn(),
        rich.TextColumn("{task.percentage:>3.0f} %"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, rich.TaskID] = {}

        def report(step: str, done: float | None) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=1.0)
            bars.update(tasks[step], completed=done or 0.0, total=None if done is None else 1.0)

        yield report


def _values_table(title: str, *sections: Iterable[tuple[str, str | int]]) -> Table:
    """Show values beside their names, in sections."""
    table = rich_table("", ">", title=title, show_header=False)
    for rows in sections:
        for name, value in rows:
            table.add_row(name, value if isinstance(value, str) else f"{value:,}")
        table.add_section()
    return table


def _summary_table(summary: BuildSummary) -> Table:
    skipped = sorted(summary.skipped.items(), key=lambda item: (-item[1], item[0]))
    seconds = {**summary.seconds, "[bold]all[/bold]": sum(summary.seconds.values())}
    memory = {"main process": summary.peak_memory, "each worker": summary.peak_memory_worker}
    return _values_table(
        f"Knowledge base {summary.path.name}",
        summary.counts.items(),
        [("[bold]left out[/bold]", ""), *skipped] if skipped else [],
        [
            *((f"{name} (seconds)", f"{value:.1f}") for name, value in seconds.items()),
            *((f"peak memory, {who} (MB)", f"{n / 1e6:,.0f}") for who, n in memory.items() if n),
            ("fingerprint", summary.fingerprint[:16]),
        ],
    )


def _ambiguity_table(classes: list[views.AmbiguityClass]) -> Table:
    """Draw the ambiguity distribution with characters."""
    headings = (">entities", ">aliases", ">links", "share of the links")
    table = rich_table(*headings, title="How many entities a name may mean")
    total = max(sum(c.n_links for c in classes), 1)
    for c in classes:
        share = c.n_links / total
        bar = "█" * round(40 * share)
        table.add_row(c.label, f"{c.n_aliases:,}", f"{c.n_links:,}", f"{bar} {100 * share:.1f} %")
    return table


def _alias_table(view: views.AliasView) -> Table:
    shown = len(view.candidates)
    more = f", the first {shown} shown" if shown < view.n_candidates else ""
    title = (
        f"“{view.alias}” as a name: {view.n_candidates:,} entities{more}; {view.n_links:,} "
        f"links; linked in {100 * view.link_probability:.1f} % of the articles that have it"
    )
    table = rich_table("entity", ">prior", ">links", ">documents", "article", title=title)
    table.columns[0].overflow = "fold"
    table.columns[-1].justify = "center"
    for row in view.candidates:
        numbers = (f"{row.prior:.3f}", f"{row.count:,}", f"{row.document_frequency:,}")
        table.add_row(row.entity, *numbers, "yes" if row.has_article else "")
    return table


def _entity_view(view: views.EntityView) -> Iterator[RenderableType]:
    article = "with an article" if view.has_article else "without an article"
    yield (
        f"\n“{view.entity}” as an entity, {article}: {view.n_links:,} links in "
        f"{view.document_frequency:,} documents, {view.n_aliases:,} aliases"
    )
    table = rich_table("alias", ">links", "most related", ">", "nearest", ">")
    for column in table.columns:
        column.overflow = "fold"
    names = [(name, f"{n:,}") for name, n in view.aliases]
    near = ([(title, f"{x:.2f}") for title, x in rows] for rows in (view.related, view.nearest))
    for cells in zip_longest(names, *near, fillvalue=("", "")):
        table.add_row(*(text for pair in cells for text in pair))
    yield table


def train(
    kb: KbPath,
    model: str = Option("deeped", "--model", help="deeped or yamada."),
    out: Path = Option(None, "--out", help="Where to save; MODEL.safetensors by default."),
    n_pairs: int = Option(10_000, "--pairs", help="Mention-entity pairs to train on."),
    n_epochs: int = Option(12, "--epochs", help="Epochs at most."),
    encoder: bool = Option(
        False, "--encoder", help="Let the sentence encoder read the links too: some minutes."
    ),
    steps: int = Option(400, min=1, help="Steps of the encoder; one takes about 2 s."),
    seed: int = Option(0, help="Same seed, same bytes."),
    as_json: AsJson = False,
) -> None:
    """Train a linking model on the held-out articles of a knowledge base."""
    from stamo.models.train import TrainingArgs, train_linking_model
    from stamo.system.files import check_writable

    path = out or Path(f"{model}.safetensors")
    check_writable(path)
    base = KnowledgeBase.open(kb)
    args = TrainingArgs(n_pairs=n_pairs, n_epochs=n_epochs, seed=seed)
    title = f"Training {model}"
    with progress_view(Console(stderr=True), title, stays=True, total=n_epochs) as report:
        trained = train_linking_model(
            base,
            model,
            args,
            on_epoch=lambda epoch: report(
                epoch.number, description=f"{title} (held-out accuracy {epoch.best_accuracy:.3f})"
            ),
        )
        report(n_epochs)
    if encoder:
        need("torch", "encoder", "Reading the links")
        from stamo.learning.rehearsal import adapt_to

        with progress_view(Console(stderr=True), "Reading the links", stays=True) as show_share:
            trained = adapt_to(
                base,
                trained,
                n_steps=steps,
                seed=seed,
                on_progress=lambda share, text: show_share(share, 1.0, description=text),
            )
    trained.save(path)
    found = trained.report
    said = (
        f"Saved {path}: on {found['test_mentions']} ambiguous mentions of unseen articles it is "
        f"right in {found['test_accuracy']:.3f}, the prior alone in "
        f"{found['test_prior_accuracy']:.3f}."
    )
    record = {"path": path, "fingerprint": trained.fingerprint, "report": found}
    show_result(record, [said], as_json=as_json)
