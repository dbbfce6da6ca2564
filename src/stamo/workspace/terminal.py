"""Label in a terminal: one mention at a time, one key for each choice."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import LinkerSettings
from stamo.linking.linker import Linker
from stamo.models.store import TrainedModel
from stamo.workspace.desk import LabelDesk, Question
from stamo.workspace.folder import N_LABELS, Workspace
from stamo.workspace.labels import NONE, SKIP, describe_choice
from stamo.workspace.verdict import Ask
from stamo.workspace.wording import cut_context, printable

ReadKey = Callable[[], str]
"""Waits for a key and returns it; an empty text ends labelling."""

SHOWN_CHARACTERS = 600
DIGITS = "1234567890"
N_CHOICES = len(DIGITS)
STOPPED, TAKEN_BACK = "@stop", "@undo"
ASKS: dict[str, Ask] = {"@p": "probable", "@d": "doubtful", "@a": ""}
"""What is asked for from now on; no choice begins so."""
KEYS = """1-9, 0 choose   m more   n none of these   o only this one   s skip   u undo   q stop
Ask for   p probable ones   d doubtful ones   a those that teach most"""


def label_in_terminal(
    workspace: Workspace,
    kb: KnowledgeBase,
    trained: TrainedModel,
    *,
    console: Console,
    labeller: str,
    read_key: ReadKey | None = None,
) -> int:
    """Ask for labels until the person stops or nothing is left.

    Each label is on disk before the next question is shown.

    Returns:
        How many labels and skips were given, less those that were undone.
    """
    linker = Linker(kb, trained, settings=LinkerSettings(mentions="given"))
    n_given, ask, advice = 0, ASKS["@a"], ""
    with LabelDesk(workspace, kb, trained, linker.link_documents) as desk:
        while question := desk.next(labeller, ask):
            progress = desk.progress()
            if progress.advice != advice and (progress.ask or progress.is_enough):
                advice = progress.advice
                console.print(Text(printable(advice), style="green"))
            answer, only = _ask(question, progress.n_labelled, console, read_key or read_one_key)
            if answer == STOPPED:
                return n_given
            if answer in ASKS:
                ask = ASKS[answer]
                continue
            if answer == TAKEN_BACK:
                undone = desk.undo(who=labeller)
                said = "There is nothing to undo."
                if undone is not None:
                    n_given -= 1
                    said = f"Undone: {describe_choice(undone.choice, workspace.entity.id)}"
                console.print(Text(printable(said), style="yellow"))
                continue
            guess = desk.decide(question.key, answer, who=labeller, only=only)
            n_given += 1
            # Only now, so as not to bias the choice.
            if guess is not None and guess.choice != NONE:
                said = f"Without the new entity, the model says {guess.entity}."
                console.print(Text(printable(said), style="dim"))
        console.print("Every candidate mention is decided.")
    return n_given


def _ask(
    question: Question, n_labelled: int, console: Console, read_key: ReadKey
) -> tuple[str, bool]:
    """Show a mention and wait for an answer: a choice, `STOPPED`, `TAKEN_BACK` or one of `ASKS`.

    Returns:
        The answer, and whether it is for this mention only.
    """
    page, choices, only = 0, question.choices, False
    _show(question, n_labelled, page, console, only=only)
    while True:
        pressed = read_key()
        shown = choices[page * N_CHOICES : (page + 1) * N_CHOICES]
        if pressed in ("", "q", "\x03", "\x04"):
            return STOPPED, only
        if pressed == "u":
            return TAKEN_BACK, only
        if f"@{pressed}" in ASKS:
            return f"@{pressed}", only
        if pressed in ("n", "s"):
            return NONE if pressed == "n" else SKIP, only
        if pressed in DIGITS and DIGITS.index(pressed) < len(shown):
            return shown[DIGITS.index(pressed)].choice, only
        if pressed == "m" and len(choices) > N_CHOICES:
            page = (page + 1) % -(-len(choices) // N_CHOICES)
            _show(question, n_labelled, page, console, only=only)
        if pressed == "o" and question.n_same > 1:
            only = not only
            _show(question, n_labelled, page, console, only=only)


def _show(question: Question, n_labelled: int, page: int, console: Console, *, only: bool) -> None:
    start = len(question.before)
    around = question.before + question.surface + question.after
    shown = cut_context(around, start, start + len(question.surface), SHOWN_CHARACTERS)
    before, surface, after = map(printable, shown)
    text = Text(before).append(surface, style="bold reverse").append(after)
    table = Table.grid(padding=(0, 2))
    for digit, choice in zip(DIGITS, question.choices[page * N_CHOICES :], strict=False):
        title = Text(printable(choice.entity), style="bold" if choice.emerging else "")
        known = Text(printable(choice.description), style="dim")
        table.add_row(Text(digit, style="cyan"), title, known)
    note = ""
    if question.differ:
        note = "Labels of this name here differ; each is asked by itself."
    elif only:
        note = f"It stands here {question.n_same} times; your answer is for this one only."
    elif question.n_same > 1:
        note = f"It stands here {question.n_same} times; your answer speaks for all of them."
    body = Group(text, Text(note, style="dim"), table, Text(), Text(KEYS, style="dim"))
    heading = f"{printable(question.title or question.document)}   {n_labelled} of {N_LABELS}"
    console.print(Panel(body, title=Text(heading), title_align="left"))


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
