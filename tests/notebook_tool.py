"""Execute notebooks and write them in canonical form: ``python tests/notebook_tool.py [FILE ...]``.

Canonical: cells are named c000, c001 ...; metadata holds nothing but a cell's tags and the kernel's
name; cells are counted from 1; times, addresses and the like never enter (nbval compares outputs).
``test_notebooks.py`` checks that the committed files are canonical; nbval, that they still run and
print what they printed.
"""

import sys
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def canonical(notebook: Any) -> Any:
    """The notebook with everything taken out that is neither content nor result."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    count = 0
    for i, cell in enumerate(notebook.cells):
        cell.id = f"c{i:03d}"
        tags = sorted(cell.metadata.get("tags", ()))
        cell.metadata = {"tags": tags} if tags else {}
        cell.source = cell.source.strip("\n")
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
            output.pop("transient", None)
            if "metadata" in output:
                output.metadata = {}
    return notebook


def text_of(notebook: Any) -> str:
    """The file's text."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def execute(path: Path) -> None:
    """Run a notebook from its first cell to its last, and write it canonically."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    client.execute()
    path.write_text(text_of(canonical(notebook)), encoding="utf-8")


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all."""
    for path in map(Path, names) if names else sorted(NOTEBOOKS.glob("*.ipynb")):
        print(path.name, flush=True)
        execute(path)


if __name__ == "__main__":
    main(sys.argv[1:])
