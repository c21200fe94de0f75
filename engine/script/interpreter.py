"""The part of a script that builds its parser, followed in its syntax tree. Nothing of the script is executed.

Statements are followed in the order in which Python would execute them, into functions and into modules of the script's
folder; where a condition isn't known, both branches are followed. All is bounded: steps, depth, modules and the size of
values.
"""

import ast
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.script.expressions import Expressions, Finished
from engine.script.values import (
    CONSTANTS,
    MOST_ITEMS,
    UNKNOWN,
    Class,
    Function,
    Instance,
    Lazy,
    Library,
    Made,
    Method,
    Module,
    Scope,
    Super,
    computed,
    is_constant,
    method_of,
)

_DEEPEST = 40
_MOST_MODULES = 80
_MOST_BYTES = 1_000_000
_PARSING = {
    *("argparse", "click", "typer", "tyro", "fire", "absl", "hydra", "omegaconf", "simple_parsing", "pyrallis"),
    *("draccus", "jsonargparse", "tap", "lightning", "pytorch_lightning"),
}
"""Libraries whose calls are known: what they do isn't followed, even in their own repository."""
_BUILTINS = (int, float, str, bool, list, tuple, dict, set, sorted, len, max, min, sum, abs)
_PURE: dict[str, Callable[..., Any]] = {each.__name__: each for each in (*_BUILTINS, zip, enumerate, round, reversed)}


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Leave(Exception):
    """A loop's round, or a block that raised, ends."""


class Interpreter(Expressions):
    """Follows a script. `called` answers calls of libraries, `method` those of what they returned."""

    def __init__(self, script: Path, folder: Path, environment: dict[str, str]) -> None:
        super().__init__()
        self.script, self.environment = script, environment
        self.roots = list(dict.fromkeys([script.parent, folder, folder / "src"]))
        self.modules: dict[Path, Module] = {}
        self.depth = 0
        self.calls: dict[int, int] = {}

    # ---- what a dialect answers ------------------------------------------------------------------------------------

    def called(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call of a library returns."""
        return Made(name, tuple(args), kwargs)

    def method(self, of: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Return what a method of a library's object returns."""
        return UNKNOWN

    def decorated(self, decorator: Any, function: Function) -> None:
        """Note a function that a library decorates."""

    # ---- modules ---------------------------------------------------------------------------------------------------

    def follow(self) -> Module:
        """Follow the script until its parser is complete; raises OSError or SyntaxError if it can't be read."""
        module = self.load(self.script)
        module.is_entry = True
        with suppress(Finished, RecursionError):
            self.execute(module)
        return module

    def load(self, path: Path) -> Module:
        """Return a module, parsed."""
        if path not in self.modules:
            is_late = time.thread_time() > self.until
            if is_late or len(self.modules) >= _MOST_MODULES or path.stat().st_size > _MOST_BYTES:
                raise OSError(f"{path.name} is too large, or one of too many")
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            self.modules[path] = Module(path, ast.parse(text, str(path)), text)
        return self.modules[path]

    def execute(self, module: Module) -> None:
        """Follow the statements of a module once."""
        if module.is_followed:
            return
        module.is_followed = True
        with suppress(_Leave, _Return):
            self.block(module.tree.body, Scope(module, module.names))

    def find(self, dotted: str, level: int, module: Module) -> Path | None:
        """Return the file of a module of the folder."""
        parts = dotted.split(".") if dotted else []
        if not level and parts[:1] and parts[0] in _PARSING:
            return None
        for root in [module.path.parents[level - 1]] if level else [module.path.parent, *self.roots]:
            place = root.joinpath(*parts)
            for path in (*([place.with_suffix(".py")] if parts else []), place / "__init__.py"):
                if path.is_file():
                    return path
        return None

    def resolved(self, value: Any) -> Any:
        """Follow a lazy module, or name of one."""
        for _ in range(10):
            if not isinstance(value, Lazy):
                return value
            try:
                module = self.load(value.module)
            except (OSError, SyntaxError, ValueError):
                return UNKNOWN
            self.execute(module)
            if not value.name:
                return module
            inner = None if value.name in module.names else self.find(value.name, 1, module)
            value = Lazy(inner) if inner else module.names.get(value.name, UNKNOWN)
        return UNKNOWN

    # ---- statements ------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Follow statements."""
        for statement in body:
            self.step()
            handler = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if handler:
                handler(statement, scope)

    def branch(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """Follow a block that Python might not execute; its return ends it alone."""
        try:
            self.block(body, scope)
        except _Return as ended:
            return ended.value
        except _Leave:
            pass
        return UNKNOWN

    def _do_expr(self, node: ast.Expr, scope: Scope) -> None:
        self.value(node.value, scope)

    def _do_return(self, node: ast.Return, scope: Scope) -> None:
        raise _Return(self.value(node.value, scope))

    def _do_raise(self, node: ast.Raise, scope: Scope) -> None:
        raise _Leave

    _do_break = _do_continue = _do_raise

    def _do_assign(self, node: ast.Assign, scope: Scope) -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def _do_annassign(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value:
            self.assign(node.target, self.value(node.value, scope), scope)

    def _do_augassign(self, node: ast.AugAssign, scope: Scope) -> None:
        before = self.value(node.target, scope)
        self.assign(node.target, computed(node.op, before, self.value(node.value, scope)), scope)

    def _do_if(self, node: ast.If, scope: Scope) -> None:
        test = self.value(node.test, scope)
        if is_constant(test):
            self.block(node.body if test else node.orelse, scope)
            return
        found, _ = [self.branch(body, scope) for body in (node.body, node.orelse)]
        if found is not UNKNOWN and found is not None:
            scope.returned = found

    def _do_for(self, node: ast.For, scope: Scope) -> None:
        items = self.items(self.value(node.iter, scope))
        for item in [UNKNOWN] if items is None else items:
            self.assign(node.target, item, scope)
            with suppress(_Leave):
                self.block(node.body, scope)
        self.branch(node.orelse, scope)

    def _do_while(self, node: ast.While, scope: Scope) -> None:
        self.branch(node.body, scope)

    def _do_with(self, node: ast.With, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars:
                self.assign(item.optional_vars, value, scope)
        self.block(node.body, scope)

    def _do_try(self, node: ast.Try, scope: Scope) -> None:
        before = set(scope.names)
        with suppress(_Leave):
            self.block(node.body, scope)
        for handler in node.handlers:
            if all(isinstance(each, ast.Assign | ast.Import | ast.ImportFrom | ast.Pass) for each in handler.body):
                kept = {name: scope.names[name] for name in set(scope.names) - before}
                self.branch(handler.body, scope)
                scope.names.update(kept)
        self.block([*node.orelse, *node.finalbody], scope)

    def _do_match(self, node: ast.Match, scope: Scope) -> None:
        for case in node.cases:
            self.branch(case.body, scope)

    def _do_functiondef(self, node: ast.FunctionDef, scope: Scope) -> None:
        decorators = tuple(self.value(each, scope) for each in node.decorator_list)
        scope.names[node.name] = found = Function(node, scope.module, scope.chain(), decorators)
        for decorator in decorators:
            self.decorated(decorator, found)

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, node: ast.ClassDef, scope: Scope) -> None:
        bases = tuple(self.resolved(self.value(each, scope)) for each in node.bases)
        inner = scope.inner()
        scope.names[node.name] = Class(node, scope.module, bases, inner.names)
        self.branch(node.body, inner)

    def _do_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            top = alias.name if alias.asname else alias.name.split(".")[0]
            path = self.find(top, 0, scope.module)
            scope.names[alias.asname or top] = Lazy(path) if path else Library(top)

    def _do_importfrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        dotted = node.module or ""
        path = self.find(dotted, node.level, scope.module)
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                module = self.resolved(Lazy(path)) if path else None
                if isinstance(module, Module):
                    scope.names.update({name: each for name, each in module.names.items() if name[:1] != "_"})
            elif path:
                scope.names[name] = Lazy(path, alias.name)
            else:  # perhaps a module of a package without an `__init__.py`
                inner = self.find(f"{dotted}.{alias.name}".lstrip("."), node.level, scope.module)
                scope.names[name] = Lazy(inner) if inner else Library(f"{dotted}.{alias.name}")

    # ---- calls -----------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return what a call returns."""
        match function:
            case Function():
                return self.enter(function, args, kwargs)
            case Class():
                return self._construct(function, args, kwargs, node, scope)
            case Library():
                return self._library(function.name, args, kwargs, node, scope)
            case Method(of=of, name=name) if is_constant(of) or isinstance(of, list | dict):
                return method_of(of, name, args, kwargs)
            case Method(of=of, name=name):
                return self.method(of, name, args, kwargs, node)
        return UNKNOWN

    def _library(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        short = name.removeprefix("builtins.")
        if short in _PURE and all(map(is_constant, [*args, *kwargs.values()])):
            found = _PURE[short](*args, **kwargs)
            return found if isinstance(found, CONSTANTS) else list(found)
        if (known := self._of_python(short, args, scope)) is not None:
            return known
        found = self.called(name, args, kwargs, node, scope)
        if isinstance(found, Made) and short not in ("map", "filter"):
            for each in (*args, *kwargs.values()):  # a launcher of functions, such as torch's spawn
                if isinstance(each, Function) and not isinstance(each.node, ast.Lambda):
                    self.enter(each, [], {})
        return found

    def _of_python(self, name: str, args: list[Any], scope: Scope) -> Any:
        """Return what a few functions of Python return; None for others."""
        match name, args:
            case "range", [int(), *_] if all(isinstance(each, int) for each in args):
                return list(range(*args)[:MOST_ITEMS])
            case "type", [of] if is_constant(of):
                return Library(f"builtins.{type(of).__name__}")
            case "isinstance", [of, kinds] if is_constant(of):
                known = {Library(f"builtins.{each.__name__}") for each in type(of).__mro__}
                return any(each in known for each in (kinds if isinstance(kinds, list | tuple) else [kinds]))
            case "callable", [of]:
                is_class = isinstance(of, Library) and of.name.rsplit(".", 1)[-1][:1].isupper()
                return is_class or isinstance(of, Function | Class)
            case "getattr", [of, str() as attribute, *_]:
                return self.attribute(self.resolved(of), attribute)
            case "super", _:
                owner, me = scope.lookup("__class__"), scope.lookup("self")
                return Super(me, owner) if isinstance(owner, Class) and isinstance(me, Instance) else UNKNOWN
            case "os.environ.get" | "os.getenv", [str() as variable, *default]:
                return self.environment.get(variable, default[0] if default else None)
            case "os.path.join", [str(), *_] if all(isinstance(each, str) for each in args):
                return str(Path(*args))
            case "pathlib.Path" | "os.path.expanduser" | "os.path.abspath", [str() as text]:
                return text
        return None

    def _construct(self, cls: Class, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: Scope) -> Any:
        """Return an object of a class of the folder."""
        found = Instance(cls)
        library = next((each for each in cls.line() if isinstance(each, Library)), None)
        if library is not None and library.name != "builtins.object":
            found.of_library = self.called(library.name, [found, *args], kwargs, node, scope)
        initialise = cls.member("__init__")
        if isinstance(initialise, Function):
            self.enter(initialise.bound(found, initialise.owner or cls), args, kwargs)
        else:  # a dataclass
            found.names.update(kwargs)
        return found

    def enter(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow a call of a function of the folder, at most a few times each."""
        node = function.node
        count = self.calls[id(node)] = self.calls.get(id(node), 0) + 1
        if self.depth >= _DEEPEST or count > 20:
            return UNKNOWN
        scope = Scope(function.module, self._arguments(function, args, kwargs), function.around)
        if isinstance(node, ast.Lambda):
            return self.value(node.body, scope)
        self.depth += 1
        try:
            self.block(node.body, scope)
        except _Return as ended:
            return ended.value if ended.value is not UNKNOWN or scope.returned is None else scope.returned
        except _Leave:
            pass
        finally:
            self.depth -= 1
        return scope.returned

    def _arguments(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        spec, around = function.node.args, Scope(function.module, {}, function.around)
        plain = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        names = {
            each.arg: UNKNOWN if default is None else self.value(default, around)
            for each, default in function.parameters()
        }
        given = [*([] if function.instance is None else [function.instance]), *args]
        rest = {name: each for name, each in kwargs.items() if name not in names}
        names |= dict(zip(plain, given, strict=False))
        names |= {name: each for name, each in kwargs.items() if name in names}
        if spec.vararg:
            names[spec.vararg.arg] = tuple(given[len(plain) :])
        if spec.kwarg:
            names[spec.kwarg.arg] = rest
        return names if function.owner is None else {**names, "__class__": function.owner}
