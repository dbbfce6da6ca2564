"""Labels are only ever added, survive kill -9, and several people may label at once."""

import csv
import io
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
from stamo.workspace.label_files import from_csv, from_jsonl, to_csv, to_jsonl
from stamo.workspace.labels import (
    EMERGING_CHOICE,
    NONE,
    SKIP,
    UNDO,
    LabelProgress,
    LabelStore,
    LabelTarget,
    explain,
    find_labelled,
)

AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


def target(document="d", start=0):
    return LabelTarget(document, 0, "Rey", start, start + 3)


@pytest.fixture
def store(tmp_path):
    with LabelStore.open(tmp_path / "labels.sqlite") as store:
        yield store


def choices(store):
    return {(e.target.document, e.target.start): e.choice for e in store.current()}


def test_a_label_comes_back_with_who_and_when(store, tmp_path):
    """Everything that was said is stored, for a later process too."""
    at = datetime(2024, 5, 1, 14, 0, 0, 123, tzinfo=UTC)
    event = store.add(target(), "Rey (name)", labeller="Ada Ü", at=at)
    assert (event.labeller, event.at, event.choice, event.target) == (
        "Ada Ü",
        at,
        "Rey (name)",
        target(),
    )
    with LabelStore.open(tmp_path / "labels.sqlite") as again:
        assert again.events() == again.current() == [event]


def test_the_last_choice_holds(store):
    """Labelling again replaces a labeller's choice, also when the clock was set back."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(target(), NONE, labeller="ada", at=AT - timedelta(hours=1))
    assert choices(store) == {("d", 0): NONE}
    assert len(store.events()) == 2


def test_a_skip_does_not_hide_the_label_of_another(store):
    """Of two labellers the later choice holds, but a skip gives way to a label."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(target(), SKIP, labeller="bob", at=AT)
    assert choices(store) == {("d", 0): EMERGING_CHOICE}
    store.add(target(), NONE, labeller="bob", at=AT)
    assert choices(store) == {("d", 0): NONE}
    store.add(target(), SKIP, labeller="ada", at=AT)
    assert [(e.labeller, e.choice) for e in store.current_by_labeller()] == [
        ("bob", NONE),
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
    assert choices(store) == {("b", 0): NONE}
    store.add(target("a"), EMERGING_CHOICE, labeller="ada", at=AT)
    assert choices(store)["a", 0] == EMERGING_CHOICE
    assert [e.choice for e in store.events()] == [
        EMERGING_CHOICE,
        NONE,
        NONE,
        UNDO,
        UNDO,
        EMERGING_CHOICE,
    ]


def test_progress_counts_mentions(store):
    """Progress counts mentions, not events, for all or for one labeller."""
    for n, choice in enumerate([EMERGING_CHOICE, EMERGING_CHOICE, "Rey (name)", NONE, SKIP]):
        store.add(target(start=10 * n), choice, labeller="ada", at=AT)
    store.add(target(start=0), EMERGING_CHOICE, labeller="bob", at=AT)
    assert store.progress() == LabelProgress(n_emerging=2, n_other=1, n_none=1, n_skipped=1)
    assert store.progress().n_labelled == 4
    assert store.progress("bob") == LabelProgress(n_emerging=1)


def test_the_log_cannot_be_rewritten(store, tmp_path):
    """Even with plain SQL, events are neither changed nor deleted."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    connection = sqlite3.connect(tmp_path / "labels.sqlite")
    for statement in ("DELETE FROM events", "UPDATE events SET choice = 'x'"):
        with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
            connection.execute(statement)
    connection.close()


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
    ],
)
def test_bad_values_are_refused(store, options, match):
    """A bad value gives one sentence, and nothing is written."""
    values = {"target": target(), "choice": EMERGING_CHOICE, "labeller": "ada", "at": AT} | options
    with pytest.raises(CorpusFormatError, match=match):
        store.add(values["target"], values["choice"], labeller=values["labeller"], at=values["at"])
    assert store.events() == []
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)


def test_foreign_and_damaged_files_are_refused(tmp_path):
    """Another program's database, a text file and a newer format are named, not overwritten."""
    text = tmp_path / "text"
    text.write_text("this is not a database, but long enough to be looked at " * 20)
    foreign = tmp_path / "foreign"
    newer = tmp_path / "newer"
    LabelStore.open(newer).close()
    for path, statement in ((foreign, "CREATE TABLE t (x)"), (newer, "PRAGMA user_version = 9")):
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.close()
    for path, match in (
        (text, "not a readable"),
        (foreign, "another program"),
        (newer, "version 9"),
    ):
        with pytest.raises(WorkspaceError, match=match):
            LabelStore.open(path)
    with pytest.raises(WorkspaceError, match="cannot be opened"):
        LabelStore.open(tmp_path / "no" / "folder")


FULL_DISK = """
    import resource, signal, sys
    from datetime import UTC, datetime
    from stamo.errors import WorkspaceError
    from stamo.workspace.labels import EMERGING_CHOICE, LabelTarget
    from stamo.workspace.labels import LabelStore
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


def test_a_full_disk_leaves_the_labels_readable(store, tmp_path):
    """Reading goes on, writing says that the disk failed, and nobody is told to move labels."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    store.close()
    path = tmp_path / "labels.sqlite"
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    n, message = done.stdout.splitlines()
    assert n == "1"
    assert "The disk" in message
    assert "safe" in message
    assert path.read_bytes() == before


def failure(code):
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (sqlite3.SQLITE_FULL, "disk is full"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "read-only"),
        (sqlite3.SQLITE_CANTOPEN, "read-only"),
        (sqlite3.SQLITE_IOERR_WRITE, "disk failed"),
        (sqlite3.SQLITE_BUSY, "Another process"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "damaged"),
        (sqlite3.SQLITE_NOTADB, "damaged"),
    ],
)
def test_full_read_only_and_damaged_are_told_apart(tmp_path, code, match):
    """Each says what to do, and none to throw labels away."""
    message = str(explain(failure(code), tmp_path / "labels.sqlite"))
    assert match in message
    assert "move it away" not in message


def test_reading_writes_nothing(store, tmp_path):
    """A log that is read cannot be added to, and one that is not there is not made."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    with LabelStore.read(tmp_path / "labels.sqlite") as read:
        assert read.events() == store.events()
        with pytest.raises(WorkspaceError, match="read-only"):
            read.add(target(), NONE, labeller="ada", at=AT)
    with LabelStore.read(tmp_path / "none.sqlite") as none:
        assert none.events() == []
    assert not (tmp_path / "none.sqlite").exists()


def test_a_log_that_was_only_begun_is_empty(tmp_path):
    """Who is killed between making the file and its tables leaves no damage."""
    path = tmp_path / "begun.sqlite"
    with sqlite3.connect(path) as begun:
        begun.execute("PRAGMA journal_mode = WAL")
    begun.close()
    assert path.stat().st_size > 0
    with LabelStore.read(path) as read:
        assert read.current() == []
    with LabelStore.open(path) as opened:
        opened.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    with LabelStore.read(path) as read:
        assert len(read.current()) == 1


def test_a_damaged_name_of_a_column_is_one_sentence(store, tmp_path):
    """A flipped bit in the table's own description is damage like any other."""
    store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    with sqlite3.connect(tmp_path / "labels.sqlite") as damaged:
        damaged.execute("PRAGMA writable_schema = 1")
        damaged.execute("UPDATE sqlite_master SET sql = replace(sql, 'surface', 'surfacd')")
    damaged.close()
    with (
        LabelStore.open(tmp_path / "labels.sqlite") as opened,
        pytest.raises(WorkspaceError, match="it is damaged"),
    ):
        opened.current()


def test_labels_added_together_hold_all_or_none(store):
    """A failure in the block takes back what was added before it."""

    def add_two_and_fail():
        with store.together():
            store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
            store.merge([])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_two_and_fail()
    assert store.events() == []
    with store.together():
        store.add(target(), EMERGING_CHOICE, labeller="ada", at=AT)
    assert len(store.events()) == 1


LABEL = """
    import sys
    from datetime import UTC, datetime
    from stamo.workspace.labels import LabelTarget
    from stamo.workspace.labels import LabelStore
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


@pytest.mark.parametrize("n_lines", [1, 6, 17])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path, n_lines):
    """A labeller killed right after an acknowledgement has lost no label and no undo."""
    path = tmp_path / "labels.sqlite"
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


def test_two_processes_label_at_once(tmp_path):
    """Processes that start together and write to one file all get through, in their own order."""
    path = tmp_path / "labels.sqlite"
    processes = [start_labelling(path, name, 40) for name in ("ada", "bob", "eve")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with LabelStore.open(path) as store:
        events = store.events()
        for name in ("ada", "bob", "eve"):
            own = [e.target.document for e in events if e.labeller == name and e.choice != UNDO]
            assert own == [f"{name}-{n}" for n in range(40)]
        assert store.progress().n_labelled == 3 * 32


def test_threads_may_share_a_store(store):
    """The service labels from several threads."""

    def label(name):
        for n in range(20):
            store.add(target(start=10 * n), EMERGING_CHOICE, labeller=name, at=AT)

    threads = [threading.Thread(target=label, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.events()) == 40


def fill(store):
    store.add(target("a"), EMERGING_CHOICE, labeller="ada", at=AT)
    store.add(target("b"), NONE, labeller="ada", at=AT)
    store.undo(labeller="ada", at=AT)
    store.add(target("b"), 'Rey, "the" one', labeller="bob\n", at=AT)


def test_json_lines_carry_the_whole_log(store, tmp_path):
    """Written, read and joined into an empty store, the log is the same; twice adds nothing."""
    fill(store)
    events = from_jsonl(to_jsonl(store.events()))
    assert events == store.events()
    with LabelStore.open(tmp_path / "other.sqlite") as other:
        assert other.merge(events) == 4
        assert other.merge(events) == 0
        assert other.events() == store.events()
        assert other.current() == store.current()


def test_logs_of_two_folders_join(store, tmp_path):
    """Labels made apart stand side by side afterwards, and an undo finds its label."""
    fill(store)
    with LabelStore.open(tmp_path / "other.sqlite") as other:
        other.merge(store.events())
        store.add(target("c"), EMERGING_CHOICE, labeller="ada", at=AT)
        other.add(target("d"), EMERGING_CHOICE, labeller="ada", at=AT)
        other.undo(labeller="ada", at=AT)
        assert store.merge(other.events()) == 2
    assert choices(store) == {
        ("a", 0): EMERGING_CHOICE,
        ("b", 0): 'Rey, "the" one',
        ("c", 0): EMERGING_CHOICE,
    }


@pytest.mark.parametrize("line", ["[]", "{}", "x", '{"uid": 1}'])
def test_bad_json_lines_are_named(line):
    """The line that is wrong is named."""
    with pytest.raises(CorpusFormatError, match="Line 2"):
        from_jsonl("\n" + line)


def test_a_bad_event_spoils_no_merge(store):
    """When one event is invalid, none of the batch is added."""
    fill(store)
    events = store.events()
    broken = [events[0], type(events[0])("u", "ada", AT, target(), UNDO, None)]
    before = len(events)
    with pytest.raises(CorpusFormatError, match="undo"):
        store.merge([type(events[0])("new", "ada", AT, target(), NONE, None), *broken])
    assert len(store.events()) == before


def test_the_table_opens_in_any_spreadsheet(store):
    """The CSV has one row per mention, and commas, quotes and line breaks survive."""
    fill(store)
    rows = list(csv.DictReader(io.StringIO(to_csv(store.current()), newline="")))
    assert [(r["document"], r["choice"], r["labeller"]) for r in rows] == [
        ("a", EMERGING_CHOICE, "ada"),
        ("b", 'Rey, "the" one', "bob\n"),
    ]
    assert rows[0]["at"] == "2024-05-01T12:00:00.000000+00:00"


def test_labels_are_found_by_place_when_indices_changed(store):
    """A document collected anew may list its mentions differently; labels follow the span."""
    for document, choice in (
        ("a", EMERGING_CHOICE),
        ("b", NONE),
        ("c", SKIP),
        ("d", "Rey (name)"),
        ("e", NONE),
    ):
        store.add(target(document, 5), choice, labeller="ada", at=AT)
    mentions = (Mention("New", 0, 3, "New"), Mention("Rey", 5, 8))
    corpus = Corpus(tuple(Document(id, "New, Rey", mentions) for id in "abcd"))
    entity = EmergingEntity("Rey Skywalker", ("Rey",))
    labels, n_stale = find_labelled(store.current(), corpus, entity)
    assert labels == {("a", 1): "Rey Skywalker", ("b", 1): NONE, ("d", 1): "Rey (name)"}
    assert n_stale == 1


@pytest.mark.parametrize("year", [1, 1969, 2200, 9999])
def test_labels_of_impossible_years_are_refused(store, year):
    """A date at the edge of the calendar cannot be brought to UTC; none of these is a label's."""
    zone = timezone(timedelta(hours=5 if year < 2000 else -5))
    with pytest.raises(CorpusFormatError, match=f"the year {year}"):
        store.add(
            target(), EMERGING_CHOICE, labeller="ada", at=datetime(year, 12, 31, 23, tzinfo=zone)
        )
    line = f'"uid": "1", "labeller": "a", "at": "{year:04}-01-01T00:00:00+00:00"'
    more = '"document": "d", "mention": 0, "surface": "x", "start": 0, "end": 1'
    with pytest.raises(CorpusFormatError, match="Line 1"):
        from_jsonl(f'{{{line}, {more}, "choice": "@none"}}')


def test_a_table_holds_no_formula(store):
    """What a spreadsheet would run is text there; our own marks stay as they are."""
    hostile = LabelTarget("=1+1", 0, "@SUM(A1)", 0, 3)
    store.add(hostile, EMERGING_CHOICE, labeller="-2+3", at=AT)
    store.add(target("b"), "+x", labeller="ada", at=AT)
    first, second = csv.DictReader(io.StringIO(to_csv(store.current())))
    assert (first["document"], first["surface"], first["labeller"]) == (
        "'=1+1",
        "'@SUM(A1)",
        "'-2+3",
    )
    assert first["choice"] == EMERGING_CHOICE
    assert second["choice"] == "'+x"


@pytest.mark.parametrize("head", ['"document"x,start,end,choice', "document,start,end"])
def test_a_table_with_a_broken_head_is_told(head):
    """A quotation mark in the wrong place is one sentence, as a column that is missing."""
    with pytest.raises(CorpusFormatError, match="Line 1"):
        from_csv(f"{head}\n", Corpus(()), labeller="ada", at=datetime(2024, 5, 1, tzinfo=UTC))
