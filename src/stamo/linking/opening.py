"""A linker from files, in one call, and its work in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stamo.corpus.parts import ReadPart
from stamo.errors import PackError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker, batched
from stamo.linking.results import LinkedDocument
from stamo.linking.settings import LinkerSettings
from stamo.models.store import load_model
from stamo.packs.pack_bytes import PACK_SUFFIX
from stamo.system.processes import Result, Workers
from stamo.system.runtime import one_thread, without_garbage_collection

if TYPE_CHECKING:
    from stamo.linking.packed import PackedLinker

Finish = Callable[[LinkedDocument], Result]


def open_linker(
    kb: str | Path,
    model: str | Path | None,
    packs: Sequence[str | Path] = (),
    settings: LinkerSettings = LinkerSettings(),
) -> Linker | PackedLinker:
    """Open a knowledge base, a model and entity packs, and put them together.

    Args:
        kb: Directory of the knowledge base.
        model: File of a model trained with it; None links by prior and relatedness.
        packs: Entity packs, or folders of them.
        settings: How to link.

    Raises:
        StamoError: Something is missing, damaged, or does not belong to the others.
    """
    trained = None if model is None else load_model(Path(model))
    linker = Linker(KnowledgeBase.open(Path(kb)), trained, settings=settings)
    if not packs:
        return linker
    from stamo.linking.packed import PackedLinker  # with torch, which takes a second
    from stamo.packs.folder import refuse_twins
    from stamo.packs.pack import EntityPack

    loaded = [(str(path), EntityPack.load(path, linker.kb)) for path in pack_files(packs)]
    refuse_twins(loaded)
    return PackedLinker(linker, [pack for _, pack in loaded])


def pack_files(paths: Iterable[str | Path]) -> list[Path]:
    """List packs, also those of folders, in the order of their names.

    Raises:
        PackError: A path does not exist, or a folder holds no pack.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.glob(f"*{PACK_SUFFIX}")) if path.is_dir() else [path]
        if not path.exists() or not inside:
            what = "no pack in the folder" if path.is_dir() else "no pack or folder of packs"
            raise PackError(f"There is {what} {str(path)!r}; check the path.")
        found += inside
    return found


class BatchLinker(Protocol):
    """What links batches: a linker, with or without entity packs."""

    @property
    def settings(self) -> LinkerSettings:
        """How to link."""
        ...

    @property
    def window(self) -> int:
        """Characters of a long text that are linked together."""
        ...

    def warm_up(self) -> None:
        """Make everything that is made on first use."""

    def link_batch(self, sources: Sequence[ReadPart]) -> Iterable[LinkedDocument]:
        """Link the documents or parts of one batch."""
        ...


def link_in_processes(
    linker: BatchLinker, sources: Iterable[ReadPart], finish: Finish[Result], n_workers: int = 1
) -> Iterator[list[Result]]:
    """Link a stream and yield the results of one batch after the other, in order.

    The processes share the linker, whose pages are copied only when written to; its caches are made
    before they are forked. The results do not depend on the number of workers.

    Args:
        linker: The linker.
        sources: What to link.
        finish: Turns a linked document into what is wanted of it, inside the worker.
        n_workers: Processes; 1 is the calling process itself.
    """
    batches = batched(sources, linker.settings.batch_size, linker.window)

    def link(batch: Sequence[ReadPart]) -> list[Result]:
        with without_garbage_collection(), one_thread():
            return [finish(linked) for linked in linker.link_batch(batch)]

    if n_workers == 1:
        yield from map(link, batches)
        return
    linker.warm_up()
    with Workers(n_workers, inherited=link) as workers:
        yield from workers.map(link, batches)
