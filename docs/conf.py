"""How the site is built: ``sphinx-build -W --keep-going -b html docs OUT``. Nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path

import diffdag

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "diffdag"
author = "The diffdag developers"
copyright = author
release = version = diffdag.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "commands",
    "mathml",
    "pictures",
]
exclude_patterns = ["_build"]
default_role = "py:obj"
smartquotes = False  # options begin with two hyphens

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the sections of each docstring say it in words
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1_000,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = "diffdag"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
