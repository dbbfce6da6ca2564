"""The folder of one emerging entity: its name, documents, labels and packs.

Where it stands is derived from the files that are there. The folder's name is given by the user
and independent of the entity's name; no name or document id ever becomes part of a path.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from stamo.corpus.types import Corpus, EmergingEntity
from stamo.errors import PackError, SettingsError, WorkspaceError
from stamo.kb.base import KnowledgeBase
from stamo.models.store import TrainedModel, load_model, without_training
from stamo.packs.pack import PACK_SUFFIX, EntityPack, read_bytes
from stamo.system.files import read_json, sweep, to_json, try_lock, write_atomic
from stamo.workspace.documents import DocumentParts
from stamo.workspace.labels import LabelEvent, LabelProgress, LabelStore, labels_fingerprint
from stamo.workspace.verdict import Decision, Verdict, judge, read_summary
from stamo.workspace.wording import count_of


@dataclass(frozen=True)
class Artifacts:
    """An opened knowledge base and model, and where they lie."""

    kb: KnowledgeBase
    trained: TrainedModel
    kb_path: Path
    model_path: Path | None
    """None where no model was trained: counts and vectors decide."""

    @property
    def origin(self) -> dict[str, str]:
        """Return where they lie, to be kept with collected documents."""
        model = "" if self.model_path is None else str(self.model_path.resolve())
        return {"kb": str(self.kb_path.resolve()), "model": model}


def open_artifacts(
    workspaces: Sequence[Workspace],
    kb_path: Path | None = None,
    model_path: Path | None = None,
) -> Artifacts:
    """Open the knowledge base and model that workspaces work with; those of collecting by default.

    Where there is no model, what links without one takes its place.

    Raises:
        WorkspaceError: None is given and none is known yet, or they work with different ones.
    """
    states = [space.documents.manifest.state for space in workspaces]
    paths = {"kb": kb_path, "model": model_path}
    for name, given in paths.items():
        known = sorted({str(state[name]) for state in states if name in state})
        if given is None and len(known) > 1:
            raise WorkspaceError(
                f"The workspaces work with different ones: {', '.join(known)}; give one "
                f"with --{name}, or run the command for some of them at a time."
            )
        if given is None and known and known[0]:
            paths[name] = Path(known[0])
    kb_path, model_path = paths["kb"], paths["model"]
    if kb_path is None:
        path = workspaces[0].path
        raise WorkspaceError(
            f"The workspace {str(path)!r} knows no kb yet; collect documents with one: "
            f"stamo collect {path} --kb KB --model MODEL --from FILE"
        )
    kb = KnowledgeBase.open(kb_path)
    trained = without_training(kb) if model_path is None else load_model(model_path)
    trained.check(kb)
    return Artifacts(kb, trained, kb_path, model_path)


def check_origin(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> None:
    """Refuse another knowledge base or model than those that the documents were linked with."""
    state = workspace.documents.manifest.state
    given = {"kb_fingerprint": kb.fingerprint, "model_fingerprint": trained.fingerprint}
    if any(state.get(name, given[name]) != given[name] for name in given):
        raise WorkspaceError(
            f"The documents of {workspace.entity.id!r} were collected with another knowledge base "
            "or model; use those, or collect all anew with --fresh."
        )


def read_corpus(workspace: Workspace, kb: KnowledgeBase, trained: TrainedModel) -> Corpus:
    """Read the documents; refuse those that were linked with other artifacts.

    Raises:
        WorkspaceError: Nothing is collected yet, or with another knowledge base or model.
    """
    check_origin(workspace, kb, trained)
    corpus = workspace.documents.read()
    if not len(corpus):
        raise WorkspaceError(
            f"No documents are collected for {workspace.entity.id!r} yet; collect some first."
        )
    return corpus


def verify_unchanged(workspaces: Sequence[Workspace], artifacts: Artifacts) -> dict[str, str]:
    """Check all files of the knowledge base and the model against the fingerprints of collecting.

    The files are read once, however many workspaces there are.

    Returns:
        The fingerprints, by "kb" and "model".

    Raises:
        WorkspaceError: One of them changed.
        KnowledgeBaseError: A file of the knowledge base does not match its own manifest.
    """
    artifacts.kb.manifest.verify(artifacts.kb.path)
    for space in workspaces:
        check_origin(space, artifacts.kb, artifacts.trained)
    return {"kb": artifacts.kb.fingerprint, "model": artifacts.trained.fingerprint}


FORMAT = "stamo-workspace"
VERSION = 2
N_LABELS = 20
REPORT = "report.html"
VERSIONS = "versions"
DAMAGED = "damaged"

LockedTask = Literal["collect", "learn"]
BUSY: dict[LockedTask, str] = {"collect": "collecting", "learn": "learning"}


@dataclass(frozen=True, slots=True)
class Status:
    """What a workspace holds, and what comes next."""

    entity: EmergingEntity
    n_documents: int
    n_mentions: int
    is_collected: bool
    """Whether collecting came to its end."""
    labels: LabelProgress
    packs: tuple[str, ...]
    outdated: str
    """Why the pack is to be learned again: its file is damaged, or what it was learned from
    ("labels", "documents") changed; empty where it is not."""
    verdict: Verdict | None
    """Whether the pack is fit to be used; None where there is none or the last run wrote
    another."""
    has_report: bool
    """Whether a report was written since the pack was."""
    next_step: str = ""
    """One sentence."""
    stage: str = ""
    """The same in a few words, for a table."""

    @property
    def n_left(self) -> int:
        """Return how many candidate mentions are neither labelled nor skipped."""
        return max(self.n_mentions - self.labels.n_labelled - self.labels.n_skipped, 0)


@dataclass(frozen=True)
class PackVersion:
    """A pack that was learned once."""

    number: int
    path: Path
    written_at: datetime
    fingerprint: str
    is_current: bool
    description: str
    problem: str = ""


@dataclass(repr=False)
class Workspace:
    """An opened workspace; `create` or `open` makes one."""

    path: Path
    entity: EmergingEntity
    created_by: str
    created_at: datetime

    def __post_init__(self) -> None:
        path = self.path
        self.documents = DocumentParts(path / "documents")
        """The collected candidate documents."""
        self.labels_path = path / "labels.sqlite"
        self.encodings_path = path / "encodings.safetensors"
        """The rows of the sentence encoder; it may be deleted."""
        self.summary_path = path / "learned.json"
        """What the last run of `learn` found of its pack."""
        self.packs_dir = path / "packs"
        """The learned packs; `learn` makes it."""
        self.pack_path = self.packs_dir / f"{path.resolve().name}{PACK_SUFFIX}"
        """Where the pack is written; the folder's own name names it."""

    def __repr__(self) -> str:
        return f"<Workspace {str(self.path)!r} of {self.entity.id!r}>"

    @classmethod
    def create(
        cls, path: str | Path, entity: EmergingEntity, *, created_by: str, at: datetime
    ) -> Workspace:
        """Make a new, empty workspace.

        Args:
            path: The folder; it must not exist yet, or be empty.
            entity: The emerging entity; its id is its name.
            created_by: Who starts it.
            at: When, with a time zone.

        Raises:
            WorkspaceError: The folder cannot be made or is in use.
        """
        if at.tzinfo is None:
            raise SettingsError("The time of creation needs a time zone; give UTC.")
        folder = Path(path)
        if not str(path).strip() or "\0" in str(path):
            raise WorkspaceError("A workspace needs the name of a folder; the name given is empty.")
        description = {
            "format": FORMAT,
            "version": VERSION,
            "name": entity.id,
            "aliases": list(entity.aliases),
            "description": entity.description,
            **entity.identity,
            "created_by": created_by,
            "created_at": at.astimezone(UTC).isoformat(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / "entity.json").exists():
                raise WorkspaceError(
                    f"{str(folder)!r} is a workspace already; choose another folder, or go on with:"
                    f" stamo status {shlex.quote(str(folder))}"
                )
            # Hidden files may be left from a creation that was killed.
            if any(not entry.name.startswith(".") for entry in folder.iterdir()):
                raise WorkspaceError(
                    f"The folder {str(folder)!r} holds other files; choose a new or an empty one."
                )
            write_atomic(folder / "entity.json", to_json(description), is_new=True)
        except OSError as error:
            raise WorkspaceError(
                f"The folder {str(folder)!r} cannot be made ({error.strerror}); choose another one."
            ) from error
        return cls.open(folder)

    @classmethod
    def open(cls, path: str | Path) -> Workspace:
        """Open an existing workspace.

        Raises:
            WorkspaceError: There is none, or it is damaged or of a newer version.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise WorkspaceError(
                f"There is no workspace {str(folder)!r}; start one with: "
                f"stamo new {shlex.quote(str(folder))} NAME --alias ALIAS"
            )
        if not (folder / "entity.json").exists():
            raise WorkspaceError(
                f"The folder {str(folder)!r} is no workspace: it has no entity.json; "
                "choose another folder."
            )
        value = read_json(folder / "entity.json")
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise WorkspaceError(
                f"The entity.json in {str(folder)!r} was not written by stamo; choose another "
                "folder."
            )
        if value.get("version") != VERSION:
            raise WorkspaceError(
                f"The workspace {str(folder)!r} has the format version {value.get('version')!r}; "
                f"this release reads version {VERSION}: use the release that wrote it."
            )
        try:
            name, by, at = (value[key] for key in ("name", "created_by", "created_at"))
            aliases = tuple(value["aliases"])
            known = [value.get(key, "") for key in ("description", "id", "type", "url")]
            for text in (name, *aliases, *known, by, at):
                if not isinstance(text, str):
                    raise TypeError(f"{text!r} is not a string")
            entity = EmergingEntity(name, aliases, *known)
            return cls(folder, entity, by, datetime.fromisoformat(at))
        except (KeyError, TypeError, ValueError) as error:
            raise WorkspaceError(
                f"{folder / 'entity.json'} does not describe an emerging entity ({error}); "
                "restore it, or start a new workspace."
            ) from error

    def open_labels(self) -> LabelStore:
        """Open the labels; the file is made when there is none."""
        return LabelStore.open(self.labels_path, self.entity.id)

    def read_labels(self) -> LabelStore:
        """Open the labels for reading only, also on a full or read-only disk."""
        return LabelStore.read(self.labels_path)

    def current_labels(self) -> list[LabelEvent]:
        """Return what is labelled as what now, one event a mention."""
        with LabelStore.read(self.labels_path) as store:
            return store.current()

    @contextmanager
    def lock(self, task: LockedTask) -> Iterator[None]:
        """Keep a second process from doing the same task; a killed process loses its lock.

        Raises:
            WorkspaceError: Another process holds it.
        """
        descriptor = os.open(self.path / f".{task}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            is_free = try_lock(descriptor)
            if not is_free:  # who only looks holds it for an instant
                time.sleep(0.05)
                is_free = try_lock(descriptor)
            if not is_free:
                raise WorkspaceError(
                    f"Another process runs {task!r} in {str(self.path)!r}; wait until it has ended."
                )
            for folder in (self.path, self.documents.folder, self.packs_dir):
                sweep(folder)
            yield
        finally:
            os.close(descriptor)

    def is_busy(self, task: LockedTask) -> bool:
        """Tell whether a process does the task at this moment."""
        try:
            descriptor = os.open(self.path / f".{task}.lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def status(self) -> Status:
        """Tell what is there and what comes next."""
        manifest, folder = self.documents.manifest, shlex.quote(str(self.path))
        with self.read_labels() as store:
            labels, events = store.progress(), store.current()
        outdated, verdict, has_report, report = "", None, False, self.path / REPORT
        if self.pack_path.exists():
            written = self.pack_path.stat().st_mtime_ns
            has_report = report.exists() and report.stat().st_mtime_ns >= written
            try:
                pack = EntityPack.load(self.pack_path)
                summary = read_summary(self.summary_path, pack)
                verdict = None if summary is None else judge(summary.findings)
                n_then = pack.notes.get("documents", f"{manifest.n_documents} ").split(" ")[0]
                if pack.labels_fingerprint not in ("", labels_fingerprint(events)):
                    outdated = "labels"
                elif n_then != str(manifest.n_documents):
                    outdated = "documents"
            except PackError:
                outdated = DAMAGED
        packs = (path.name for path in self.packs_dir.glob(f"*{PACK_SUFFIX}"))
        status = Status(
            entity=self.entity,
            n_documents=manifest.n_documents,
            n_mentions=manifest.n_mentions,
            is_collected=manifest.complete,
            labels=labels,
            packs=tuple(sorted(name for name in packs if not name.startswith("."))),
            outdated=outdated,
            verdict=verdict,
            has_report=has_report,
        )
        stage, step = _next_step(status, bool(manifest.parts or manifest.state), folder)
        for task, doing in BUSY.items():
            if self.is_busy(task):
                stage, step = doing, f"Another process is {doing}; wait until it has ended."
        return replace(status, next_step=step, stage=stage)

    def write_pack(self, data: bytes) -> int:
        """Write a pack as the current one, and keep it as a version; return the version's number.

        The same bytes as an earlier version are that version.
        """
        folder = self.packs_dir / VERSIONS
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        paths = self._version_paths()
        number = next((n for n, path in paths.items() if read_bytes(path) == data), None)
        if number is None:
            number = max(paths, default=0) + 1
            write_atomic(folder / f"{number:05d}{PACK_SUFFIX}", data)
        write_atomic(self.pack_path, data)
        return number

    def pack_versions(self) -> list[PackVersion]:
        """List the packs that were learned, the oldest first."""
        current = read_bytes(self.pack_path) if self.pack_path.exists() else b""
        versions = []
        for number, path in self._version_paths().items():
            at, data = datetime.fromtimestamp(path.stat().st_mtime, UTC), read_bytes(path)
            fingerprint = description = problem = ""
            try:
                pack = EntityPack.from_bytes(data, path.name)
                fingerprint, description = pack.fingerprint, pack.description
            except PackError as error:
                problem = str(error)
            version = (number, path, at, fingerprint, data == current, description, problem)
            versions.append(PackVersion(*version))
        return versions

    def restore_pack(self, number: int) -> EntityPack:
        """Make an earlier version the current pack.

        Raises:
            WorkspaceError: There is no such version.
            PackError: Its file is damaged.
        """
        with self.lock("learn"):
            paths = self._version_paths()
            if number not in paths:
                there = ", ".join(map(str, paths)) or "none yet"
                raise WorkspaceError(
                    f"There is no version {number} of the pack in {str(self.path)!r}; there are: "
                    f"{there}."
                )
            data = read_bytes(paths[number])
            pack = EntityPack.from_bytes(data, paths[number].name)
            write_atomic(self.pack_path, data)
            return pack

    def _version_paths(self) -> dict[int, Path]:
        """Return the file of each version by its number, the oldest first."""
        paths = sorted((self.packs_dir / VERSIONS).glob(f"*{PACK_SUFFIX}"))
        path_by_stem = {path.name.removesuffix(PACK_SUFFIX): path for path in paths}
        return {int(stem): path for stem, path in path_by_stem.items() if stem.isdecimal()}


def workspace_folders(root: str | Path) -> list[Path]:
    """List the workspaces right below a folder, in the order of their names."""
    return sorted(path.parent for path in Path(root).glob("*/entity.json"))


def _next_step(status: Status, started: bool, folder: str) -> tuple[str, str]:
    """Return what comes next, in a few words and as a sentence with the command."""
    collect, learn, label = (f"stamo {name} {folder}" for name in ("collect", "learn", "label"))
    if not status.is_collected and started:
        step = f"Collecting was interrupted after {count_of(status.n_documents, 'document')}"
        return "collect (interrupted)", f"{step}; go on with: {collect}"
    if not status.is_collected:
        return "collect", f"Collect documents that contain an alias with: {collect} --from FILE"
    if not status.n_documents:
        step = "Nothing was kept; collect from other documents with"
        return "collect (nothing kept)", f"{step}: {collect} --from FILE"
    if status.outdated == DAMAGED:
        return "pack damaged: learn again", f"The pack is damaged; learn again with: {learn}"
    if what := status.outdated:
        step = f"The {what} changed since the pack was learned; learn again with"
        return f"{what} changed: learn again", f"{step}: {learn}"
    if status.packs and not status.has_report:
        return "report", f"See what was learned with: stamo report {folder}"
    verdict = status.verdict
    if status.packs and (verdict is None or verdict.decision is Decision.ship):
        use = f"Use it with: stamo link --with {folder}/packs"
        return "link, or update", f"{use}; feed it with: stamo update {folder} --from FILE"
    if status.packs and verdict is not None:
        if verdict.decision is not Decision.label_more:
            return verdict.decision.value, verdict.sentence
        if status.n_left:
            return verdict.decision.value, f"{verdict.sentence} Label with: {label}"
        step = f"{verdict.sentence} Nothing is left to label: {collect} --from FILE"
        return "collect and label more", step
    n = status.labels.n_labelled
    missing = min(N_LABELS, status.n_mentions) - n
    if missing > 0:
        step = f"Label {count_of(missing, 'more mention')} ({n} done) with: {label}"
        return f"label {missing} more", step
    if status.labels.n_emerging:
        return "learn", f"Learn the entity from {count_of(n, 'label')} with: {learn}"
    step = f"None of the {n} labels is {status.entity.id!r}"
    if status.n_left:
        return "label the entity", f"{step}; label some with: {label}"
    return "collect more", f"{step}; collect more with: {collect} --from FILE"
