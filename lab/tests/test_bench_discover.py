import json

from typer.testing import CliRunner

from stamo_lab.bench.link import measure_pass
from stamo_lab.cli.main import create_app
from tests.workspace.small_world import make_small_world


def test_the_pass_is_measured_beside_linking(tmp_path_factory):
    """The same documents are linked and scanned; the command prints the same figures."""
    small = make_small_world(tmp_path_factory)
    stream = small.world.paths.pile_path
    speed = measure_pass([stream], small.kb, small.trained, n_documents=100)
    assert speed.n_documents == 100
    assert speed.n_names > 10
    assert speed.ratio == speed.link_seconds / speed.pass_seconds > 0
    model = tmp_path_factory.mktemp("model") / "deeped.safetensors"
    small.trained.save(model)
    arguments = ["bench", "discover", str(small.kb.path), str(model), str(stream)]
    result = CliRunner().invoke(create_app(), [*arguments, "--documents", "20", "--json"])
    assert json.loads(result.stdout)["n_documents"] == 20
