"""Settings that a script keeps in files: Hydra's composed YAML, LightningCLI's, and a configurator's constants."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.script.field import Kind
from engine.script.words import ASSIGNED, Option, kind_of

_MOST_BYTES = 1_000_000
_MOST_FILES = 200
_MOST_SETTINGS = 2_000
_INSTANTIATED = ("_target_", "_partial_", "_recursive_", "_convert_")
_GLOBAL = re.compile(r"#\s*@package\s+(\S+)")


class HydraFiles:
    """The configuration of Hydra's files as the command's overrides compose it; interpolations stay as they are."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.folder = folder
        found = [ASSIGNED.fullmatch(word) for word in words]
        self.chosen = {each[1].lstrip("+"): each[2] for each in found if each}
        self.options: dict[str, Option] = {}
        self.read: set[Path] = set()
        self.overridden: dict[str, str] = {}
        self.missing: list[Path] = []
        """Files that a list of defaults names and that aren't there, such as those of an installed package."""

    def compose(self, name: str) -> list[Option]:
        """Return the options of a primary configuration; raises OSError if its file isn't there."""
        path = self.folder / f"{name.removesuffix('.yaml')}.yaml"
        self._file(path, "", "")
        if self.overridden:  # by a file that comes after the group
            self.options, self.read, self.missing = {}, set(), []
            self._file(path, "", "")
        return list(self.options.values())

    def add(self, options: Sequence[Option]) -> None:
        """Add options that a structured configuration declares."""
        for each in options:
            self.options.setdefault(each.name, each)

    def _file(self, path: Path, package: str, group: str) -> None:
        if path in self.read or len(self.read) >= _MOST_FILES:
            return
        self.read.add(path)
        if (group or package) and not path.is_file():
            self.missing.append(path)
            return
        text, loaded = _yaml(path)
        if not isinstance(loaded, dict):
            return
        head = _GLOBAL.match(text)
        if head:
            package = "" if head[1] == "_global_" else head[1].replace("_group_", package)
        defaults = loaded.pop("defaults", None)
        entries = list(defaults) if isinstance(defaults, list) else []
        if "_self_" not in entries:
            entries.append("_self_")
        for entry in entries:
            if entry == "_self_":
                self._values(loaded, package)
            else:
                self._entry(entry, package, group)

    def _entry(self, entry: Any, package: str, group: str) -> None:
        """Read an entry of a list of defaults: `base`, `db: mysql`, `/db@place: mysql`, `override db: mysql`."""
        if isinstance(entry, str):
            self._file(self._path(group, entry), package, group)
            return
        if not isinstance(entry, dict) or len(entry) != 1:
            return
        key, choice = next(iter(entry.items()))
        if str(key).startswith("override "):
            self.overridden.setdefault(str(key)[9:].strip().lstrip("/"), str(choice))
            return
        named, _, place = re.sub(r"^(override|optional)\s+", "", str(key)).partition("@")
        inner = named.lstrip("/") if named.startswith("/") or not group else f"{group}/{named}"
        if inner.startswith("hydra"):
            return
        target = ("" if place in ("_global_", "_here_") else place) if place else inner.replace("/", ".")
        if place and package and place not in ("_global_",):
            target = f"{package}.{place}" if place != "_here_" else package
        name = f"{inner}@{place}" if place and inner not in self.chosen else inner
        written = self.chosen.get(name, self.overridden.get(name, choice))
        folder = self.folder / inner
        choices = tuple(sorted(each.stem for each in folder.glob("*.yaml")))[:100] if folder.is_dir() else ()
        if isinstance(choice, str | None):
            self.options.setdefault(
                name,
                Option(
                    name,
                    (name,),
                    "str",
                    default=self.overridden.get(name, choice),
                    choices=choices,
                    group=group,
                    style="assigned",
                ),
            )
        for each in written if isinstance(written, list) else [written]:
            if not isinstance(each, str) or each in ("???", "null"):
                continue
            if not str(key).startswith("optional ") or (folder / f"{each}.yaml").is_file():
                self._file(folder / f"{each.removesuffix('.yaml')}.yaml", target, inner)

    def _path(self, group: str, entry: str) -> Path:
        name = f"{entry.split('@')[0].removesuffix('.yaml')}.yaml"
        return self.folder / name.lstrip("/") if entry.startswith("/") or not group else self.folder / group / name

    def _values(self, loaded: Mapping[str, Any], package: str) -> None:
        for name, value in flat(loaded, f"{package}." if package else ""):
            if name.startswith("hydra.") or name.rpartition(".")[2] in _INSTANTIATED:
                continue
            required = value == "???"
            self.options[name] = setting(
                name, (name,), None if required else value, required=required, style="assigned"
            )


def setting(name: str, flags: tuple[str, ...], value: Any, **settings: Any) -> Option:
    """Return the option of a value in a file."""
    is_list = isinstance(value, list)
    kind: Kind = kind_of(value[0]) if is_list and value else "str" if value is None or is_list else kind_of(value)
    literals = ("False", "True") if settings.get("style") == "joined" else ("false", "true")
    nargs = "*" if is_list else ""
    group = settings.pop("group", name.rpartition(".")[0])
    return Option(name, flags, kind, nargs=nargs, default=value, literals=literals, group=group, **settings)


def flat(loaded: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a configuration by their dotted names; lists of anything but plain values as text."""
    for key, value in list(loaded.items())[:_MOST_SETTINGS]:
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and depth < 12:
            yield from flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list) and not all(isinstance(each, str | int | float) for each in value):
            yield name, _brief(value)
        elif isinstance(value, str | int | float | list | None):
            yield name, value
        else:
            yield name, _brief(value)


def _brief(value: Any) -> str:
    import json

    return json.dumps(value, default=str)


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
