"""A linker from files, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stamo.errors import PackError
from stamo.kb.base import KnowledgeBase
from stamo.linking.linker import Linker
from stamo.linking.settings import LinkerSettings
from stamo.models.store import load_model
from stamo.packs.pack_bytes import PACK_SUFFIX

if TYPE_CHECKING:
    from stamo.linking.packed import PackedLinker


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
