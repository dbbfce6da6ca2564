"""Cells of tables that people open in a spreadsheet, where some texts would be computed."""

from __future__ import annotations

from typing import TypeVar

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")

_Cell = TypeVar("_Cell")


def inert_cell(value: _Cell) -> _Cell | str:
    """Return a cell as it is; a text that a spreadsheet would compute gets an apostrophe first."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA_SIGNS)
    return f"'{value}" if is_formula else value


def bare_cell(text: str) -> str:
    """Take off the apostrophe of `inert_cell`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA_SIGNS) else text
