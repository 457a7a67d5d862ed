"""The Python code of README and docs/ runs."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

from t2t_repro.text.subword_model import shared
from tests.decoding.random_translator import random_model, write_subwords
from tests.processes import CHECKOUT, output_of
from tests.training.tiny import written

DOCS = CHECKOUT / "docs"
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (CHECKOUT / "README.md", *DOCS.glob("*.md"))
    # What they show needs an exported model: tests/formats/test_ctranslate2.py and
    # tests/formats/marian/test_marian_oracle.py run it.
    if path.name not in ("serving.md", "marian.md")
}


@pytest.fixture
def workplace(tmp_path):
    """A folder with the model directory that the pages name."""
    subwords = shared(write_subwords(tmp_path / "subwords.model"))
    place = tmp_path / "runs" / "quickstart" / "model"
    written(place, random_model(subwords.target), subwords)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(name, marks=[] if name == "README.md" else pytest.mark.slow)
        for name, text in PAGES.items()
        if CODE.search(text)
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, workplace):
    """In a process of its own, with the devices that there are, as its reader runs it."""
    lines = PAGES[page].splitlines()
    program = [""] * len(lines)
    for block in CODE.finditer(PAGES[page]):
        first = PAGES[page].count("\n", 0, block.start(1))
        code = block[1].splitlines()
        # Where it stands in the page: a traceback's lines are the page's.
        program[first : first + len(code)] = code
    script = workplace / f"{page}.py"
    script.write_text("\n".join(program), encoding="utf-8")
    output_of(str(script), folder=workplace)


@pytest.mark.slow
def test_the_notebook_runs_and_learns(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    # Where IPython keeps what was typed.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(DOCS / "keras.ipynb", as_version=4)
    nbformat.validate(notebook)
    stored = printed(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()
    assert (tmp_path / "reverser.keras").is_file()
    # The seed is set: what the reader sees is what comes out, up to rounding.
    for text in (stored, printed(notebook)):
        (right,) = re.findall(r"reversed: (\d+) of 100", text)
        assert int(right) > 90


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    return "".join(one.get("text", "") for one in outputs)
