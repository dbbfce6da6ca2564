"""How fast text is linked, beside simpler ways to do it in the same run."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from stamo.corpus.parts import Part
from stamo.corpus.types import Document
from stamo.errors import SettingsError
from stamo.features.encoding import EncodedMentions
from stamo.kb.base import KnowledgeBase
from stamo.linking.batches import Located
from stamo.linking.linker import Linker, LinkerSettings
from stamo.linking.parallel import link_in_processes
from stamo.linking.rank import rank_by_model
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.models.base import make_batch
from stamo.models.store import TrainedModel
from stamo.system.arrays import Int64

N_PLAIN = 16
"""Documents linked mention by mention; more would only take time."""


@dataclass(frozen=True)
class Speed:
    """One way to link, measured."""

    name: str
    documents_per_second: float
    mentions_per_second: float
    documents_per_cpu_second: float
    """What a core gives when nothing else uses it."""
    ratio: float
    """Documents a second over those of the linker in one process."""


@dataclass(frozen=True)
class SpeedReport:
    """What `stamo bench link` measures."""

    model: str
    n_documents: int
    n_characters: int
    n_mentions: int
    n_scored: int
    """Mentions with two candidates or more."""
    scored_per_second: float
    """Mentions scored a second of one core, once encoded: features, model and ranking."""
    start_seconds: float
    """Time until the first text can be linked."""
    peak_memory: int
    """Bytes of this process at its largest, mapped files included."""
    ways: tuple[Speed, ...]

    def to_record(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def news_size_documents(kb: KnowledgeBase, n: int, length: int = 3000) -> list[Document]:
    """Cut held-out articles, or any where there are none, to about the length of a news text."""
    documents: list[Document] = []
    for held_out in (True, False):
        for batch in kb.articles(held_out=held_out, columns=["text"]):
            texts = (text for text in batch["text"].to_pylist() if len(text) >= length // 2)
            for text in texts:
                documents.append(Document(f"article-{len(documents)}", text[:length]))
                if len(documents) == n:
                    return documents
    if not documents:
        raise SettingsError(f"{kb.name} has no article of {length // 2} characters to link.")
    return documents


def measure_speed(
    kb: KnowledgeBase,
    trained: TrainedModel,
    documents: Sequence[Document],
    *,
    n_workers: int = 2,
    settings: LinkerSettings = LinkerSettings(),
) -> SpeedReport:
    """Link the same documents in several ways, each after a warm-up."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    linker = Linker(kb, trained, settings=settings)
    linker.warm_up()
    start_seconds = time.perf_counter() - started
    by_prior = Linker(kb, trained, settings=replace(settings, n_passes=1))
    linked = list(linker.link_documents(documents))
    n_mentions = sum(len(document.mentions) for document in linked)
    ways = [
        _measure("linker, 1 process", documents, linker.link_documents),
        _measure(f"linker, {n_workers} processes", documents, _in_processes(linker, n_workers)),
        _measure("prior alone, 1 process", documents, by_prior.link_documents),
        _measure("mention by mention", documents[:N_PLAIN], lambda d: link_plainly(linker, d)),
    ]
    n_scored, scored_per_second = _scoring_speed(linker, documents)
    return SpeedReport(
        model=trained.model.name,
        n_documents=len(documents),
        n_characters=sum(len(document.text) for document in documents),
        n_mentions=n_mentions,
        n_scored=n_scored,
        scored_per_second=scored_per_second,
        start_seconds=start_seconds,
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
        ways=tuple(
            replace(w, ratio=w.documents_per_second / ways[0].documents_per_second) for w in ways
        ),
    )


Way = Callable[[Sequence[Document]], Iterator[LinkedDocument]]


def _measure(name: str, documents: Sequence[Document], link: Way) -> Speed:
    list(link(documents[: max(len(documents) // 8, 1)]))
    started, cpu_started = time.perf_counter(), _cpu_seconds()
    n_mentions = sum(len(linked.mentions) for linked in link(documents))
    seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds() - cpu_started
    n = len(documents)
    return Speed(name, n / seconds, n_mentions / seconds, n / max(cpu_seconds, 1e-9), 1.0)


def _cpu_seconds() -> float:
    """Return the seconds that this process and the workers it has ended spent on a core."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _in_processes(linker: Linker, n_workers: int) -> Way:
    def link(documents: Sequence[Document]) -> Iterator[LinkedDocument]:
        parts = (Part(document) for document in documents)
        for batch in link_in_processes(linker, parts, lambda linked: linked, n_workers):
            yield from batch

    return link


def _scoring_speed(linker: Linker, documents: Sequence[Document]) -> tuple[int, float]:
    """Return how many mentions were scored, and how many a second."""
    batches = []
    for i in range(0, len(documents), linker.settings.batch_size):
        located = linker.locate(documents[i : i + linker.settings.batch_size])
        entities = linker.first_pass(located)
        batches.append(linker.encode(located, _ambiguous(linker, located), entities))
    n_scored = sum(map(len, batches))
    started = time.process_time()
    for mentions in batches:
        _rank(linker, mentions)
    return n_scored, n_scored / max(time.process_time() - started, 1e-9)


def _ambiguous(linker: Linker, located: Located) -> Int64:
    aliases = linker.kb.alias_ids(located.corpus.surface_table)
    second = linker.kb.candidate_batch(aliases, 2)[0][:, 1]
    return np.flatnonzero(second[located.corpus.surfaces] >= 0)


def _rank(linker: Linker, mentions: EncodedMentions) -> None:
    rank_by_model(
        linker.trained.known,
        mentions,
        linker.tables,
        linker.relatedness,
        linker.trained.calibration,
        n_kept=linker.settings.n_shown,
    )


def link_plainly(linker: Linker, documents: Sequence[Document]) -> Iterator[LinkedDocument]:
    """Link one mention after the other: the straightforward way, for comparison."""
    model, kb = linker.trained.model, linker.kb
    features = [feature for feature in model.features if feature.name != "embedding"]
    for document in documents:
        located = linker.locate([document])
        entities = linker.first_pass(located)
        mentions = []
        for row in range(located.corpus.n_mentions):
            one = linker.encode(located, np.array([row]), entities)
            for feature in features:
                one = one.with_known(feature.name, feature.known(one, kb))
            with torch.inference_mode():
                best = int(model(make_batch(one, linker.tables)).argmax())
            start, end = int(located.starts[row]), int(located.ends[row])
            title = kb.title(int(one.candidates[0, best]))
            mentions.append(LinkedMention(document.text[start:end], start, end, title, 1.0))
        yield LinkedDocument(document.id, document.text, tuple(mentions))
