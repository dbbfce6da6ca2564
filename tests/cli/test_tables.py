"""What is shown in a terminal never steers it."""

from rich.table import Table

from stamo.cli.output import Console


def test_control_characters_are_shown_not_obeyed(capsys):
    """A name that would turn the terminal red, ring it or turn the line round does nothing."""
    table = Table("Name", "[bold]n[/bold]")
    table.add_row("\x1b[31mRey\x07\x9b1m\u202e", "1")
    Console(force_terminal=True, width=80).print(table, "\x1b]0;title\x07")
    shown = capsys.readouterr().out
    assert "�[31mRey" in shown
    assert "\x1b[1m" in shown  # our own styles still work
    assert not any(code in shown for code in ("\x1b[31m", "\x1b]", "\x07", "\x9b", "\u202e"))
