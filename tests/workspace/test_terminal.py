import io
from dataclasses import replace

import pytest
from rich.console import Console

from stamo.workspace.labels import EMERGING_CHOICE, NONE, SKIP
from stamo.workspace.terminal import label_in_terminal
from stamo.workspace.wording import cut_context, printable
from tests.workspace.small_world import copy_collected


@pytest.fixture
def label(small, kb, trained, tmp_path):
    """Return what presses keys in a new workspace, and gives the output, count and choices."""
    space = copy_collected(small, tmp_path / "rey")

    def press(keys, space=space):
        output = io.StringIO()
        console = Console(file=output, width=100, force_terminal=True)
        pressed = iter(keys)
        n = label_in_terminal(
            space,
            kb,
            trained,
            console=console,
            labeller="ada",
            read_key=lambda: next(pressed, ""),
        )
        with space.open_labels() as store:
            return output.getvalue(), n, [event.choice for event in store.current()]

    press.space = space
    return press


def test_one_key_is_one_label(label, kb):
    """1 is the new entity, 2 the first known one, n none of these, s a skip."""
    _, n, choices = label("12ns")
    assert n == 4
    assert choices[0] == EMERGING_CHOICE
    assert kb.entity_id(choices[1]) >= 0
    assert choices[2:] == [NONE, SKIP]


@pytest.mark.parametrize(
    ("keys", "choices", "said"),
    [
        ("1un", [NONE], "Undone"),  # the same mention is asked again, and only this choice holds
        ("u", [], "nothing to undo"),
        ("x9zq1", [], ""),  # unknown keys are ignored; after q no further key counts
        ("pd1an", [EMERGING_CHOICE, NONE], "probable ones"),  # another kind of mention is asked for
    ],
)
def test_other_keys(label, keys, choices, said):
    """Undo takes back, q stops, and unknown keys do nothing."""
    output, n, kept = label(keys)
    assert (n, kept) == (len(choices), choices)
    assert said in output


def test_a_second_session_goes_on(label):
    """Labels are on disk after each key; the next session asks for other mentions."""
    label("1")
    _, _, choices = label("n")
    assert choices == [EMERGING_CHOICE, NONE]


def test_the_model_is_quoted_only_after_the_choice(label):
    """The question does not show the model's guess; the line after the choice does."""
    question, _, _ = label("")
    assert "the model says" not in question
    answer, _, _ = label("2")
    assert "the model says" in answer


def test_documents_cannot_steer_the_terminal(small, kb, trained, tmp_path, label):
    """Escape sequences and direction marks in a document are shown as signs, never sent."""
    space = label.space
    alias = small.entity.aliases[0]
    evil = f"\x1b[2J\x1b]0;owned\x07[red]{alias}[/red] \u202e said\x9b31m"
    document = next(iter(space.documents))
    start = evil.index(alias)
    mention = replace(
        document.mentions[0], surface=alias, start=start, end=start + len(alias), entity=None
    )
    state = dict(space.documents.manifest.state)
    space.documents.clear()
    space.documents.append(
        [replace(document, text=evil, title="\x1b[31mtitle", mentions=(mention,))],
        state=state,
        complete=True,
    )
    output, n, _ = label("1")
    assert n == 1
    for sequence in ("\x1b[2J", "\x1b]0", "\x07", "\u202e", "\x9b", "\x1b[31mtitle"):
        assert sequence not in output
    assert "[red]" in output


def test_context_is_cut_between_words():
    """Half words go, white space becomes one space; what steers a terminal goes, joiners stay."""
    assert printable("a\nب\u200cپ\x1b\u202e") == "a\nب\u200cپ��"
    text = "one two\n\nthree REY four five six"
    assert cut_context(text, 15, 18, 8) == ("… three ", "REY", " four …")
    assert cut_context(text, 15, 18, 99) == ("one two three ", "REY", " four five six")
