"""Label in a terminal: one mention at a time, one key for each choice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stamo.corpus.types import Document, LabelKey
from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel
from stamo.workspace.folder import N_LABELS, Workspace, read_corpus
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    Choice,
    LabelStore,
    LabelTarget,
    describe_choice,
)
from stamo.workspace.queue import LabelQueue
from stamo.workspace.wording import cut_context, printable

ReadKey = Callable[[], str]
"""Waits for a key and returns it; an empty text ends labelling."""

SHOWN_CHARACTERS = 600
N_CHOICES = 10
DIGITS = "1234567890"
ADVISE_EVERY = 2
KEYS = "1-9, 0 choose   m more   n none of these   s skip   u undo   q stop"


def label_in_terminal(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    console: Console,
    labeller: str,
    read_key: ReadKey | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Ask for labels until the person stops or nothing is left.

    Each label is on disk before the next question is shown.

    Returns:
        How many labels and skips were given, less those that were undone.
    """
    corpus = read_corpus(workspace, kb, trained)
    queue = LabelQueue(workspace.entity, corpus, kb, trained)
    linker = Linker(kb, trained, settings=LinkerSettings(mentions="given"))
    with workspace.open_labels() as store:
        desk = _Desk(workspace, queue, linker, store, console, labeller, now)
        return desk.run(read_key or read_one_key)


class _Desk:
    """One person's session."""

    def __init__(
        self,
        workspace: Workspace,
        queue: LabelQueue,
        linker: Linker,
        store: LabelStore,
        console: Console,
        labeller: str,
        now: Callable[[], datetime],
    ) -> None:
        self.entity, self.queue, self.linker, self.store = workspace.entity, queue, linker, store
        self.console, self.labeller, self.now = console, labeller, now
        self.order: list[LabelKey] = []
        self.n_known = -1
        self.n_given = 0

    def run(self, read_key: ReadKey) -> int:
        """Ask question after question."""
        while (key := self._next()) is not None:
            if not self._ask(key, read_key):
                break
        else:
            self.console.print("Every candidate mention is decided.")
        return self.n_given

    def _next(self) -> LabelKey | None:
        """Return the mention to ask for; others may label at the same time."""
        events = self.store.current()
        if self.n_known < 0 or len(events) - self.n_known >= ADVISE_EVERY:
            self.order, self.n_known = self.queue.order(events), len(events)
        decided = {(e.target.document, e.target.start, e.target.end) for e in events}
        places = ((key, self.queue.corpus_mention(key)) for key in self.order)
        free = (key for key, m in places if (key[0], m.start, m.end) not in decided)
        return next(free, None)

    def _ask(self, key: LabelKey, read_key: ReadKey) -> bool:
        """Show a mention and keep the answer; False when the person stops."""
        document, page = self.queue.documents[key[0]], 0
        choices = self._choices(document.mentions[key[1]].surface)
        self._show(document, key[1], choices, page)
        while True:
            pressed = read_key()
            shown = choices[page * N_CHOICES : (page + 1) * N_CHOICES]
            if pressed in ("", "q", "\x03", "\x04"):
                return False
            if pressed == "u":
                self._undo()
                return True
            if pressed == "m" and len(choices) > N_CHOICES:
                page = (page + 1) % -(-len(choices) // N_CHOICES)
                self._show(document, key[1], choices, page)
            elif pressed in ("n", "s"):
                self._keep(document, key[1], NONE if pressed == "n" else SKIP)
                return True
            elif pressed in DIGITS and DIGITS.index(pressed) < len(shown):
                self._keep(document, key[1], shown[DIGITS.index(pressed)].choice)
                return True

    def _choices(self, surface: str) -> list[Choice]:
        kb = self.queue.kb
        ids = kb.candidates(surface).ids
        known = [
            Choice(title, title, ", ".join(kb.titles(kb.related(int(entity), 4)[0])))
            for entity, title in zip(ids.tolist(), kb.titles(ids), strict=True)
        ]
        new = Choice(EMERGING_CHOICE, self.entity.id, self.entity.description or "the new entity")
        return [new, *known]

    def _show(self, document: Document, index: int, choices: list[Choice], page: int) -> None:
        mention = document.mentions[index]
        shown = cut_context(document.text, mention.start, mention.end, SHOWN_CHARACTERS)
        before, surface, after = map(printable, shown)
        text = Text(before).append(surface, style="bold reverse").append(after)
        table = Table.grid(padding=(0, 2))
        first = page * N_CHOICES
        for digit, choice in zip(DIGITS, choices[first : first + N_CHOICES], strict=False):
            style = "bold" if choice.emerging else ""
            title = Text(printable(choice.entity), style=style)
            table.add_row(Text(digit, style="cyan"), title, Text(choice.line, style="dim"))
        n = self.store.progress().n_labelled
        heading = f"{printable(document.title or document.id)}   {n} of {N_LABELS}"
        same = sum(m.surface == mention.surface for m in document.mentions)
        note = f"It stands here {same} times; your answer speaks for all of them."
        said = Text(note if same > 1 else "", style="dim")
        body = Group(text, said, table, Text(), Text(KEYS, style="dim"))
        self.console.print(Panel(body, title=Text(heading), title_align="left"))

    def _keep(self, document: Document, index: int, choice: str) -> None:
        target = LabelTarget.of(document.id, index, document.mentions[index])
        self.store.add(target, choice, labeller=self.labeller, at=self.now())
        self.n_given += 1
        if choice != SKIP:
            self._reveal(document, index)
        n = self.store.progress().n_labelled
        if n >= N_LABELS and n % 5 == 0:
            self.console.print(self.queue.advise(self.store.current()).text, style="green")

    def _reveal(self, document: Document, index: int) -> None:
        """Say what the model would have said: only now, so as not to bias the choice."""
        mention = document.mentions[index]
        surface = document.text[mention.start : mention.end]
        alone = Document(document.id, document.text, (replace(mention, surface=surface),))
        (linked,) = self.linker.link_documents([alone])
        if linked.mentions and (found := linked.mentions[0].entity) is not None:
            text = f"Without the new entity, the model says {found}."
            self.console.print(Text(printable(text), style="dim"))

    def _undo(self) -> None:
        undone = self.store.undo(labeller=self.labeller, at=self.now())
        if undone is None:
            self.console.print("There is nothing to undo.", style="yellow")
            return
        self.n_given -= 1
        self.n_known = -1
        said = describe_choice(undone.choice, self.entity.id)
        self.console.print(Text(printable(f"Undone: {said}"), style="yellow"))


def read_one_key() -> str:
    """Wait for one key; where there is no terminal, read the first character of a line."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        return line.strip()[:1] if line else ""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        return sys.stdin.read(1)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
