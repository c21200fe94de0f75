"""docs/cluster.md lists what clusters.toml can contain."""

import re
import tomllib

from engine.cluster.targets import Cluster
from engine.home import ROOT

PAGE = (ROOT / "docs" / "cluster.md").read_text()


def test_the_table_of_keys_is_complete_and_its_numbers_are_the_defaults() -> None:
    part = PAGE.partition("## Keys of clusters.toml\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    keys = {key: default for names, _, default in rows for key in re.findall(r"`(\w+)`", names)}
    fields = {name: field for name, field in Cluster.model_fields.items() if name != "name"}
    assert keys.keys() == fields.keys()
    for name, field in fields.items():
        assert (keys[name] == "required") == field.is_required(), name
        if isinstance(field.default, bool | int):
            assert keys[name] == str(field.default).lower(), name


def test_the_example_is_valid() -> None:
    example = re.search(r"^ +(\[gpu-cluster\]\n(?: +\w+ = .+\n)+)", PAGE, re.M)
    assert example
    (name, table), *others = tomllib.loads(example[1]).items()
    assert not others
    assert Cluster(name=name, **table).gpus == 4
