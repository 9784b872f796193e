"""Sphinx settings. Build with ``sphinx-build -W -b html docs docs/_build/html``."""

import re
from pathlib import Path

project = "ecsim"
author = "the ecsim developers"
copyright = "the ecsim developers"
_pyproject = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
release = version = re.search(r'^version = "(.+)"$', _pyproject, re.MULTILINE).group(1)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
html_theme = "alabaster"
html_static_path = []
html_theme_options = {
    "description": "Exactly energy-conserving semi-implicit particle-in-cell",
    "fixed_sidebar": True,
    "page_width": "1180px",
    "body_max_width": "none",
}
html_show_sourcelink = False


def _line(text: str) -> str:
    """A line of plain text for a line block: marked-up names stay code, everything else means itself."""
    pieces = re.split(r"(``.+?``|`[^`]+`)", text)
    return "| " + "".join(
        f"``{piece.strip('`')}``" if k % 2 else re.sub(r"([\\*_|`])", r"\\\1", piece) for k, piece in enumerate(pieces))


def show_docstring_as_written(app, what, name, obj, options, lines):
    """Docstrings are plain text: keep their paragraphs, entries ``name : meaning``, indented lines and heads."""
    text = re.sub(r"^(\w+)\n-{3,}$", r"@@\1", "\n".join(lines).rstrip(), flags=re.MULTILINE)
    text = re.sub(r"(?<=[^\n])(?<!@@Parameters)(?<!@@Attributes)(?<!@@Raises)\n(?=\S)(?![\w, ]+ : )", " ", text)
    shown = [f"| **{line[2:]}**" if line.startswith("@@") else _line(line).rstrip() for line in text.splitlines()]
    lines[:] = [*shown, ""]


def setup(app):
    app.connect("autodoc-process-docstring", show_docstring_as_written)
