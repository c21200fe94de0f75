"""Values of any form reach the real parser of the script: read from source, changed, rendered, parsed by argparse."""

import argparse
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.script.command import read_command
from engine.script.enrich import enriched

NUMBERS = st.integers(-(2**31), 2**31) | st.floats(allow_nan=False, allow_infinity=False, width=32)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=6).filter(
    lambda text: text[:1] != "-"
)
DECLARED: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "an_int": ("type=int, default=3", st.integers(-(2**31), 2**31)),
    "a_float": ("type=float, default=1e-3", NUMBERS.map(float)),
    "a_text": ("default='x'", TEXTS),
    "a_word": ("choices=['a', 'b', '-c'], default='a'", st.sampled_from(["a", "b", "-c"])),
    "on": ("action='store_true'", st.booleans()),
    "off": ("action='store_false'", st.booleans()),
    "pair": ("action=argparse.BooleanOptionalAction, default=True", st.booleans()),
    "some": ("nargs='+', type=float, default=[1.0]", st.lists(NUMBERS.map(float), min_size=1, max_size=3)),
    "two": ("nargs=2, type=int, default=[1, 2]", st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
    "any_texts": ("nargs='*', default=['p']", st.lists(TEXTS, max_size=2)),
    "more": ("action='append', type=int", st.lists(st.integers(), min_size=1, max_size=3)),
    "count": ("action='count', default=0", st.integers(0, 3)),
}
NAMES = st.lists(st.sampled_from(sorted(DECLARED)), unique=True, min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(NAMES, NAMES, st.data())
def test_changed_values_of_any_form_reach_the_parser(
    tmp_path: Path, declared: list[str], pasted: list[str], data: st.DataObject
) -> None:
    source = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data', type=int)\n"
    for name in declared:
        source += f"parser.add_argument('--{name.replace('_', '-')}', {DECLARED[name][0]})\n"
    (tmp_path / "t.py").write_text(f"{source}args = parser.parse_args()\n")
    names: dict[str, Any] = {}
    exec(source, names)
    parser: argparse.ArgumentParser = names["parser"]

    given_values = {name: data.draw(DECLARED[name][1], label=name) for name in pasted if name in declared}
    bare = enriched(read_command(["python", "t.py", "7"], str(tmp_path)))
    first = bare.rendered(given_values)
    command = enriched(read_command(first.argv, str(tmp_path)))
    expected = {**vars(parser.parse_args(["7"])), **given_values, "data": 7}
    assert (command.level, command.defaults()) == ("source", expected)
    assert command.rendered(command.defaults()).argv == first.argv

    changed = {name: data.draw(DECLARED[name][1], label=f"changed {name}") for name in declared}
    rendered = command.rendered({**changed, "data": 8})
    assert vars(parser.parse_args(rendered.argv[2:])) == {**changed, "data": 8}
