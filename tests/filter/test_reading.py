"""The filter language: what each form means, and that whatever is wrong is said with its place and its cure."""

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import example
from hypothesis import strategies as some

from app.runs.columns import Column, read_column
from engine.analysis.run_values import Way, split
from engine.errors import FilterError
from engine.filter import (
    Both,
    Comparison,
    Field,
    Filter,
    Moment,
    Names,
    Negation,
    One,
    SortOrder,
    read_field,
    read_filter,
    read_order,
)
from engine.filter.parser import STATUSES
from engine.filter.syntax import LONGEST
from engine.filter.tree import Of, metric_written, read_length
from engine.metrics import MetricSetting, metric
from engine.store.records import Status
from tests.inputs import drawn

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
OWNER, TAGS, STARRED = Field("run", "owner", "text"), Field("run", "tags", "tags"), Field("run", "starred", "flag")
CREATED, DURATION = Field("run", "created", "time"), Field("run", "duration", "seconds")
TRAINERS, LOCK, MODE = (
    Field("config", "trainers", "number"),
    Field("config", "lock", "flag"),
    Field("config", "mode", "text"),
)


def accuracy(of: str = "last") -> Field:
    return Field("metric", "test/accuracy", "number", of)  # type: ignore[arg-type]


ADA, FOUR = Comparison(OWNER, "==", "ada"), Comparison(TRAINERS, ">=", 4)
MEANINGS = {
    'owner == "ada"': ADA,
    "owner == 'ada'": ADA,
    'owner = "ada"': ADA,
    "owner='ada'": ADA,
    '"ada" == owner': ADA,
    'owner != "ada"': Negation(ADA),
    'not owner == "ada"': Negation(ADA),
    "trainers >= 4": FOUR,
    "4 <= trainers": FOUR,
    "config.trainers >= 4": Comparison(TRAINERS, ">=", 4),
    'owner == "ada" and trainers >= 4 or starred': One((Both((ADA, FOUR)), Comparison(STARRED, "==", True))),
    'owner == "ada" AND (trainers >= 4 OR NOT starred)': Both(
        (ADA, One((FOUR, Negation(Comparison(STARRED, "==", True)))))
    ),
    "2 < trainers <= 8": Both((Comparison(TRAINERS, ">", 2), Comparison(TRAINERS, "<=", 8))),
    "2 < trainers = 8": Both((Comparison(TRAINERS, ">", 2), Comparison(TRAINERS, "==", 8))),
    "trainers in (1, 2)": Comparison(TRAINERS, "in", (1, 2)),
    "trainers not in [1]": Negation(Comparison(TRAINERS, "in", (1,))),
    "trainers == none": Comparison(TRAINERS, "==", None),
    "trainers > -0.5": Comparison(TRAINERS, ">", -0.5),
    "lock": Comparison(LOCK, "==", True),
    "lock == false": Comparison(LOCK, "==", False),
    'mode contains "pipe"': Comparison(MODE, "contains", "pipe"),
    '"pipe" in mode': Comparison(MODE, "contains", "pipe"),
    'mode not contains "pipe"': Negation(Comparison(MODE, "contains", "pipe")),
    'mode == "contains AND # is = x"': Comparison(MODE, "==", "contains AND # is = x"),
    'tag == "x"': Comparison(TAGS, "==", "x"),
    '"x" in tags': Comparison(TAGS, "contains", "x"),
    '"x" not in tags': Negation(Comparison(TAGS, "contains", "x")),
    "test/accuracy > 98": Comparison(accuracy(), ">", 98),
    "test / accuracy.best > 98": Comparison(accuracy("best"), ">", 98),
    'metric["test/accuracy"].min > 98': Comparison(accuracy("min"), ">", 98),
    "test/accuracy.best > test/accuracy.last": Comparison(accuracy("best"), ">", accuracy()),
    'created > "7d ago"': Comparison(CREATED, ">", Moment("2026-11-14T12:30:00.000Z", "2026-11-14T12:30:00.000Z")),
    'created == "yesterday"': Comparison(CREATED, "==", Moment("2026-11-20T00:00:00.000Z", "2026-11-20T23:59:59.999Z")),
    'created <= "2026-11-01"': Comparison(
        CREATED, "<=", Moment("2026-11-01T00:00:00.000Z", "2026-11-01T23:59:59.999Z")
    ),
    'created < "2026-11-01 14:30"': Comparison(
        CREATED, "<", Moment("2026-11-01T14:30:00.000Z", "2026-11-01T14:30:00.000Z")
    ),
    'created < "2026-11-01T14:30+02:00"': Comparison(
        CREATED, "<", Moment("2026-11-01T12:30:00.000Z", "2026-11-01T12:30:00.000Z")
    ),
    'duration > "1 h 30 min"': Comparison(DURATION, ">", 5_400.0),
    "execution_time_s > 90": Comparison(DURATION, ">", 90),
    "": Both(()),
    "  \n ": Both(()),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_each_form_has_its_meaning(text: str) -> None:
    assert read_filter(text, now=NOW).tree == MEANINGS[text]


@pytest.mark.parametrize(
    ("text", "value", "note"),
    [
        ("test/accuracy.best > 0.98", 98.0, "0.98 is interpreted as 98 %."),
        ("test/accuracy.best > 98", 98, ""),
        ("test/accuracy.best >= 1", 1, ""),
        ("test/accuracy.count > 0.5", 0.5, ""),
        ("perf/bubble_share < 0.5", 0.5, "0.5 is interpreted as 0.5 %, not as 50 %."),
        ("train/loss < 0.5", 0.5, ""),
    ],
)
def test_a_share_of_accuracy_is_read_as_a_percentage_and_said(text: str, value: float, note: str) -> None:
    found = read_filter(text)
    assert isinstance(found.tree, Comparison)
    assert found.tree.value == value
    assert [said.endswith(note) for said in found.notes] == ([True] if note else [])


WRONG = [
    ('owner = "é" and trainer = 4 and seed=1', 16, "'trainer'", "Did you mean trainers"),
    (" seed=1 seed", 8, "'seed'", "with and, or, not"),
    ("seed=1 and trainers =", 21, "", "is incomplete"),
    ("trainers => 4", 9, "'=>'", "Unexpected here"),
    ("trainer > 4", 0, "'trainer'", "Did you mean trainers"),
    ("config.trainer > 4", 0, "'config.trainer'", "Did you mean trainers"),
    ("owner == ada", 9, "'ada'", "text must be in quotes"),
    ('project == "mnist"', 0, "'project'", "Unknown field. Did you mean experiment?"),
    ("ownr == 3", 0, "'ownr'", "Unknown field. Did you mean owner?"),
    ("trainers > many", 11, "'many'", "Unknown field. "),
    ("test/acuracy > 4", 0, "'test/acuracy'", "Did you mean test/accuracy?"),
    ("seed > 1 and test/accuracy.bst > 4", 13, "'test/accuracy.bst'", "Did you mean best?"),
    ("train/kl.best > 1", 0, "'train/kl.best'", "use .min or .max, such as train/kl.min."),
    ('status == "done"', 10, "'\"done\"'", "queued, starting, running"),
    ('experiment == "hogwyld"', 14, "", "Did you mean hogwild?"),
    ('trainers == "4"', 12, "", "without quotes"),
    ("owner == 4", 9, "'4'", 'in quotes: owner == "4"'),
    ('owner > "a"', 8, "", "has no order"),
    ('trainers contains "4"', 18, "", "Compare it with"),
    ("created > 7d", 10, "'7d'", "must be in quotes"),
    ("created > 2026-11-01", 18, "'01'", "must be in quotes"),
    ('created > "soon"', 10, "", "7d ago"),
    ('created > "999999999d ago"', 10, "", "7d ago"),
    ('duration > "5 lightyears"', 11, "", "2 h 30 min"),
    ("seed > 1e999", 7, "'1e999'", "Numbers must be between"),
    ("seed > " + "9" * 400, 7, "", "Numbers must be between"),
    ("seed > " + "9" * 900, 7, "", "Numbers must be between"),
    ("seed > 0x10", 7, "'0x10'", "in quotes"),
    ("trainers", 0, "'trainers'", "trainers > 1"),
    ('"ada"', 0, "", "compare a field"),
    ("1 < 2", 0, "'1'", "a field on one side"),
    ('owner in "ada"', 9, "", "several values"),
    ('owner == ("ada", "bea")', 9, "", "owner in"),
    ("trainers < none", 11, "'none'", "only == and !="),
    ("trainers >= 4 and", 17, "", "is incomplete"),
    ("(trainers >= 4", 0, "'('", "never closed"),
    ("trainers >= 4)", 13, "')'", "has no opening bracket"),
    ('owner == "ada', 9, "", "closing quote is missing"),
    ("seed == 1 seed", 10, "'seed'", "with and, or, not"),
    ('owner is "ada"', 6, "'is'", "Use == for equality"),
    ("seed == 1 # mine", 10, "'#'", "Comments aren't supported"),
    ("owner == \\n", 9, "", "within a text in quotes"),
    ("trainers * 2 > 4", 0, "'trainers * 2'", "Arithmetic isn't supported"),
    ("len(owner) > 4", 0, "'len(owner)'", "Calls aren't supported"),
    ('__import__("os").system("ls")', 0, "", "Calls aren't supported"),
    ("().__class__.__bases__", 0, "", "Not a field, number or text"),
    ("owner.__class__ == 1", 0, "'owner.__class__'", "Unknown field"),
    ("lambda: 3", 0, "'lambda: 3'", "Functions aren't supported"),
    ("[run for run in runs]", 0, "", "Not a field, number or text"),
    ('f"{owner}" == "ada"', 0, "", ""),
    ('owner == b"ada"', 9, "", "a text in quotes"),
    ("seed if lock else 3", 0, "", "if and else aren't supported"),
    ("(" * 300 + "lock" + ")" * 300, 200, "", "nested too deep"),
    ("not " * 240 + "lock", None, "", "more than 40 levels deep"),
    ("-" * 990 + "1 > 2", 0, "", ""),
    ("lock or " * 2_000, 0, "", "at most 1,000 characters; got 16,000"),
    ("a\x00b", 1, "", "position 2"),
    ("\ud800", 0, "", "position 1"),
    ('metric["mine"] > 1', 0, "", "Unknown metric"),
    ("config[3] > 1", 0, "", 'metric["my number"].last'),
    ("trainers == owner", 12, "'owner'", "Only numeric fields"),
]


@pytest.mark.parametrize(
    ("text", "start", "word", "cure"), WRONG, ids=[text[:30].encode("ascii", "replace").decode() for text, *_ in WRONG]
)
def test_an_error_names_the_word_its_place_and_the_cure(text: str, start: int | None, word: str, cure: str) -> None:
    with pytest.raises(FilterError) as told:
        read_filter(text, now=NOW)
    sentence = str(told.value)
    assert cure in sentence
    assert word in sentence
    assert sentence.endswith((".", "?"))
    assert start in (None, told.value.start)
    assert len(sentence) < 400


WORDS = some.sampled_from(
    [
        *"()[],.<>=!-+*/#:;\\'\"",
        *(
            "==",
            ">=",
            "and",
            "or",
            "not",
            "in",
            "contains",
            "is",
            "owner",
            "tags",
            "trainers",
            "lock",
            "created",
            "test/accuracy.best",
        ),
        *(
            "metric[",
            '"7d ago"',
            '"x"',
            "4",
            "0.5",
            "1e400",
            "7d",
            "none",
            "true",
            "lambda",
            "if",
            "else",
            "for",
            "yield",
            "await",
            "é",
            "\n",
            "\t",
        ),
    ]
)


@drawn(
    100,
    text=some.one_of(
        some.text(max_size=LONGEST + 5), *(some.lists(WORDS, max_size=40).map(joint.join) for joint in (" ", ""))
    ),
)
@example("7and lock")
@example("(yield)")
@example("a" * 10_000)
def test_any_text_is_a_filter_or_an_error_of_ours(text: str) -> None:
    try:
        found = read_filter(text)
    except FilterError as error:
        places = (0, error.start, error.end, len(text))
        assert places == tuple(sorted(places))
        return
    assert isinstance(found, Filter)


def test_a_name_that_only_the_store_knows_can_be_named() -> None:
    names = Names.usual() | Names({"colour": "any"}, frozenset({"mine"}), frozenset({"old"}))
    assert read_filter('colour == "red" and metric["mine"].max > 1 and experiment == "old"', names).fields == {
        Field("config", "colour", "any"),
        Field("metric", "mine", "number", "max"),
        Field("run", "experiment", "text"),
    }


def test_a_filter_says_what_it_asks_for() -> None:
    assert read_filter("not (archived or lock) and test/accuracy.best > test/accuracy.last").mentions("archived")
    assert not read_filter("lock").mentions("archived")
    assert [field.written for field in read_filter("test/accuracy.best > 1").fields] == ["test/accuracy.best"]


def test_an_order_is_a_field_with_a_minus_for_the_greatest_first() -> None:
    assert (read_order("-test/accuracy.best").field, read_order("-test/accuracy.best").descending) == (
        accuracy("best"),
        True,
    )
    assert (read_order("trainers").field, read_order("trainers").descending) == (TRAINERS, False)
    assert read_field("duration") == DURATION
    for text in ("", "-", "tags", "trainers > 3", "3", '"owner"'):
        with pytest.raises(FilterError):
            read_order(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90 s", 90), ("5min", 300), ("1.5 h", 5400), ("2 d 1 h", 176_400), ("1 w", 604_800), ("5", None), ("h", None)],
)
def test_a_length_of_time_is_a_number_with_its_unit(text: str, seconds: float | None) -> None:
    assert read_length(text) == seconds


def test_the_language_knows_every_status() -> None:
    assert get_args(Status) == STATUSES


OTHERS = [
    *("loss", "val_loss", "loss.last", "a.b", "val/f1-score", "val/f1.score", "top-1, top-5", "precision@5", "Acc (%)"),
    *(
        'say "x"',
        "it's",
        """it's "both" ways""",
        '"',
        "'",
        "train\\loss",
        "\\",
        "layer/0/norm",
        "train/lambda",
        "train/in",
    ),
    *(
        "a contains b",
        "x is not",
        "perf/contains",
        "Loss/Größe",
        "µ",
        "🙂",
        "a//b",
        "/a",
        "a/",
        "[0]",
        "metric",
        "none",
    ),
    *("m" * 500, "e/" * 250 + "m"),
]


@pytest.mark.parametrize("name", OTHERS, ids=ascii)
def test_a_metric_of_any_name_is_a_field_as_it_is_written(name: str) -> None:
    names = Names.usual() | Names({}, frozenset({name}), frozenset())
    for of in get_args(Of):
        if of == "best":  # neither direction is known to be better
            continue
        field = Field("metric", name, "number", of)
        assert read_field(field.written, names) == field
        assert read_order(f"-{field.written}", names) == SortOrder(field, True)
        assert read_filter(f"{field.written} > 1", names).tree == Comparison(field, ">", 1)
        if of in get_args(Way):
            assert split(field.written) == (name, of)
    assert read_column(f"{metric_written(name)}@7", names) == Column(
        f"{metric_written(name)}@7", Field("metric", name, "number"), 7
    )
    assert metric_written("test/accuracy", "best") == "test/accuracy.best"


def test_the_name_of_a_metric_without_a_slash_needs_no_quotes_unless_a_setting_has_it() -> None:
    names = Names({"mode": "text", "loss.mean": "any"}, frozenset({"loss", "mode", "a.b"}), frozenset())
    fields = {
        "loss": ("metric", "loss", "last"),
        "loss.min": ("metric", "loss", "min"),
        "a.b": ("metric", "a.b", "last"),
        "a.b.max": ("metric", "a.b", "max"),
        "mode": ("config", "mode", "last"),
        "mode.max": ("metric", "mode", "max"),
        'metric["mode"]': ("metric", "mode", "last"),
        "loss.mean": ("config", "loss.mean", "last"),
    }
    assert {text: ((found := read_field(text, names)).source, found.name, found.of) for text in fields} == fields
    meant = {
        "mode < 1": "metric",
        "1 < mode": "metric",
        "mode < a.b": "metric",
        "a.b < mode": "metric",
        "mode == 'x'": "config",
    }
    for text, source in meant.items():
        found = read_filter(text, names).tree
        assert source in {
            side.source for side in (found.field, found.value) if isinstance(side, Field) and side.name == "mode"
        }  # type: ignore[union-attr]
    assert read_column("mode@7", names).field == Field("metric", "mode", "number")
    with pytest.raises(FilterError, match="mode is a text"):
        read_filter("mode < 1")
    with pytest.raises(FilterError, match=r"Values of loss are \.last, \.best, \.mean, \.min, \.max, \.count\."):
        read_field("loss.top", names)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        *(
            (name, "min")
            for name in ("loss", "loss/val", "val_loss", "train_loss_epoch", "error", "valLoss", "val.rmse")
        ),
        *((name, "max") for name in ("val_accuracy", "val-acc", "f1", "rollout/ep_rew_mean", "mAP", "BLEU")),
        *((name, None) for name in ("glossary", "overrides", "accumulated", "maps", "time/fps", "grad_norm")),
    ],
)
def test_the_name_of_another_programs_metric_says_which_values_are_better(name: str, better: str | None) -> None:
    names = Names.usual() | Names({}, frozenset({name}), frozenset())
    assert metric(name).better == better == (MetricSetting.usual(name).better or None)
    if better:
        assert read_field(metric_written(name, "best"), names) == Field("metric", name, "number", "best")
    else:
        with pytest.raises(FilterError, match="neither direction is known"):
            read_field(metric_written(name, "best"), names)


OF_OTHERS = (
    "batch size",
    "top-1",
    "lr (%)",
    'say "x"',
    "it's",
    """it's "both" ways""",
    "lambda",
    "C#",
    "1st layer",
    '"',
)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_setting_of_any_name_is_a_field_as_it_is_written(name: str) -> None:
    field = Field("config", name, "any")
    doubled = f'config["{name.replace(chr(34), 2 * chr(34))}"]'
    for written in (field.written, doubled):
        assert read_field(written, Names({name: "any"}, frozenset(), frozenset())) == field


def test_a_doubled_quote_in_a_text_is_one_quote() -> None:
    texts = {'"say ""x"""': 'say "x"', "'5 o''clock'": "5 o'clock", '""': "", '""""': '"', "''": "", '"a" "b"': "ab"}
    found = read_filter(" or ".join(f"name == {written}" for written in texts)).tree
    assert [part.value for part in found.parts] == [*texts.values()]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "word", "cure"),
    [
        ("batch size > 32", "batch size", 'config["batch size"].'),
        ("seed > 1 and Batch Size > 32", "Batch Size", 'config["batch size"].'),
        ("batch siez > 32", "batch siez", 'config["batch size"].'),
        ("my thing > 32", "my thing", 'config["my thing"] or metric["my thing"].'),
        ("val loss.min < 1", "val loss.min", 'metric["val loss"].min.'),
        ("top-1 > 3", "top-1", 'config["top-1"] or metric["top-1"].'),
        ('say "x" == 3', 'say "x"', "config['say \"x\"']."),
        ("it's == 3", "it's", 'config["it\'s"].'),
        ("lr (%) > 3", "lr (%)", 'config["lr (%)"].'),
        ("lambda == 3", "lambda", 'config["lambda"].'),
        ("C# == 3", "C#", 'config["C#"].'),
        ("1st layer == 3", "1st layer", 'config["1st layer"].'),
        ("owner == Ada Lovelace", "Ada Lovelace", 'A text must be in quotes: "Ada Lovelace".'),
        ('metric["val los"] > 1', 'metric["val los"]', 'Did you mean metric["val loss"]'),
        ("config.top1 > 1", "config.top1", 'config["top-1"]'),
        ("trainers 4", "4", "with and, or, not."),
    ],
)
def test_an_error_at_a_bare_name_shows_how_it_is_written(text: str, word: str, cure: str) -> None:
    metrics = frozenset({"val loss", "top-1"})
    names = Names.usual() | Names(dict.fromkeys(OF_OTHERS, "any"), metrics, frozenset())
    for read in (read_filter, *([read_order] if text.startswith("batch") else [])):
        with pytest.raises(FilterError) as told:
            read(text, names)
        assert f"'{word}'" in str(told.value) and cure in str(told.value)
        assert text[told.value.start : told.value.end] == word


def test_a_backslash_in_a_text_is_one_and_positions_stay() -> None:
    found = read_filter(r'note contains "C:\new" and "\"' + ' in name and owner == "a"')
    assert [part.value for part in found.tree.parts] == ["C:\\new", "\\", "a"]  # type: ignore[union-attr]
    with pytest.raises(FilterError) as told:
        read_filter(r'note == "ä\t" and nosuch > 1')
    assert told.value.start == 18
