"""Configuration of Sphinx: python -m sphinx -W docs build/docs."""

import sys
from pathlib import Path

from vidgen_async import __version__

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

project = "vidgen_async"
author = "The vidgen_async authors"
copyright = author  # noqa: A001 - the name that Sphinx reads
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "site_pages",
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "show-inheritance": True,
}
autodoc_typehints = "description"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
nitpicky = True
smartquotes = False
#: Private classes in public signatures, and a type variable.
nitpick_ignore_regex = [
    ("py:class", r"vidgen_async\.blocking\.T"),
    (
        "py:class",
        r"vidgen_async\.(redaction|client\.views|cassette|sandbox|otel)\..*",
    ),
    ("py:class", r"vidgen_async\.orders\.(sending|results|budgets)\..*"),
    ("py:class", r"vidgen_async\.batch\.run\..*"),
    ("py:class", r"vidgen_async\.types\.resources\._OptionalFields"),
    ("py:class", r"vidgen_async\.journal\.(sql|sqlite|postgres)\..*"),
    ("py:class", r"vidgen_async\.transports\.(base\.BaseResponse|direct\..*)"),
]

html_theme = "furo"
html_title = f"vidgen_async {release}"
html_show_sphinx = False
html_use_index = False  # no page links it, and it is too wide for a phone
html_domain_indices = False
html_static_path = ["_static/search.js", "_static/site.css"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
copybutton_prompt_text = "$ "
