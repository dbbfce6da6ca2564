"""Windows of words, the entity context, candidates of mentions, and where they stand in texts."""

import numpy as np
import pytest

from stamo.corpus.tokenizer import EncodedWords
from stamo.corpus.types import Document, Mention
from stamo.features.mentions import (
    OTHER,
    UNKNOWN,
    Surroundings,
    context_words,
    encode,
    entity_context,
    flatten,
)


class Letters:
    """A lexicon whose words are single letters: a is 0, b is 1; other characters are no words."""

    def encode(self, text):
        place = [i for i, letter in enumerate(text) if letter.islower()]
        ids = np.array([ord(text[i]) - ord("a") for i in place], dtype=np.int32)
        starts = np.array(place, dtype=np.int32)
        return EncodedWords(ids, starts, starts + 1)


class TwoNames:
    """Candidates: 7 and 5 for X, 9 for Y, none for anything else."""

    def candidate_table(self, surfaces, top):
        table = {"X": ([7, 5], [0.75, 0.25]), "Y": ([9, -1], [1.0, 0.0])}
        rows = [table.get(s, ([-1, -1], [0.0, 0.0])) for s in surfaces]
        ids, priors = zip(*rows, strict=True)
        width = 2 if top is None else min(top, 2)
        return (
            np.array(ids, dtype=np.int32)[:, :width],
            np.array(priors, dtype=np.float32)[:, :width],
        )


def corpus_of(*texts, entities=None):
    """Flatten texts whose capital letters are mentions, linked as `entities` says."""
    entities = entities or {}
    documents = [
        Document(
            str(d),
            text,
            tuple(
                Mention(letter, i, i + 1, entities.get((d, i)))
                for i, letter in enumerate(text)
                if letter.isupper()
            ),
        )
        for d, text in enumerate(texts)
    ]
    return flatten(documents, Letters(), {"five": 5, "seven": 7, "nine": 9})


def words_around(corpus, n_words):
    rows = np.arange(corpus.n_mentions)
    return context_words(corpus, rows, n_words).tolist()


@pytest.mark.parametrize(
    ("texts", "n_words", "expected"),
    [
        (["abcXdef"], 4, [[1, 2, 3, 4]]),
        (["abcXdef"], 3, [[2, 3, 4]]),  # an odd one more stands behind
        (["aX", "Xb", "X"], 4, [[-1, 0, -1, -1], [-1, -1, 1, -1], [-1] * 4]),
        (["X"], 2, [[-1, -1]]),  # a corpus without a word
    ],
)
def test_half_of_the_words_stand_before_and_half_after(texts, n_words, expected):
    """What is not there is padding, and the words of the next document are not there."""
    assert words_around(corpus_of(*texts), n_words) == expected


@pytest.mark.parametrize(
    ("texts", "links", "n", "expected"),
    [
        # Seven is one word away, nine two, five three; an unlinked one is nobody.
        (["AabcXUdBeC"], {(0, 0): "five", (0, 7): "seven", (0, 9): "nine"}, 4, [7, 9, 5, -1]),
        (["AabcXUdBeC"], {(0, 0): "five", (0, 7): "seven", (0, 9): "nine"}, 2, [7, 9]),
        (["AaXbB"], {(0, 0): "nine", (0, 4): "five"}, 2, [9, 5]),  # the earlier of equally near
        # The other X would answer for this one; the neighbour of another text says nothing.
        (["XaYbA", "B"], {(0, 0): "seven", (0, 4): "five", (1, 0): "nine"}, 2, [5, -1]),
        (["X"], {}, 3, [-1, -1, -1]),
    ],
)
def test_the_nearest_linked_mentions_come_first(texts, links, n, expected):
    """The entity context of the last mention of X, or of Y under the name of X."""
    corpus = corpus_of(*texts, entities=links)
    table = corpus.surface_table
    if "Y" in table:
        corpus.surfaces[corpus.surfaces == table.index("Y")] = table.index("X")
    row = np.flatnonzero(corpus.surfaces == table.index("X"))[-1:]
    assert entity_context(corpus, row, corpus.entities, n)[0].tolist() == expected
    assert entity_context(corpus, row[:0], corpus.entities, n).shape == (0, n)


def test_a_word_of_the_mention_is_no_context():
    """A word that overlaps the mention belongs to neither side."""
    mention = Mention("bXc", 1, 4)
    corpus = flatten([Document("0", "abXcd", (mention,))], Letters(), {})
    assert words_around(corpus, 4) == [[-1, 0, 3, -1]]


def test_the_places_of_mentions_are_joined_in_the_order_of_documents():
    """Mentions of many documents end to end, each with its own text; one without any counts."""
    text = corpus_of("aXbY", "nothing", "X").text
    assert text.texts == ["aXbY", "nothing", "X"]
    assert text.documents.tolist() == [0, 0, 2]
    assert text.starts.tolist() == [1, 3, 0]
    assert text.ends.tolist() == [2, 4, 1]


def test_candidates_priors_and_gold():
    """Each mention has the candidates of its name; what nobody knows has padding only."""
    corpus = corpus_of("XYZ", entities={(0, 0): "five", (0, 1): "unheard of"})
    mentions = encode(corpus, TwoNames())
    assert mentions.candidates.tolist() == [[7, 5], [9, -1], [-1, -1]]
    assert mentions.known["prior"].tolist() == [[0.75, 0.25], [1.0, 0.0], [0.0, 0.0]]
    assert mentions.gold.tolist() == [5, OTHER, UNKNOWN]
    assert mentions.gold_column().tolist() == [1, -1, -1]
    assert mentions.mask.tolist() == [[True, True], [True, False], [False, False]]


def test_taking_mentions_drops_columns_that_none_uses():
    """Only Y is left, which has one candidate; untrimmed the columns keep their numbers."""
    mentions = encode(corpus_of("XY"), TwoNames())
    assert mentions.take(np.array([1])).candidates.tolist() == [[9]]
    assert mentions.take(np.array([1]), trim=False).candidates.tolist() == [[9, -1]]
    assert mentions.take(np.array([1])).known["prior"].tolist() == [[1.0]]


TEXTS = ("The probe Dawn left Vesta, and Dawn French laughed.", "Dawn")


def places(*spans):
    documents, starts, ends = zip(*spans, strict=True)
    return Surroundings(TEXTS, *(np.array(x, dtype=np.int32) for x in (documents, starts, ends)))


def test_next_to_gives_the_nearest_first():
    """Words and signs on either side, also at the edges of a text."""
    first, second, alone = places((0, 10, 14), (0, 31, 35), (1, 0, 4)).next_to()
    assert first == (["probe", "The"], ["left", "Vesta"])
    assert second == (["and", ","], ["French", "laughed"])
    assert alone == ([], [])
    assert places((0, 10, 14), (1, 0, 4)).take(np.array([1])).next_to() == [alone]


def test_windows_cut_between_words():
    """A window holds whole words and says where the mention stands in it."""
    (window,) = places((0, 10, 14)).windows(3)
    assert window.text == "probe Dawn left"
    assert window.text[window.start : window.end] == "Dawn"


def test_a_text_without_spaces_does_not_grow_a_window_for_ever():
    """Where nothing separates words, a window ends at twice its size."""
    text = "x" * 5000
    one = Surroundings((text,), *(np.array([n], dtype=np.int32) for n in (0, 2000, 2004)))
    (window,) = one.windows(100)
    assert len(window.text) <= 4 * 100 + 4
