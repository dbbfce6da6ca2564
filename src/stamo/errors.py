"""The errors of stamo: each one says what came, what was expected, and what to do."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar


class StamoError(Exception):
    """Base of every error that a user can cause; the command line prints it as one line."""

    def __str__(self) -> str:
        # KeyError would print the repr of its argument; our messages are sentences.
        return str(self.args[0]) if self.args else ""


class SettingsError(StamoError, ValueError):
    """A setting is outside its range or contradicts another one."""


class Ranged:
    """Settings whose numbers have a range each; what lies outside is refused as they are made."""

    ranges: ClassVar[Mapping[str, float | tuple[float, float]]] = {}
    """By name: the least, or the least and the most that a setting, or each in it, may be."""

    def __post_init__(self) -> None:
        for name, least in self.ranges.items():
            value, most = getattr(self, name), float("inf")
            said = f"{least} or more"
            if isinstance(least, tuple):
                least, most = least
                said = f"{least:g} to {most:g}"
            values = value.values() if isinstance(value, Mapping) else [value]
            if not all(one is None or least <= one <= most for one in values):
                raise SettingsError(f"{name} is {value}; give {said}.")


class DumpError(StamoError, ValueError):
    """A dump cannot be read at all (single bad pages are counted, not raised)."""


class VectorsError(StamoError, ValueError):
    """A file of word vectors cannot be used."""


class CorpusFormatError(StamoError, ValueError):
    """A document, label or request does not have the documented form."""


class KnowledgeBaseError(StamoError, ValueError):
    """A knowledge base is incomplete, corrupted or of another format version."""


class ArtifactMismatchError(StamoError, ValueError):
    """Two artifacts that do not belong together were combined."""


class ModelError(StamoError, ValueError):
    """A saved linking model is incomplete, corrupted or of another format version."""


class PackError(StamoError, ValueError):
    """An entity pack is incomplete, corrupted or out of range."""


class UnknownEntityError(StamoError, KeyError):
    """An entity is not in the knowledge base."""


class LearningError(StamoError, ValueError):
    """Learning cannot start or go on with these documents and labels."""


class DivergenceError(LearningError):
    """A slot produced a value that is not finite."""


class WorkspaceError(StamoError, ValueError):
    """The folder of an emerging entity is missing, incomplete or in another state."""


class SuiteError(StamoError, ValueError):
    """A benchmark suite cannot be made, opened or run."""


class WorkerError(StamoError, RuntimeError):
    """A worker process ended before its work."""


class MissingExtraError(StamoError, ImportError):
    """A command needs an optional dependency that is not installed; it says for what."""

    def __init__(self, package: str, extra: str, purpose: str = "This") -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'stamo[{extra}]'."
        )


def need(module: str, extra: str, purpose: str = "This", *, package: str = "") -> Any:
    """Import a module that an extra brings.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(package or module, extra, purpose) from error
