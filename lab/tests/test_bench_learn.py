"""`stamo bench learn`: the work is what it says, and its parts add up."""

import json

import numpy as np
from typer.testing import CliRunner

from stamo_lab.bench.learn import LearnBenchArgs, generate_knowledge_base, generate_task
from stamo_lab.cli.main import create_app


def test_the_command_reports_every_phase_and_the_memory_of_an_entity():
    """Two small entities in two processes: each phase took time, and so did what comes before."""
    command = "bench learn --entities 2 --documents 30 --slots 2 --workers 2 --json"
    result = CliRunner().invoke(create_app(), command.split())
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    for name in ("closed_form", "max_margin"):
        measured = record[name]
        assert set(measured["phases"]) == {"link", "estimate", "intra", "inter"}
        assert all(seconds > 0 for seconds in measured["phases"].values())
        assert 0 < measured["seconds_per_slot"] <= sum(measured["phases"].values())
        assert measured["seconds_once"] > 0
        assert measured["memory_mb"] > 0
    assert record["default_slots"] > 0


def test_generated_work_has_the_size_of_the_papers():
    """20 labelled and the unlabelled documents, 12 candidates, 300 dimensions, both classes."""
    args = LearnBenchArgs(n_unlabelled=50, n_kb_entities=500, n_words=2000)
    task = generate_task(args, generate_knowledge_base(args), 0)
    assert len(task.pile) == 70
    assert task.labelled.sum() == 20
    assert 0 < task.labels.sum() < 20
    assert task.pile.mentions.candidates.shape[1] == 12
    assert task.tables.words.shape[1] == 300
    assert np.array_equal(
        generate_task(args, generate_knowledge_base(args), 0).pile.mentions.words,
        task.pile.mentions.words,
    )
