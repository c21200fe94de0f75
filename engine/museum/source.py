"""The code of one way of an exhibit, cut out of its module's text: the way itself and what only it uses. Torch-free:
nothing is imported.
"""

import ast
from functools import cache
from pathlib import Path

from engine.home import ROOT
from engine.museum.outcome import Way
from engine.signs.sign import Sign


@cache
def code_of(sign: Sign, way: Way) -> str:
    """Return the text of `right` or `wrong`, behind what it uses that the other one does not."""
    text = path_of(sign).read_text()
    defined = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    other: Way = "wrong" if way == "right" else "right"
    own = _used(defined, way) - _used(defined, other)
    nodes = [node for name, node in defined.items() if name in own and name != way]
    return "\n\n\n".join(filter(None, (ast.get_source_segment(text, node) for node in (*nodes, defined[way]))))


@cache
def module_of(sign: Sign) -> str:
    """Return the whole text of an exhibit's module."""
    return path_of(sign).read_text()


def path_of(sign: Sign) -> Path:
    """Return where an exhibit's module is."""
    return ROOT / "engine" / "museum" / "exhibits" / f"{sign.name}.py"


def _used(defined: dict[str, ast.FunctionDef | ast.ClassDef], name: str) -> set[str]:
    """Return a definition and all that it uses, directly or not."""
    found, left = set[str](), [name]
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += [node.id for node in ast.walk(defined[each]) if isinstance(node, ast.Name) and node.id in defined]
    return found
