"""One thread while learning, and the user's setting before and after."""

import pytest
import torch

from stamo.system.threads import one_thread


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
