"""The committed notebooks are canonical, and ask and answer their exercises."""

import copy
import re

import nbformat
import pytest
from notebook_tool import NOTEBOOKS, canonical, text_of

FILES = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_canonical(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.read_text(encoding="utf-8") == text_of(canonical(copy.deepcopy(notebook))), (
        f"run: python tests/notebook_tool.py notebooks/{path.name}"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_cell_was_run_and_none_failed_unasked(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            failed = any(output.output_type == "error" for output in cell.outputs)
            assert failed == ("raises-exception" in cell.metadata.get("tags", ())), cell.source


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_outputs_hold_nothing_of_this_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"0x[0-9a-f]{6,}|/home/|/root/|/tmp/[^ ]*ipykernel|site-packages", text)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_chapters_end_with_exercises_and_mindspore(path):
    notebook = nbformat.read(path, as_version=4)
    headings = [
        line.lstrip("# ").lower()
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("#")
    ]
    assert any("exercise" in h for h in headings)
    assert any("solution" in h for h in headings)
    assert any("in the real mindspore" in h for h in headings)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_titles_begin_with_the_number_of_the_chapter(path):
    title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
    assert title.startswith(f"# {int(path.name[:2])}. ")
