"""Make the drawings of the documentation: python -m docs.make_drawings.

They fit a phone without being scaled down, and follow the reader's preference
for light or dark. What the code knows is taken from the code: the layers of
packages, the phases of a send, the outcomes of an attempt, and the schedule.
"""

import tomllib
from collections.abc import Iterator
from html import escape
from itertools import accumulate, pairwise
from pathlib import Path

from vidgen_async.types.http import Phase
from vidgen_async.types.orders import AttemptOutcome, may_become
from vidgen_async.watcher.schedule import Schedule

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/_static"
WIDTH = 380

_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", \
sans-serif; fill: #1f2328; }
.name { font-weight: 600; }
.note { font-size: 12px; fill: #57606a; }
.card { fill: #f6f8fa; stroke: #d0d7de; }
.box { fill: #ffffff; stroke: #6e7781; }
.other { fill: #eaeef2; stroke: #6e7781; stroke-dasharray: 4 3; }
.safe { fill: #dafbe1; }
.doubt { fill: #fff1c5; }
.known { fill: #ddf4ff; }
.line { fill: none; stroke: #57606a; stroke-width: 1.3; }
.axis { fill: none; stroke: #6e7781; stroke-width: 0.7; }
.head { fill: #57606a; }
.bars { fill: #0969da; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.note { fill: #a5adb6; }
.card { fill: #1b1f24; stroke: #3d444d; }
.box { fill: #262c34; stroke: #848d97; }
.other { fill: #12161b; stroke: #848d97; }
.safe { fill: #12351f; }
.doubt { fill: #463607; }
.known { fill: #0d3258; }
.line { stroke: #a5adb6; }
.axis { stroke: #848d97; }
.head { fill: #a5adb6; }
.bars { fill: #4493f8; }
}
"""


#: The head of an arrow.
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" '
    'markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
    '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
)


class Drawing:
    """An SVG file. Coordinates are pixels."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self.height = 0

    def rect(
        self, kind: str, x: float, y: float, width: float, height: float
    ) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" '
            f'width="{width:g}" height="{height:g}" rx="5"/>'
        )
        self.height = max(self.height, round(y + height) + 14)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        kind: str = "",
        anchor: str = "middle",
    ) -> None:
        style = f' class="{kind}"' if kind else ""
        self._parts.append(
            f'<text{style} x="{x:g}" y="{y:g}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )
        self.height = max(self.height, round(y) + 14)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        name: str,
        *notes: str,
        kind: str = "box",
    ) -> None:
        self.rect(kind, x, y, width, 26 + 17 * len(notes))
        self.text(x + width / 2, y + 18, name, kind="name")
        for number, note in enumerate(notes):
            self.text(x + width / 2, y + 36 + 17 * number, note, kind="note")

    def arrow(self, *points: tuple[float, float]) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(
            f'<polyline class="line" points="{path}" marker-end="url(#head)"/>'
        )

    def path(self, kind: str, points: list[tuple[float, float]]) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def render(self) -> str:
        size = f'width="{WIDTH}" height="{self.height}"'
        size += f' viewBox="0 0 {WIDTH} {self.height}"'
        return "\n".join(
            (
                (
                    f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
                    'role="img" aria-labelledby="title">'
                ),
                f'<title id="title">{escape(self._title)}</title>',
                f"<style>{_STYLE}</style>",
                _HEAD,
                (
                    f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" '
                    f'height="{self.height - 1}" rx="6"/>'
                ),
                *self._parts,
                "</svg>\n",
            )
        )


def draw_layers() -> Drawing:
    """The layers that import-linter checks."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "importlinter"
    ]["contracts"]
    layers = [
        layer.split(" | ")
        for layer in contracts[0]["layers"]
        if layer != "__main__"
    ]
    drawing = Drawing(
        "The packages in layers, from the entry points to the values"
    )
    for row, packages in enumerate(layers):
        # Boxes share the width by the lengths of their names.
        lengths = [len(package) + 3 for package in packages]
        unit = (WIDTH - 24 - 6 * (len(packages) - 1)) / sum(lengths)
        left = 12.0
        for package, length in zip(packages, lengths, strict=True):
            kind = "other" if package == "sandbox" else "box"
            drawing.box(left, 12 + 46 * row, length * unit, package, kind=kind)
            left += length * unit + 6
        if row:
            drawing.arrow((WIDTH / 2, 46 * row - 7), (WIDTH / 2, 46 * row + 11))
    drawing.text(
        WIDTH / 2,
        12 + 46 * len(layers),
        "A package imports from the layers below it only.",
        kind="note",
    )
    return drawing


def draw_create() -> Drawing:
    """The path of a create, in the sequence of time."""
    drawing = Drawing(
        "A create: the order is stored before the connection, "
        "the attempt before the first byte"
    )
    lanes = {
        "caller": 36,
        "worker": 112,
        "journal": 190,
        "transport": 268,
        "service": 344,
    }
    caller, worker, journal, transport, service = lanes
    bands: list[tuple[str, str, list[tuple[str, str, str]]]] = [
        (
            "safe",
            "nothing was sent",
            [
                (caller, worker, "create"),
                (worker, journal, "queued"),
                (worker, transport, "connect(request)"),
                (transport, service, "TCP, TLS"),
                (transport, worker, "connection"),
                (worker, journal, "sending"),
            ],
        ),
        (
            "doubt",
            "it may have been sent",
            [
                (worker, transport, "connection.send()"),
                (transport, service, "POST"),
            ],
        ),
        (
            "known",
            "answered",
            [
                (service, transport, "202, id"),
                (transport, worker, "response"),
                (worker, journal, "accepted"),
                (worker, caller, "receipt"),
            ],
        ),
    ]
    y = 40
    for lane, x in lanes.items():
        drawing.text(x, 22, lane, kind="name")
    for kind, title, messages in bands:
        height = 28 + 32 * len(messages)
        drawing.rect(kind, 6, y, WIDTH - 12, height)
        drawing.text(14, y + 17, title, kind="name", anchor="start")
        for x in lanes.values():
            drawing.path("axis", [(x, y + 28), (x, y + height)])
        for number, (start, end, text) in enumerate(messages):
            at = y + 48 + 32 * number
            drawing.arrow((lanes[start], at), (lanes[end], at))
            drawing.text(
                (lanes[start] + lanes[end]) / 2, at - 5, text, kind="note"
            )
        y += height + 4
    return drawing


def draw_chain(
    title: str, boxes: list[tuple[str, ...]], loops: list[tuple[int, int]]
) -> Drawing:
    """Boxes one below the other. A loop goes from one box back to another."""
    drawing = Drawing(title)
    y, middles = 12.0, []
    for number, (name, *notes) in enumerate(boxes):
        height = 26 + 17 * len(notes)
        drawing.box(
            12,
            y,
            326,
            name,
            *notes,
            kind="other" if name.startswith("the service") else "box",
        )
        middles.append(y + height / 2)
        if number < len(boxes) - 1:
            drawing.arrow((175, y + height), (175, y + height + 18))
        y += height + 18
    for start, end in loops:
        drawing.arrow(
            (338, middles[start]),
            (360, middles[start]),
            (360, middles[end]),
            (340, middles[end]),
        )
    return drawing


def draw_read() -> Drawing:
    """The path of a read."""
    drawing = draw_chain(
        "A read: a request, retries, one connection, and a value or an error",
        [
            (
                "client/resources.py, client/videos.py",
                "one method for each read",
            ),
            ("service/endpoints.py", "the request, with the API key"),
            ("service/retries.py", "sends it again after a transient failure"),
            (
                "transports/direct/connections.py",
                "a connection that was kept alive, no session",
            ),
            ("the service",),
        ],
        [(4, 2)],
    )
    y = drawing.height - 14 + 18
    drawing.arrow((90, y - 18), (90, y))
    drawing.arrow((260, y - 18), (260, y))
    drawing.box(12, y, 160, "service/codec.py", "2xx: a value")
    drawing.box(178, y, 160, "error_responses.py", "else: an error")
    return drawing


def draw_poll() -> Drawing:
    """The path of a poll."""
    return draw_chain(
        "A poll: listeners, one watcher, a schedule, a bounded number of polls",
        [
            (
                "wait, watch, as_completed, rewatch",
                "each is a listener: watcher/listeners.py",
            ),
            (
                "watcher/watcher.py",
                "a row for each task, however many listen",
            ),
            ("watcher/schedule.py", "which row is due next, and when"),
            (
                "watcher/watcher.py",
                "sleeps until then; a limited number at once",
            ),
            ("the service", "one GET, which is not retried"),
            ("watcher/poll_rules.py", "whether a failure ends the wait"),
        ],
        [(5, 2)],
    )


def draw_download() -> Drawing:
    """The path of a download."""
    return draw_chain(
        "A download: redirects without the key, resumed transfers, "
        "and one atomic replacement",
        [
            ("client/videos.py", "download, or generate(to=…)"),
            ("media/download.py", "checks the target before any request"),
            ("media/content.py", "follows redirects without the key"),
            ("the service, or the host that it redirects to",),
            ("media/transfer.py", "resumes where the connection was lost"),
            ("media/mp4.py", "whether the video is complete"),
            (
                "media/partial_file.py",
                ".hero.mp4.part replaces hero.mp4 atomically",
            ),
        ],
        [(4, 2)],
    )


def draw_recording() -> Drawing:
    """A recording, and its replay."""
    drawing = Drawing(
        "A recording wraps the transport; a replay takes its place"
    )
    drawing.text(100, 22, "recording", kind="name")
    drawing.text(284, 22, "replay", kind="name")
    left = [
        ("the client",),
        ("RecordingTransport", "cassette/recording.py"),
        ("DirectTransport", "transports/direct"),
        ("the service",),
    ]
    ys = [34, 86, 155, 224]
    for (name, *notes), y in zip(left, ys, strict=True):
        drawing.box(
            20,
            y,
            160,
            name,
            *notes,
            kind="other" if name == "the service" else "box",
        )
    for start, end in ((60, 86), (129, 155), (198, 224)):
        drawing.arrow((100, start), (100, end))
    drawing.box(200, 34, 168, "the client")
    drawing.box(200, 86, 168, "ReplayTransport", "cassette/replay.py")
    drawing.box(200, 155, 168, "RequestMatcher", "request_matching.py")
    drawing.arrow((284, 60), (284, 86))
    drawing.arrow((284, 129), (284, 155))
    drawing.box(20, 276, 160, "Recorder", "cassette/recorder.py")
    drawing.box(20, 345, 160, "Redactor", "cassette/redactor.py")
    drawing.box(20, 414, 160, "boat.json.part", "survives a kill", kind="other")
    drawing.box(200, 414, 168, "boat.json", "the cassette", kind="other")
    drawing.arrow((20, 108), (8, 108), (8, 297), (20, 297))
    drawing.arrow((100, 319), (100, 345))
    drawing.arrow((100, 388), (100, 414))
    drawing.arrow((180, 435), (200, 435))
    drawing.arrow((284, 414), (284, 200))
    return drawing


def draw_phases() -> Drawing:
    """The phases of a send, and what is known in each."""
    drawing = Drawing(
        "The phases of a create: not sent until connection.send() is called, "
        "maybe sent from then on, then answered"
    )
    phases = list(Phase)
    # Where each begins, and the end of the last: as wide as their names.
    edges = list(accumulate((48, 46, 42, 62, 46, 46, 66), initial=12))
    send, answer = phases.index(Phase.SEND), phases.index(Phase.BODY)
    for kind, start, end, title in (
        ("safe", 0, send, "not sent"),
        ("doubt", send, answer, "maybe sent"),
        ("known", answer, len(phases), "answered"),
    ):
        drawing.rect(kind, edges[start], 30, edges[end] - edges[start], 66)
        drawing.text((edges[start] + edges[end]) / 2, 84, title, kind="note")
    for phase, (start, end) in zip(phases, pairwise(edges), strict=True):
        drawing.text((start + end) / 2, 54, phase.value)
    for at, text in ((send, "send()"), (answer, "status line")):
        x = edges[at]
        drawing.path("line", [(x, 26), (x, 100)])
        drawing.text(x, 20, text, kind="note")
    return drawing


def draw_attempt() -> Drawing:
    """How the outcome of an attempt may change."""
    drawing = Drawing(
        "The outcomes of an attempt: sending, then perhaps uncertain, "
        "then a final one"
    )
    places = {
        AttemptOutcome.SENDING: (12, 60, "doubt"),
        AttemptOutcome.UNCERTAIN: (110, 156, "doubt"),
        AttemptOutcome.NOT_SENT: (246, 12, "safe"),
        AttemptOutcome.REJECTED: (246, 60, "safe"),
        AttemptOutcome.ACCEPTED: (246, 108, "known"),
    }
    for outcome, (x, y, kind) in places.items():
        drawing.rect("box", x, y, 106, 26)
        drawing.rect(kind, x + 1, y + 1, 104, 24)
        drawing.text(
            x + 53, y + 18, outcome.value.replace("_", " "), kind="name"
        )
        if may_become(AttemptOutcome.UNCERTAIN, outcome):
            drawing.arrow((216, 169), (368, 169), (368, y + 13), (352, y + 13))
        if (
            may_become(AttemptOutcome.SENDING, outcome)
            and outcome is not AttemptOutcome.UNCERTAIN
        ):
            drawing.arrow((118, 73), (x, y + 13))
    if may_become(AttemptOutcome.SENDING, AttemptOutcome.UNCERTAIN):
        drawing.arrow((65, 86), (65, 169), (110, 169))
    return drawing


def draw_schedule() -> Drawing:
    """Polls per second: a start, a process that is stopped, a 429."""
    drawing = Drawing(
        "Polls per second of 6,000 tasks: a start, 10 s in which the process "
        "stood still, a pause of 30 s"
    )
    seconds, step = 420, 4
    counts = [0] * (seconds // step)
    for at in simulate_polls(
        tasks=6000,
        seconds=seconds,
        stopped=(120.0, 130.0),
        paused=(300.0, 30.0),
    ):
        counts[int(at) // step] += 1
    left, bottom, height = 40, 150, 118
    width = (WIDTH - left - 12) / len(counts)
    outline: list[tuple[float, float]] = [(left, bottom)]
    for number, count in enumerate(counts):
        top = bottom - count / step / 120 * height
        outline += [
            (left + number * width, top),
            (left + (number + 1) * width, top),
        ]
    drawing.path("bars", [*outline, (WIDTH - 12, bottom)])
    for rate in (0, 50, 100):
        drawing.text(
            left - 6,
            bottom - rate / 120 * height + 4,
            str(rate),
            kind="note",
            anchor="end",
        )
    drawing.text(12, 18, "polls per second", kind="note", anchor="start")
    drawing.path("axis", [(left, 28), (left, bottom), (WIDTH - 12, bottom)])
    for at in range(0, seconds + 1, 60):
        x = left + at / step * width
        drawing.path("axis", [(x, bottom), (x, bottom + 4)])
        drawing.text(x, bottom + 18, f"{at // 60}", kind="note")
    drawing.text((left + WIDTH) / 2, bottom + 36, "minutes", kind="note")
    return drawing


def simulate_polls(
    *,
    tasks: int,
    seconds: int,
    stopped: tuple[float, float],
    paused: tuple[float, float],
) -> Iterator[float]:
    """When the polls of these tasks start, if each is answered at once."""
    schedule = Schedule(60.0, first_polls=32)
    for task in range(tasks):
        schedule.add(task, 0.0)
    now, is_paused = 0.0, False
    while now < seconds:
        if stopped[0] <= now < stopped[1]:
            now = stopped[1]
        if now >= paused[0] and not is_paused:
            is_paused = schedule.pause(now, paused[1])
        while (task_or_none := schedule.take(now)) is not None:
            yield now
            schedule.reschedule(task_or_none, now)
        wake = schedule.wake_at()
        now = max(now + 0.016, seconds if wake is None else wake)


DRAWINGS = {
    "layers": draw_layers,
    "create": draw_create,
    "read": draw_read,
    "poll": draw_poll,
    "download": draw_download,
    "recording": draw_recording,
    "phases": draw_phases,
    "attempt": draw_attempt,
    "schedule": draw_schedule,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().render())


if __name__ == "__main__":
    main()
