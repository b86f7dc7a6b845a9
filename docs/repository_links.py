"""What pages refer to: files of the repository, and public names."""

import os
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

ROOT = Path(__file__).resolve().parent.parent
#: Documents at the root of the repository that are pages of the site too.
PAGES = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def read_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Take pages from the root, and adapt links to what the site has.

    Files of code become downloads. Links to directories, and to documents that
    are no pages, become text.
    """
    here = (Path(app.srcdir) / docname).parent
    source = next(
        (name for name, page in PAGES.items() if page == docname), None
    )
    text = (ROOT / source).read_text() if source else content[0]

    def adapt(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        path = Path(os.path.normpath((ROOT if source else here) / target))
        name = path.relative_to(ROOT).as_posix()
        if path.is_relative_to(app.srcdir):
            return f"[{label}](/{path.relative_to(app.srcdir)}{anchor})"
        if name in PAGES:
            return f"[{label}](/{PAGES[name]}.md{anchor})"
        if path.is_file() and path.suffix != ".md":
            return f"[{label}]({os.path.relpath(path, here)})"
        return label

    parts = _FENCED.split(text)
    content[0] = "".join(
        part if part.startswith("```") else _LINK.sub(adapt, part)
        for part in parts
    )


def resolve_name(
    app: Sphinx,
    env: BuildEnvironment,
    node: addnodes.pending_xref,
    content: nodes.TextElement,
) -> nodes.Element | None:
    """Resolve a name to the module from which users import it.

    Names of other packages, and of the standard library, become text.
    """
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("~")
    parts = target.split(".")
    public = env.domains.python_domain.objects.items()
    same = [entry for entry in public if entry[0].split(".")[-1] == parts[-1]]
    # Methods have equal names; their classes tell them apart.
    same_class = [
        entry for entry in same if entry[0].split(".")[-2:] == parts[-2:]
    ]
    if (found := same_class or same) and (
        parts[0] == "vidgen_async" or len(found) == 1
    ):
        name, entry = found[0]
        return make_refnode(
            app.builder,
            node["refdoc"],
            entry.docname,
            entry.node_id,
            content,
            name,
        )
    return None if parts[0] == "vidgen_async" else content


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read_page)
    app.connect("missing-reference", resolve_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
