"""Known answers of an invented world."""

from stamo.workspace.gold import answer_at


def test_a_part_of_a_longer_name_means_what_the_name_means():
    """The exact place counts first; where nothing covers a mention, there is no answer."""
    answers = {(0, 20): "Qaro Zweb", (5, 9): "Zweb"}
    assert answer_at(answers, 0, 4) == "Qaro Zweb"
    assert answer_at(answers, 5, 9) == "Zweb"
    assert answer_at(answers, 15, 25) is None
