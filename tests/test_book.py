"""The book: its facts, its pages, and the commands that open it and its chapters."""

import html
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from structure import MODULES, ROOT, code_lines

import minispore as ms
from minispore import nn, ops
from minispore.commands import book as book_command
from minispore.commands import cli

BOOK = ROOT / "book"
sys.path.append(str(BOOK))

import house  # noqa: E402

FORMULA, CHINESE = "E = m c^2", "自动微分"


# ---------------------------------------------------------------------------------- the house


def test_every_module_is_in_a_room_and_every_room_on_the_page():
    page = (BOOK / "house.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert sorted(headings) == sorted({house.room_of(module) for module in MODULES})
    for room in house.ROOMS:
        assert f"## {room}\n\n{{{{ {room} }}}}" in page


def test_lines_of_rooms_add_up():
    assert sum(lines for lines, _ in house.sizes().values()) == sum(
        map(code_lines, MODULES.values())
    )
    assert sum(files for _, files in house.sizes().values()) == len(MODULES)


def test_every_file_on_the_page_exists():
    page = (BOOK / "house.md").read_text(encoding="utf-8")
    names = {path.name for path in MODULES.values()}
    assert {name.split("/")[-1] for name in re.findall(r"`([\w/]+\.py)`", page)} <= names


def below(edges, room):
    """All rooms that can be reached, by brute force."""
    found, todo = set(), [room]
    while todo:
        for other in edges[todo.pop()] - found:
            found.add(other)
            todo.append(other)
    return found


def test_arrows_left_out_follow_from_others():
    imports, direct = house.imports(), house.direct_imports()
    for room in house.ROOMS:
        assert direct[room] <= imports[room]
        assert below(direct, room) == below(imports, room)
        for other in direct[room]:
            without = {**direct, room: direct[room] - {other}}
            assert other not in below(without, room), f"{room} -> {other} is not needed"


def test_arrows_point_down():
    for room, others in house.imports().items():
        assert all(house.floor(other) <= house.floor(room) for other in others)


def test_the_picture_has_all_rooms():
    svg = house.svg()
    assert svg is not None and svg.startswith("<svg")
    for room in house.ROOMS:
        assert f">{room}</text>" in svg and f'href="#{room.lower()}"' in svg
        assert re.search(rf"^{room} +imports ", house.text(), re.MULTILINE)


# ------------------------------------------------------------------------------------- pages


def test_every_public_name_is_in_the_reference():
    pages = "\n".join(p.read_text(encoding="utf-8") for p in sorted(BOOK.glob("api/**/*.rst")))
    words = set(re.findall(r"\w+", pages))
    missing = sorted({*ms.__all__, *nn.__all__} - words)
    assert not missing, f"add to a page of book/api: {', '.join(missing)}"
    homes = {getattr(v, "__module__", "") for n, v in vars(ops).items() if n[0] != "_"}
    for home in homes:
        if home.startswith("minispore.ops."):
            assert f".. public:: {home}\n" in pages, f"{home} has no page in book/api/ops"


def test_the_glossary_has_the_terms_of_the_documents():
    page = (BOOK / "glossary.md").read_text(encoding="utf-8")
    for term in "动态图 静态图 计算图 自动微分 算子 张量 单元 中间表示 源码转换 图优化".split():
        assert f"\n{term}\n" in page


def test_pages_have_no_address():
    for path in [*BOOK.rglob("*.md"), *BOOK.rglob("*.rst"), *BOOK.glob("_static/*")]:
        if "_build" not in path.parts:
            assert "http" not in path.read_text(encoding="utf-8"), path


# ---------------------------------------------------------------------------------- commands


def run(capsys, *arguments):
    """Exit code, stdout and stderr of the program."""
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = end.code
    return code, *capsys.readouterr()


def assert_one_sentence(code, out, err, *words):
    assert (code, out) == (2, "") and err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("command", ["book", "notebooks"])
def test_an_installed_package_has_no_book(capsys, monkeypatch, tmp_path, command):
    monkeypatch.setattr(book_command, "ROOT", tmp_path)
    result = run(capsys, command)
    assert_one_sentence(*result, f"minispore {command}: there is no folder {command}/", "clone")


@pytest.mark.parametrize(("command", "module"), [("book", "sphinx"), ("notebooks", "notebook")])
def test_missing_extras(capsys, monkeypatch, command, module):
    monkeypatch.setattr(book_command, "find_spec", lambda name: None)
    assert_one_sentence(*run(capsys, command), module, '-m pip install -e ".[dev,book]"')


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with a book and one notebook, and modules that are all there."""
    for name in ("book/conf.py", "notebooks/conftest.py", "notebooks/01_a b.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(book_command, "ROOT", tmp_path)
    monkeypatch.setattr(book_command, "find_spec", lambda name: object())
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Programs:
    """Programs that would be started."""

    def __init__(self, monkeypatch, code=0, stderr=""):
        self.started = []
        self.result = subprocess.CompletedProcess([], code, "", stderr)
        monkeypatch.setattr(book_command.subprocess, "run", self.run)
        monkeypatch.setattr(book_command, "_become", self.started.append)
        monkeypatch.setattr(book_command.webbrowser, "open", self.open)

    def run(self, command, **_):
        self.started.append(command)
        return self.result

    def open(self, address):
        self.started.append([address])
        return True


def test_notebooks_are_trusted_then_started(capsys, monkeypatch, clone):
    programs = Programs(monkeypatch)
    monkeypatch.delenv("DISPLAY", raising=False)
    run(capsys, "notebooks", "--port", "8889", "--no-open", "01_a b.ipynb")
    trust, start = programs.started
    assert trust[1:] == ["-m", "nbformat.sign", str(clone / "notebooks" / "01_a b.ipynb")]
    assert start[1:] == ["-m", "notebook", "--no-browser", "--port", "8889", "01_a b.ipynb"]
    assert Path.cwd() == clone / "notebooks"


def test_notebooks_that_cannot_be_trusted(capsys, monkeypatch, clone):
    Programs(monkeypatch, 1, "no database\n")
    assert_one_sentence(*run(capsys, "notebooks"), "cannot trust", "no database")


def test_the_book_is_opened_where_there_is_a_screen(capsys, monkeypatch, clone):
    page = clone / "book" / "_build" / "html" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("")
    for display, options, opened in (
        (":0", [], [page.as_uri()]),
        (":0", ["--no-open"], None),
        ("", [], None),
    ):
        programs = Programs(monkeypatch)
        monkeypatch.setattr(book_command.sys, "platform", "linux")
        for name in ("BROWSER", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("DISPLAY", display)
        assert run(capsys, "book", *options) == (0, f"{page}\n", "")
        assert programs.started[1:] == ([opened] if opened else [])


def test_a_book_that_cannot_be_built(capsys, monkeypatch, clone):
    Programs(monkeypatch, 2, "reading\nSomeError: no\n")
    assert_one_sentence(*run(capsys, "book"), "could not build the book: SomeError: no")
    Programs(monkeypatch, 0)
    assert_one_sentence(*run(capsys, "book"), "could not build the book")


def test_other_commands_take_no_unknown_options(capsys):
    assert_one_sentence(*run(capsys, "book", "--port", "1"), "unrecognized arguments: --port 1")


# ------------------------------------------------------------------------------------- build


def notebook(*cells):
    """A notebook with committed outputs."""
    return json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "id": f"c{i}", "metadata": {}, "source": cell}
                if isinstance(cell, str)
                else {
                    "cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": i,
                    "source": cell[0],
                    "outputs": [{"output_type": "stream", "name": "stdout", "text": cell[1]}],
                }
                for i, cell in enumerate(cells)
            ],
            "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A clone with one notebook, and a function that builds its book."""
    pytest.importorskip("sphinx")
    pytest.importorskip("myst_nb")
    root = tmp_path_factory.mktemp("clone")
    made = shutil.ignore_patterns("_build", "notebooks", "__pycache__")
    shutil.copytree(BOOK, root / "book", ignore=made)
    for name in ("minispore", "tests"):
        (root / name).symlink_to(ROOT / name)
    (root / "notebooks").mkdir()
    text = notebook(f"# One\n\n${FORMULA}$ {CHINESE}", ("1 / 0", "committed output"))
    (root / "notebooks" / "01_one.ipynb").write_text(text, encoding="utf-8")

    def build():
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "book", "html"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return root / "html"

    build()
    return root, build


def test_the_book_shows_outputs_as_committed(built):
    page = (built[0] / "html" / "notebooks" / "01_one.html").read_text(encoding="utf-8")
    assert "committed output" in page and FORMULA in page
    assert (built[0] / "html" / "_static" / "tex-svg.js").is_file()


def test_messages_are_shown_with_their_programs(built):
    page = (built[0] / "html" / "errors.html").read_text(encoding="utf-8")
    page = re.sub(r"<[^>]+>", "", page)
    assert "which Parameter's 'name' this is depends on a Tensor" in html.unescape(page)
    assert "is ambiguous: use .any() or .all()" in page and "truth_of_several" in page
    assert "{messages}" not in page and page.count("What to do:") > 50


def test_nothing_is_loaded_from_elsewhere(built):
    for path in (built[0] / "html").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r'(?:src|href)="(?:\w+:)?//[^"]*"', text) == [], path
    for path in (built[0] / "html" / "_static").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_search_finds_chinese_by_any_part(built):
    from building import SearchEnglishAndChinese

    words = SearchEnglishAndChinese({}).split(f"a {CHINESE}_b2, c中d")
    assert words == [*"a 自 动 微 分 自动 动微 微分 _b2 c 中 d".split()]
    script = (built[0] / "html" / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert "Stemmer = EnglishStemmer;" in script and "function splitQuery(query)" in script
    index = (built[0] / "html" / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"]
    assert {"自动", "微分", "图", "tensor"} <= terms.keys()


def test_every_function_of_ops_is_on_a_page(built):
    pages = [p.read_text(encoding="utf-8") for p in (built[0] / "html" / "api").rglob("*.html")]
    text = "\n".join(pages)
    for name, value in vars(ops).items():
        if name[0] != "_" and callable(value) and not inspect.ismodule(value):
            assert f'id="minispore.ops.{name}"' in text or f">ops.{name}<" in text or (
                f">{name}</span></code> = " in text
            ), name  # fmt: skip


def test_docstrings_are_plain_text():
    pytest.importorskip("sphinx")
    from building import plain_text

    lines = ["One |x| of *xs, `|y|`.", "", "    code |z|", "", "    more", "", "* item"]
    plain_text(None, "", "", None, None, lines)
    assert lines == [
        "One \\|x\\| of \\*xs, `|y|`.", "", "::", "", "    code |z|", "", "    more", "", "* item",
    ]  # fmt: skip


def test_a_book_without_chapters(built):
    root, build = built
    (root / "notebooks" / "01_one.ipynb").unlink()
    html = build()
    assert "none yet" in (html / "chapters.html").read_text(encoding="utf-8")
