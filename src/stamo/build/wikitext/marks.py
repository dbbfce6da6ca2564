"""Signs that stand in a page while it is being cleaned: control characters no cleaned page has."""

SHELTERED = "\x01"
"""Stands before text that was sheltered from parsing; `reveal` undoes both."""
OPEN = "\x02"
"""Stands before the anchor of a link to an article."""
CLOSE = "\x03"
"""Stands after the anchor of a link to an article."""
PLACEHOLDER = "\x04"
"""Stands where markup was cut out; a reader does not see it."""

_SPECIAL = "[]{}|<>'&=*#:;_-"
# Characters that mean nothing to any step, not even white space.
_SHELTER = dict(zip(map(ord, _SPECIAL), [5, 6, *range(0x0E, 0x1C)], strict=True))
_REVEAL: dict[int, int | None] = {code: sign for sign, code in _SHELTER.items()}
_REVEAL[ord(SHELTERED)] = None


def shelter(text: str) -> str:
    """Write literal text so that no step takes any of it for markup."""
    return SHELTERED + text.translate(_SHELTER)


def is_sheltered(text: str) -> bool:
    """Tell whether some of a text is sheltered."""
    return SHELTERED in text


def reveal(text: str) -> str:
    """Give sheltered text its own characters back."""
    return text.translate(_REVEAL) if SHELTERED in text else text


def reveal_rest(text: str) -> str:
    """Give what is left of sheltered text its own characters back, even without its first sign."""
    # Few signs of few kinds: one look for each kind is faster than one at each character.
    for code, sign in _REVEAL.items():
        if chr(code) in text:
            text = text.replace(chr(code), "" if sign is None else chr(sign))
    return text
