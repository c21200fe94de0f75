"""A filter finds the same runs by SQL as by reading it out in Python, whatever the filter and whatever the runs."""

import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as some

from engine.access.confusables import sort_key
from engine.errors import EngineError
from engine.filter import Field, read_filter
from engine.filter.parser import SOURCES
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, RankBatch, Reader, Store
from engine.store.imports.external_import import ExternalRun, take_in
from engine.store.runs.origins import Kind
from engine.transfer.bundles.bundle import ImportResult
from tests.inputs import drawn
from tests.store.conftest import WORKER

RUNS = 60
OWNERS, NAMES, TAGS = ["ada", "Bea", "o'neil"], ["", "a wide net", "100% Wide", "x_y"], ["thesis", "x", "a b"]
DAYS = [f"2026-11-{day:02d}" for day in range(1, 10)]
OPS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass
class Mirror:
    """What one run has, as the test itself wrote it."""

    id: int
    texts: dict[str, str]
    tags: set[str]
    config: dict[str, Any]
    day: str
    flags: dict[str, bool]
    points: dict[str, dict[int | None, list[float]]] = field(default_factory=dict)
    """By metric and rank (None: of the whole run)."""

    def number(self, name: str, of: str) -> float | None:
        ranks = {
            rank: [value for value in values if math.isfinite(value)]
            for rank, values in self.points.get(name, {}).items()
        }
        if of == "count":
            return float(len(ranks[None]) if None in ranks else sum(map(len, ranks.values()))) if ranks else None
        found = [values for values in ([ranks[None]] if ranks.get(None) else ranks.values()) if values]
        if not found:
            return None
        every = [value for values in found for value in values]
        better = {"test/accuracy": max, "train/loss": min}[name]
        return {
            "last": sum(values[-1] for values in found) / len(found),
            "mean": sum(every) / len(every),
            "min": min(every),
            "max": max(every),
            "best": better(every),
        }[of]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Reader, list[Mirror]]]:
    """Write runs at random, always the same ones."""
    home = Home(Path(tmp_path_factory.mktemp("lab")) / "home").create()
    dice = random.Random(7)
    with Store.open(home) as store:
        mirrors = [written(store, dice) for _ in range(RUNS)]
    with Reader.open(home) as reader:
        yield reader, mirrors


def written(store: Store, dice: random.Random) -> Mirror:
    """Write one run and return what it has."""
    config = {"trainers": dice.choice([1, 2, 4, 4.0, None]), "lock": dice.choice([True, False]), "mode": "Pipe"}
    config = {name: value for name, value in config.items() if dice.random() < 0.8}
    texts = {
        "experiment": dice.choice(["hogwild", "sync_sgd"]),
        "owner": dice.choice(OWNERS),
        "name": dice.choice(NAMES),
    }
    run_id = store.runs.add(
        Launch(texts["experiment"], config, texts["owner"], name=texts["name"], demand=Demand(2, 0, 2, 1))
    )
    run = Mirror(run_id, texts, {tag for tag in TAGS if dice.random() < 0.3}, config, dice.choice(DAYS), {})
    for tag in run.tags:
        store.annotations.tag([run_id], tag, by="ada")
    if dice.random() < 0.5:
        store.annotations.set_note(run_id, "Too SLOW", by="ada")
    texts["note"] = next(
        (row["text"] for row in store.db.rows("SELECT text FROM notes WHERE run_id = ?", [run_id])), ""
    )
    store.claims.claim(run_id, WORKER, ())
    store.worker.begin(run_id, WORKER, {})
    for name in ("test/accuracy", "train/loss"):
        for rank in (None, 0, 1):
            if dice.random() < 0.4:
                run.points.setdefault(name, {})[rank] = [
                    dice.choice([math.nan, 50.0, 97.5, 98.0, 99.25]) for _ in range(3)
                ]
    points = {
        rank: [
            Point(name, step, value, 0.0)
            for name in run.points
            for step, value in enumerate(run.points[name].get(rank, ()))
        ]
        for rank in (None, 0, 1)
    }
    store.worker.write(run_id, [RankBatch(rank, points[rank]) for rank in (0, 1)], run_points=points[None])
    texts["status"] = dice.choice(["running", "finished", "failed"])
    if texts["status"] == "running":
        store.worker.mark_running(run_id, 1.0)
    else:
        store.claims.end(run_id, texts["status"], "It ended.")  # type: ignore[arg-type]
    run.flags = {"starred": dice.random() < 0.3, "archived": texts["status"] != "running" and dice.random() < 0.3}
    if run.flags["starred"]:
        store.annotations.star([run_id], by="ada")
    if run.flags["archived"]:
        store.annotations.archive([run_id], by="ada")
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET created_at = ? WHERE id = ?", [f"{run.day}T15:00:00.000Z", run_id])
    return run


Condition = tuple[str, Callable[[Mirror], bool]]
"""A part of a filter: its text, and what it means."""


def compared(one: float | None, op: str, other: float | None) -> bool:
    if op == "!=":
        return not compared(one, "==", other)
    return one is not None and other is not None and OPS[op](one, other)


def number_in(config: Mapping[str, Any], name: str) -> float | None:
    value = config.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@some.composite
def numbers(draw: some.DrawFn) -> Condition:
    metric, of = (
        draw(some.sampled_from(["test/accuracy", "train/loss"])),
        draw(some.sampled_from(["last", "best", "mean", "min", "max", "count"])),
    )
    op, value = draw(some.sampled_from(sorted(OPS))), draw(some.sampled_from([1, 2, 3, 50, 97.5, 98.0, 99.25]))
    if draw(some.booleans()):
        return (
            f"{value} {op} {metric}.{of}",
            lambda run: compared(value, op, run.number(metric, of)) if op != "!=" else run.number(metric, of) != value,
        )
    other = draw(some.sampled_from(["test/accuracy", "train/loss"]))
    if draw(some.booleans()):
        return f"{metric}.{of} {op} {other}.max", lambda run: compared(
            run.number(metric, of), op, run.number(other, "max")
        )
    return f"{metric}.{of} {op} {value}", lambda run: compared(run.number(metric, of), op, value)


@some.composite
def texts(draw: some.DrawFn) -> Condition:
    name = draw(some.sampled_from(["owner", "name", "note", "experiment", "status"]))
    known = {"experiment": ["hogwild", "sync_sgd"], "status": ["running", "finished", "failed", "lost"]}.get(
        name, [*OWNERS, *NAMES, "too slow", "zed"]
    )
    value, way = (
        draw(some.sampled_from(known)),
        draw(some.sampled_from(["==", "!=", "in", "contains", "not contains", "none"])),
    )
    if way == "none":
        return f"{name} == none", lambda run: run.texts[name] == ""
    if way in ("==", "!="):
        return f'{name} {way} "{value}"', lambda run: OPS[way](run.texts[name], value)
    if way == "in":
        return f'{name} in ("{value}", "{known[0]}")', lambda run: run.texts[name] in (value, known[0])
    part = value[:3].upper()
    return f'{name} {way} "{part}"', lambda run: (part.lower() in run.texts[name].lower()) == (way == "contains")


def others_of(tag: str, flag: str, day: str, op: str, trainers: int) -> list[Condition]:
    return [
        (f'tag == "{tag}"', lambda run: tag in run.tags),
        (f'"{tag}" not in tags', lambda run: tag not in run.tags),
        (f'tags in ("{tag}", "x")', lambda run: bool({tag, "x"} & run.tags)),
        ("tags == none", lambda run: not run.tags),
        (flag, lambda run: run.flags[flag]),
        (f"{flag} == false", lambda run: not run.flags[flag]),
        (f'created {op} "{day}"', lambda run: OPS[op](run.day, day)),
        (f"trainers {op} {trainers}", lambda run: compared(number_in(run.config, "trainers"), op, trainers)),
        ("trainers in (1, 4)", lambda run: run.config.get("trainers") in (1, 4)),
        ("trainers == none", lambda run: run.config.get("trainers") is None),
        ("lock", lambda run: run.config.get("lock") is True),
        ("lock == false", lambda run: run.config.get("lock") is False),
        ('mode == "Pipe"', lambda run: "mode" in run.config),
        ('mode contains "PIP"', lambda run: "mode" in run.config),
        (
            f"1 < trainers <= {trainers}",
            lambda run: (number := number_in(run.config, "trainers")) is not None and 1 < number <= trainers,
        ),
        (f"id {op} trainers", lambda run: compared(run.id, op, number_in(run.config, "trainers"))),
    ]


@some.composite
def others(draw: some.DrawFn) -> Condition:
    tag, flag, day, op = (draw(some.sampled_from(each)) for each in (TAGS, ["starred", "archived"], DAYS, sorted(OPS)))
    trainers = draw(some.sampled_from([1, 2, 4]))
    return draw(some.sampled_from(others_of(tag, flag, day, op, trainers)))


def joined(parts: some.SearchStrategy[Condition]) -> some.SearchStrategy[Condition]:
    both = some.tuples(parts, parts).map(
        lambda two: (f"({two[0][0]}) and ({two[1][0]})", lambda run: two[0][1](run) and two[1][1](run))
    )
    one = some.tuples(parts, parts).map(
        lambda two: (f"({two[0][0]}) or {two[1][0]}", lambda run: two[0][1](run) or two[1][1](run))
    )
    negation = parts.map(lambda part: (f"not ({part[0]})", lambda run: not part[1](run)))
    return some.one_of(both, one, negation)


conditions = some.recursive(some.one_of(numbers(), texts(), others()), joined, max_leaves=6)


@drawn(100, condition=conditions)
def test_sql_finds_what_python_finds(lab: tuple[Reader, list[Mirror]], condition: Condition) -> None:
    reader, mirrors = lab
    text, means = condition
    found = reader.fields.filter(text)
    expected = [run.id for run in reversed(mirrors) if means(run)]
    assert [row.id for row in reader.runs.find(matching=found)] == expected
    assert reader.runs.count(matching=found) == len(expected)
    assert sorted(run_id for group in reader.groups.find(matching=found) for run_id in group.run_ids) == sorted(
        expected
    )


@pytest.mark.parametrize("op", OPS)
def test_each_kind_of_comparison_alone_finds_what_python_finds(lab: tuple[Reader, list[Mirror]], op: str) -> None:
    reader, mirrors = lab
    for text, means in others_of("thesis", "starred", DAYS[4], op, 2):
        expected = [run.id for run in reversed(mirrors) if means(run)]
        assert [row.id for row in reader.runs.find(matching=reader.fields.filter(text))] == expected, text


@drawn(
    text=some.text(max_size=60)
    | some.sampled_from(
        ["'; DROP TABLE runs; --", 'name == "\'; DROP TABLE runs; --"', 'name contains "%\' OR 1=1 --"', '"_" in name']
    )
)
def test_no_text_reaches_the_database_as_more_than_a_value(lab: tuple[Reader, list[Mirror]], text: str) -> None:
    reader, _ = lab
    asked: list[str] = []
    reader.db.connection.set_trace_callback(asked.append)
    try:
        reader.runs.find(matching=reader.fields.filter(text))
    except EngineError:
        pass
    finally:
        reader.db.connection.set_trace_callback(None)
    assert reader.runs.count() == RUNS
    assert all(sql.lstrip().startswith(("SELECT", "BEGIN", "ROLLBACK", "WITH", "--")) for sql in asked)


@pytest.mark.parametrize(
    "text", ["-test/accuracy.best", "train/loss.min", "trainers", "-created", "owner", "mode", "-resumes"]
)
def test_an_order_puts_those_that_lack_the_field_last(lab: tuple[Reader, list[Mirror]], text: str) -> None:
    reader, mirrors = lab
    keys: dict[str, Callable[[Mirror], Any]] = {
        "-test/accuracy.best": lambda run: run.number("test/accuracy", "best"),
        "train/loss.min": lambda run: run.number("train/loss", "min"),
        "trainers": lambda run: run.config.get("trainers"),
        "-created": lambda run: run.day,
        "owner": lambda run: sort_key(run.texts["owner"]),
        "mode": lambda run: run.config.get("mode"),
        "-resumes": lambda run: None,
    }
    newest = sorted(mirrors, key=lambda run: -run.id)
    there = sorted((run for run in newest if keys[text](run) is not None), key=keys[text], reverse=text.startswith("-"))
    expected = [run.id for run in there] + [run.id for run in newest if keys[text](run) is None]
    assert [row.id for row in reader.runs.find(order=reader.fields.order(text))] == expected
    assert [row.id for row in reader.runs.find(order=reader.fields.order(text), limit=7, offset=11)] == expected[11:18]


def test_archived_runs_are_left_out_or_alone_as_asked(lab: tuple[Reader, list[Mirror]]) -> None:
    reader, mirrors = lab
    put_away = {run.id for run in mirrors if run.flags["archived"]}
    assert {row.id for row in reader.runs.find(archived=True)} == put_away
    assert {row.id for row in reader.runs.find(archived=False)} == {run.id for run in mirrors} - put_away
    assert reader.runs.count(archived=False, matching=read_filter("archived")) == 0


def test_what_only_the_store_has_can_be_asked_for(store: Store, reader: Reader, running: Callable[..., int]) -> None:
    run_id = running()
    store.worker.write(run_id, [], run_points=[Point("my/own-number", 1, 5.0, 0.0)])
    old = store.runs.add(Launch("gone", {"colour": "red"}, "ada", demand=Demand(1, 0, 1, 1)))
    assert [row.id for row in reader.runs.find(matching=reader.fields.filter('metric["my/own-number"].last == 5'))] == [
        run_id
    ]
    assert [
        row.id for row in reader.runs.find(matching=reader.fields.filter('colour == "red" and experiment == "gone"'))
    ] == [old]
    with pytest.raises(EngineError, match="Did you mean colour"):
        reader.fields.filter("color == 3")


def test_imported_runs_are_found_by_where_they_are_from(
    store: Store, reader: Reader, running: Callable[..., int]
) -> None:
    own, told = running(), running()
    at = "2026-01-01T00:00:00.000Z"
    kinds: tuple[Kind, ...] = ("parallab", "tensorboard", "mlflow")
    runs = [ExternalRun(kind, kind, kind, [], at, at, 1.0, config={"source": kind}) for kind in kinds]
    ids, _ = take_in(store, runs, file="f", by="ada")
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET report_key = 'key' WHERE id = ?", [told])

    def found(text: str) -> list[int]:
        return sorted(row.id for row in reader.runs.find(matching=reader.fields.filter(text)))

    assert found("imported") == ids == found('source in ("bundle", "tensorboard", "mlflow")')
    assert [found(f'source == "{each}"') for each in SOURCES] == [[own], [told], *([run_id] for run_id in ids)]
    assert found('config.source == "parallab"') == ids[:1], "a setting of that name"
    with pytest.raises(EngineError, match="Did you mean mlflow"):
        reader.fields.filter('source == "mlflo"')
    for chosen in (ids, ids[:1], [own, ids[2]]):
        assert found(ImportResult(tuple(chosen)).filter) == chosen
    assert found(ImportResult((), {"7": ids[0], "8": ids[1]}).filter) == ids[:2]


@pytest.mark.parametrize("name", ['say "x"', '"', """it's "both" ways""", 'a\\"b', "batch size", "µ.[0]"])
def test_a_setting_of_any_name_is_filtered_sorted_and_a_column(store: Store, reader: Reader, name: str) -> None:
    first, second, text, bare = (
        store.runs.add(Launch("study", config, "Ada", demand=Demand(1, 0, 1, 1)))
        for config in ({name: 1}, {name: 2.5}, {name: "Wide net"}, {"other": 3})
    )
    field = reader.fields.names().field(f"config.{name}")
    assert isinstance(field, Field)

    def ids(condition: str) -> list[int]:
        return sorted(run.id for run in reader.runs.find(matching=reader.fields.filter(condition)))

    assert ids(f"{field.written} >= 2") == [second]
    assert ids(f"{field.written} in (1, 2.5)") == [first, second]
    assert ids(f'{field.written} contains "wide"') == [text]
    assert ids(f"{field.written} == none") == [bare]
    order = reader.fields.order(f"-{field.written}")
    assert [run.id for run in reader.runs.find(order=order)] == [text, second, first, bare]
    assert reader.fields.values([first, second, text, bare], field) == {first: 1, second: 2.5}
