"""The links of a cleaned page, one by one."""

from typing import NamedTuple


class Anchor(NamedTuple):
    start: int
    end: int
    target: str


def anchors_of(page):
    return list(map(Anchor._make, zip(page.starts, page.ends, page.targets, strict=True)))
