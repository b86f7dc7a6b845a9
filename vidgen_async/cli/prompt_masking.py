"""Hides the prompts of cassettes from who looks at them, unless they were asked for."""

from collections.abc import Iterator
from typing import Any

from vidgen_async.cassette import Document
from vidgen_async.redaction.messages import RUN, hide_secrets
from vidgen_async.redaction.pseudonyms import PSEUDONYM, unescape
from vidgen_async.redaction.secret_names import Kind, kind_of


class Curtain:
    """Hides the prompts of some cassettes, wherever they stand, but for their length."""

    def __init__(self, *documents: Document) -> None:
        self._shown: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._runs: dict[str, str] = {}
        interactions = (interaction for document in documents for interaction in document.interactions)
        bodies = (body for one in interactions for body in (one.request.body, one.body) if body is not None)
        for prompt in {prompt for body in bodies for prompt in _prompts_in(body.get("json"))}:
            letters = _letters(prompt)
            runs = _runs(letters)
            if runs:
                self._runs.update(dict.fromkeys(runs, prompt))
            elif letters:
                self._short[letters] = prompt

    def text(self, text: str) -> str:
        """A text without the prompts that it quotes. All else that was secret has its pseudonym already, which may be
        shown."""
        if text not in self._shown:
            quoted = self._quoted(text)
            self._shown[text] = hide_secrets(text, quoted) if quoted else text
        return self._shown[text]

    def _quoted(self, text: str) -> set[str]:
        """The prompts of which enough stands in the text to tell them; of short ones all."""
        letters = _letters(text)
        found = {self._runs[run] for run in _runs(letters) if run in self._runs}
        return found | {prompt for short, prompt in self._short.items() if short in letters}

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value, at any depth. ``name`` is the one under which it stands."""
        if isinstance(value, str):
            return _length_of(value) if _is_prompt(name, value) else self.text(value)
        if isinstance(value, dict):
            return {key: self.value(item, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, name) for item in value]
        return value


class NoCurtain(Curtain):
    """Hides nothing."""

    def text(self, text: str) -> str:
        return text

    def value(self, value: Any, name: str = "") -> Any:
        return value


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unescape(text).casefold()))


def _runs(letters: str) -> list[str]:
    return [letters[at : at + RUN] for at in range(len(letters) - RUN + 1)]


def _prompts_in(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str) and _is_prompt(name, value):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _prompts_in(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _prompts_in(item, name)


def _is_prompt(name: str, value: str) -> bool:
    return kind_of(name) is Kind.PROMPT and not PSEUDONYM.fullmatch(value)


def _length_of(prompt: str) -> str:
    return f"… ({len(prompt)} characters)"
