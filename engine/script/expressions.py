"""Values of the expressions of a script, which isn't executed: each is a Python constant, something of `values.py`, or
UNKNOWN.
"""

import ast
import operator
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from engine.script.values import (
    MOST_ITEMS,
    UNKNOWN,
    Class,
    Function,
    Instance,
    Lazy,
    Library,
    Method,
    Module,
    Scope,
    Super,
    computed,
    is_constant,
)

MOST_STEPS = 150_000
MOST_SECONDS = 0.8
_SIGNS: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}


class Finished(Exception):
    """The parser is complete, or a bound is reached."""


class Expressions:
    """Evaluates expressions, a bounded number of them. Names, modules and calls are those of its subclass."""

    def __init__(self) -> None:
        self.steps = 0
        self.until = time.thread_time() + MOST_SECONDS  # of this thread's own time, whatever else the machine does

    def step(self) -> None:
        """Count a statement or an expression; raises Finished at the bound."""
        self.steps += 1
        if self.steps > MOST_STEPS or (self.steps % 500 == 0 and time.thread_time() > self.until):
            raise Finished

    def resolved(self, value: Any) -> Any:
        """Follow a lazy module, or name of one."""
        raise NotImplementedError

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call returns."""
        raise NotImplementedError

    def value(self, node: ast.expr | None, scope: Scope) -> Any:
        """Return the value of an expression; None without one."""
        self.step()
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        try:
            return handler(node, scope) if handler else None if node is None else UNKNOWN
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError):
            return UNKNOWN

    def items(self, value: Any) -> list[Any] | None:
        """Return the elements of a constant collection; None if they aren't known."""
        if isinstance(value, dict) or (isinstance(value, list | tuple | set) and len(value) <= MOST_ITEMS):
            return list(value)
        return None

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Give a value to a name, an attribute, an item, or to several."""
        match target:
            case ast.Name():
                scope.names[target.id] = value
            case ast.Attribute():
                of = self.resolved(self.value(target.value, scope))
                if isinstance(of, Instance | Class | Module):
                    of.names[target.attr] = value
                else:
                    scope.names[ast.unparse(target)] = value
            case ast.Subscript():
                of, key = self.value(target.value, scope), self.value(target.slice, scope)
                if isinstance(of, dict) and isinstance(key, str | int) and len(of) < MOST_ITEMS:
                    of[key] = value
            case ast.Tuple() | ast.List():
                is_known = isinstance(value, list | tuple) and len(value) == len(target.elts)
                for each, part in zip(target.elts, value if is_known else [UNKNOWN] * len(target.elts), strict=True):
                    self.assign(each, part, scope)

    def attribute(self, of: Any, name: str, otherwise: Any = UNKNOWN) -> Any:
        """Return an attribute of a value."""
        match of:
            case Library():
                return Library(f"{of.name}.{name}")
            case Module():
                known = of.names[name] if name in of.names else Lazy(of.path, name)
                return of.names if name == "__dict__" else self.resolved(known)
            case Instance() if name in of.names:
                return of.names[name]
            case Instance() | Super():
                me, owner = (of.instance, of.owner) if isinstance(of, Super) else (of, None)
                found = me.cls.member(name, owner)
                if isinstance(found, Function):
                    return found if found.is_made_by("staticmethod") else found.bound(me, found.owner or me.cls)
                return found if found is not UNKNOWN else Method(me.of_library, name)
            case Class():
                found = of.member(name)
                if isinstance(found, Function) and found.is_made_by("classmethod"):
                    return found.bound(of, found.owner or of)
                return found
        return Method(of, name) if otherwise is UNKNOWN and of is not UNKNOWN else otherwise

    # ---- by the kind of expression ---------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _name(self, node: ast.Name, scope: Scope) -> Any:
        return scope.lookup(node.id)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        of = self.resolved(self.value(node.value, scope))
        return self.attribute(of, node.attr, scope.names.get(ast.unparse(node), UNKNOWN))

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Any:
        found = self._elements(node.elts, scope)
        return tuple(found) if isinstance(node, ast.Tuple) else found

    _tuple = _set = _list

    def _elements(self, nodes: list[ast.expr], scope: Scope) -> list[Any]:
        found: list[Any] = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                items = self.items(self.value(each.value, scope))
                found.extend([UNKNOWN] if items is None else items)
            else:
                found.append(self.value(each, scope))
        return found

    def _dict(self, node: ast.Dict, scope: Scope) -> Any:
        found: dict[Any, Any] = {}
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each, scope)
            if key is None:
                found.update(value if isinstance(value, dict) else {})
            else:
                name = self.value(key, scope)
                found[name if isinstance(name, str | int | float | tuple | None) else ast.unparse(key)] = value
        return found

    def _joinedstr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        inner = (each.value if isinstance(each, ast.FormattedValue) else each for each in node.values)
        parts = [self.value(each, scope) for each in inner]
        return "".join(map(str, parts)) if all(map(is_constant, parts)) else UNKNOWN

    def _binop(self, node: ast.BinOp, scope: Scope) -> Any:
        return computed(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _unaryop(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        return _SIGNS[type(node.op)](value) if is_constant(value) else UNKNOWN

    def _boolop(self, node: ast.BoolOp, scope: Scope) -> Any:
        values = [self.value(each, scope) for each in node.values]
        wanted = isinstance(node.op, ast.Or)
        for each in values:
            if not is_constant(each):
                return values[-1] if wanted and is_constant(values[-1]) else UNKNOWN
            if bool(each) == wanted:
                return each
        return values[-1]

    def _compare(self, node: ast.Compare, scope: Scope) -> Any:
        values = [self.value(each, scope) for each in (node.left, *node.comparators)]
        if not all(map(is_constant, values)):
            return UNKNOWN
        return all(computed(op, *pair) is True for op, pair in zip(node.ops, pairwise(values), strict=True))

    def _ifexp(self, node: ast.IfExp, scope: Scope) -> Any:
        test = self.value(node.test, scope)
        if is_constant(test):
            return self.value(node.body if test else node.orelse, scope)
        found = [self.value(each, scope) for each in (node.body, node.orelse)]
        return UNKNOWN if all(map(is_constant, found)) else found[0]

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        of = self.value(node.value, scope)
        if isinstance(of, Library) and ".conf." in of.name:  # tyro.conf.FlagConversionOff[Args]
            return self.value(node.slice, scope)
        return of[self.value(node.slice, scope)] if isinstance(of, dict | list | tuple | str) else UNKNOWN

    def _slice(self, node: ast.Slice, scope: Scope) -> Any:
        return slice(*(self.value(each, scope) for each in (node.lower, node.upper, node.step)))

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> Any:
        generator, inner = node.generators[0], scope.inner()
        items = self.items(self.value(generator.iter, scope))
        if items is None or len(node.generators) > 1:
            return UNKNOWN
        found: list[Any] = []
        for item in items:
            self.assign(generator.target, item, inner)
            tests = [self.value(each, inner) for each in generator.ifs]
            if not all(map(is_constant, tests)):
                return UNKNOWN
            if all(tests):
                parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
                found.append([self.value(each, inner) for each in parts])
        return dict(found) if isinstance(node, ast.DictComp) else [each[0] for each in found]

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return Function(node, scope.module, scope.chain())

    def _namedexpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def _await(self, node: ast.Await, scope: Scope) -> Any:
        return self.value(node.value, scope)

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        function = self.resolved(self.value(node.func, scope))
        args = [self.resolved(each) for each in self._elements(node.args, scope)]
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.resolved(self.value(keyword.value, scope))
            if keyword.arg:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update({str(key): each for key, each in value.items()})
        return self.call(function, args, kwargs, node, scope)
