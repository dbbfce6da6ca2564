"""Linked documents in several processes and in a terminal."""

import io
import pickle

import pytest
import torch
from rich.console import Console

from stamo.corpus.reading import Chunk, Unreadable
from stamo.corpus.types import Document
from stamo.linking.linker import Linker, LinkerSettings, batched, link_in_processes
from stamo.linking.render import legend, render_document, render_text
from stamo.linking.results import LinkedDocument, LinkedMention, ScoredCandidate
from tests.linking.small import small_kb, untrained

MENTION = LinkedMention(
    "Java", 3, 7, "Java (language)", 0.93, (ScoredCandidate("Java (language)", 0.93, 1.2, 0.4),)
)


def to_record(linked):
    return linked.to_record()


def test_workers_change_nothing():
    """Two processes give the records of one, in the same order, bad documents among them."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb), settings=LinkerSettings(batch_size=3))
    sources = [Chunk(Document(str(i), "Java and Sumatra " * i)) for i in range(14)]
    sources.insert(5, Unreadable("bad", "it is bad"))
    alone = [r for batch in link_in_processes(linker, sources, to_record) for r in batch]
    together = [r for batch in link_in_processes(linker, sources, to_record, 2) for r in batch]
    assert together == alone
    assert alone[5] == {"id": "bad", "error": "it is bad"}
    assert [r["id"] for r in alone[:5]] == list("01234")


def test_records_need_no_values():
    """Short records come from the columns of a batch and are those of the values."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb), settings=LinkerSettings(threshold=0.3))
    texts = ["Java and Sumatra, York", "nothing", "the code of Java in New York"]
    for linked in linker.link_batch([Chunk(Document(t, t)) for t in texts]):
        values = [m.to_record(all_candidates=False) for m in linked.mentions]
        assert linked.to_record(all_candidates=False)["mentions"] == values
        assert pickle.loads(pickle.dumps(linked)) == linked


def test_explanations_stay_in_short_records():
    """A linker that explains does so with and without candidates."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb), settings=LinkerSettings(explain=True))
    (linked,) = linker.link_batch([Chunk(Document("a", "Java and Sumatra"))])
    first = linked.to_record(all_candidates=False)["mentions"][0]
    assert first["why"] == linked.to_record()["mentions"][0]["why"]
    assert "candidates" not in first


def test_linking_leaves_the_threads_of_torch_alone(monkeypatch):
    """Scores are computed in one thread, whatever the user has set, and that setting stays."""
    kb = small_kb()
    linker, before, seen = Linker(kb, untrained(kb)), torch.get_num_threads(), []
    model = linker.trained.model
    score = model.score_known

    def noted(*args):
        seen.append(torch.get_num_threads())
        return score(*args)

    monkeypatch.setattr(model, "score_known", noted)
    torch.set_num_threads(2)
    try:
        linker.link("Java and Sumatra")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def fail(linked):
    raise ValueError(f"cannot finish {linked.id}")


def test_an_error_in_a_worker_is_raised():
    """An exception in a worker reaches the caller."""
    kb = small_kb()
    linker = Linker(kb, untrained(kb))
    with pytest.raises(ValueError, match="cannot finish a"):
        list(link_in_processes(linker, [Chunk(Document("a", "x"))], fail, 2))


def test_batches_are_bounded_by_characters():
    """A batch ends when it has enough documents or enough characters."""
    parts = [Chunk(Document(str(i), "x" * 500)) for i in range(9)]
    assert [len(batch) for batch in batched(parts, 4, 1000)] == [4, 4, 1]
    assert [len(batch) for batch in batched(parts, 100, 500)] == [2, 2, 2, 2, 1]


def rendered(renderable):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


def test_text_shows_entities_and_nil():
    """Linked mentions carry entity and confidence; a mention that is not linked says NIL."""
    nil = LinkedMention("York", 12, 16, None, 0.2)
    text = render_text(LinkedDocument("a", "in Java and York.", (MENTION, nil)))
    assert text.plain == "in Java [Java (language) 0.93] and York [NIL 0.20]."


def test_text_cannot_steer_the_terminal():
    """Escape sequences and markup in a text are shown, not obeyed."""
    linked = LinkedDocument("a\x1b]0;x\x07", "\x1b[31mred[/b] Java", ())
    output = rendered(render_document(linked))
    assert "\x1b[31m" not in output
    assert "\x07" not in output
    assert "red[/b] Java" in output


def test_explanation_and_errors_are_shown():
    """Why a mention was linked stands below the text; an error stands in its place."""
    output = rendered(render_document(LinkedDocument("a", "in Java", (MENTION,)), explain=True))
    assert "confidence" in output
    assert "no other" in output
    assert "is bad" in rendered(render_document(LinkedDocument("a", "", error="it is bad")))
    assert "NIL" in rendered(legend(0.5))
