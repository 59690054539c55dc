"""How Sphinx builds the site: see `make docs`.

The sources are the checkout's own files where they lie, so that a link between two pages works in both places.
"""  # noqa: INP001 - Sphinx reads it

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for site_pages

project = "boolab"
author = "The boolab authors"
project_copyright = author
version = release = version_of("boolab")
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/**.md",
    "docs/reference/*.rst",
    "notebooks/*.ipynb",
    "datasets/atlas/*.md",
    "datasets/local/README.md",
    "datasets/runs/README.md",
    "tests/runtime/models/remote/sse/README.md",
]
exclude_patterns = ["**/.*", "**/.ipynb_checkpoints", "out", "build", "dist", "runs", "docs/api"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_markdown_builder",
    "site_pages",  # after autodoc, to whose events it listens
]
nb_execution_mode = "off"
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # of examples that leave something out with three dots

highlight_language = "text"  # of blocks that name none: what code prints is no code
add_module_names = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source", "Sources"]

markdown_anchor_signatures = True
markdown_anchor_sections = True
markdown_docinfo = False

html_theme = "furo"
html_title = f"boolab {version}"
html_extra_path = ["front"]
html_static_path = ["static"]
html_css_files = ["boolab.css"]
html_js_files = ["boolab.js"]
html_copy_source = False
html_show_sphinx = False
