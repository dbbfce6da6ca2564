"""One thread for numbers, so that the same input gives the same bytes on any machine setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from threadpoolctl import threadpool_limits

_is_inside: ContextVar[bool] = ContextVar("_is_inside", default=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: sums then have one order, and a θ(e*) is too small to share.

    Inside of another one nothing is set and nothing restored.
    """
    import torch  # here, so that this layer loads without it

    if _is_inside.get():
        yield
        return
    before, token = torch.get_num_threads(), _is_inside.set(True)
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):  # numpy's products
            yield
    finally:
        torch.set_num_threads(before)
        _is_inside.reset(token)
