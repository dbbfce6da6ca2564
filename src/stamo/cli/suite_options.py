"""The options of `stamo suite`, so that its commands read as what they do."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class SuiteKind(StrEnum):
    """Where the gold labels of a suite come from."""

    conflated = "conflated"
    natural = "natural"
    facc1 = "facc1"
    wild = "wild"


class LevelChoice(StrEnum):
    """How hard the rivals of a conflated suite are."""

    easy = "easy"
    mid = "mid"
    hard = "hard"
    rare = "rare"
    all = "all"


class LabelsBy(StrEnum):
    """Who chooses the labels of a wild suite."""

    random = "random"
    advisor = "advisor"


SuiteKb = Annotated[Path, typer.Option("--kb", help="Directory of the knowledge base.")]
WorkersOption = Annotated[int | None, typer.Option(help="Processes; one for each core by default.")]
Kind = Annotated[SuiteKind, typer.Argument(help="conflated, natural, facc1 or wild.")]
OutDirectory = Annotated[Path, typer.Option(help="Directory to make.")]
CorpusOption = Annotated[
    list[Path] | None,
    typer.Option(help="Later text (conflated, wild), or ClueWeb12 WARC (facc1)."),
]
LevelOption = Annotated[
    LevelChoice, typer.Option(help="Of a conflated suite; `all` makes each of them below OUT.")
]
EntitiesOption = Annotated[
    str | None,
    typer.Option(help="Emerging entities at most; of a wild suite, the file of entities."),
]
LabelsFile = Annotated[Path | None, typer.Option(help="The file of judged mentions (wild).")]
ModelFile = Annotated[
    Path | None, typer.Option(help="The linking model that links the context (wild).")
]
LeastDocuments = Annotated[
    int | None, typer.Option(help="Documents that must mention an emerging entity.")
]
Frequency = Annotated[
    tuple[int, int] | None, typer.Option(help="Bounds of the document frequency (natural).")
]
Ambiguity = Annotated[
    tuple[float, float] | None, typer.Option(help="Bounds of the ambiguity rate (natural).")
]
Missing = Annotated[
    str | None,
    typer.Option(help="Links to missing pages: keep, drop namesakes or drop (natural)."),
]
Annotations = Annotated[
    list[Path] | None, typer.Option(help="FACC1 files that annotate the pages.")
]
FreebaseKeys = Annotated[
    Path | None, typer.Option(help="Freebase ids with Wikipedia page ids (facc1).")
]
AnyTitle = Annotated[
    bool,
    typer.Option(
        "--any-title", help="Let dates, numbers, lists and common nouns play entities too."
    ),
]
MakeSeed = Annotated[
    int, typer.Option("--seed", help="Another one takes other entities and other groups of them.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an older suite.")]

SuitePath = Annotated[Path, typer.Argument(metavar="SUITE", help="A suite, or a folder of them.")]
ResultsDirectory = Annotated[
    Path, typer.Option(help="Directory of the results; a run in it goes on.")
]
MethodsOption = Annotated[
    str, typer.Option(help="Names with commas; `all` but the slowest ones and `quirks`.")
]
ModelsOption = Annotated[str, typer.Option(help="deeped, yamada or both.")]
SeedsOption = Annotated[
    int | None, typer.Option(help="Draws of labels; 3, of a wild suite 5 by default.")
]
RunSeed = Annotated[int, typer.Option("--seed", help="The first draw; the others follow it.")]
SlowSeeds = Annotated[int, typer.Option(help="Draws for methods with many slots.")]
LabelsOption = Annotated[int, typer.Option(help="Labelled documents |L|.")]
SizesOption = Annotated[
    str | None,
    typer.Option(
        help="|L| of the figure on the labelled size, empty for none; of a wild suite all |L|, "
        "0,5,20 by default."
    ),
]
LabelsByOption = Annotated[LabelsBy, typer.Option(help="Who chooses the labels of a wild suite.")]
EncoderOption = Annotated[
    str, typer.Option(help="A folder with a sentence encoder, installed, or none.")
]
AboutOption = Annotated[
    bool, typer.Option(help="Learn with the line about each entity of a wild suite.")
]
SplitOption = Annotated[str, typer.Option(help="development, held-out or all.")]
SlotsOption = Annotated[int, typer.Option(help="Slots T at most.")]
MostEntities = Annotated[
    int | None, typer.Option(help="Emerging entities at most; all by default.")
]
ExperimentOption = Annotated[
    Path | None,
    typer.Option(help="Run one row of a table: a name or a file like `table3-stamo-deeped`."),
]
BertOption = Annotated[bool, typer.Option("--bert", help="Also run BERT (slow).")]
BertWeights = Annotated[
    str, typer.Option(help="Folder or name of a BERT; by default a packaged MiniLM.")
]
