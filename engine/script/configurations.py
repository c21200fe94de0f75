"""Settings that a script keeps in files: Hydra's composed YAML, LightningCLI's, and a configurator's constants."""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.script.field import Kind
from engine.script.words import ASSIGNED, Option, kind_of

_MOST_BYTES = 1_000_000
_MOST_FILES = 200
_MOST_SETTINGS = 2_000
_INSTANTIATED = ("_target_", "_partial_", "_recursive_", "_convert_")
_GLOBAL = re.compile(r"#\s*@package\s+(\S+)")


Structured = Callable[[str], list[Option]]
"""Returns the options of a class in the store of configurations, for the package that they are put into."""


class HydraFiles:
    """The configuration of Hydra's files as the command's overrides compose it; interpolations stay as they are."""

    def __init__(self, folder: Path, words: Sequence[str], structured: Mapping[str, Structured] | None = None) -> None:
        self.folder, self.structured = folder, structured or {}
        found = [ASSIGNED.fullmatch(word) for word in words]
        self.chosen = {each[1].lstrip("+"): each[2] for each in found if each}
        self.options: dict[str, Option] = {}
        self.read: set[tuple[str, str]] = set()
        self.overridden: dict[str, str] = {}
        self.missing: list[str] = []
        """Configurations that a list of defaults names and that aren't there, such as those of an installed package."""

    def compose(self, name: str) -> list[Option]:
        """Return the options of a primary configuration; raises OSError if it isn't there."""
        name = name.removesuffix(".yaml")
        if name and name not in self.structured and not self._path(name).is_file():
            raise OSError(f"{name}.yaml isn't a file in {self.folder}")
        self._compose(name)
        if self.overridden:  # by a configuration that comes after the group
            self.options, self.read, self.missing = {}, set(), []
            self._compose(name)
        return list(self.options.values())

    def _compose(self, name: str) -> None:
        if name:
            self._load(name, "", "")
        for group, choice in self.chosen.items():  # `+db=mysql`
            if self._choices(group) and not any(key == f"{group}/{choice}" for key, _ in self.read):
                self._entry({group: None}, "", "")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.yaml"

    def _choices(self, group: str) -> tuple[str, ...]:
        """Return the configurations of a group."""
        folder = self.folder / group
        files = {each.stem for each in folder.glob("*.yaml")} if folder.is_dir() else set()
        stored = {each.rpartition("/")[2] for each in self.structured if each.rpartition("/")[0] == group}
        return tuple(sorted(files | stored))[:100]

    def _load(self, key: str, package: str, group: str) -> None:
        """Read a configuration, such as `db/mysql`, into a package, after its list of defaults says so."""
        if (key, package) in self.read or len(self.read) >= _MOST_FILES:
            return
        self.read.add((key, package))
        declared: list[Option] = []
        loaded: Any = {}
        if key in self.structured:
            declared = self.structured[key](f"{package}." if package else "")
            named = next((each.default for each in declared if each.name.rpartition(".")[2] == "defaults"), None)
            loaded = {"defaults": named}
        elif self._path(key).is_file():
            text, loaded = _yaml(self._path(key))
            if head := _GLOBAL.match(text):
                package = "" if head[1] == "_global_" else head[1].replace("_group_", package)
        else:
            self.missing.append(key)
        if not isinstance(loaded, dict):
            return
        defaults = loaded.pop("defaults", None)
        entries = list(defaults) if isinstance(defaults, list) else []
        for entry in entries if "_self_" in entries else [*entries, "_self_"]:
            if entry == "_self_":
                self._declare(declared)
                self._values(loaded, package)
            else:
                self._entry(entry, package, group)

    def _declare(self, declared: Sequence[Option]) -> None:
        for each in declared:
            is_filled = each.default is None and any(name.startswith(f"{each.name}.") for name in self.options)
            if each.name.rpartition(".")[2] != "defaults" and not is_filled:
                known = self.options.get(each.name)
                self.options[each.name] = replace(each, choices=known.choices) if known else each

    def _entry(self, entry: Any, package: str, group: str) -> None:
        """Read an entry of a list of defaults: `base`, `db: mysql`, `/db@place: mysql`, `override db: mysql`."""
        if isinstance(entry, str):
            base = entry.split("@")[0].removesuffix(".yaml")
            self._load(base.lstrip("/") if entry.startswith("/") or not group else f"{group}/{base}", package, group)
            return
        if not isinstance(entry, dict) or len(entry) != 1:
            return
        key, choice = next(iter(entry.items()))
        if str(key).startswith("override "):
            self.overridden.setdefault(str(key)[9:].strip().lstrip("/"), str(choice))
            return
        is_optional = str(key).startswith("optional ")
        named, _, place = str(key).removeprefix("optional ").strip().partition("@")
        inner = named.lstrip("/") if named.startswith("/") or not group else f"{group}/{named}"
        if inner.startswith("hydra"):
            return
        target = _package(place, package, inner)
        name = f"{inner}@{place}" if place and inner not in self.chosen else inner
        default = self.overridden.get(name, choice)
        if isinstance(default, str | None):
            made = Option(name, (name,), default=default, choices=self._choices(inner), group=group, style="assigned")
            self.options.setdefault(name, made)
        written = self.chosen.get(name, default)
        for each in written if isinstance(written, list) else [written]:
            if not isinstance(each, str) or each in ("???", "null"):
                continue
            config = f"{inner}/{each.removesuffix('.yaml')}"
            if not is_optional or self._path(config).is_file():
                self._load(config, target, inner)

    def _values(self, loaded: Mapping[str, Any], package: str) -> None:
        for name, value in flat(loaded, f"{package}." if package else ""):
            if name.startswith("hydra.") or name.rpartition(".")[2] in _INSTANTIATED:
                continue
            self.options[name] = setting(name, (name,), value, style="assigned")


def _package(place: str, package: str, group: str) -> str:
    """Return where the values of a group are put."""
    if not place:
        return group.replace("/", ".")
    if place in ("_global_", "_here_"):
        return package if place == "_here_" else ""
    return f"{package}.{place}" if package else place


def setting(name: str, flags: tuple[str, ...], value: Any, **settings: Any) -> Option:
    """Return the option of a value in a file; of Hydra's and OmegaConf's `???`, one that is required."""
    required, value = value == "???", None if value == "???" else value
    is_list = isinstance(value, list)
    kind: Kind = kind_of(value[0]) if is_list and value else "str" if value is None or is_list else kind_of(value)
    literals = ("False", "True") if settings.get("style") == "joined" else ("false", "true")
    nargs = "*" if is_list else ""
    group = settings.pop("group", name.rpartition(".")[0])
    made = Option(name, flags, kind, nargs=nargs, default=value, literals=literals, group=group, **settings)
    return replace(made, required=required)


def flat(loaded: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a configuration by their dotted names; lists of anything but plain values as text."""
    for key, value in list(loaded.items())[:_MOST_SETTINGS]:
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and depth < 12:
            yield from flat(value, f"{name}.", depth + 1)
        elif all(
            isinstance(each, str | int | float | None) for each in (value if isinstance(value, list) else [value])
        ):
            yield name, value
        else:
            yield name, json.dumps(value, default=str)


def yaml_options(path: Path, prefix: str = "--") -> list[Option]:
    """Return the options of a YAML file whose settings a command line overrides as `--a.b`."""
    _, loaded = _yaml(path)
    if not isinstance(loaded, dict):
        return []
    return [setting(name, (f"{prefix}{name}",), value) for name, value in flat(loaded)]


def _yaml(path: Path) -> tuple[str, Any]:
    """Return a file's text and what it says; one that isn't YAML says nothing."""
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise OSError(f"{path.name} isn't a file of at most {_MOST_BYTES // 1_000_000} MB")
    text = path.read_text(errors="replace")
    return text, read_yaml(text)


def read_yaml(text: str) -> Any:
    """Return what a YAML text says, None if it isn't one."""
    import yaml

    if len(text) > _MOST_BYTES or ("&" in text and text.count("*") > 100):  # aliases may expand without bound
        return None
    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError:
        return None


def _loader() -> Any:
    """Return YAML's safe loader, for which 1e-3 is a number as for Hydra."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*[eE][-+]?\d+|\.\d+([eE][-+]?\d+)?|\d[\d_]*\.[\d_]*)$"),
        list("-+0123456789."),
    )
    Loader.add_multi_constructor("!", lambda loader, suffix, node: str(getattr(node, "value", "")))
    return Loader


def constant_options(constants: Mapping[str, tuple[Any, str]], files: Sequence[Path]) -> list[Option]:
    """Return the options of a script's constants, as the files on its command line change them."""
    values = {name: value for name, (value, _) in constants.items()}
    for path in files:
        for node in ast.parse(path.read_text(errors="replace")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                try:
                    values[name] = ast.literal_eval(node.value)
                except ValueError:
                    values[name] = _product(node.value, values)
    return [
        setting(name, (f"--{name}",), values[name], help=constants[name][1], group="", style="joined")
        for name in constants
        if isinstance(values[name], str | int | float | None)
    ]


def _product(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of `a * b`, as configuration files have it; None of anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _product(node.left, values), _product(node.right, values)
        return left * right if isinstance(left, int | float) and isinstance(right, int | float) else None
    if isinstance(node, ast.Constant):
        return node.value
    return values.get(node.id) if isinstance(node, ast.Name) else None
