"""The command `stamo world`."""

from typer.testing import CliRunner

from stamo.world import World
from stamo_lab.cli.main import create_app


def test_command_writes_a_world_and_shows_its_emerging_entities(tmp_path):
    """`stamo world OUT` writes the four files and prints who emerges."""
    app = create_app()
    arguments = ["world", str(tmp_path), "--articles", "260", "--emerging", "2", "--documents", "9"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    world = World.open(tmp_path)
    assert all(entity.id in result.output for entity in world.emerging)
    assert world.paths.dump_path.stat().st_size > 0
