"""Every message of the compiler: a program raises it, and the book shows the program."""

import re
import sys

import pytest
from error_programs import CHAPTERS, PROGRAMS, UNSHOWN
from structure import ROOT

from minispore.frontend.errors import UnsupportedError

sys.path.append(str(ROOT / "book"))

import messages  # noqa: E402


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program(program):
    with pytest.raises(program.error, match=re.escape(program.message)) as caught:
        program.run()
    assert type(caught.value) in (program.error, UnsupportedError)
    if not program.is_script:
        assert shown_line(caught.value) in messages.Listing(program).places


def shown_line(error):
    """The file and line in an error's notes that have the caret."""
    before, caret, _ = "\n".join(error.__notes__).rpartition("^")
    assert caret
    *_, place = re.finditer(r'File ".*?(\w+\.py)", line (\d+)', before)
    return place[1], int(place[2])


def test_every_message_has_a_program():
    missing = messages.unmatched(messages.raised())
    unshown = [t for t in missing if any(part in t.text for part in UNSHOWN)]
    assert missing == unshown, "add programs to tests/error_programs:\n" + "\n".join(
        f"{t.place}: {t.text}" for t in missing if t not in unshown
    )
    stale = [part for part in UNSHOWN if not any(part in t.text for t in unshown)]
    assert not stale, f"these are shown by a program, or gone: {stale}"


def test_every_program_shows_a_message_of_the_source():
    for chapter in CHAPTERS:
        if chapter.title != "Operations":  # these are examples
            for program in chapter.programs:
                message = str(messages.errors()[program.name])
                assert any(t.pattern.search(message) for t in messages.templates()), message


def test_names_of_programs_differ():
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_advice_is_a_sentence():
    for program in PROGRAMS:
        assert program.advice == "" or program.advice.endswith("."), program.name


def test_the_page_has_every_program():
    page = messages.page()
    assert page == messages.page()
    for chapter in CHAPTERS:
        assert f"\n## {chapter.title}\n" in page
    for program in PROGRAMS:
        assert f"def {program.name}(" in page
    assert "UnsupportedError" in page and "^^^" not in page and "line ?" not in page
    assert not re.search(r"/(home|tmp|root|work)/", page)


def test_a_listing_has_all_that_a_program_names():
    one, other = (
        next(p for p in PROGRAMS if p.name == name)
        for name in ("a_described_shape", "a_cell_with_backward_hooks")
    )
    listing = messages.Listing(one)
    parts = ["X = ", "ROWS = ", "class Described", "def described", "def a_described_shape"]
    places = [listing.text.index(part) for part in parts]
    assert places == sorted(places) and '"""' not in listing.text
    assert "@script" not in listing.text and "def two" not in listing.text
    text = messages.Listing(other).text
    assert "HOOKED = nn.ReLU()\nHOOKED.register_backward_hook" in text
    for program in PROGRAMS:
        compile(messages.Listing(program).text, program.name, "exec")


def test_templates_are_found():
    texts = [t.text for t in messages.templates()]
    assert len(texts) > 200
    assert (
        "the truth of a Tensor of shape {value.shape} is ambiguous: use .any() or .all()" in texts
    )
    assert "the length of a range that depends on a Tensor cannot be known" in "\n".join(texts)
    template = messages.Template("'{name}' of {owner} is old", "x.py:1")
    assert template.pattern.search("it says 'a' of Net is old")
    assert not template.pattern.search("'a' of Net is new")
