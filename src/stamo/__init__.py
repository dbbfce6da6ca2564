"""Make a brand-new entity linkable from twenty labels and a pile of text.

The public names are loaded when they are first used, so that `import stamo` stays quick and works
without the optional parts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stamo.build.build import BuildSettings as BuildSettings
    from stamo.build.build import build_knowledge_base as build_knowledge_base
    from stamo.corpus.reading import read_documents as read_documents
    from stamo.corpus.types import Corpus as Corpus
    from stamo.corpus.types import Document as Document
    from stamo.corpus.types import EmergingEntity as EmergingEntity
    from stamo.corpus.types import Mention as Mention
    from stamo.discovery.discover import discover as discover
    from stamo.errors import StamoError as StamoError
    from stamo.kb.base import KnowledgeBase as KnowledgeBase
    from stamo.learning.learn import learn as learn
    from stamo.linking.detect import LinkerSettings as LinkerSettings
    from stamo.linking.linker import Linker as Linker
    from stamo.linking.linker import open_linker as open_linker
    from stamo.linking.output import to_arrow as to_arrow
    from stamo.linking.output import to_pandas as to_pandas
    from stamo.models.store import load_model as load_model
    from stamo.models.train import TrainingArgs as TrainingArgs
    from stamo.models.train import train_linking_model as train_linking_model
    from stamo.packs.pack import EntityPack as EntityPack
    from stamo.workspace.collect import collect as collect
    from stamo.workspace.desk import LabelDesk as LabelDesk
    from stamo.workspace.folder import Workspace as Workspace
    from stamo.workspace.learn import learn_pack as learn_pack
    from stamo.world import unpack_world as unpack_world

__version__ = "0.1.0"

_MODULES = {
    "BuildSettings": "stamo.build.build",
    "Corpus": "stamo.corpus.types",
    "Document": "stamo.corpus.types",
    "EmergingEntity": "stamo.corpus.types",
    "EntityPack": "stamo.packs.pack",
    "KnowledgeBase": "stamo.kb.base",
    "LabelDesk": "stamo.workspace.desk",
    "Linker": "stamo.linking.linker",
    "LinkerSettings": "stamo.linking.detect",
    "Mention": "stamo.corpus.types",
    "StamoError": "stamo.errors",
    "TrainingArgs": "stamo.models.train",
    "Workspace": "stamo.workspace.folder",
    "build_knowledge_base": "stamo.build.build",
    "collect": "stamo.workspace.collect",
    "discover": "stamo.discovery.discover",
    "learn": "stamo.learning.learn",
    "learn_pack": "stamo.workspace.learn",
    "load_model": "stamo.models.store",
    "open_linker": "stamo.linking.linker",
    "read_documents": "stamo.corpus.reading",
    "to_arrow": "stamo.linking.output",
    "to_pandas": "stamo.linking.output",
    "train_linking_model": "stamo.models.train",
    "unpack_world": "stamo.world",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name not in _MODULES:
        raise AttributeError(f"module 'stamo' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)
