"""The source code of one version of an exhibit: its function and the definitions that only it uses. Torch-free: parses
without importing.
"""

import ast
from functools import cache
from pathlib import Path

from engine.home import ROOT
from engine.museum.outcome import Way
from engine.signs.sign import Sign


@cache
def code_of(sign: Sign, way: Way) -> str:
    """Return the source of `right` or `wrong`, after the definitions that only it uses."""
    text = path_of(sign).read_text()
    defined = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    other: Way = "wrong" if way == "right" else "right"
    own = _used(defined, way) - _used(defined, other)
    nodes = [node for name, node in defined.items() if name in own and name != way]
    return "\n\n\n".join(filter(None, (ast.get_source_segment(text, node) for node in (*nodes, defined[way]))))


@cache
def module_of(sign: Sign) -> str:
    """Return the source of an exhibit's module."""
    return path_of(sign).read_text()


def path_of(sign: Sign) -> Path:
    """Return the path of an exhibit's module."""
    return ROOT / "engine" / "museum" / "exhibits" / f"{sign.name}.py"


def _used(defined: dict[str, ast.FunctionDef | ast.ClassDef], name: str) -> set[str]:
    """Return a definition and its transitive dependencies."""
    found, left = set[str](), [name]
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += [node.id for node in ast.walk(defined[each]) if isinstance(node, ast.Name) and node.id in defined]
    return found
