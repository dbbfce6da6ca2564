"""One thread while learning, and the user's setting before and after."""

import threading

import pytest
import torch

from stamo.system.processes import one_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_the_setting_comes_back():
    """Also when what runs inside fails."""
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_nested_it_touches_nothing(monkeypatch):
    """Only the outer one sets and restores."""
    with one_thread():
        monkeypatch.setattr(torch, "set_num_threads", lambda n: pytest.fail("set inside"))
        with one_thread():
            assert torch.get_num_threads() == 1
        monkeypatch.undo()
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_threads_that_overlap_leave_the_setting():
    """The one that leaves last sets back what the first one found."""
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def second():
        first_is_in.wait(5)
        with one_thread():
            second_is_in.set()
            first_is_out.wait(5)

    other = threading.Thread(target=second)
    other.start()
    with one_thread():
        first_is_in.set()
        second_is_in.wait(5)
    first_is_out.set()
    other.join()
    assert torch.get_num_threads() == 2
    found = []
    last = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    last.start()
    last.join()
    assert found == [2]
