"""Whatever stands in a config, a link, a filter, a file of limits or a catalogue, only a sentence of ours
comes of it.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.links.compare import CompareView, query_of, read_ids, read_view
from app.links.launch import read_link
from app.runs.columns import read_columns
from engine.access.quotas import Limits, limits
from engine.catalogue import Catalogue, catalogue, choices
from engine.config import Config, choices_of
from engine.config_values import read_values
from engine.errors import ConfigError, EngineError
from engine.filter import read_filter
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.registry import EXPERIMENTS, UNLISTED, experiment
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.sweep.plan import plan
from tests.fuzz.hostile import JSON, WORDS
from tests.inputs import counts, inputs
from tests.labs import basic

NAMES = (*EXPERIMENTS, *UNLISTED)
LONGEST_SENTENCE = 20_000


def sentence_of(act: Any) -> str | None:
    """Do something and return the sentence of ours that came of it, None where none did; any other error fails the
    test.
    """
    sentence = None
    try:
        act()
    except EngineError as error:
        sentence = str(error)
    assert sentence is None or 0 < len(sentence) < LONGEST_SENTENCE
    return sentence


def values_of(name: str) -> Any:
    """Return configs of an experiment in which some settings are as they should be, some nonsense, some of
    other names.
    """
    fields = experiment(name).config.model_fields

    def value(field: str) -> Any:
        info = fields[field]
        known = list(choices_of(info)) or [info.default]
        return some.one_of(some.sampled_from(known), some.integers(-3, 70), some.floats(-1, 10), WORDS, JSON)

    right = {field: value(field) for field in fields}
    return some.one_of(
        some.fixed_dictionaries({}, optional=right),
        some.dictionaries(some.one_of(some.sampled_from(list(fields)), WORDS), JSON, max_size=6),
    )


@counts()
def test_no_config_gets_past_a_sentence(home: Home, count: int) -> None:
    @inputs(count)
    @given(name=some.sampled_from(NAMES), data=some.data())
    def holds(name: str, data: some.DataObject) -> None:
        found = experiment(name)
        values = data.draw(values_of(name))
        told: list[Config] = []
        sentence_of(lambda: told.append(found.config.check(values)))
        if told:
            assert found.config.check(json.loads(told[0].model_dump_json())) == told[0]
            assert 1 <= len(told[0].roles) < 100 and told[0].threads(2) >= 1
        for field, value in values.items():
            sentence_of(lambda field=field, value=value: found.config.check_field(field, value))  # type: ignore[misc]

    holds()


@counts()
def test_no_written_setting_gets_past_a_sentence(home: Home, count: int) -> None:
    texts = some.one_of(
        WORDS,
        some.builds(
            lambda name, value: f"{name}={value}",
            some.one_of(WORDS, some.sampled_from(["seed", "dataset", "trainers"])),
            WORDS,
        ),
    )

    @inputs(count)
    @given(name=some.sampled_from(NAMES), settings=some.lists(texts, max_size=4), field=WORDS, text=WORDS)
    def holds(name: str, settings: list[str], field: str, text: str) -> None:
        config = experiment(name).config
        sentence_of(lambda: config.parse(settings))
        for each in (field, "seed", "dataset", "environment", "learning_rate"):
            sentence_of(lambda each=each: read_values(config, each, text))  # type: ignore[misc]
            sentence_of(lambda each=each: plan(SweepLaunch(Launch(name, {}), {each: [text]}, 1)))  # type: ignore[misc]

    holds()


@counts()
def test_no_link_gets_past_a_sentence(home: Home, count: int) -> None:
    basic.filled(home)
    keys = some.one_of(WORDS, some.sampled_from([*CompareView.__dataclass_fields__, "v"]))

    @inputs(count)
    @given(
        name=some.one_of(some.none(), WORDS, some.sampled_from(NAMES)),
        preset=some.one_of(some.none(), WORDS, some.just("quick")),
        settings=some.lists(
            some.one_of(
                WORDS, WORDS.map(lambda text: f"dataset:{text}"), WORDS.map(lambda text: f"environment:{text}")
            ),
            max_size=3,
        ),
        query=some.dictionaries(keys, WORDS, max_size=6),
        columns=some.lists(some.one_of(WORDS, WORDS.map(lambda text: f"train/loss@{text}")), max_size=3),
    )
    def holds(
        name: str | None, preset: str | None, settings: list[str], query: dict[str, str], columns: list[str]
    ) -> None:
        wish = read_link(name, preset, settings)
        for field in ("dataset", "environment"):
            kind = "environments" if field == "environment" else "sources"
            assert field not in wish.changes or wish.changes[field] in {*choices(kind), *choices("datasets")}
        view, said = read_view(query)
        assert read_view(query_of(view)) == (view, []) and all(len(each) < LONGEST_SENTENCE for each in said)
        assert len(read_ids("".join(query.values()))[0]) <= 1_000
        read_columns(columns, reader)

    with Reader.open(home) as reader:
        holds()


@counts()
def test_no_filter_or_search_gets_past_a_sentence(home: Home, count: int) -> None:
    basic.filled(home)
    words = some.sampled_from(
        [
            "owner",
            "tags",
            "trainers",
            "created",
            "duration",
            "test/accuracy.best",
            "==",
            "!=",
            ">",
            "in",
            "contains",
            "and",
            "or",
            "not",
            "(",
            ")",
            "none",
        ]
    )
    literals = some.one_of(WORDS.map(json.dumps), WORDS, some.integers().map(str))

    @inputs(count)
    @given(
        text=some.one_of(WORDS, some.lists(some.one_of(words, literals), max_size=9).map(" ".join)),
        search=WORDS,
        order=some.one_of(WORDS, words),
    )
    def holds(text: str, search: str, order: str) -> None:
        sentence_of(lambda: reader.runs.find(matching=read_filter(text), limit=5))
        sentence_of(lambda: reader.runs.find(search=search, order=reader.fields.order(order), limit=5))
        sentence_of(lambda: reader.runs.find(search=search, owner=text, experiment=text, limit=5))
        assert reader.runs.count() == 8

    with Reader.open(home) as reader:
        holds()


@counts()
def test_no_file_of_limits_or_catalogue_gets_past_a_sentence(home: Home, count: int) -> None:
    good = [
        Limits(1, 2, 3, 0, 60, 1.5, {"ada": {"max_queued_per_person": None}}).__dict__,
        Catalogue(environments=["ALE/Pong-v5"]).model_dump(),
    ]
    keys = some.one_of(
        WORDS, some.sampled_from([*good[0], *good[1], "files", "folder", "title", "train", "test", "ada"])
    )
    part = some.dictionaries(keys, JSON, max_size=4)
    texts = some.one_of(
        some.binary(max_size=200),
        some.builds(lambda base, more: json.dumps({**base, **more}).encode(), some.sampled_from(good), part),
        some.builds(
            lambda inner, name: json.dumps(
                {"max_running_per_person": 1, "people": {name: inner}, "datasets": {name: inner}}
            ).encode(),
            part,
            WORDS,
        ),
        JSON.map(lambda value: json.dumps(value).encode()),
    )

    @inputs(count)
    @given(data=texts)
    def holds(data: bytes) -> None:
        home.limits.write_bytes(data)
        home.catalogue.write_bytes(data)
        sentence_of(lambda: limits(home).of("ada"))
        sentence_of(lambda: catalogue(home))
        assert set(choices("datasets")) >= {"mnist", "digits"}
        if count < 1_000:
            with Store.open(home) as store:
                sentence_of(
                    lambda: store.runs.add(
                        Launch(
                            "hogwild",
                            {},
                            "ada",
                            demand=basic.demand(experiment("hogwild").configure("quick"), basic.machine()),
                        )
                    )
                )

    holds()


@counts()
def test_no_terms_get_past_a_sentence(count: int) -> None:
    @inputs(count)
    @given(
        priority=some.one_of(WORDS, some.just("low")),
        seconds=some.one_of(some.none(), some.floats()),
        retries=some.integers(),
    )
    def holds(priority: Any, seconds: float | None, retries: int) -> None:
        found = LaunchOptions(priority, False, seconds, retries)
        if sentence_of(found.checked) is None:
            assert priority in ("low", "normal", "high") and 0 <= retries <= 10 and (seconds is None or seconds >= 1)

    holds()


@pytest.mark.parametrize("text", ["a" * 1_000_000, [1] * 100_000, {"a" * 100_000: 1}])
def test_a_sentence_about_something_huge_is_short(text: Any) -> None:
    for values in ({"dataset": text}, {"seed": text}, {str(text)[:1_000_000]: 1}):
        with pytest.raises(ConfigError) as told:
            experiment("hogwild").config.check(values)
        assert len(str(told.value)) < 1_000
