"""Which interaction answers which request. Equal requests share a lane, in which the interactions stand in the order in
which they began; a request claims the first that is left."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from attrs import field, frozen, mutable

from vidgen_async.cassette.body_encoding import LONGEST_REQUEST, as_text, read_through
from vidgen_async.cassette.document import Document, Interaction, RecordedRequest
from vidgen_async.cassette.mismatch_report import Key, explain_miss
from vidgen_async.cassette.redactor import Redactor
from vidgen_async.cassette.settings import Cassette
from vidgen_async.errors import CassetteExhaustedError
from vidgen_async.redaction.pseudonyms import loosened
from vidgen_async.types.http import BytesBody, Request


@mutable(eq=False)
class Place:
    """An interaction in its lanes, played or not."""

    interaction: Interaction
    is_played: bool = False


@mutable(eq=False)
class Lane:
    """The interactions of equal requests."""

    name: str
    places: deque[Place] = field(factory=deque)
    played: int = 0
    last: Place | None = None

    def claim(self) -> Place | None:
        """The next one, from now on played; None when all are."""
        while self.places:
            place = self.places.popleft()
            if not place.is_played:
                place.is_played = True
                self.played += 1
                self.last = place
                return place
        return None


@frozen
class Claim:
    """A request's own interaction."""

    place: Place
    lane: Lane
    #: It was played before.
    is_repeat: bool = False

    @property
    def interaction(self) -> Interaction:
        return self.place.interaction

    def give_back(self) -> None:
        """It was not asked for after all: the next equal request gets it."""
        if self.is_repeat:
            return
        self.place.is_played = False
        self.lane.played -= 1
        self.lane.places.appendleft(self.place)


class Lanes:
    """All lanes of a cassette. A claim takes the same time however long the cassette is, and never waits.

    A request whose secrets are the cassette's own pseudonyms (it came out of an answer that was played back) is matched
    with them; one with secrets of its own is matched by everything else.
    """

    def __init__(self, document: Document, cassette: Cassette, redactor: Redactor) -> None:
        self._cassette = cassette
        self._redactor = redactor
        self._ignored = tuple(tuple(pointer[1:].split("/")) for pointer in cassette.ignore)
        self._urls: dict[str, str] = {}
        #: What stands on the cassette: an answer that was played leads to it as it is.
        self._recorded: set[str] = set()
        self._exact: dict[Key, Lane] = {}
        self._loose: dict[Key, Lane] = {}
        self.places: list[Place] = []
        for interaction in document.interactions:
            self._add(interaction)

    def _add(self, interaction: Interaction) -> None:
        place = Place(interaction)
        self.places.append(place)
        request = interaction.request
        exact = (request.method, self._sorted(request.url), self._recorded_body(request))
        self._recorded.update(exact)
        lane = self._exact.get(exact)
        if lane is None:
            lane = self._exact[exact] = Lane(f"{request.method} {request.url}")
        lane.places.append(place)
        if "REDACTED-" in exact[1] or "REDACTED-" in exact[2]:
            loose = (exact[0], loosened(exact[1]), loosened(exact[2]))
            self._loose.setdefault(loose, Lane(lane.name)).places.append(place)

    def find(self, key: Key) -> Lane | None:
        """The lane of a request."""
        lane = self._exact.get(key)
        if lane is None and self._loose:
            lane = self._loose.get((key[0], loosened(key[1]), loosened(key[2])))
        return lane

    def claim(self, key: Key, op: str, *, may_repeat: bool = True) -> Claim:
        """The next interaction for a request. CassetteMissError when it is not on the cassette, CassetteExhaustedError
        when it is there less often (and may not be repeated)."""
        lane = self.find(key)
        if lane is None:
            raise explain_miss(key, op, self._cassette.path, self._exact)
        place = lane.claim()
        if place is not None:
            return Claim(place, lane)
        if may_repeat and self._cassette.exhausted == "repeat-last" and lane.last is not None:
            return Claim(lane.last, lane, is_repeat=True)
        raise self._exhausted(lane, op)

    def _exhausted(self, lane: Lane, op: str) -> CassetteExhaustedError:
        last = lane.last.interaction if lane.last else None
        outcome = "" if last is None else f", the last with {last.status or (last.failure and last.failure.type)}"
        message = f"{self._cassette.path} has no more for {lane.name} ({op}): {lane.played} were played{outcome}."
        advice = 'Record it again, or allow it: exhausted="repeat-last", of Cassette or of the pytest marker.'
        return CassetteExhaustedError(message, lane=lane.name, played=lane.played, advice=advice)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def key_of(self, request: Request) -> Key | None:
        """The key of a request; None when its body cannot be had without waiting."""
        body = request.body
        if body is None:
            return request.method, self._url_of(request), ""
        return self._key(request, body.data) if isinstance(body, BytesBody) else None

    async def key_of_streamed(self, request: Request) -> Key:
        """The key of a request whose body must be read for it."""
        sent = await read_through(BytesBody(b"") if request.body is None else request.body)
        if sent.data is None:
            return request.method, self._url_of(request), f"sha256:{sent.sha256}"
        return self._key(request, sent.data)

    def _url_of(self, request: Request) -> str:
        self._redactor.learn(request)
        text = str(request.url)
        known = self._urls.get(text)
        if known is None:
            plain = self._sorted(text)
            known = plain if plain in self._recorded else self._sorted(self._redactor.url(text))
            self._urls[text] = known
        return known

    def _key(self, request: Request, data: bytes) -> Key:
        url = self._url_of(request)
        text = as_text(data) if len(data) <= LONGEST_REQUEST else None
        if text is None:
            return request.method, url, f"sha256:{hashlib.sha256(data).hexdigest()}"
        value = _json(text)
        if value is None:
            return request.method, url, self._redactor.text(text)
        plain = self._canonical(value)
        if plain in self._recorded:
            return request.method, url, plain
        return request.method, url, self._canonical(self._redactor.json(value, is_request=True))

    def _recorded_body(self, request: RecordedRequest) -> str:
        body = request.body
        if body is None:
            return ""
        value = body["json"] if "json" in body else _json(body.get("text", ""))
        if value is not None:
            return self._canonical(value)
        return str(body["text"]) if "text" in body else f"sha256:{body.get('sha256', '')}"

    def _canonical(self, value: Any) -> str:
        for pointer in self._ignored:
            value = _without(value, pointer)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    @staticmethod
    def _sorted(url: str) -> str:
        """The URL with its query in the order of the names; equal names keep theirs."""
        address, mark, query = url.partition("?")
        if "&" not in query:
            return url
        return f"{address}{mark}{'&'.join(sorted(query.split('&'), key=lambda pair: pair.partition('=')[0]))}"


def _json(text: str) -> Any:
    """An object, a list or a text; None for everything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list | str) else None


def _without(value: Any, pointer: Iterable[str]) -> Any:
    """The value without what the pointer names."""
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
