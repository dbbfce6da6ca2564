"""The notebooks of the documentation run from the first cell to the last."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from tests.documents import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def printed(notebook):
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


@pytest.mark.filterwarnings("ignore")  # of the kernel's own libraries
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    """Every cell runs, and the entity is linked about as well as the page shows."""
    notebook = nbformat.read(path, 4)
    shown = re.search(r"(\d+)% of \d+ mentions", printed(notebook))
    assert shown, "the notebook is kept with what it printed"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found = re.search(r"(\d+)% of \d+ mentions", printed(notebook))
    assert abs(int(found[1]) - int(shown[1])) <= 5
