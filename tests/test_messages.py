"""Every message of the front end: a program raises it, and the book shows the program."""

import inspect
import re
import sys
from itertools import chain

import pytest
from differential import points_at
from error_programs import PROGRAMS, UNSHOWN
from structure import ROOT

sys.path.append(str(ROOT / "book"))

import messages  # noqa: E402

PROGRAM_LIST = list(chain(*PROGRAMS.values()))


@pytest.mark.parametrize("program", PROGRAM_LIST, ids=lambda p: p.function.__name__)
def test_program(program):
    with pytest.raises(program.error, match=re.escape(program.message)) as caught:
        program.run()
    if not program.is_script:
        assert points_at(caught.value, inspect.getfile(inspect.unwrap(program.function)))


def test_every_message_has_a_program():
    missing = messages.unmatched(messages.raised())
    unshown = [t for t in missing if any(part in t.text for part in UNSHOWN)]
    assert missing == unshown, "add programs to tests/error_programs.py:\n" + "\n".join(
        f"{t.place}: {t.text}" for t in missing if t not in unshown
    )
    stale = [part for part in UNSHOWN if not any(part in t.text for t in unshown)]
    assert not stale, f"these are shown by a program, or gone: {stale}"


def test_every_program_shows_a_message_of_the_source():
    for message in messages.raised():
        assert any(t.pattern.search(message) for t in messages.templates()), message


def test_every_program_says_what_to_do():
    for program in PROGRAM_LIST:
        advice = messages.advice(program)
        assert advice.endswith(".") or advice.endswith("`."), program.function.__name__


def test_the_page_has_every_program():
    page = messages.page()
    assert page == messages.page()
    for title, programs in PROGRAMS.items():
        assert f"\n## {title}\n" in page
        for program in programs:
            assert f"def {program.function.__name__}(" in page
    assert "UnsupportedError" in page and "^^^" not in page
    assert not re.search(r"/(home|tmp|root|work)/", page)


def test_templates_are_found():
    texts = [t.text for t in messages.templates()]
    assert len(texts) > 150
    assert (
        "the truth of a Tensor of shape {value.shape} is ambiguous: use .any() or .all()" in texts
    )
    assert "the length of a range that depends on a Tensor cannot be known" in "\n".join(texts)
    template = messages.Template("'{name}' of {owner} is old", "x.py:1")
    assert template.pattern.search("it says 'a' of Net is old")
    assert not template.pattern.search("'a' of Net is new")
