"""How the book is built: ``python -m sphinx -W -b html book book/_build/html``.

Pages are Markdown; chapters are the notebooks in notebooks/, shown with the outputs they were
committed with; the reference is read from docstrings.  The result needs no network: formulas are
drawn by a copy of MathJax, and search runs in the browser.
"""

import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT), str(ROOT / "tests")]

import building  # noqa: E402

import minispore  # noqa: E402

project = "minispore"
author = "minispore authors"
version = release = minispore.__version__
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "building"]

# Chapters: copied next to the pages, because Sphinx reads one folder.
building.copy_notebooks(ROOT / "notebooks", HERE / "notebooks")
nb_execution_mode = "off"
nb_merge_streams = True

# Pages.
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference.
default_role = "code"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "groupwise"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Looks.
html_theme = "sphinx_book_theme"
html_title = "minispore"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = True
html_theme_options = {
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "search_bar_text": "Search (English, 中文)",
    "navbar_persistent": [],  # the search box of the side bar is enough
}

# Formulas: one file of MathJax, which holds its fonts.
_mathjax = importlib.util.find_spec("sphinx-mathjax-offline")
if _mathjax is not None and _mathjax.origin is not None:
    html_static_path.append(str(Path(_mathjax.origin).parent / "static/mathjax/tex-svg.js"))
    mathjax_path = "tex-svg.js"
