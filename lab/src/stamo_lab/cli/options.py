"""What the options of several commands of the laboratory share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from typer import Context

from stamo.errors import SettingsError


def refuse_foreign(
    context: Context, kinds_of: Mapping[str, Collection[str]], kind: str, what: str
) -> None:
    """Refuse options that were given and would be ignored.

    Args:
        context: The command as it was called.
        kinds_of: For each parameter that is not for all, the kinds of thing it is for.
        kind: Which kind it is.
        what: What has kinds, such as "suite".

    Raises:
        SettingsError: An option is for other kinds.
    """
    for name, kinds in kinds_of.items():
        source = context.get_parameter_source(name)
        if kind not in kinds and source is not None and source.name == "COMMANDLINE":
            raise SettingsError(
                f"--{name.replace('_', '-')} would be ignored: it is for a {what} of kind "
                f"{' or '.join(kinds)}, and this one is {kind}; leave it out."
            )


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read whole numbers from a list with commas; of an empty one, none.

    Raises:
        SettingsError: An entry is not a whole number.
    """
    try:
        return tuple(map(int, text.split(","))) if text.strip() else ()
    except ValueError as error:
        raise SettingsError(
            f"The sizes are {text!r}; give whole numbers with commas between, such as 25,50,100."
        ) from error
