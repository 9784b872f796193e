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
