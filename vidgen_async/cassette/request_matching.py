"""Which interaction is replayed for which request, and the error for a request that is not on the cassette. Equal
requests share a queue with their interactions in recorded order; each request claims the next one."""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from operator import eq
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from attrs import field, mutable

from vidgen_async.cassette.body_encoding import BodyCapture, read_json
from vidgen_async.cassette.document import Document, Interaction, RecordedRequest
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.settings import Cassette
from vidgen_async.errors import CassetteExhaustedError, CassetteMissError
from vidgen_async.redaction.pseudonyms import unify_pseudonyms
from vidgen_async.redaction.secret_names import Kind, kind_of
from vidgen_async.types.http import Request

_NEAREST = 3
_LONGEST_VALUE = 60

#: Method, URL, body.
Key: TypeAlias = tuple[str, str, str]


@mutable(eq=False)
class InteractionQueue:
    """The interactions of equal requests."""

    name: str
    waiting: deque[Interaction] = field(factory=deque)
    played: list[Interaction] = field(factory=list)


@mutable(eq=False)
class Claim:
    """The interaction that is replayed for one request."""

    interaction: Interaction
    #: Where it came from, unless it is repeated.
    queue: InteractionQueue | None
    is_played: bool = False


class RequestMatcher:
    """The queues of a cassette, by requests with its own pseudonyms, or by everything but other secrets."""

    def __init__(self, document: Document, cassette: Cassette) -> None:
        self._cassette = cassette
        #: How requests may have been redacted when they were recorded, the most probable first.
        self._redactors = [
            Redactor(
                prompts=cassette.prompts,
                secrets=cassette.secrets,
                is_numbered=False,
                origin=document.meta.origin,
                hides_own_queries=hides_own_queries,
            )
            for hides_own_queries in (True, False)
        ]
        self._ignored = tuple(tuple(pointer[1:].split("/")) for pointer in cassette.ignore)
        #: Recorded URLs and bodies: a request made from a replayed response matches them unchanged.
        self._recorded: set[str] = set()
        self._exact: dict[Key, InteractionQueue] = {}
        self._loose: dict[Key, InteractionQueue] = {}
        #: The ordinals of interactions that are claimed. One may be in two queues.
        self.played: set[int] = set()
        for interaction in document.interactions:
            request = interaction.request
            exact = (request.method, self._sorted(request.url), self._recorded_body(request))
            self._recorded.update(exact)
            queue = self._exact.setdefault(exact, InteractionQueue(f"{request.method} {request.url}"))
            queue.waiting.append(interaction)
            if "REDACTED-" in exact[1] or "REDACTED-" in exact[2]:
                loose = (exact[0], unify_pseudonyms(exact[1]), unify_pseudonyms(exact[2]))
                self._loose.setdefault(loose, InteractionQueue(queue.name)).waiting.append(interaction)

    def claim(self, request: Request, body: BodyCapture) -> Claim:
        """The next interaction for a request, or CassetteMissError, or CassetteExhaustedError."""
        key = self._key_of(request, body)
        queue = self._find(key)
        if queue is None:
            raise _explain_miss(key, request.op, self._cassette.path, self._exact)
        while queue.waiting:
            interaction = queue.waiting.popleft()
            if interaction.n not in self.played:
                self.played.add(interaction.n)
                queue.played.append(interaction)
                return Claim(interaction, queue)
        last, count = queue.played[-1] if queue.played else None, len(queue.played)
        if self._cassette.exhausted == "repeat-last" and last is not None:
            return Claim(last, None)
        outcome = "" if last is None else f", the last one with {last.status or (last.failure and last.failure.type)}"
        what = f"{queue.name} ({request.op}): {count} replayed{outcome}."
        advice = 'Record it again, or allow it: exhausted="repeat-last", of Cassette or of the pytest marker.'
        message = f"{self._cassette.path} has no more interactions for {what}"
        raise CassetteExhaustedError(message, lane=queue.name, played=count, advice=advice)

    def release(self, claim: Claim) -> None:
        """Unless it was replayed, the next equal request gets the interaction."""
        if claim.queue is not None and not claim.is_played:
            self.played.remove(claim.interaction.n)
            claim.queue.played.remove(claim.interaction)
            claim.queue.waiting.appendleft(claim.interaction)

    def _find(self, key: Key) -> InteractionQueue | None:
        queue = self._exact.get(key)
        if queue is None and self._loose:
            queue = self._loose.get((key[0], unify_pseudonyms(key[1]), unify_pseudonyms(key[2])))
        return queue

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _key_of(self, request: Request, body: BodyCapture) -> Key:
        """The key of a request; of a body that is no short text, the digest is compared."""
        keys = (self._redacted_key(redactor, request, body) for redactor in self._redactors)
        first = next(keys)
        return first if self._find(first) is not None else next(filter(self._find, keys), first)

    def _redacted_key(self, redactor: Redactor, request: Request, body: BodyCapture) -> Key:
        redactor.learn(request)
        url = self._sorted(str(request.url))
        url = url if url in self._recorded else self._sorted(redactor.url(str(request.url)))
        text = body.text
        if text is None:
            return request.method, url, f"sha256:{body.sha256}"
        value = read_json(text)
        if value is None:
            return request.method, url, redactor.text(text)
        plain = self._canonical(value)
        if plain in self._recorded:
            return request.method, url, plain
        return request.method, url, self._canonical(redactor.json(value, is_request=True))

    def _recorded_body(self, request: RecordedRequest) -> str:
        body = request.body
        if body is None:
            return ""
        value = body["json"] if "json" in body else read_json(body.get("text", ""))
        if value is not None:
            return self._canonical(value)
        return str(body["text"]) if "text" in body else f"sha256:{body.get('sha256', '')}"

    def _canonical(self, value: Any) -> str:
        for pointer in self._ignored:
            value = _without(value, pointer)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def _sorted(url: str) -> str:
        """The URL with its query sorted by name; equal names keep their order."""
        address, mark, query = url.partition("?")
        return f"{address}{mark}{'&'.join(sorted(query.split('&'), key=lambda pair: pair.partition('=')[0]))}"


def _without(value: Any, pointer: Iterable[str]) -> Any:
    """The value without the field at the pointer."""
    first, *rest = pointer
    name = first.replace("~1", "/").replace("~0", "~")
    if isinstance(value, dict) and name in value:
        return {
            key: _without(item, rest) if key == name else item for key, item in value.items() if rest or key != name
        }
    if isinstance(value, list) and name.isdigit() and int(name) < len(value):
        at = int(name)
        return [*value[:at], *([_without(value[at], rest)] if rest else []), *value[at + 1 :]]
    return value


# -- the error for a miss --------------------------------------------------------------------------------------------


def _explain_miss(key: Key, op: str, path: Path, known: Iterable[Key]) -> CassetteMissError:
    """The error for a request with this key. It contains no prompt."""
    asked = _facts(key)

    def distance(other: tuple[Key, dict[str, str]]) -> tuple[int, int]:
        return len(asked.items() ^ other[1].items()), -sum(map(eq, key[1].split("/"), other[0][1].split("/")))

    lines = []
    for other, there in sorted(((other, _facts(other)) for other in known), key=distance)[:_NEAREST]:
        different = [name for name in dict.fromkeys((*asked, *there)) if asked.get(name) != there.get(name)]
        differences = (f"{name} is {_show(there, name)}, not {_show(asked, name)}" for name in different)
        lines.append(f"{other[0]} {other[1]}: {'; '.join(differences)}")
    what = "; the nearest differ:" + "".join(f"\n  {line}" for line in lines) if lines else ": it is empty."
    message = f"{path} has no interaction for {key[0]} {key[1]} ({op}){what}"
    return CassetteMissError(message, nearest=lines, advice="Record it again if the request is as it should be.")


def _facts(key: Key) -> dict[str, str]:
    """What is compared of a request, by its description; each value as JSON."""
    method, url, body = key
    address, _, query = url.partition("?")
    facts = {"the method": method, "the address": address}
    for name, text in parse_qsl(query, keep_blank_values=True):
        facts[f"query {name}"] = facts.get(f"query {name}", "") + json.dumps(text, ensure_ascii=False)
    try:
        value = json.loads(body)
    except ValueError:
        value = body or None
    return facts | dict(_leaves(value, "body "))


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """The values in a body, with their JSON pointers."""
    if isinstance(value, dict | list) and value:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, f"{place}/{name}")
    elif value is not None:
        yield place if "/" in place else "body as a whole", json.dumps(value, ensure_ascii=False)


def _show(facts: dict[str, str], what: str) -> str:
    """A value, unless it is long or a prompt. A text without a name is a whole body, which may be a prompt."""
    value = facts.get(what)
    if value is None:
        return "absent"
    if what == "body as a whole" or any(kind_of(name) is Kind.PROMPT for name in what.split("/")):
        return value if value.startswith('"sha256:') else f"another value ({len(value)} characters)"
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
