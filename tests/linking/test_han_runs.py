"""Names inside longer words of Han characters."""

import pytest

from stamo.linking.detect import MentionDetector
from stamo.linking.forms import learn_name_starts
from stamo.linking.texts import join_texts
from tests.linking.languages import build_wiki, found_spans, wiki_kb


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        ("ja", "東日本は広い。", []),
        ("ja", "ＪＲ東日本の駅だ。", ["JR"]),
        ("ja", "日本東京に住む。", ["日本", "東京"]),
        ("ja", "2002年日本で、１２月京都で。", ["日本", "京都"]),
        ("ja", "日本人は京都生まれだ。", ["日本", "京都"]),
        ("ja", "大日本東京", []),
        ("zh", "他从北京来到上海。", ["北京", "上海"]),
    ],
)
def test_a_name_begins_where_the_links_of_a_wiki_begin(language, text, names):
    """After Kana, a number or a name, in Japanese; after any character in Chinese."""
    assert [*found_spans(language, text).values()] == names


def test_other_languages_pay_nothing():
    """Korean and Thai have no such rule."""
    assert learn_name_starts(wiki_kb("ko")) is None
    assert learn_name_starts(wiki_kb("th")) is None


def test_characters_before_names_are_learned_one_by_one(tmp_path):
    """Links after 在 teach that names follow it; 東日本, which nobody links, that none does."""
    line = "在[[日本]]の人。東日本は広い。[[東京]]は遠い。東日本の山。"
    pages = {f"記事{i}": line for i in range(30)} | {
        "日本": "[[東京]]がある。",
        "東京": "[[日本]]。",
    }
    kb = build_wiki(tmp_path, "ja", pages)
    starts = learn_name_starts(kb)
    assert starts.share_by_code[ord("在")] > 0.8
    assert starts.share_by_code[ord("東")] < 0.1
    joined = join_texts(["在日本の東日本。全日本。"])
    found = MentionDetector(kb).detect(joined)
    assert found.starts[0] == 1
    assert 6 not in found.starts


def test_extra_names_are_found_wherever_they_stand():
    """What somebody asks for is looked for everywhere."""
    joined = join_texts(["東日本"])
    found = MentionDetector(wiki_kb("ja"), extra_aliases=["日本"]).detect(joined)
    assert (found.starts.tolist(), found.ends.tolist()) == ([1], [3])


def test_a_chain_of_names_is_walked_once():
    """Each name vouches for the next one, however long the text."""
    n = 20_000
    found = MentionDetector(wiki_kb("ja")).detect(join_texts(["日本東京" * n]))
    assert len(found) == 2 * n
