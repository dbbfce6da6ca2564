"""Commands that train linking models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from typer import Argument, Option

from stamo.build import SourceKind
from stamo.cli import AsJson, Engine, EngineOption, KbPath, MasterOption, check_engine, start_engine
from stamo.cli.output import Console, print_json, print_table, progress_view, rich_table, warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stamo.build.build import BuildSummary, MapChunks
    from stamo.features.adapter import Adapter
    from stamo.kb.base import KnowledgeBase
    from stamo.kb.show import AliasView, AmbiguityClass, EntityView
    from stamo.models.train import Epoch


def build(
    source: Path = Argument(
        ...,
        metavar="SOURCE",
        help="MediaWiki XML dump (plain, bz2, gz, xz or zst), a folder of Markdown notes, or a "
        "CSV, TSV or JSONL table of entities.",
    ),
    kb: Path = Argument(..., metavar="KB", help="Directory to make."),
    kind: SourceKind | None = Option(
        None, "--as", help="What SOURCE is, where its name does not tell."
    ),
    language: str | None = Option(
        None, help="Language code; dumps mostly say it, of notes and tables it is guessed."
    ),
    vectors: Path | None = Option(
        None, help="Word vectors (GloVe text, word2vec .bin, fastText .vec, .npz)."
    ),
    dimensions: int = Option(
        100, help="Dimensions of vectors learned from the text; 0 for no vectors."
    ),
    workers: int = Option(
        os.cpu_count() or 1, help="Processes; the result is the same for any number."
    ),
    held_out: float | None = Option(
        None,
        help="Share of articles kept out of every statistic.",
        show_default="0.1 of a dump, 0 of notes",
    ),
    missing_targets: bool = Option(True, help="Whether link targets without a page are entities."),
    guess_redirects: bool = Option(True, help="Whether other spellings of titles are redirects."),
    ids: Path | None = Option(
        None, help="Ids of entities: page_props or wb_items_per_site SQL, or two columns."
    ),
    disambiguation_template: list[str] | None = Option(
        None, help="Another template that marks disambiguation pages."
    ),
    overwrite: bool = Option(
        False, "--overwrite", help="Replace a knowledge base of the same name."
    ),
    engine: EngineOption = Engine.embedded,
    master: MasterOption = None,
    as_json: AsJson = False,
) -> None:
    """Build a knowledge base from a MediaWiki dump, Markdown notes or a table of entities."""
    from stamo.build.build import BuildSettings, build_knowledge_base

    settings = BuildSettings(
        source=kind,
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
    check_engine(engine, master=master)
    with start_engine(engine, master, _map_on_spark) as map_chunks, _progress() as progress:
        summary = build_knowledge_base(source, kb, settings, progress, map_chunks)
    if summary.assumed_language:
        warn(summary.assumed_language)
    if as_json:
        print_json(asdict(summary) | {"path": str(summary.path)})
    else:
        _print_summary(summary)


def _map_on_spark(spark: SparkSession) -> MapChunks:
    from stamo.integrations.spark.session import SparkWorkers

    return SparkWorkers(spark).map


def info(
    kb: KbPath,
    figure: Path | None = Option(
        None, help="Draw the ambiguity distribution (.png, .svg or .pdf)."
    ),
    verify: bool = Option(False, "--verify", help="Compare every file with its hash."),
    as_json: AsJson = False,
) -> None:
    """Tell what a knowledge base holds and how ambiguous its names are."""
    from stamo.kb.base import KnowledgeBase
    from stamo.kb.manifest import Manifest
    from stamo.kb.show import ambiguity, plot_ambiguity

    if verify:
        Manifest.load(kb).verify(kb)  # before anything damaged is opened
    base = KnowledgeBase.open(kb)
    classes = ambiguity(base)
    if figure is not None:
        plot_ambiguity(base, figure)
    if as_json:
        print_json(_info_record(base) | {"ambiguity": [asdict(c) for c in classes]})
        return
    print_table(_counts_table(base))
    print_table(_ambiguity_table(classes))
    if figure is not None:
        Console().print(f"The ambiguity distribution is drawn in {figure}.")


def show(
    kb: KbPath,
    name: str = Argument(..., metavar="NAME", help="An alias or a title."),
    n: int = Option(10, "-n", min=1, help="Rows of each table."),
    as_json: AsJson = False,
) -> None:
    """Show what a name may mean, and the names and neighbours of an entity."""
    from stamo.kb.base import KnowledgeBase
    from stamo.kb.show import entity_of, view_alias, view_entity

    base = KnowledgeBase.open(kb)
    alias = view_alias(base, name, n) if base.alias_id(name) >= 0 else None
    entity = view_entity(base, entity_of(base, name), n)
    if as_json:
        print_json({"alias": asdict(alias) if alias else None, "entity": asdict(entity)})
        return
    if alias is not None:
        print_table(_alias_table(alias))
    _print_entity(Console(), entity)


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


def _print_summary(summary: BuildSummary) -> None:
    table = rich_table("", ">", title=f"Knowledge base {summary.path.name}", show_header=False)
    _add_counts(table, summary.counts.items())
    if summary.skipped:
        table.add_section()
        table.add_row("[bold]left out[/bold]", "")
        _add_counts(table, sorted(summary.skipped.items(), key=lambda item: (-item[1], item[0])))
    table.add_section()
    for name, seconds in summary.seconds.items():
        table.add_row(f"{name} (seconds)", f"{seconds:.1f}")
    table.add_row("[bold]all (seconds)[/bold]", f"{sum(summary.seconds.values()):.1f}")
    table.add_row("peak memory, main process (MB)", f"{summary.peak_memory / 1e6:,.0f}")
    if summary.peak_memory_worker:
        table.add_row("peak memory, each worker (MB)", f"{summary.peak_memory_worker / 1e6:,.0f}")
    table.add_row("fingerprint", summary.fingerprint[:16])
    print_table(table)


def _info_record(base: KnowledgeBase) -> dict[str, Any]:
    manifest = base.manifest
    return {
        "name": base.name,
        "fingerprint": base.fingerprint,
        "version": manifest.version,
        "bytes": sum(entry["size"] for entry in manifest.files.values()),
        "sources": {key: asdict(source) for key, source in manifest.sources.items()},
        "settings": dict(manifest.settings),
        "site": dict(manifest.site),
        "counts": dict(manifest.counts),
        "skipped": dict(manifest.skipped),
    }


def _counts_table(base: KnowledgeBase) -> Table:
    record = _info_record(base)
    table = rich_table("", ">", title=f"Knowledge base {base.name}", show_header=False)
    for key, source in base.manifest.sources.items():
        table.add_row(key, f"{source.name} ({source.size / 1e6:,.1f} MB)")
    table.add_row("language", str(record["site"].get("language", "")))
    table.add_row("on disk", f"{record['bytes'] / 1e6:,.1f} MB")
    table.add_row("fingerprint", base.fingerprint[:16])
    table.add_section()
    _add_counts(table, base.manifest.counts.items())
    return table


def _add_counts(table: Table, counts: Iterable[tuple[str, int]]) -> None:
    for name, n in counts:
        table.add_row(name, f"{n:,}")


def _ambiguity_table(classes: list[AmbiguityClass]) -> Table:
    """Draw the ambiguity distribution with characters."""
    headings = (">entities", ">aliases", ">links", "share of the links")
    table = rich_table(*headings, title="How many entities a name may mean")
    total = max(sum(c.n_links for c in classes), 1)
    for c in classes:
        share = c.n_links / total
        bar = "█" * round(40 * share)
        table.add_row(c.label, f"{c.n_aliases:,}", f"{c.n_links:,}", f"{bar} {100 * share:.1f} %")
    return table


def _alias_table(view: AliasView) -> Table:
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


def _print_entity(console: Console, view: EntityView) -> None:
    article = "with an article" if view.has_article else "without an article"
    console.print(
        f"\n“{view.entity}” as an entity, {article}: {view.n_links:,} links in "
        f"{view.document_frequency:,} documents, {view.n_aliases:,} aliases"
    )
    table = rich_table("alias", ">links", "most related", ">", "nearest", ">")
    for column in table.columns:
        column.overflow = "fold"
    for i in range(max(len(view.aliases), len(view.related), len(view.nearest))):
        related, nearest = (_cells(rows, i, "{:.2f}") for rows in (view.related, view.nearest))
        table.add_row(*_cells(view.aliases, i, "{:,}"), *related, *nearest)
    print_table(table)


def _cells(rows: list[Any], i: int, form: str) -> tuple[str, str]:
    return (rows[i][0], form.format(rows[i][1])) if i < len(rows) else ("", "")


def train(
    kb_path: Path = Argument(..., metavar="KB", help="A knowledge base."),
    model: str = Option("deeped", "--model", help="deeped or yamada."),
    out: Path = Option(None, "--out", help="Where to save; MODEL.safetensors by default."),
    n_pairs: int = Option(10_000, "--pairs", help="Mention-entity pairs to train on."),
    n_epochs: int = Option(12, "--epochs", help="Epochs at most."),
    encoder: bool = Option(
        True, help="Whether the sentence encoder, where installed, learns from the links, too."
    ),
    steps: int = Option(400, min=1, help="Steps of the encoder; one takes some 2 s of two cores."),
    seed: int = Option(0, help="Same seed, same bytes."),
    as_json: AsJson = False,
) -> None:
    """Train a linking model on the held-out articles of a knowledge base.

    The sentence encoder learns from its links what the words around a name call for.
    """
    from stamo.kb.base import KnowledgeBase
    from stamo.models.train import TrainingArgs, train_linking_model
    from stamo.system.files import check_writable

    path = out or Path(f"{model}.safetensors")
    check_writable(path)
    kb = KnowledgeBase.open(kb_path)
    args = TrainingArgs(n_pairs=n_pairs, n_epochs=n_epochs, seed=seed)
    title = f"Training {model}"
    with progress_view(Console(stderr=True), title, stays=True, total=n_epochs) as show:

        def on_epoch(epoch: Epoch) -> None:
            text = f"{title} (held-out accuracy {epoch.best_accuracy:.3f})"
            show(epoch.number, description=text)

        trained = train_linking_model(kb, model, args, on_epoch=on_epoch)
        show(n_epochs)
    if encoder:
        trained = replace(trained, adapter=_adapt_encoder(kb, steps, seed))
    trained.save(path)
    report = trained.report
    if as_json:
        print_json({"path": str(path), "fingerprint": trained.fingerprint, "report": dict(report)})
        return
    Console().print(
        f"Saved [bold]{path}[/]: on {report['test_mentions']} ambiguous mentions of unseen "
        f"articles it is right in {report['test_accuracy']:.3f}, the prior alone in "
        f"{report['test_prior_accuracy']:.3f}."
    )


def _adapt_encoder(kb: KnowledgeBase, n_steps: int, seed: int) -> Adapter | None:
    """Let the installed encoder learn from a knowledge base; None where it cannot or need not."""
    from stamo.errors import LearningError, MissingExtraError
    from stamo.features.adapter import shipped_adapter
    from stamo.features.encoder import load_encoder
    from stamo.models.adapter import AdapterArgs, train_adapter

    if kb.fingerprint == shipped_adapter().kb:
        return None
    title = "Adapting the encoder"
    try:
        base = load_encoder()
        with progress_view(Console(stderr=True), title, stays=True, total=n_steps) as show:
            return train_adapter(
                kb,
                base,
                AdapterArgs(n_steps=n_steps, seed=seed),
                on_step=lambda step, loss: show(step, description=f"{title} (loss {loss:.2f})"),
            )
    except MissingExtraError:
        return None
    except LearningError as error:
        warn(str(error))
        return None
