from dataclasses import replace

import pytest

from stamo.evaluation.intervals import wilson
from stamo.workspace.verdict import Decision, Findings, Outlook, advise, judge


def findings(right=10, wrong=0, missed=0, other=10, p_right=0.9, p_wrong=0.6, **more):
    """Left-out labels: taken and right, taken and wrong, missed, and left alone."""
    labels = [True] * right + [False] * wrong + [True] * missed + [False] * other
    decisions = [True] * (right + wrong) + [False] * (missed + other)
    p = [p_right] * right + [p_wrong] * wrong + [0.3] * missed + [0.1] * other
    values = {
        "entity": "Rey",
        "n_emerging": right + missed,
        "n_other": wrong + other,
        "labels": tuple(labels),
        "probabilities": tuple(p),
        "decisions": tuple(decisions),
        "threshold": 0.5,
        "n_mentions": 100,
        "n_taken": 40,
        "n_unsure": 7,
        "taken_from": (("Rey (name)", 30), ("", 10)),
    }
    return Findings(**values | more)


def test_a_good_pack_is_shipped():
    """Ten of ten are right: precision 1 with Wilson's interval, no warning, exit code 0."""
    verdict = judge(findings())
    assert verdict.decision is Decision.ship
    assert verdict.precision == wilson(10, 10)
    assert round(verdict.precision.low, 2) == 0.72
    assert verdict.warnings == ()
    assert verdict.exit_code == 0
    assert "right 100% of the time" in verdict.sentence
    assert verdict.to_json()["decision"] == "ship"


def test_the_reasons_name_rates_and_rivals():
    """Precision, recall, what it takes from whom and how sure it is."""
    precision, recall, takes, sure = judge(findings(right=9, wrong=1, missed=1)).reasons
    assert precision.startswith("Precision 0.90 [0.60, 0.98]: of 10 left-out labels that it takes")
    assert recall.startswith("Recall 0.90 [0.60, 0.98]")
    expected = "40 of 100 unlabelled mentions (40%): 30 from Rey (name), 10 from no known entity"
    assert expected in takes
    assert "unsure of 7 mentions" in sure


@pytest.mark.parametrize(
    ("found", "decision", "said", "threshold", "exit_code"),
    [
        # Six of ten are right at one half, all six from 70 % on: link from there on.
        ({"right": 6, "wrong": 4, "p_wrong": 0.65}, "raise_threshold", "--threshold 0.7", 0.7, 10),
        # Only a threshold above the line that is drawn already can help.
        (
            {"right": 6, "wrong": 4, "p_wrong": 0.65, "threshold": 0.7},
            *("raise_threshold", "--threshold 0.8", 0.8, 10),
        ),
        # Four of twelve right, at high confidence, with twenty labels.
        ({"right": 4, "wrong": 8, "p_wrong": 0.95}, "do_not_ship", "no threshold", None, 12),
        # Four of five right may be anything.
        ({"right": 4, "wrong": 1, "p_wrong": 0.95}, "label_more", "closest to the", None, 11),
        # Precise, but two thirds are missed.
        ({"right": 5, "missed": 10}, "label_more", "just below the threshold", None, 11),
    ],
)
def test_what_is_not_simply_good_says_what_to_do(found, decision, said, threshold, exit_code):
    """A higher threshold, more labels, or something else than labels."""
    verdict = judge(findings(**found))
    assert verdict.decision is Decision[decision]
    assert said in verdict.sentence
    assert (verdict.threshold, verdict.exit_code) == (threshold, exit_code)


@pytest.mark.parametrize(
    ("labels", "outlook", "sentence", "ask", "is_enough"),
    [
        ((1, 4, 30), None, "Label 15 more mentions (5 done).", "", False),
        ((1, 26, 9), None, "Only 1 of 27 labels is Rey; label mentions that", "probable", False),
        ((1, 26, 0), None, "Only 1 of 27 labels is Rey; collect documents", "probable", False),
        (
            (0, 20, 5),
            Outlook(0.1, 0.4, 5),
            "and about 0 more are expected; label",
            "probable",
            False,
        ),
        ((12, 0, 5), None, "All 12 labels are Rey; label mentions that", "doubtful", False),
        ((3, 4, 0), None, "7 labels, and nothing is left to label.", "", True),
        ((5, 15, 9), None, "20 labels: enough to learn from.", "", True),
        (
            (5, 15, 9),
            Outlook(0.001, 4, 5),
            "the last 5 changed 0.1% of the answers: enough",
            "",
            True,
        ),
        ((5, 15, 9), Outlook(0.12, 4, 5), "changed 12.0% of the answers: more will help", "", True),
    ],
)
def test_one_sentence_says_what_to_label(labels, outlook, sentence, ask, is_enough):
    """How many more, of which kind, or that there are enough."""
    advice = advise("Rey", *labels, outlook)
    assert sentence in advice.sentence
    assert (advice.ask, advice.is_enough) == (ask, is_enough)


def test_the_verdict_asks_for_what_the_advice_asks_for():
    """With two of twelve both say the same words; a pack that misses some needs doubtful ones."""
    verdict = judge(findings(right=2, other=10))
    advice = advise("Rey", 2, 10, 100)
    assert advice.sentence[1:] in verdict.sentence
    assert verdict.ask == advice.ask == "probable"
    assert judge(findings(right=5, missed=10)).ask == "doubtful"
    assert judge(findings()).ask == ""


@pytest.mark.parametrize(
    ("found", "decision", "warning"),
    [
        (findings(right=3, other=3), Decision.label_more, "Too few labels: 6"),
        (findings(right=2, other=10), Decision.label_more, None),
        (findings(right=0, other=20), Decision.do_not_ship, "no label is Rey"),
        (findings(right=12, other=0), Decision.label_more, "every label is Rey"),
        (findings(right=25, other=0), Decision.ship, "every label is Rey"),
        (findings(alarm="It fell."), Decision.do_not_ship, "Collapse: It fell."),
        (findings(doubtful=("d1: odd",)), Decision.ship, "Perhaps mislabelled: d1: odd"),
        (
            replace(findings(), labels=(), probabilities=(), decisions=()),
            Decision.do_not_ship,
            None,
        ),
        (findings(right=0, missed=5, other=10), Decision.label_more, None),
    ],
)
def test_what_must_not_be_overlooked(found, decision, warning):
    """Too few, one class, a collapse, a mislabelled mention: told, and never exit code 0."""
    verdict = judge(found)
    assert verdict.decision is decision
    assert any(warning in line for line in verdict.warnings) if warning else not verdict.warnings
    assert verdict.exit_code > 0
