"""What is no dump is refused before anything is read of it."""

import pytest

from stamo.build.dump import detect
from stamo.errors import DumpError


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"", "is empty"),
        (b"CREATE TABLE page", "begins with the bytes"),
        (b"\x89PNG\r\n", "UTF-8"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z archive"),
        (b"PK\x03\x04....", "zip archive"),
    ],
)
def test_other_formats_are_refused_in_one_sentence(start, says):
    """The message names the file and says what was expected."""
    with pytest.raises(DumpError, match=says) as caught:
        detect(start, "some.file")
    assert str(caught.value).startswith("some.file ")


@pytest.mark.parametrize("start", [b"<mediawiki", b"\xef\xbb\xbf<?xml", b"\n  <page>"])
def test_plain_xml_may_begin_with_a_mark_or_white_space(start):
    """A byte-order mark and white space do not hide the XML."""
    assert detect(start, "x") == "plain"
