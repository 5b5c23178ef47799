"""Every example of the README runs, and prints what the README says it prints.

After a change of an output: ``python tests/test_readme.py`` writes the new ones into the README.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
NAMES = ("train.py", "primitive.py", "rule.py", "pass.py")  # of the Python blocks, in order
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def output_of(arguments, folder):
    """What a program prints, with file names relative to its folder."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(README.parent), "PATH": "", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(f"{folder}/", "")


def tidy(text):
    """Without blank lines at the end, and at most one at a time."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def executed(text, folder):
    """The README with every output replaced by what its example prints now."""
    names = iter(NAMES)
    last = None

    def block(match):
        nonlocal last
        language, body = match.groups()
        if language == "python":
            name = next(names)
            (folder / name).write_text(body)
            last = output_of([name], folder)
        elif language == "console":
            commands = [line for line in body.splitlines() if line.startswith("$ minispore ")]
            outputs = [output_of(["-m", *shlex.split(c[2:])], folder) for c in commands]
            body = "".join(f"{c}\n{tidy(o)}" for c, o in zip(commands, outputs, strict=True))
        elif body.startswith("# ") and body.split("\n")[0].endswith(".ir"):
            (folder / body.split("\n")[0][2:]).write_text(body)
        else:
            assert language == "text" and last is not None
            body, last = tidy(last), None
        return f"```{language}\n{body}```"

    return BLOCK.sub(block, text)


def test_examples_print_what_the_readme_says(tmp_path):
    text = README.read_text(encoding="utf-8")
    assert executed(text, tmp_path) == text


def test_there_are_ten_lines_and_no_example_is_longer_than_twenty():
    blocks = [body for language, body in BLOCK.findall(README.read_text()) if language == "python"]
    lengths = [sum(bool(line.strip()) for line in body.splitlines()) for body in blocks]
    assert len(blocks) == len(NAMES) and lengths[0] == 10 and max(lengths) <= 20


def test_the_two_commands():
    text = README.read_text(encoding="utf-8")
    for command in ("minispore train", "pytest"):
        assert f'    python -m pip install -e ".[dev]" && {command}\n' in text


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        README.write_text(executed(README.read_text(encoding="utf-8"), Path(scratch)), "utf-8")
