"""Whatever the system refuses, a command says it in one line, exits with 1 and leaves no litter."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import typer

from stamo.cli import main as cli
from stamo.errors import StamoError
from tests.service.support import make_pack

NO_ROOM = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no file may grow, as on a full disk
from stamo.cli.main import main
main()
"""


READ_ONLY = """
import errno, os, sys
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.link"}

def refuse(event, args):
    writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if (writes or event in CHANGES) and "frozen" in str(args[0]):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(args[0]))

sys.addaudithook(refuse)
from stamo.cli.main import main
main()
"""


def run(*arguments, code="from stamo.cli.main import main; main()", **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def is_one_line(message):
    return message.startswith("stamo: ") and message.count("\n") == 1


def refuse(done, said):
    """Check that a command ended with one line that says why."""
    assert (done.returncode, is_one_line(done.stderr)) == (1, True), done.stderr
    assert said in done.stderr


def test_a_full_disk_is_one_line(tmp_path):
    """A command that cannot write says so and leaves nothing behind."""
    refuse(run("world", tmp_path / "out", code=NO_ROOM), "disk is full")
    assert list((tmp_path / "out").iterdir()) == []


def test_output_that_cannot_be_written_is_one_line(small_kb):
    """Output into a full device is no success, and no trace either."""
    link = ["link", "--kb", small_kb.path, small_kb.path / "manifest.json"]
    for words in (["--help"], link):
        with open("/dev/full", "w") as full:  # noqa: PTH123
            refuse(run(*words, stdout=full), "disk is full")


@pytest.mark.parametrize(
    ("code", "match"), [(NO_ROOM, "disk is full"), (READ_ONLY, "read-only")], ids=["full", "frozen"]
)
def test_a_folder_that_takes_nothing_is_one_line(tmp_path, code, match):
    """`packs add` and `new` say what refused them and leave nothing behind."""
    make_pack().save(tmp_path / "new.stamo")
    frozen = tmp_path / "frozen"
    frozen.mkdir()
    for words, said in (
        (["packs", "add", frozen, tmp_path / "new.stamo"], match),
        (["new", frozen / "rey", "Rey Skywalker", "--alias", "Rey"], "cannot be made"),
    ):
        refuse(run(*words, code=code), said)
        assert list(frozen.rglob("*.stamo")) == list(frozen.glob(".*")) == []


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "disk is full at '/data/x'"),
        (OSError(errno.EROFS, "Read-only file system", "/data/x"), "read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), "does not permit"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", b"/data/x"), "Not a directory"),
        (OSError("odd"), "odd"),
        (MemoryError(), "memory ran out"),
        (StamoError("Our own sentence."), "Our own sentence."),
    ],
)
def test_every_error_of_the_system_is_a_sentence(monkeypatch, capsys, error, match):
    """One place turns them all into a line and exit code 1."""

    def fail():
        raise error

    monkeypatch.setattr(cli, "create_app", lambda modules: fail)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    message = capsys.readouterr().err
    assert ended.value.code == 1
    assert is_one_line(message)
    assert match in message


def test_out_is_tried_before_long_work(tmp_path):
    """An impossible --out is told before the knowledge base is even opened."""
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file" / "model", tmp_path / "no" / "model", tmp_path):
        refuse(run("train", "--kb", tmp_path / "kb", "--out", out), "system refused")


def test_a_port_that_is_none_is_one_line(tmp_path):
    """A port above 65535 is refused in a sentence."""
    both = ("--kb", tmp_path / "kb", "--model", tmp_path / "model")
    done = run("serve", *both, "--port", 99999)
    refuse(done, "0 to 65535")


STOPPED = """
import os, signal, tarfile
from stamo.cli.main import main

def stop(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)

tarfile.TarFile.extractall = stop
main()
"""


def test_sigterm_is_ctrl_c(tmp_path):
    """A command that is asked to end removes what is half-written."""
    done = run("world", tmp_path, code=STOPPED)
    assert done.returncode == 130
    assert "stopped on request" in done.stderr
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import stamo.workspace.collect as collecting
from stamo.cli.main import main

def collect(*arguments, **options):
    exec("raise KeyboardInterrupt", {})  # Python remembers an interrupt that leaves `exec`

collecting.collect = collect
main()
"""


def test_interrupted_collecting_ends_with_130_and_says_how_it_goes_on(tmp_path):
    """Also by `python -m`, which would end by a signal after an interrupt inside `exec`."""
    kb = tmp_path / "kb"
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    (tmp_path / "list.csv").write_text("name,description\nFalcon,A light shoe for wet trails.\n")
    assert run("build", tmp_path / "list.csv", kb, stdout=subprocess.DEVNULL).returncode == 0
    assert run("new", tmp_path / "a", "Rey", stdout=subprocess.DEVNULL).returncode == 0
    command = [sys.executable, "-m", "interrupted", "collect", tmp_path / "a", "--kb", kb]
    done = subprocess.run(
        [*map(str, command), "--from", str(tmp_path)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 130
    go_on, stopped = done.stderr.strip().splitlines()
    assert "goes on where it stopped" in go_on
    assert "stopped on request" in stopped


NO_TORCH = """
import contextlib, io, json, sys
sys.modules["torch"] = None  # as if it were not installed
from stamo.cli.main import main
said = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["stamo", *words]
    error = io.StringIO()
    code = 0
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as end:
            code = end.code
    said.append([code or 0, error.getvalue()])
print(json.dumps(said))
"""


def test_without_torch_one_sentence_names_the_extra(small_kb, tmp_path):
    """A bare installation says what to install, in every command that needs it."""
    kb, rey = str(small_kb.path), str(tmp_path / "rey")
    artifacts = ["--kb", kb, "--model", str(tmp_path / "m")]
    fine = [["new", rey, "Rey", "--kb", kb], ["status", rey], ["history", "list", rey]]
    needing = [
        ["train", "--kb", kb],
        ["serve", "--kb", kb, "--model", "model", "--port", "0"],
        ["update", rey, "--from", __file__, *artifacts],
        ["demo", str(tmp_path / "demo")],
    ]
    commands = json.dumps([*fine, *needing])
    done = run(commands, code=NO_TORCH, cwd=tmp_path, stdout=subprocess.PIPE)
    said = json.loads(done.stdout)
    assert said[: len(fine)] == [[0, ""]] * len(fine)
    for command, (code, message) in zip(needing, said[len(fine) :], strict=True):
        assert (code, is_one_line(message)) == (1, True), (command, message)
        assert "pip install 'stamo[torch]'" in message
    assert not (tmp_path / "demo").exists()


def test_other_missing_modules_are_no_secret(monkeypatch):
    """A module that no extra brings is a fault of ours and keeps its trace."""

    def fail():
        raise ModuleNotFoundError("No module named 'nonsense'", name="nonsense")

    monkeypatch.setattr(cli, "create_app", lambda modules: fail)
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    with pytest.raises(ModuleNotFoundError):
        cli.main()


@pytest.mark.parametrize(
    ("words", "modules"),
    [
        ("link text.txt", ["link"]),
        ("--verbose status -h", ["workspaces"]),
        ("-V", []),
        ("--help", []),
        ("", []),
        ("lnk kb", []),
    ],
)
def test_a_command_line_loads_what_it_calls(words, modules):
    """One command needs its own module; help and a wrong word need none."""
    assert cli.modules_for(words.split()) == modules


def test_help_without_the_commands_is_that_with_them(capsys):
    """What the table says of each command is what help shows, whatever is loaded."""
    shown = []
    for modules in (None, []):
        with pytest.raises(SystemExit):
            cli.create_app(modules)(["--help"], prog_name="stamo")
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    for panel, commands in cli.COMMANDS.items():
        part = shown[0].split(f" {panel} ")[1].split("╰")[0]
        assert all(f"│ {name} " in part for name in commands)
    for name, module in cli.MODULES.items():
        assert name in typer.main.get_command(cli.create_app([module])).commands


def test_short_options_and_flags_without_types(capsys):
    """-h and -V work, and no flag shows a type."""
    app = cli.create_app()
    for words, expected in ((["-V"], "stamo "), (["packs", "list", "-h"], "--json")):
        with pytest.raises(SystemExit) as ended:
            app(words)
        said = capsys.readouterr().out
        assert ended.value.code == 0
        assert expected in said
        assert "bool" not in said


def commands_below(command, words=()):
    """List the words of all commands."""
    below = getattr(command, "commands", {})
    deeper = [commands_below(part, (*words, name)) for name, part in below.items()]
    return [words, *(found for some in deeper for found in some)]


def test_help_speaks_no_python(capsys, monkeypatch):
    """No command's help names a type of Python, and usage says each argument once."""
    monkeypatch.setenv("COLUMNS", "200")
    app = cli.create_app()
    for words in commands_below(typer.main.get_command(app)):
        with pytest.raises(SystemExit):
            app([*words, "--help"], prog_name="stamo")
        said = capsys.readouterr().out
        assert f"Usage: {' '.join(['stamo', *words])} " in said
        shown = set(re.findall(r"<([^>]+)>", said))
        assert not shown & {"str", "int", "float", "bool", "Path"}, (words, shown)
        assert not any("range" in what for what in shown), (words, shown)
        is_group = " COMMAND " in said
        for_a_person = words in (("label",), ("serve",), ("found", "review"))
        assert is_group or for_a_person or "--json" in said, words
        assert not re.search(r"list\[|\.\.\.[\]}]|[{}]", said), (words, said)


def test_narrow_ascii_and_closed_outputs_give_no_trace(tmp_path):
    """40 columns of ASCII show an entity of another script; a reader may leave early."""
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    pipe = {"stdout": subprocess.PIPE, "env": plain}
    done = run("new", tmp_path / "x", "Ångström 北京", "--description", "… a name", **pipe)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "\\u5317" in done.stdout
    done = run("status", tmp_path, "--json", **pipe)
    assert json.loads(done.stdout)[0]["entity"] == "Ångström 北京"
    reader, writer = os.pipe()
    os.close(reader)
    done = run("status", tmp_path, stdout=writer)
    os.close(writer)
    assert "Traceback" not in done.stderr


def test_a_damaged_workspace_hides_no_other(tmp_path, capsys):
    """It is named; the others are shown."""
    app = cli.create_app()
    with suppress(SystemExit):
        app(["new", str(tmp_path / "a"), "Rey"])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "entity.json").write_text("{}")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        app(["status", str(tmp_path)])
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert "Rey" in said.out
    assert "b: The entity.json" in said.err
