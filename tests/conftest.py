"""What several tests share."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).parent.parent.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real development data; tests that ask for it skip where it is absent."""
    if not (SHARED_DATA / "enwik8.xml.xz").exists():
        pytest.skip("the development data is not beside this checkout")
    return SHARED_DATA
