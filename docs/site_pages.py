"""Text that is made of the code, and what links to files and names mean."""

import logging
import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.search.en import SearchEnglish
from sphinx.util.nodes import make_refnode
from tests.rules.description import RULES
from vidgen_async.events import Event

ROOT = Path(__file__).resolve().parent.parent
#: Documents at the root of the repository that are pages of the site too.
PAGES = {
    "README.md": "readme",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
#: The titles of the service description, by their numbers.
SECTIONS = {
    "1": "What the service does",
    "2": "Resources and their fields",
    "2.1": "Model catalog entry",
    "2.2": "Account",
    "2.3": "Reference asset",
    "2.4": "Video create request",
    "2.5": "Video task",
    "3": "States and transitions",
    "4": "Endpoints",
    "4.1": "GET /models",
    "4.2": "GET /account",
    "4.3": "POST /files",
    "4.4": "POST /videos",
    "4.5": "GET /videos/{id}",
    "4.6": "GET /videos/{id}/content",
    "5": "Authentication",
    "6": "Events",
    "7": "Errors",
    "8": "Limits",
    "9": "Versioning",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
#: What autodoc writes before a name whose modules are not to be shown.
_MARK = re.compile(r"~(?:\w+\.)+(?=[A-Z])")
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
#: A line of the index: its caption and its links.
_CONTENTS = re.compile(r"^- \*\*(.+?)\*\*: ((?:.+\n)+?)(?=- |\n)", re.MULTILINE)


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

    for marker, make in TABLES.items():
        if marker in text:
            text = text.replace(marker, make())
    parts = _FENCED.split(text)
    content[0] = "".join(
        part if part.startswith("```") else _LINK.sub(adapt, part)
        for part in parts
    )
    if docname == "index":
        content[0] += "".join(map(make_toctree, _CONTENTS.finditer(text)))


def make_toctree(line: re.Match[str]) -> str:
    """Return a hidden table of contents, of the links of a line."""
    entries = [
        PAGES.get(target.removeprefix("../"), target.removesuffix(".md"))
        for _, target, _ in _LINK.findall(line[2])
    ]
    options = f":caption: {line[1]}\n:hidden:"
    return "\n```{toctree}\n" + "\n".join([options, *entries]) + "\n```\n"


def list_rules() -> str:
    """Return the rules that the tests check, as sections with tables."""
    lines = []
    for number, title in SECTIONS.items():
        level = "#" * (2 + number.count("."))
        lines += [f"(section-{number})=", f"{level} {number} {title}", ""]
        rules = [
            (name.removeprefix(f"{number} "), rule)
            for name, rule in RULES.items()
            if name.startswith(f"{number} ")
        ]
        if rules:
            lines += ["| part | what holds |", "|---|---|"]
            lines += [f"| {part} | {rule} |" for part, rule in rules]
            lines.append("")
    return "\n".join(lines)


def list_events() -> str:
    """Return a table of the log events, from their messages and docstrings."""
    lines = [
        "| `event_name` | level | message | remarks |",
        "|---|---|---|---|",
    ]
    source = ModuleAnalyzer.for_module(Event.__module__)
    source.analyze()
    for event in Event:
        remarks = source.attr_docs.get(("Event", event.name), [])
        remarks = " ".join(remarks).replace("``", "`").strip()
        level = logging.getLevelName(event.usual_level)
        message = re.sub(r"%\((\w+)\)\S*?[a-z]", r"`\1`", event.message)
        lines.append(f"| `{event}` | {level} | {message} | {remarks} |")
    return "\n".join(lines)


#: Makes the text that takes the place of a comment, or of a line for those who
#: read the source of the page.
TABLES = {
    "*Made of the code, and therefore only on the site:*"
    " `python -m sphinx docs build/docs`\n": str,
    "<!-- the rules of the service -->": list_rules,
    "<!-- the log events -->": list_events,
}


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


def leave_out_object(
    app: Sphinx, name: str, obj: object, options: object, bases: list[type]
) -> None:
    """Do not state that a class is an object."""
    bases[:] = [base for base in bases if base is not object]


def shorten_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:
    """Leave out an inherited constructor of an error, and repr of defaults."""
    if not signature:
        return None
    if what == "exception" and "__init__" not in vars(obj):
        return "", returns
    return _CLASS.sub(r"\1", signature.replace("=NOTHING", "=...")), returns


def tidy_entries(app: Sphinx, page: nodes.document) -> None:
    """Remove the line of bases from classes without, and what is not read."""
    for line in list(page.findall(nodes.paragraph)):
        if line.astext() == "Bases:":
            line.parent.remove(line)
    for text in list(page.findall(nodes.Text)):
        shown = _MARK.sub("", text.replace(" -- ", " \N{EN DASH} "))
        if shown != text:
            text.parent.replace(text, nodes.Text(shown))


def leave_out_constructor(
    app: Sphinx, domain: str, kind: str, content: addnodes.desc_content
) -> None:
    """Remove the parameters of a class that are its attributes, or inherited.

    They are shown if one is described, and of an error that has its own.
    """
    if kind not in ("class", "exception"):
        return
    signature = content.parent[0]
    value = getattr(sys.modules[signature["module"]], signature["fullname"])
    is_shown = kind == "exception" and "__init__" in vars(value)
    for fields in [
        part for part in content if isinstance(part, nodes.field_list)
    ]:
        described = any(
            name.astext().startswith("param ") and body.astext()
            for name, body in fields
        )
        fields[:] = [field for field in fields if field[0].astext() != "rtype"]
        if not (described or is_shown):
            content.remove(fields)


def find_description(name: str, obj: object) -> list[str]:
    """Return the lines that describe a name where the package defines it."""
    name = name.rpartition(".")[2]
    for module in sorted(sys.modules):
        if module.startswith("vidgen_async.") and (
            vars(sys.modules[module]).get(name) is obj
        ):
            source = ModuleAnalyzer.for_module(module)
            if lines := source.find_attr_docs().get(("", name)):
                return list(lines)
    return []


def describe_data(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    lines: list[str],
) -> None:
    """Describe data as its source does, not as the class of its value.

    An empty first line keeps napoleon from reading what precedes a colon as
    the type of an attribute.
    """
    if what == "data":
        lines[:] = find_description(name, obj)
    if what in ("attribute", "property", "data"):
        lines.insert(0, "\\ ")


class StatusSearch(SearchEnglish):
    """The search, with numbers of three digits: statuses of HTTP."""

    def word_filter(self, word: str) -> bool:
        is_status = len(word) == 3 and word.isdigit()
        return is_status or super().word_filter(word)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read_page)
    app.connect("missing-reference", resolve_name)
    app.connect("autodoc-process-bases", leave_out_object)
    app.connect("autodoc-process-signature", shorten_signature, 600)
    app.connect("autodoc-process-docstring", describe_data, 400)
    app.connect("doctree-read", tidy_entries)
    app.connect("object-description-transform", leave_out_constructor, 600)
    app.add_search_language(StatusSearch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
