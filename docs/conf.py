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
    "page_width": "1080px",
}
html_show_sourcelink = False


def _plain_line(line: str) -> str:
    """A line of a docstring, which is plain text, for a line block: marked-up names stay code, the rest means itself."""
    pieces = re.split(r"(``.+?``|`[^`]+`)", line)
    return "| " + "".join(
        f"``{piece.strip('`')}``" if k % 2 else re.sub(r"([\\*_|`])", r"\\\1", piece) for k, piece in enumerate(pieces))


def show_docstring_as_written(app, what, name, obj, options, lines):
    """Turn a docstring into a line block, and the underlined heads of its sections into bold ones."""
    text = re.sub(r"^(\w+)\n-{3,}$", r"@@\1", "\n".join(lines).rstrip(), flags=re.MULTILINE).splitlines()
    lines[:] = [f"| **{line[2:]}**" if line.startswith("@@") else _plain_line(line).rstrip() for line in text] + [""]


def setup(app):
    app.connect("autodoc-process-docstring", show_docstring_as_written)
