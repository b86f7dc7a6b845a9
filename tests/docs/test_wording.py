"""The documentation uses the standard terms of the field."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.documentation import ROOT

#: What is checked: documents, and all .md and .py files of folders.
CHECKED = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "benchmarks/README.md",
    "vidgen_async",
)

#: A wording, as a regular expression, and the standard term for it.
TERMS = {
    r"go(?:es|ing)? again": "retry, is retried, retryable",
    r"told": "is reported, is notified, raised, returned, logged",
    r"on record": "recorded, stored, in the journal",
    r"mend(?:s|ed|ing)?": "fix, change",
    r"to be had|(?:cannot|could not) be had": "is not available, could not be fetched",
    r"at one go": "atomically",
    r"(?:a|one|each|every|next|first|last|second) look": "poll",
    r"look(?:s|ed)? at": "poll, check, inspect",
    r"nobody (?:is left|knows|waits|can)": "unknown; or name the actor: caller, client, listener",
    r"speaks? against": "problem, reason to refuse",
    r"(?:falls?|fell|goes|went) silent": "stops responding, timed out",
    r"does no harm|comes? to nothing": "is idempotent, has no effect",
}
#: They also match across a line break, with the indentation or the # of a comment.
WORDING = re.compile(r"\b(?:{})\b".format("|".join(f"({pattern})" for pattern in TERMS).replace(" ", r"[\s#]+")))


def checked_files() -> Iterator[Path]:
    for path in (ROOT / name for name in CHECKED):
        yield from (
            (file for file in sorted(path.rglob("*")) if file.suffix in {".md", ".py"}) if path.is_dir() else [path]
        )


def find_wording(text: str) -> Iterator[tuple[int, str, str]]:
    """Each wording that has a standard term: its line, the wording and the term."""
    terms = list(TERMS.values())
    for match in WORDING.finditer(text.lower()):
        assert match.lastindex is not None, "every wording is a group"
        yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), terms[match.lastindex - 1]


def test_the_documentation_uses_standard_terms():
    places = [
        f"{file.relative_to(ROOT)}:{line}: {wording!r}: use {term}"
        for file in checked_files()
        for line, wording, term in find_wording(file.read_text())
    ]
    assert not places, "\n".join(places)


def test_a_wording_is_found_across_a_line_break_and_in_a_comment():
    text = "Plain.\n# A read that fails goes\n#   again, and nothing is on record.\n"
    assert [(line, wording) for line, wording, _ in find_wording(text)] == [(2, "goes # again"), (3, "on record")]
