"""The benchmark of a second transport: it runs."""

from attrs import evolve

from benchmarks import second_transport
from benchmarks.results import Scale
from benchmarks.second_transport import OURS, OURS_ON_UVLOOP, SECOND, SECOND_ON_UVLOOP, WAYS, Way

NAMES = [OURS, SECOND, OURS_ON_UVLOOP, SECOND_ON_UVLOOP]


def test_each_way_is_measured_beside_ours_on_its_own_loop():
    figures = second_transport.run(evolve(Scale.tiny(), gets=5, polls_per_second=40))

    labels = ["one get at a time", "50 gets at a time", "40 polls a second"]
    assert [(figure.benchmark, figure.name) for figure in figures] == [
        (f"second transport, {label}", name) for label in labels for name in NAMES
    ]
    assert {figure.name: figure.versus for figure in figures} == {
        OURS: OURS,
        SECOND: OURS,
        OURS_ON_UVLOOP: OURS,
        SECOND_ON_UVLOOP: OURS_ON_UVLOOP,
    }
    assert [figure.name for figure in figures if figure.target] == [SECOND, SECOND_ON_UVLOOP] * len(labels)
    assert all(figure.value > 0 for figure in figures)


def test_without_pyreqwest_nothing_is_compared(monkeypatch):
    missing = {name: Way(way.transport, ("no_such_package",)) for name, way in WAYS.items() if name != OURS}
    monkeypatch.setattr(second_transport, "WAYS", {OURS: WAYS[OURS], **missing})
    assert second_transport.run(Scale.tiny()) == []
