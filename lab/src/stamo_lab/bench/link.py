"""How fast windows of text are encoded, beside the encoder's layers alone in the same run."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import numpy as np
import torch

from stamo.corpus.reading import Chunk, ReadChunk, read_chunks
from stamo.corpus.types import Document
from stamo.discovery.discover import make_observer
from stamo.discovery.names import Tally
from stamo.errors import SettingsError
from stamo.features.base import encode_features
from stamo.features.encoder import BATCH_TOKENS, Encoder
from stamo.features.mentions import EncodedMentions, encode, most_frequent_entities
from stamo.kb.base import KnowledgeBase
from stamo.linking.batch import Located
from stamo.linking.linker import Linker, batched
from stamo.linking.output import link_format
from stamo.linking.rank import rank_by_model, rank_by_prior
from stamo.linking.results import LinkedDocument, LinkedMention
from stamo.models.base import make_batch
from stamo.models.store import TrainedModel, load_model
from stamo.system.files import Int32, Int64
from stamo.system.processes import one_thread, without_garbage_collection
from stamo_lab.bench.usage import MB, Say, Usage, measure, timed

N_PLAIN = 16
"""Documents linked mention by mention; more would only take time."""


@dataclass(frozen=True)
class Speed:
    """One way to link, measured from the start of the command to its end."""

    name: str
    seconds: float
    megabytes_per_second: float
    """Of text, not of the JSON around it."""
    documents_per_second: float
    mentions_per_second: float
    megabytes_per_cpu_second: float
    """What a core gives when nothing else uses it."""
    peak_memory: int | None
    """Bytes of all processes, pages that they share counted once; None where it is unknown."""
    ratio: float = 1.0
    """Text a second over that of the command in one process."""

    @classmethod
    def of(cls, name: str, documents: Iterable[Document], n_mentions: int, usage: Usage) -> Speed:
        """Divide what was linked by the seconds that it took."""
        sizes = [len(document.text.encode()) for document in documents]
        return cls(
            name,
            usage.seconds,
            sum(sizes) / usage.seconds / MB,
            len(sizes) / usage.seconds,
            n_mentions / usage.seconds,
            sum(sizes) / max(usage.cpu_seconds, 1e-9) / MB,
            usage.peak_proportional,
        )


@dataclass(frozen=True)
class SpeedReport:
    """What `stamo bench link` measures."""

    model: str
    n_documents: int
    n_characters: int
    n_scored: int
    """Mentions with two candidates or more."""
    scored_per_second: float
    """Mentions scored a second of one core, once encoded: features, model and ranking."""
    start_seconds: float
    """Processor seconds of the command with one sentence: nearly all of it is to start."""
    ways: tuple[Speed, ...]


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
    kb_path: Path,
    model_path: Path,
    documents: Sequence[Document],
    *,
    workers: int,
    seconds: float,
    before: Path | None = None,
    say: Say = lambda text: None,
) -> SpeedReport:
    """Link the same documents in several ways, one after the other.

    Args:
        kb_path: A knowledge base.
        model_path: A model.
        documents: What is linked.
        workers: Processes of the second setting.
        seconds: How long each setting runs at least; 0 links the documents once.
        before: The folder `src` of another version of this program, to compare with.
        say: Told what is measured.

    Raises:
        SuiteError: A command failed.
    """
    linker = Linker(KnowledgeBase.open(kb_path), load_model(model_path))
    alone, together = "1 process", f"{workers} processes"
    with tempfile.TemporaryDirectory(prefix="stamo-bench-") as folder:
        bench = _Bench(kb_path, model_path, documents, seconds, Path(folder), say)
        ways = [
            bench.measure(f"stamo link, {alone}"),
            bench.measure(f"stamo link, {together}", f"--workers={workers}"),
            bench.measure(f"by prior alone, {alone}", "--passes=1"),
        ]
        if before is not None:
            ways += [
                bench.measure(f"before, {alone}", source=before),
                bench.measure(f"before, {together}", f"--workers={workers}", source=before),
            ]
        start_seconds = bench.start_seconds()
    with one_thread():
        ways.append(_measure_plainly(linker, documents[:N_PLAIN]))
        n_scored, scored_per_second = _scoring_speed(linker, documents)
    first = ways[0].megabytes_per_second
    return SpeedReport(
        model=linker.trained.source.name,
        n_documents=len(documents),
        n_characters=sum(len(document.text) for document in documents),
        n_scored=n_scored,
        scored_per_second=scored_per_second,
        start_seconds=start_seconds,
        ways=tuple(replace(way, ratio=way.megabytes_per_second / first) for way in ways),
    )


@dataclass(frozen=True)
class _Bench:
    """Runs the command on files of as many documents as a setting needs to last."""

    kb_path: Path
    model_path: Path
    documents: Sequence[Document]
    seconds: float
    folder: Path
    say: Say

    def measure(self, name: str, *options: str, source: Path | None = None) -> Speed:
        """Run a setting: first a short time to learn its speed, then for long enough."""
        self.say(name)
        n = len(self.documents)
        usage = self._run(name, n, options, source)
        # Starting is a part of every run, so the speed without it tells how much more is needed.
        start = self._run(name, 0, options, source).seconds if self.seconds else 0.0
        while usage.seconds < self.seconds:
            rate = n / max(usage.seconds - start, 1e-3)
            n = max(int(rate * (self.seconds * 1.2 - start)), n + 1)
            usage = self._run(name, n, options, source)
        return self._speed(name, n, usage)

    def start_seconds(self) -> float:
        """Return the processor seconds of the command with one sentence."""
        return self._run("one sentence", 0, (), None).cpu_seconds

    def _run(self, name: str, n: int, options: Sequence[str], source: Path | None) -> Usage:
        path = self.folder / "documents.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for i, document in enumerate(islice(cycle(self.documents), n)):
                file.write(json.dumps({"id": str(i), "text": document.text}) + "\n")
            if not n:
                file.write(json.dumps({"text": "London is in England."}) + "\n")
        command = (sys.executable, "-m", "stamo", "link", str(self.kb_path), str(self.model_path))
        usage, _ = measure(name, [*command, str(path), *options], self.folder, source=source)
        return usage

    def _speed(self, name: str, n: int, usage: Usage) -> Speed:
        with (self.folder / "stdout").open("rb") as file:
            n_mentions = sum(line.count(b'"surface":') for line in file)
        return Speed.of(name, islice(cycle(self.documents), n), n_mentions, usage)


def _measure_plainly(linker: Linker, documents: Sequence[Document]) -> Speed:
    list(link_plainly(linker, documents[:1]))
    linked, usage = timed(lambda: list(link_plainly(linker, documents)))
    n_mentions = sum(len(document.mentions) for document in linked)
    return Speed.of("mention by mention", documents, n_mentions, usage)


def _scoring_speed(linker: Linker, documents: Sequence[Document]) -> tuple[int, float]:
    """Return how many mentions were scored, and how many a second."""
    batches = []
    for i in range(0, len(documents), linker.settings.batch_size):
        located = linker.locate(documents[i : i + linker.settings.batch_size])
        context = most_frequent_entities(located.corpus, linker.kb)
        rows = _ambiguous(linker, located)
        ranking = rank_by_prior(located.corpus, linker.kb, linker.settings.n_shown)
        batches.append((_encode(linker, located, rows, context), ranking, rows))
    n_scored = sum(len(rows) for _, _, rows in batches)
    trained, tables, kb = linker.trained, linker.tables, linker.kb

    def rank() -> None:
        for mentions, ranking, rows in batches:
            rank_by_model(trained.source, mentions, tables, kb, trained.calibration, ranking, rows)

    return n_scored, n_scored / timed(rank)[1].cpu_seconds


def _ambiguous(linker: Linker, located: Located) -> Int64:
    candidates = linker.kb.candidate_table(located.corpus.surface_table, 2)[0]
    is_ambiguous = (candidates >= 0).sum(axis=1) > 1
    return np.flatnonzero(is_ambiguous[located.corpus.surfaces])


def _encode(linker: Linker, located: Located, rows: Int64, context: Int32) -> EncodedMentions:
    return encode(located.corpus, linker.kb, linker.encoding, rows=rows, context_entities=context)


def link_plainly(linker: Linker, documents: Sequence[Document]) -> Iterator[LinkedDocument]:
    """Link one mention after the other: the straightforward way, for comparison."""
    model, kb = linker.trained.model, linker.kb
    for document in documents:
        located = linker.locate([document])
        context = most_frequent_entities(located.corpus, kb)
        mentions = []
        for row in range(located.corpus.n_mentions):
            one = _encode(linker, located, np.array([row]), context)
            one = encode_features(one, model.encoded_features, kb)
            with torch.inference_mode():
                best = int(model(make_batch(one, linker.tables)).argmax())
            start, end = int(located.starts[row]), int(located.ends[row])
            title = kb.title(int(one.candidates[0, best]))
            mentions.append(LinkedMention(document.text[start:end], start, end, title, 1.0))
        yield LinkedDocument(document.id, document.text, tuple(mentions))


@dataclass(frozen=True)
class DiscoverSpeed:
    """Processor seconds of one process for the same documents, without starting."""

    n_documents: int
    """Documents, or parts of long ones."""
    n_characters: int
    n_names: int
    """Names that the pass keeps."""
    link_seconds: float
    """Linking them and writing lines of JSON."""
    pass_seconds: float
    """Seeing their names and counting them."""

    @property
    def ratio(self) -> float:
        """The speed of the pass over that of linking."""
        return self.link_seconds / self.pass_seconds


def measure_pass(
    sources: Sequence[str | Path],
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    n_documents: int,
    on_batch: Callable[[int], None] = lambda n: None,
) -> DiscoverSpeed:
    """Link and scan the first documents batch by batch in turns.

    Args:
        sources: Files or folders.
        kb: The knowledge base.
        trained: A model trained with it.
        n_documents: Documents, or parts of long ones, at most.
        on_batch: Called with the documents so far.
    """
    linker, observer = Linker(kb, trained), make_observer(kb, trained)
    tally, form = Tally(), link_format("jsonl")
    linker.warm_up()
    observer.warm_up()

    def link(batch: Sequence[ReadChunk]) -> None:
        for linked in linker.link_batch(batch):
            form.render(linked)

    def scan(batch: Sequence[ReadChunk]) -> None:
        for seen in observer.see(batch):
            tally.add(seen)

    seconds = {link: 0.0, scan: 0.0}
    n = n_characters = 0
    parts = islice(read_chunks(sources, linker.window), n_documents)
    for number, batch in enumerate(batched(parts, linker.settings.batch_size, linker.window)):
        for way in (link, scan) if number % 2 else (scan, link):
            with without_garbage_collection(), one_thread():
                seconds[way] += timed(partial(way, batch))[1].cpu_seconds
        n += len(batch)
        n_characters += sum(len(p.document.text) for p in batch if isinstance(p, Chunk))
        on_batch(n)
    return DiscoverSpeed(n, n_characters, len(tally.names), seconds[link], seconds[scan])


N_ROUNDS = 3
"""Times that each way runs; the medians are compared."""


@dataclass(frozen=True)
class EncodeSpeed:
    """What `stamo bench encode` measures, in seconds of one core."""

    encoder: str
    n_windows: int
    n_tokens: int
    windows_per_second: float
    tokens_per_second: float
    """From text to vectors: reading tokens, padding, layers, means."""
    bare_tokens_per_second: float
    """Of the layers alone, on full batches without padding."""

    @property
    def ratio(self) -> float:
        """Share of the bare speed that is left from text to vectors."""
        return self.tokens_per_second / self.bare_tokens_per_second


def measure_encoding(encoder: Encoder, windows: Sequence[str]) -> EncodeSpeed:
    """Encode windows with a span in the middle, and as many tokens by the layers alone."""
    lengths = [len(encoder.tokenizer.encode(window).ids) for window in windows]
    middles = np.array([len(window) // 2 for window in windows], dtype=np.int64)
    typical = int(median(lengths))
    ids = torch.ones((max(1, BATCH_TOKENS // typical), typical), dtype=torch.long)
    mask, n_batches = torch.ones_like(ids, dtype=torch.bool), -(-sum(lengths) // ids.numel())

    def whole() -> None:
        encoder.encode_spans(windows, middles, middles + 4)

    def bare() -> None:
        with torch.inference_mode():
            for _ in range(n_batches):
                encoder.forward(ids, mask)

    with one_thread():
        encoder.encode(windows[:8])  # warm
        # In turns, so that other load on the machine falls on both.
        rounds = [[timed(way)[1].cpu_seconds for way in (whole, bare)] for _ in range(N_ROUNDS)]
    ours, theirs = (median(times) for times in zip(*rounds, strict=True))
    return EncodeSpeed(
        encoder=encoder.name,
        n_windows=len(windows),
        n_tokens=sum(lengths),
        windows_per_second=len(windows) / ours,
        tokens_per_second=sum(lengths) / ours,
        bare_tokens_per_second=n_batches * ids.numel() / theirs,
    )
