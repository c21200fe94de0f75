"""The contract of own experiments: `engine.plugin` has these names, with these parameters, while `api` is 1."""

import ast
import inspect
import json
from pathlib import Path

import pytest

from engine import plugin
from engine.home import ROOT

PROVES_IT = ("reference", "tensor_parallel", "fsdp")
"""Experiments of ours that import nothing else of the engine."""
SIGNATURES = Path(__file__).with_name("plugin_api_1.json")
"""The parameters of each name of version 1: name, kind, and whether it may be left out. `python -m tests.test_plugin`
prints those of today, where something was added.
"""
MADE_BY_THE_WORKER = ("Rank", "Ranks")
"""Classes that a method gets and does not make."""
Parameters = list[tuple[str, str, bool]]


def signatures() -> dict[str, Parameters]:
    """Return the parameters of each name, and of the methods of each class; none where nothing is called."""
    found: dict[str, Parameters] = {}
    for name in plugin.__all__:
        thing = getattr(plugin, name)
        is_class = inspect.isclass(thing)
        found[name] = [] if name in MADE_BY_THE_WORKER else _parameters(thing)
        for each in vars(thing) if is_class and thing.__module__.startswith("engine") else ():
            if not each.startswith(("_", "model_")):
                found[f"{name}.{each}"] = _parameters(getattr(thing, each))
    return dict(sorted(found.items()))


def _parameters(found: object) -> Parameters:
    if not callable(found):
        return []
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        return []
    return [(each.name, each.kind.name, each.default is not each.empty) for each in parameters]


def test_the_names_and_parameters_of_the_contract_stay_while_its_version_does() -> None:
    known, today = json.loads(SIGNATURES.read_text()), signatures()
    assert plugin.api == 1
    for name, parameters in known.items():
        assert name in today, f"{name} is part of the contract"
        kept, added = today[name][: len(parameters)], today[name][len(parameters) :]
        assert [list(each) for each in kept] == parameters, name
        assert all(optional for _, _, optional in added), name
    assert not set(today) - set(known), "write them into the file"
    with pytest.raises(AttributeError, match=r"engine.plugin has no 'Trainer'. It has: CHECKPOINTS"):
        plugin.Trainer  # noqa: B018


@pytest.mark.parametrize("name", PROVES_IT)
def test_an_experiment_of_ours_needs_nothing_but_the_contract(name: str) -> None:
    folder = ROOT / "engine" / "experiments" / name
    imported = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("engine")
    }
    assert {each for each in imported if not each.startswith(f"engine.experiments.{name}")} == {"engine.plugin"}


if __name__ == "__main__":
    print(json.dumps(signatures(), indent=None).replace("]], ", "]],\n").replace("[], ", "[],\n"))
