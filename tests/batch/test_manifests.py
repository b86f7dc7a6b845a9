"""Manifests and rows: what is read of them, and all their problems, each with its line, before anything is sent."""

import asyncio
import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.batch.conftest import FIELDS, Batches, make_rows
from vidgen_async import Budget, InvalidRequestError, JournalError
from vidgen_async.batch import checking
from vidgen_async.batch.manifest import ManifestRow, read_manifest
from vidgen_async.batch.rows import RowReader
from vidgen_async.journal import SqliteJournal
from vidgen_async.sandbox import Fault

CSV = b"order_id,model,prompt,duration\n"


@pytest.fixture
def problems_of(batches: Batches) -> Callable[[Any], Any]:
    """The problems of rows, of which nothing was sent."""

    async def check(rows: Any) -> list[str]:
        async with batches.client() as client:
            found = list((await client.videos.batch(rows, to=batches.to).check()).problems)
        assert {request.op for request in batches.service.requests} <= {"models.list"}
        return found

    return check


def rows_of(path: Path) -> list[tuple[int, Any]]:
    return [(row.line, row.problem or dict(row.fields)) for row in read_manifest(path)]


def test_a_cell_has_the_type_of_its_field_and_an_empty_one_is_no_field(write_manifest):
    manifest = write_manifest(
        "\ufefforder_id, duration,image_urls,reference_images,extra,mode,prompt\r\n"
        'a,8,https://h/1 https://h/2,https://h/3,"{""seed"": 7}",,"two\r\nlines, a ""quote"""\r\n'
        ",,,,,,\r\n"
        "b,5s,,,{,x,=1+1\r\n"
    )
    assert rows_of(manifest) == [
        (
            2,
            {
                "order_id": "a",
                "duration": 8,
                "image_urls": ["https://h/1", "https://h/2"],
                "reference_images": [{"url": "https://h/3"}],
                "extra": {"seed": 7},
                "prompt": 'two\r\nlines, a "quote"',
            },
        ),
        (5, {"order_id": "b", "duration": "5s", "extra": "{", "mode": "x", "prompt": "=1+1"}),
    ]


def test_lines_of_json_are_rows_and_what_is_no_object_is_a_problem_of_its_line(write_manifest):
    text = '\ufeff\n{"order_id": "a"}\n\n[1]\n{"order_id": \n{"order_id": "b", "duration": 8}'
    assert rows_of(write_manifest(text)) == [
        (2, {"order_id": "a"}),
        (4, "must be a JSON object, not list"),
        (5, "is not JSON: Expecting value"),
        (6, {"order_id": "b", "duration": 8}),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the manifest is empty"),
        (b" \n\n", "the manifest is empty"),
        (b'[{"order_id": "a"}]', "is a JSON array: write one object per line instead"),
        (b"order_id,prompt,order_id\n", "the names of its columns, each once"),
        (b"order_id,,prompt\n", "the names of its columns, each once"),
        (None, "cannot be read: No such file"),
    ],
)
async def test_a_manifest_without_rows_or_names_is_refused(batches, write_manifest, text, problem):
    manifest = "no-such-file.csv" if text is None else write_manifest(text)
    with pytest.raises(InvalidRequestError, match=problem):
        await batches.run(manifest)
    assert batches.service.creates == []


async def test_a_manifest_is_read_from_the_standard_input(batches, monkeypatch):
    text = CSV + b"a,gen-2.0,a boat,5\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert (await batches.run("-"))["a"].state == "saved"


async def test_what_changes_in_a_manifest_after_its_check_has_no_effect(batches, write_manifest):
    manifest = write_manifest(CSV + b"a,gen-2.0,a boat,5\n")
    async with batches.client() as client, client.videos.batch(manifest, to=batches.to) as batch:
        assert (await batch.check()).new_by_model == {"gen-2.0": 1}
        write_manifest(CSV + b"b,gen-2.0,a ship,5\n")
        assert [outcome.order_id async for outcome in batch] == ["a"]
    assert [create.body["prompt"] for create in batches.service.creates] == ["a boat"]


@pytest.mark.parametrize("change", ["append", "replace"])
async def test_a_manifest_that_changes_while_it_is_read_is_refused(batches, write_manifest, monkeypatch, change):
    monkeypatch.setattr(checking, "CHUNK", 1)
    manifest = write_manifest(CSV + b"a,gen-2.0,a boat,5\nb,gen-2.0,a boat,5\n")
    real = RowReader.read

    async def read(self: RowReader, given: ManifestRow) -> object:
        if given.fields["order_id"] == "a" and change == "append":
            manifest.write_bytes(manifest.read_bytes() + b"c,gen-2.0,a boat,5\n")
        elif given.fields["order_id"] == "a":
            write_manifest(manifest.read_bytes(), "new.csv").replace(manifest)
        return await real(self, given)

    monkeypatch.setattr(RowReader, "read", read)
    with pytest.raises(InvalidRequestError, match=r"the manifest .*jobs.csv' was changed while it was read"):
        await batches.run(manifest)
    assert batches.service.creates == []


async def test_a_manifest_may_be_a_pipe(batches, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writing = asyncio.to_thread((tmp_path / "pipe").write_bytes, CSV + b"a,gen-2.0,a boat,5\n")
    outcomes, _ = await asyncio.gather(batches.run(tmp_path / "pipe"), writing)
    assert outcomes["a"].state == "saved"


async def test_all_problems_are_reported_with_their_lines_and_nothing_is_sent(batches, write_manifest):
    manifest = write_manifest(b"order_id,modell,prompt,duration,outptu\n,x,a boat,5,y\nb,,\xff,7s,\nc,,a boat,5,,1,2\n")
    with pytest.raises(InvalidRequestError) as refused:
        await batches.run(manifest)
    assert refused.value.problems == (
        "line 2: modell: no such field (did you mean model?); undocumented fields go into extra",
        "line 2: outptu: no such field (did you mean output?); undocumented fields go into extra",
        "line 2: order_id: required",
        "line 2: model: required",
        "line 3: model: required",
        "line 3: duration: must be a whole number of seconds, 1 or more: '7s'",
        "line 3: prompt: cannot be written as JSON: it holds a lone surrogate",
        "line 4: has 7 cells, but there are 5 columns",
    )
    assert batches.service.creates == []


async def test_the_live_catalog_is_asked_once_for_all_rows(batches, problems_of):
    rows = [*make_rows(300), {"order_id": "x", "model": "gen-2.5", "prompt": "p"}]
    rows += [{"order_id": f"y{n}", **FIELDS, "duration": 7} for n in range(3)]
    found = await problems_of(rows)
    assert found[0].startswith("line 301: model: 'gen-2.5' is in maintenance; available models: ")
    assert [each.partition(": ")[2] for each in found[1:]] == [
        "duration: gen-2.0 supports 5, 10, 15 seconds, not 7"
    ] * 3
    assert batches.count("models.list") == 1


@pytest.mark.parametrize(
    ("order_id", "problem"),
    [
        (None, "order_id: required"),
        (7, "order_id must be a string, not int"),
        (" a", "order_id must not be empty or begin or end with white space: ' a'"),
        ("a~2", "order_id: must not end in ~ and digits, which a failed order has that is ordered again"),
        ("a" * 197, "order_id: must be at most 196 characters"),
        ("a" * 200, "order_id: must be at most 196 characters"),
        ("../a", "output: must be inside of the directory: '../a.mp4'"),
        ("\U0001f600" * 70, "output: has a name of more than 255 bytes: "),
    ],
)
async def test_an_order_id_that_cannot_be_used_is_a_problem(problems_of, order_id, problem):
    [found] = await problems_of([{**FIELDS, "order_id": order_id}])
    assert found.startswith(f"line 1: {problem}")


@pytest.mark.parametrize("order_id", ["a~", "a~b", "~", "a~2b", "a" * 196, "dir/a"])
async def test_other_order_ids_are_none(problems_of, order_id):
    assert await problems_of([{**FIELDS, "order_id": order_id}]) == []


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("/tmp/a.mp4", "must be inside of the directory"),
        ("../a.mp4", "must be inside of the directory"),
        ("x/../../a.mp4", "must be inside of the directory"),
        ("link/a.mp4", "leads out of the directory by a symbolic link"),
        ("file.mp4", "leads out of the directory by a symbolic link"),
        ("", "is no name of a file"),
        (".", "is no name of a file"),
        ("x/", "is no name of a file"),
        ("a\0b", "is no name of a file"),
        (7, "must be a path, not int"),
    ],
)
async def test_a_video_stays_in_the_directory(batches, problems_of, tmp_path, output, problem):
    batches.to.mkdir()
    (batches.to / "link").symlink_to(tmp_path)
    (batches.to / "file.mp4").symlink_to(tmp_path / "elsewhere.mp4")
    [found] = await problems_of([{**FIELDS, "order_id": "a", "output": output}])
    assert found.startswith(f"line 1: output: {problem}")


async def test_no_two_rows_have_one_order_id_or_one_file(problems_of):
    rows = [
        {"order_id": "a"},
        {"order_id": "a", "output": "x.mp4"},
        {"order_id": "A"},
        {"order_id": "b", "output": "./dir//\u00e9.MP4"},
        {"order_id": "c", "output": "Dir/e\u0301.mp4"},
    ]
    assert await problems_of([{**FIELDS, **row} for row in rows]) == [
        "line 2: order_id: 'a' is that of line 1, too",
        "line 3: output: 'A.mp4' is the file of line 1, too",
        "line 5: output: 'Dir/e\u0301.mp4' is the file of line 4, too",
    ]


async def test_a_path_with_spaces_is_written_as_a_json_list_in_csv(batches, write_manifest, tmp_path, picture):
    for name in ("my boat.png", "sea.png"):
        (tmp_path / name).write_bytes(picture)
    names = "order_id,model,prompt,duration,local_images\n"
    rows = 'a,vendorh3,a boat,5,"[""my boat.png"", ""sea.png""]"\nb,vendorh3,a boat,5,sea.png sea.png\n'
    outcomes = await batches.run(write_manifest(names + rows))
    assert [each.state for each in outcomes.values()] == ["saved"] * 2
    assert [len(each.body["image_ids"]) for each in batches.service.creates] == [2, 2]
    with pytest.raises(
        InvalidRequestError, match=r"local_images\[0\]: .*as a JSON list, or the manifest as JSON lines"
    ):
        await batches.run(write_manifest(names + "c,vendorh3,a boat,5,my boat.png\n"))


async def test_what_is_no_row_and_unusable_local_images_are_problems(problems_of, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    rows = [
        "a",
        ("b", FIELDS, 1),
        {**FIELDS, "order_id": "c", "local_images": "boat.png"},
        {**FIELDS, "order_id": "d", "local_images": [tmp_path / "text.png", tmp_path / "none.png"]},
        {**FIELDS, "order_id": "e", "images": ["x"]},
    ]
    found = await problems_of(rows)
    assert found[:3] == [
        "line 1: must be a mapping, or a pair of an order id and a request",
        "line 2: must be a mapping, or a pair of an order id and a request",
        "line 3: local_images: must be a list of paths",
    ]
    assert [each.partition(":")[0] + each.partition(":")[2][:17] for each in found[3:5]] == [
        "line 4 local_images[0]:",
        "line 4 local_images[1]:",
    ]
    assert found[5] == "line 5: images: not a field of this service; use image_urls, image_ids or reference_images"


async def test_a_check_counts_the_rows_by_the_states_of_their_orders(batches):
    await batches.run([*make_rows(2), {**FIELDS, "order_id": "f", "prompt": "[fail: no]"}])
    async with batches.client() as client:
        rows = [*make_rows(5), {**FIELDS, "order_id": "f", "prompt": "[fail: no]"}]
        check = await client.videos.batch(rows, to=batches.to).check()
    assert (check.rows, check.problems, check.new_by_model) == (6, (), {"gen-2.0": 3})
    assert check.states == {"completed": 2, "failed": 1, "new": 3}


async def test_a_check_counts_all_that_a_run_orders_and_the_faulty_rows_apart(batches):
    batches.options["budget"] = Budget(points=40, price="points")
    rows = [{**FIELDS, "order_id": "f", "prompt": "[fail]"}, *make_rows(1)]
    await batches.run(rows)
    batches.service.faults.add("videos.create", Fault.status(400))
    batches.options["budget"] = None
    await batches.run([{**FIELDS, "order_id": "bad"}])
    batches.options["budget"] = Budget(points=40, price="points")
    queued = make_rows(2)[1:]
    await batches.run(queued)
    rows += [*queued, {**FIELDS, "order_id": "bad"}, {**FIELDS, "order_id": "new"}]
    faulty = [{**FIELDS, "order_id": "faulty", "duration": 7}, {**FIELDS, "order_id": "order-0", "prompt": "changed"}]
    faulty += [rows[0], *rows[2:]]
    for retry_failed, ordered in ((False, 2), (True, 4)):
        async with batches.client() as client:
            check = await client.videos.batch(rows, to=batches.to, retry_failed=retry_failed).check()
            assert check.states == {"failed": 1, "completed": 1, "queued": 1, "rejected": 1, "new": 1}
            assert (check.new_by_model, check.faulty) == ({"gen-2.0": ordered}, 0)
            check = await client.videos.batch(faulty, to=batches.to, retry_failed=retry_failed).check()
            assert (check.rows, sum(check.states.values()), check.faulty, len(check.problems)) == (6, 4, 2, 2)
        if retry_failed:
            before = len(batches.service.creates)
            batches.options["budget"] = None
            await batches.run(rows, retry_failed=True)
            assert len(batches.service.creates) - before == ordered


async def test_a_check_tells_how_long_the_completed_tasks_of_these_models_and_durations_took(batches):
    rows = [
        {
            "order_id": f"{duration} {n}",
            **FIELDS,
            "duration": duration,
            "prompt": "a boat [fail: no]" if n == 9 else "a",
        }
        for duration in (5, 10)
        for n in (1, 2, 3, 9)
    ]
    async with batches.client() as client:
        assert (await client.videos.batch(rows, to=batches.to).check()).task_seconds is None
        await batches.run(rows)
        orders = {order.order_id: order for order in await client.orders.list()}
        expected = [
            sorted(
                orders[f"{duration} {n}"].results[0].at - orders[f"{duration} {n}"].receipt.accepted_at
                for n in range(1, 4)
            )[1]
            for duration in (5, 10)
        ]
        for some, seconds in ((rows, max(expected)), (rows[:4], expected[0]), (rows[4:], expected[1])):
            check = await client.videos.batch(some, to=batches.to).check()
            assert check.task_seconds == seconds.total_seconds()


async def test_a_check_that_failed_can_be_repeated(batches, monkeypatch):
    failures = iter([None, JournalError("locked")])
    real = SqliteJournal.summaries

    async def summaries(self, *arguments):
        if (error := next(failures, None)) is not None:
            raise error
        return await real(self, *arguments)

    monkeypatch.setattr("vidgen_async.batch.checking.CHUNK", 2)
    async with batches.client() as client, client.videos.batch(make_rows(3), to=batches.to) as batch:
        monkeypatch.setattr(type(client._view.shared.journal), "summaries", summaries)
        with pytest.raises(JournalError):
            await batch.check()
        assert (await batch.check()).rows == 3
        assert len([outcome async for outcome in batch]) == 3


TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)


@settings(deadline=None)
@given(rows=st.lists(st.dictionaries(st.sampled_from(["order_id", "prompt", "mode"]), TEXTS, min_size=1), min_size=1))
def test_rows_are_read_as_they_were_written_in_either_format(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "jobs"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [row.fields for row in read_manifest(path)] == rows

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["order_id", "prompt", "mode"])
        writer.writeheader()
        writer.writerows(rows)
    assert [row.fields for row in read_manifest(path)] == rows
