"""`stamo suite make`: benchmarks that anyone can rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Option

from stamo.cli.options import AsJson, refuse_foreign
from stamo.cli.tables import Console, print_json
from stamo.errors import SettingsError

if TYPE_CHECKING:
    from stamo.corpus.types import Document
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.store import Suite
    from stamo.replication.wild.suite import WildSuite


SuiteKind = StrEnum("SuiteKind", ["conflated", "natural", "facc1", "wild"])
"""Where the gold labels of a suite come from."""
LevelChoice = StrEnum("LevelChoice", ["easy", "mid", "hard", "rare", "all"])
"""How hard the rivals of a conflated suite are."""
_OWN_GOLD = (SuiteKind.natural, SuiteKind.facc1)
MAKE_KINDS = {
    "corpus": (SuiteKind.conflated, SuiteKind.facc1, SuiteKind.wild),
    "level": (SuiteKind.conflated,),
    **dict.fromkeys(("labels", "model"), (SuiteKind.wild,)),
    **dict.fromkeys(("frequency", "ambiguity", "missing"), _OWN_GOLD),
    **dict.fromkeys(("annotations", "freebase_keys"), (SuiteKind.facc1,)),
    **dict.fromkeys(("least_documents", "any_title", "seed"), (SuiteKind.conflated, *_OWN_GOLD)),
}
"""The suites that an option of `make` is for, where it is not for all."""

SuiteKb = Annotated[Path, Option("--kb", help="Directory of the knowledge base.")]
WorkersOption = Annotated[int | None, Option(help="Processes; one for each core by default.")]


def make(
    context: Context,
    kind: Annotated[SuiteKind, Argument(help="conflated, natural, facc1 or wild.")],
    kb: SuiteKb,
    out: Path = Option(..., help="Directory to make."),
    corpus: list[Path] | None = Option(
        None, help="Later text (conflated, wild), or ClueWeb12 WARC (facc1)."
    ),
    level: LevelChoice = Option(
        LevelChoice.all, help="Of a conflated suite; `all` makes each of them below OUT."
    ),
    entities: str | None = Option(
        None, help="Emerging entities at most; of a wild suite, the file of entities."
    ),
    labels: Path | None = Option(None, help="The file of judged mentions (wild)."),
    model: Path | None = Option(None, help="The linking model that links the context (wild)."),
    least_documents: int | None = Option(
        None, help="Documents that must mention an emerging entity."
    ),
    frequency: tuple[int, int] | None = Option(
        None, help="Bounds of the document frequency (natural)."
    ),
    ambiguity: tuple[float, float] | None = Option(
        None, help="Bounds of the ambiguity rate (natural)."
    ),
    missing: str | None = Option(
        None, help="Links to missing pages: keep, drop namesakes or drop (natural)."
    ),
    annotations: list[Path] | None = Option(None, help="FACC1 files that annotate the pages."),
    freebase_keys: Path | None = Option(None, help="Freebase ids with Wikipedia page ids (facc1)."),
    any_title: bool = Option(
        False, "--any-title", help="Let dates, numbers, lists and common nouns play entities too."
    ),
    seed: int = Option(
        0, "--seed", help="Another one takes other entities and other groups of them."
    ),
    workers: WorkersOption = None,
    overwrite: bool = Option(False, "--overwrite", help="Replace an older suite."),
    as_json: AsJson = False,
) -> None:
    """Make a suite from a knowledge base and a pile of text."""
    from stamo.corpus.readers import read_documents
    from stamo.kb.base import KnowledgeBase
    from stamo.replication.suites.conflated import LEVELS, ConflatedSettings
    from stamo.replication.suites.make import make_conflated, make_natural
    from stamo.replication.suites.natural import NaturalSettings

    refuse_foreign(context, MAKE_KINDS, kind, "suite")
    base = KnowledgeBase.open(kb)
    options: dict[str, Any] = {"overwrite": overwrite, "n_workers": workers}
    if kind == SuiteKind.wild:
        _show_suites([_wild(base, model, entities, labels, corpus, out, options)], as_json)
        return
    given = _given({"n_entities": _whole_number(entities), "least_documents": least_documents})
    given |= {"any_title": any_title, "seed": seed}
    bounds = _given({"frequency": frequency, "ambiguity": ambiguity, "missing": missing})
    with _documents_bar() as options["on_document"]:
        if kind == SuiteKind.natural:
            suites = [make_natural(base, out, NaturalSettings(**given | bounds), **options)]
        elif kind == SuiteKind.facc1:
            pages = _facc1_documents(base, corpus, annotations, freebase_keys)
            settings = NaturalSettings(**{"frequency": (1000, 2000)} | given | bounds)
            suites = [make_natural(base, out, settings, pages, **options)]
        else:
            if not corpus:
                raise SettingsError("A conflated suite needs text; give it with --corpus.")
            options["corpus_name"] = ", ".join(path.name for path in corpus)
            levels = [name for name in LEVELS if level in {name, LevelChoice.all}]
            wanted = [ConflatedSettings.of_level(name, **given) for name in levels]
            suites = make_conflated(base, read_documents(corpus), out, wanted, **options)
    _show_suites(suites, as_json)


def _facc1_documents(
    kb: KnowledgeBase,
    warcs: list[Path] | None,
    annotations: list[Path] | None,
    freebase_keys: Path | None,
) -> Iterator[Document]:
    from stamo.corpus.formats.facc1 import read_facc1, read_freebase_keys

    if not warcs or not annotations or freebase_keys is None:
        raise SettingsError(
            "A facc1 suite needs --corpus (WARC files), --annotations (FACC1 files) and "
            "--freebase-keys."
        )
    titles = {
        article["page_id"]: article["title"]
        for batch in kb.articles(columns=["page_id", "title"])
        for article in batch.to_pylist()
    }
    return read_facc1(warcs, annotations, read_freebase_keys(freebase_keys, titles))


def _wild(
    kb: KnowledgeBase,
    model: Path | None,
    entities: str | None,
    labels: Path | None,
    corpus: list[Path] | None,
    out: Path,
    options: dict[str, Any],
) -> WildSuite:
    from stamo.models.store import load_model
    from stamo.replication.wild.suite import make_wild, read_wild_entities, read_wild_labels

    if model is None or not entities or labels is None or not corpus:
        raise SettingsError(
            "A wild suite needs --model, --entities (a file), --labels (a file) and --corpus."
        )
    with problems_bar("wild") as (_, on_entity):
        return make_wild(
            kb,
            load_model(model),
            read_wild_entities(Path(entities)),
            read_wild_labels(labels),
            corpus,
            out,
            on_entity=on_entity,
            **options,
        )


def _whole_number(text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    raise SettingsError(f"The number of entities is {text!r}; give a whole number.")


def _given(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


@contextmanager
def _documents_bar() -> Iterator[Callable[[int], None]]:
    """Show how many documents were annotated."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("Reading documents")
        yield lambda n: progress.update(task, description=f"{n} documents annotated")


@contextmanager
def problems_bar(name: str) -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None]]]:
    """Show which model is trained and how many problems are done."""
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)

        def on_model(model: str) -> None:
            progress.update(task, description=f"{name}: training {model}")

        def on_problem(done: int, total: int) -> None:
            text = f"{name}: {done} of {total} entities"
            progress.update(task, description=text, completed=done, total=total)

        yield on_model, on_problem


def _show_suites(suites: Sequence[Suite | WildSuite], as_json: bool) -> None:
    records = [
        {
            "suite": str(suite.path),
            "kind": suite.manifest["kind"],
            "level": suite.manifest.get("settings", {}).get("level"),
            "counts": dict(suite.manifest["counts"]),
            "checksum": suite.checksum,
        }
        for suite in suites
    ]
    if as_json:
        print_json(records)
        return
    for record in records:
        counts = ", ".join(f"{n} {what}" for what, n in record["counts"].items())
        kind = " ".join(filter(None, (record["kind"], record["level"])))
        Console().print(
            f"Made [bold]{record['suite']}[/] ({kind}): {counts}; checksum "
            f"{record['checksum'][:12]}."
        )
