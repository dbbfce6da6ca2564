"""Labels are only ever added, survive kill -9, and several people may label at once."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from stamo.corpus.types import Corpus, Document, EmergingEntity, Mention
from stamo.errors import CorpusFormatError, WorkspaceError
from stamo.workspace.desk import list_labels
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    UNDO,
    LabelEvent,
    LabelProgress,
    LabelStore,
    LabelTarget,
    compare_labellers,
    event_from_json,
    event_to_json,
    explained,
    find_labelled,
)
from stamo.workspace.verdict import Check

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


def target(document="d", start=0):
    return LabelTarget(document, 0, "Rey", start, start + 3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.sqlite"


@pytest.fixture
def store(path):
    with LabelStore.open(path) as store:
        yield store


def choices(store):
    return {(e.target.document, e.target.start): e.choice for e in store.current()}


def test_a_label_comes_back_with_who_and_when(store, path):
    """Everything that was said is stored, for a later process too."""
    at = datetime(2024, 5, 1, 14, 0, 0, 123, tzinfo=UTC)
    event = store.add(target(), "Rey (name)", labeller="Ada Ü", at=at)
    said = (event.labeller, event.at, event.choice, event.target)
    assert said == ("Ada Ü", at, "Rey (name)", target())
    with LabelStore.open(path) as again:
        assert again.events() == again.current() == [event]


def test_the_last_choice_holds_and_a_skip_gives_way(store):
    """Labelling again replaces a choice, also when the clock was set back; skips hide nothing."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(target(), NONE, labeller="ada", at=AT - timedelta(hours=1))
    assert choices(store) == {("d", 0): NONE}
    store.add(target(), SKIP, labeller="bob", at=AT)
    assert choices(store) == {("d", 0): NONE}
    store.add(target(), EMERGING_CHOICE, labeller="bob", at=AT)
    assert choices(store) == {("d", 0): EMERGING_CHOICE}
    store.add(target(), SKIP, labeller="ada", at=AT)
    assert [(e.labeller, e.choice) for e in store.current_by_labeller()] == [
        ("bob", EMERGING_CHOICE),
        ("ada", SKIP),
    ]


def test_undo_is_an_event_of_ones_own(store):
    """Undo takes back one's own last label, one by one, never that of another person."""
    store.add(target("a"), EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(target("a"), NONE, labeller="ada", at=AT)
    store.add(target("b"), NONE, labeller="bob", at=AT)
    assert store.undo(labeller="ada", at=AT).choice == NONE
    assert choices(store) == {("a", 0): EMERGING_CHOICE, ("b", 0): NONE}
    assert store.undo(labeller="ada", at=AT).choice == EMERGING_CHOICE
    assert store.undo(labeller="ada", at=AT) is None
    store.add(target("a"), EMERGING_CHOICE, labeller="ada", at=AT)
    assert choices(store) == {("a", 0): EMERGING_CHOICE, ("b", 0): NONE}
    assert [e.choice == UNDO for e in store.events()] == [False] * 3 + [True] * 2 + [False]


def test_progress_counts_mentions(store):
    """Progress counts mentions, not events."""
    for n, choice in enumerate([EMERGING_CHOICE, EMERGING_CHOICE, "Rey (name)", NONE, SKIP]):
        store.add(target(start=10 * n), choice, labeller="ada", at=AT)
    store.add(target(start=0), EMERGING_CHOICE, labeller="bob", at=AT)
    assert store.progress() == LabelProgress(n_emerging=2, n_other=1, n_none=1, n_skipped=1)
    assert store.progress().n_labelled == 4


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"choice": " "}, "choice"),
        ({"choice": UNDO}, "undo"),
        ({"choice": "x" * 3000}, "choice"),
        ({"labeller": ""}, "labeller"),
        ({"labeller": "a\ud800"}, "no file can hold"),
        ({"target": LabelTarget("", 0, "Rey", 0, 3)}, "document id"),
        ({"target": LabelTarget("d", -1, "Rey", 0, 3)}, "whole numbers"),
        ({"target": LabelTarget("d", 0, "Rey", 3, 3)}, "later"),
        ({"target": LabelTarget("d", 0, "Rey", 0, 1 << 70)}, "whole numbers"),
        ({"at": AT.replace(tzinfo=None)}, "time zone"),
        ({"at": datetime(1, 12, 31, 23, tzinfo=timezone(timedelta(hours=5)))}, "the year 1;"),
        ({"at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))}, "year 9999"),
    ],
)
def test_bad_values_are_refused(store, options, match):
    """A bad value gives one sentence, and nothing is written; also where it comes from a log."""
    values = {"target": target(), "choice": EMERGING_CHOICE, "labeller": "ada", "at": AT} | options
    with pytest.raises(CorpusFormatError, match=match):
        store.add(values["target"], values["choice"], labeller=values["labeller"], at=values["at"])
    bad = LabelEvent("2", values["labeller"], values["at"], values["target"], values["choice"])
    good = LabelEvent("1", "ada", AT, target(), NONE)
    with pytest.raises(CorpusFormatError):
        store.merge(event_from_json(event_to_json(event)) for event in (good, bad))
    assert store.events() == []
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)


def test_logs_of_two_folders_join(store, tmp_path):
    """Labels made apart stand side by side afterwards, an undo finds its label; twice is once."""
    store.add(target("a"), EMERGING_CHOICE, labeller="ada", at=AT)
    with LabelStore.open(tmp_path / "other.sqlite") as other:
        assert other.merge(store.events()) == 1
        store.add(target("c"), EMERGING_CHOICE, labeller="ada", at=AT)
        other.add(target("d"), EMERGING_CHOICE, labeller="ada", at=AT)
        other.undo(labeller="ada", at=AT)
        assert store.merge(other.events()) == 2
        assert store.merge(other.events()) == 0
    assert choices(store) == {("a", 0): EMERGING_CHOICE, ("c", 0): EMERGING_CHOICE}


def test_labels_added_together_hold_all_or_none(store, path):
    """A failure in the block takes back what was added; plain SQL changes nothing either."""

    def add_and_fail():
        with store.together():
            store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
            store.merge([])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_and_fail()
    assert store.events() == []
    with store.together():
        store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM events", "UPDATE events SET choice = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
            connection.execute(statement)
    connection.close()
    assert len(store.events()) == 1


def test_foreign_and_damaged_files_are_refused(store, path, tmp_path):
    """Another program's database, a text file and a newer format are named, not overwritten."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    LabelStore.open(tmp_path / "newer").close()
    statements = {"foreign": "CREATE TABLE t (x)", "newer": "PRAGMA user_version = 9"}
    for name, statement in statements.items():
        connection = sqlite3.connect(tmp_path / name)
        connection.execute(statement)
        connection.close()
    (tmp_path / "text").write_text("this is not a database, but long enough to be read " * 20)
    for name, match in (
        ("text", "not a readable"),
        ("foreign", "another program"),
        ("newer", "version 9"),
        ("no/folder", "cannot be opened"),
    ):
        with pytest.raises(WorkspaceError, match=match):
            LabelStore.open(tmp_path / name)
    with sqlite3.connect(path) as damaged:  # a flipped bit in the table's own description
        damaged.execute("PRAGMA writable_schema = 1")
        damaged.execute("UPDATE sqlite_master SET sql = replace(sql, 'surface', 'surfacd')")
    damaged.close()
    with LabelStore.open(path) as opened, pytest.raises(WorkspaceError, match="it is damaged"):
        opened.current()


FULL_DISK = """
    import resource, signal, sys
    from datetime import UTC, datetime
    from stamo.errors import WorkspaceError
    from stamo.workspace.labels import EMERGING_CHOICE, LabelStore, LabelTarget
    # No file may grow: what a full disk does to us.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with LabelStore.read(sys.argv[1]) as store:
        print(len(store.events()))
    try:
        with LabelStore.open(sys.argv[1]) as store:
            mention = LabelTarget("d", 0, "Rey", 0, 3)
            store.add(mention, EMERGING_CHOICE, labeller="x", at=datetime.now(UTC))
    except WorkspaceError as error:
        print(error)
"""


def test_a_full_disk_leaves_the_labels_readable(store, path):
    """Reading goes on, writing says that the disk failed, and nobody is told to move labels."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    store.close()
    before = path.read_bytes()
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    n, message = done.stdout.splitlines()
    assert n == "1"
    assert "The disk" in message
    assert "safe" in message
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (sqlite3.SQLITE_FULL, "disk is full"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "read-only"),
        (sqlite3.SQLITE_CANTOPEN, "read-only"),
        (sqlite3.SQLITE_IOERR_WRITE, "disk is full or failed"),
        (sqlite3.SQLITE_BUSY, "Another process"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "damaged"),
        (sqlite3.SQLITE_NOTADB, "damaged"),
    ],
)
def test_full_read_only_and_damaged_are_told_apart(path, code, match):
    """Each says what to do, and none to throw labels away."""
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    with pytest.raises(WorkspaceError, match=match), explained(path):
        raise error


def test_reading_writes_nothing(store, path, tmp_path):
    """A log that is read cannot be added to; one that is missing or only begun is empty."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    with LabelStore.read(path) as read:
        assert read.events() == store.events()
        with pytest.raises(WorkspaceError, match="read-only"):
            read.add(target(), NONE, labeller="ada", at=AT)
    begun = tmp_path / "begun.sqlite"
    with sqlite3.connect(begun) as connection:  # who is killed here leaves no damage
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    for empty in (tmp_path / "none.sqlite", begun):
        with LabelStore.read(empty) as read:
            assert read.current() == []
    assert not (tmp_path / "none.sqlite").exists()
    with LabelStore.open(begun) as opened:
        opened.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)


LABEL = """
    import sys
    from datetime import UTC, datetime
    from stamo.workspace.labels import LabelStore, LabelTarget
    with LabelStore.open(sys.argv[1]) as store:
        for n in range(int(sys.argv[3])):
            document = f"{sys.argv[2]}-{n}"
            store.add(LabelTarget(document, 0, "Rey", 0, 3), "@emerging",
                      labeller=sys.argv[2], at=datetime(2024, 5, 1, tzinfo=UTC))
            print(document, flush=True)
            if n % 5 == 4:
                store.undo(labeller=sys.argv[2], at=datetime(2024, 5, 1, tzinfo=UTC))
                print("undone", document, flush=True)
"""


def start_labelling(path, name, n):
    command = [sys.executable, "-c", textwrap.dedent(LABEL), str(path), name, str(n)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("n_lines", [1, 17])
def test_nothing_acknowledged_is_lost_by_kill_9(path, n_lines):
    """A labeller killed right after an acknowledgement has lost no label and no undo."""
    with start_labelling(path, "ada", 10**6) as process:
        said = [process.stdout.readline().split() for _ in range(n_lines)]
        process.send_signal(signal.SIGKILL)
        said += [line.split() for line in process.stdout.read().splitlines()]
    with LabelStore.open(path) as store:
        found = [["undone"] * (e.choice == UNDO) + [e.target.document] for e in store.events()]
        assert said == found[: len(said)]
        # At most one event was on disk and not yet acknowledged.
        assert len(found) <= len(said) + 1
        store.add(target(), NONE, labeller="ada", at=AT)


def test_processes_and_threads_label_at_once(path):
    """All who start together and write to one file get through, in their own order."""
    processes = [start_labelling(path, name, 40) for name in ("ada", "bob")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with LabelStore.open(path) as store:
        events = store.events()
        for name in ("ada", "bob"):
            own = [e.target.document for e in events if e.labeller == name and e.choice != UNDO]
            assert own == [f"{name}-{n}" for n in range(40)]
        assert store.progress().n_labelled == 2 * 32

        def label(name):
            for n in range(20):
                store.add(target(start=10 * n), EMERGING_CHOICE, labeller=name, at=AT)

        threads = [threading.Thread(target=label, args=(name,)) for name in "xy"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.events()) == len(events) + 40


def test_labels_are_found_by_place_when_indices_changed(store):
    """A document collected anew may list its mentions differently; labels follow the span."""
    said = {"a": EMERGING_CHOICE, "b": NONE, "c": SKIP, "d": "Rey (name)", "e": NONE}
    for document, choice in said.items():
        store.add(target(document, 5), choice, labeller="ada", at=AT, only=document == "d")
    mentions = (Mention("New", 0, 3, "New"), Mention("Rey", 5, 8))
    corpus = Corpus(tuple(Document(id, "New, Rey", mentions) for id in "abcd"))
    entity = EmergingEntity("Rey Skywalker", ("Rey",))
    labels, alone, n_stale = find_labelled(store.current(), corpus, entity)
    assert alone == {("d", 1)}
    assert labels == {("a", 1): "Rey Skywalker", ("b", 1): NONE, ("d", 1): "Rey (name)"}
    assert n_stale == 1


DOCUMENT = Document("d1", "In the evening Rey came back.", (Mention("Rey", 15, 18),), "News")
HERE, GONE = LabelTarget("d1", 0, "Rey", 15, 18), LabelTarget("d9", 0, "Rey", 3, 6)


def test_the_list_of_labels_tells_what_was_said_before(store):
    """What holds is the last answer; it differs where a run that did not see it says otherwise."""
    store.add(HERE, NONE, labeller="Ada", at=AT)
    store.add(HERE, EMERGING_CHOICE, labeller="Bob", at=AT + timedelta(hours=1))
    store.add(GONE, NONE, labeller="Ada", at=AT)

    def listed(check):
        return list_labels(store, {"d1": DOCUMENT}, "Rey Skywalker", {("d1", 15): check})

    gone, entry = listed(Check(0.1, is_entity=False))
    assert (entry.answer, entry.labeller, entry.at) == ("Rey Skywalker", "Bob", "2024-05-01 13:00")
    assert entry.said == (
        "Ada, 2024-05-01 12:00: none of these",
        "Bob, 2024-05-01 13:00: Rey Skywalker",
    )
    assert (entry.title, entry.shown.surface, entry.mention) == ("News", "Rey", 0)
    assert (gone.mention, gone.title, gone.shown.surface) == (None, "d9", "Rey")
    assert (entry.matches("SKYWALKER"), gone.matches("skywalker")) == (True, False)
    assert (entry.differs, gone.differs) == (True, False)
    assert not listed(Check(0.9, is_entity=True))[1].differs
    store.add(HERE, SKIP, labeller="Bob", at=AT + timedelta(hours=2))
    assert not any(e.differs for e in listed(Check(0.1, is_entity=True)) if e.choice == SKIP)


def test_agreement_beyond_chance_by_hand(store):
    """Three of four answers are the same, by chance half of them would be: kappa is one half."""
    for who, answers in (("ada", "ynny"), ("bob", "ynyy"), ("eve", "s")):
        for n, answer in enumerate(answers):
            choice = {"y": EMERGING_CHOICE, "n": NONE, "s": SKIP}[answer]
            store.add(target(start=10 * n), choice, labeller=who, at=AT)
    ((pair,), (dispute,)) = compare_labellers(store.current_by_labeller())
    assert (pair.first, pair.second, pair.n, pair.n_same) == ("ada", "bob", 4, 3)
    assert pair.kappa == pytest.approx(0.5)
    assert (dispute.start, dispute.answers) == (20, {"ada": NONE, "bob": EMERGING_CHOICE})
