"""The part of a script that builds its parser, followed in its syntax tree. Nothing of the script is executed.

Statements are followed in the order in which Python would execute them, into functions and into modules of the script's
folder. A value is a Python constant, one of the classes below, or UNKNOWN; where a condition isn't known, both branches
are followed. All is bounded: steps, depth, modules and the size of values.
"""

import ast
import operator
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

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
    Super,
    computed,
    is_constant,
    method_of,
)

MOST_STEPS = 150_000
MOST_SECONDS = 0.8
_DEEPEST = 40
_MOST_MODULES = 80
_PARSING = {
    *(
        "argparse",
        "click",
        "typer",
        "tyro",
        "fire",
        "absl",
        "hydra",
        "omegaconf",
        "simple_parsing",
        "pyrallis",
        "draccus",
    ),
    *("jsonargparse", "tap", "lightning", "pytorch_lightning"),
}
"""Libraries whose calls are known: what they do isn't followed, even in their own repository."""
_MOST_BYTES = 1_000_000
_PURE: dict[str, Callable[..., Any]] = {
    **{
        each.__name__: each for each in (int, float, str, bool, list, tuple, dict, set, sorted, len, max, min, sum, abs)
    },
    **{each.__name__: each for each in (zip, enumerate, round, reversed)},
}


class Finished(Exception):
    """The parser is complete, or a bound is reached."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Leave(Exception):
    """A loop's round, or a block that raised, ends."""


class Interpreter:
    """Follows a script. `called` answers calls of libraries, `parts` attributes of what they returned."""

    def __init__(self, script: Path, folder: Path, environment: dict[str, str]) -> None:
        self.script, self.environment = script, environment
        self.roots = list(dict.fromkeys([script.parent, folder, folder / "src"]))
        self.modules: dict[Path, Module] = {}
        self.steps = self.depth = 0
        self.until = time.thread_time() + MOST_SECONDS  # of this thread's own time, whatever else the machine does
        self.calls: dict[int, int] = {}
        self.is_cut = False

    # ---- what a dialect answers ------------------------------------------------------------------------------------

    def called(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: "Scope") -> Any:
        """Return what a call of a library returns."""
        return Made(name, tuple(args), kwargs)

    def method(self, of: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call) -> Any:
        """Return what a method of a library's object returns."""
        return UNKNOWN

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
        if module.state != "unread":
            return
        module.state = "followed"
        scope = Scope(module, module.names)
        with suppress(_Leave, _Return):
            self.block(module.tree.body, scope)

    def find(self, dotted: str, level: int, module: Module) -> Path | None:
        """Return the file of a module of the folder."""
        parts = dotted.split(".") if dotted else []
        if not level and parts[:1] and parts[0] in _PARSING:
            return None
        roots = [module.path.parents[level - 1]] if level else [module.path.parent, *self.roots]
        for root in roots:
            for path in (
                root.joinpath(*parts).with_suffix(".py") if parts else None,
                root.joinpath(*parts, "__init__.py"),
            ):
                if path is not None and path.is_file():
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
            if module.state == "unread":
                self.execute(module)
            if not value.name:
                return module
            if value.name in module.names:
                value = module.names[value.name]
                continue
            inner = self.find(value.name, 1, module)
            value = Lazy(inner) if inner else UNKNOWN
        return UNKNOWN

    # ---- statements ------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], scope: "Scope") -> None:
        for statement in body:
            self.step()
            handler = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if handler:
                handler(statement, scope)

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS or (self.steps % 500 == 0 and time.thread_time() > self.until):
            self.is_cut = True
            raise Finished

    def branch(self, body: Sequence[ast.stmt], scope: "Scope") -> Any:
        """Follow a block that Python might not execute; its return ends it alone."""
        try:
            self.block(body, scope)
        except _Return as ended:
            return ended.value
        except _Leave:
            pass
        return UNKNOWN

    def _expr(self, node: ast.Expr, scope: "Scope") -> None:
        self.value(node.value, scope)

    def _return(self, node: ast.Return, scope: "Scope") -> None:
        raise _Return(self.value(node.value, scope) if node.value else None)

    def _raise(self, node: ast.Raise, scope: "Scope") -> None:
        raise _Leave

    _break = _continue = _raise

    def _assign(self, node: ast.Assign, scope: "Scope") -> None:
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def _annassign(self, node: ast.AnnAssign, scope: "Scope") -> None:
        if node.value:
            self.assign(node.target, self.value(node.value, scope), scope)

    def _augassign(self, node: ast.AugAssign, scope: "Scope") -> None:
        before = self.value(node.target, scope)
        self.assign(node.target, computed(node.op, before, self.value(node.value, scope)), scope)

    def assign(self, target: ast.expr, value: Any, scope: "Scope") -> None:
        """Give a value to a name, an attribute, an item, or to several."""
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, ast.Attribute):
            of = self.resolved(self.value(target.value, scope))
            if isinstance(of, Instance | Class | Module):
                of.names[target.attr] = value
            else:
                scope.names[ast.unparse(target)] = value
        elif isinstance(target, ast.Subscript):
            of, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(of, dict) and isinstance(key, str | int) and len(of) < MOST_ITEMS:
                of[key] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = list(value) if isinstance(value, list | tuple) and len(value) == len(target.elts) else None
            for at, each in enumerate(target.elts):
                self.assign(each, parts[at] if parts else UNKNOWN, scope)

    def _if(self, node: ast.If, scope: "Scope") -> None:
        test = self.value(node.test, scope)
        if is_constant(test):
            self.block(node.body if test else node.orelse, scope)
            return
        found = [self.branch(body, scope) for body in (node.body, node.orelse)]
        if found[0] is not UNKNOWN and found[0] is not None:
            scope.returned = found[0]

    def _for(self, node: ast.For, scope: "Scope") -> None:
        items = self.items(self.value(node.iter, scope))
        for item in [UNKNOWN] if items is None else items:
            self.assign(node.target, item, scope)
            with suppress(_Leave):
                self.block(node.body, scope)
        self.branch(node.orelse, scope)

    def _while(self, node: ast.While, scope: "Scope") -> None:
        self.branch(node.body, scope)

    def _with(self, node: ast.With, scope: "Scope") -> None:
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars:
                self.assign(item.optional_vars, value, scope)
        self.block(node.body, scope)

    def _try(self, node: ast.Try, scope: "Scope") -> None:
        before = set(scope.names)
        with suppress(_Leave):
            self.block(node.body, scope)
        for handler in node.handlers:
            if all(isinstance(each, ast.Assign | ast.Import | ast.ImportFrom | ast.Pass) for each in handler.body):
                kept = {name: scope.names[name] for name in set(scope.names) - before}
                self.branch(handler.body, scope)
                scope.names.update(kept)
        self.block([*node.orelse, *node.finalbody], scope)

    def _match(self, node: ast.Match, scope: "Scope") -> None:
        for case in node.cases:
            self.branch(case.body, scope)

    def _functiondef(self, node: ast.FunctionDef, scope: "Scope") -> None:
        decorators = tuple(self.value(each, scope) for each in node.decorator_list)
        found = Function(node, scope.module, scope.chain(), decorators)
        scope.names[node.name] = found
        for decorator in decorators:
            self.decorated(decorator, found, scope)

    _asyncfunctiondef = _functiondef

    def decorated(self, decorator: Any, function: Function, scope: "Scope") -> None:
        """Note a function that a library decorates."""

    def _classdef(self, node: ast.ClassDef, scope: "Scope") -> None:
        bases = tuple(self.resolved(self.value(each, scope)) for each in node.bases)
        decorators = tuple(self.value(each, scope) for each in node.decorator_list)
        inner = Scope(scope.module, {}, scope.chain())
        found = Class(node, scope.module, bases, inner.names, decorators)
        scope.names[node.name] = found
        self.branch(node.body, inner)

    def _import(self, node: ast.Import, scope: "Scope") -> None:
        for alias in node.names:
            top = alias.name if alias.asname else alias.name.split(".")[0]
            path = self.find(top, 0, scope.module)
            scope.names[alias.asname or top] = Lazy(path) if path else Library(top)

    def _importfrom(self, node: ast.ImportFrom, scope: "Scope") -> None:
        dotted = node.module or ""
        path = self.find(dotted, node.level, scope.module)
        for alias in node.names:
            inner = path is None and self._in_package(dotted, alias.name, node.level, scope)
            if alias.name == "*":
                module = self.resolved(Lazy(path)) if path else None
                if isinstance(module, Module):
                    scope.names.update({name: each for name, each in module.names.items() if name[:1] != "_"})
            elif path or inner:
                scope.names[alias.asname or alias.name] = Lazy(path, alias.name) if path else Lazy(inner or Path())
            else:
                scope.names[alias.asname or alias.name] = Library(f"{dotted}.{alias.name}")

    def _in_package(self, dotted: str, name: str, level: int, scope: "Scope") -> Path | None:
        """Return a module of a package without an `__init__.py`."""
        return self.find(f"{dotted}.{name}" if dotted else name, level, scope.module)

    # ---- expressions -----------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, scope: "Scope") -> Any:
        """Return the value of an expression."""
        self.step()
        handler = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        try:
            return handler(node, scope) if handler else UNKNOWN
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError):
            return UNKNOWN

    def _value_constant(self, node: ast.Constant, scope: "Scope") -> Any:
        return node.value

    def _value_name(self, node: ast.Name, scope: "Scope") -> Any:
        found = scope.lookup(node.id)
        return found if found is not None else scope.constant(node.id)

    def _value_attribute(self, node: ast.Attribute, scope: "Scope") -> Any:
        of = self.resolved(self.value(node.value, scope))
        return self.attribute(of, node.attr, scope.names.get(ast.unparse(node), UNKNOWN))

    def attribute(self, of: Any, name: str, otherwise: Any = UNKNOWN) -> Any:
        """Return an attribute of a value."""
        match of:
            case Library():
                return Library(f"{of.name}.{name}")
            case Module() if name == "__dict__":
                return of.names
            case Module():
                return self.resolved(of.names[name] if name in of.names else Lazy(of.path, name))
            case Instance() if name in of.names:
                return of.names[name]
            case Instance() | Super():
                me, owner = (of.instance, of.owner) if isinstance(of, Super) else (of, None)
                found = self.member(me.cls, name, owner)
                if isinstance(found, Function):
                    return found if _is_made_by(found, "staticmethod") else _bound(found, me, found.owner or me.cls)
                return found if found is not UNKNOWN else Method(me.of_library, name)
            case Class():
                found = self.member(of, name)
                if isinstance(found, Function):
                    return _bound(found, of if _is_made_by(found, "classmethod") else None, found.owner or of)
                return found
        if otherwise is not UNKNOWN:
            return otherwise
        return Method(of, name) if of is not UNKNOWN else UNKNOWN

    def member(self, cls: Class, name: str, after: Class | None = None) -> Any:
        """Return what a class or its bases have by a name; with `after`, only the bases after that class."""
        line = [each for each in cls.line() if isinstance(each, Class)]
        start = line.index(after) + 1 if after in line else 0
        for each in line[start:]:
            if name in each.names:
                found = each.names[name]
                return _bound(found, None, each) if isinstance(found, Function) else found
        return UNKNOWN

    def _value_list(self, node: ast.List | ast.Tuple | ast.Set, scope: "Scope") -> Any:
        found: list[Any] = []
        for each in node.elts:
            if isinstance(each, ast.Starred):
                items = self.items(self.value(each.value, scope))
                found.extend([UNKNOWN] if items is None else items)
            else:
                found.append(self.value(each, scope))
        return tuple(found) if isinstance(node, ast.Tuple) else found

    _value_tuple = _value_set = _value_list

    def _value_dict(self, node: ast.Dict, scope: "Scope") -> Any:
        found: dict[Any, Any] = {}
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each, scope)
            if key is None:
                found.update(value if isinstance(value, dict) else {})
            else:
                name = self.value(key, scope)
                found[name if isinstance(name, str | int | float | tuple | type(None)) else ast.unparse(key)] = value
        return found

    def _value_joinedstr(self, node: ast.JoinedStr, scope: "Scope") -> Any:
        parts = [
            self.value(each.value if isinstance(each, ast.FormattedValue) else each, scope) for each in node.values
        ]
        return "".join(map(str, parts)) if all(map(is_constant, parts)) else UNKNOWN

    def _value_binop(self, node: ast.BinOp, scope: "Scope") -> Any:
        return computed(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _value_unaryop(self, node: ast.UnaryOp, scope: "Scope") -> Any:
        value = self.value(node.operand, scope)
        if not is_constant(value):
            return UNKNOWN
        if isinstance(node.op, ast.Not):
            return not value
        signs: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
        return signs[type(node.op)](value)

    def _value_boolop(self, node: ast.BoolOp, scope: "Scope") -> Any:
        values = [self.value(each, scope) for each in node.values]
        wanted = isinstance(node.op, ast.Or)
        for each in values:
            if not is_constant(each):
                return values[-1] if wanted and is_constant(values[-1]) else UNKNOWN
            if bool(each) == wanted:
                return each
        return values[-1]

    def _value_compare(self, node: ast.Compare, scope: "Scope") -> Any:
        values = [self.value(each, scope) for each in (node.left, *node.comparators)]
        if not all(map(is_constant, values)):
            return UNKNOWN
        return all(computed(op, *pair) is True for op, pair in zip(node.ops, pairwise(values), strict=True))

    def _value_ifexp(self, node: ast.IfExp, scope: "Scope") -> Any:
        test = self.value(node.test, scope)
        if is_constant(test):
            return self.value(node.body if test else node.orelse, scope)
        found = [self.value(each, scope) for each in (node.body, node.orelse)]
        return UNKNOWN if all(map(is_constant, found)) else found[0]

    def _value_subscript(self, node: ast.Subscript, scope: "Scope") -> Any:
        of = self.value(node.value, scope)
        if isinstance(of, Library) and ".conf." in of.name:  # tyro.conf.FlagConversionOff[Args]
            return self.value(node.slice, scope)
        if not isinstance(of, dict | list | tuple | str):
            return UNKNOWN
        if isinstance(node.slice, ast.Slice):
            bounds = [node.slice.lower, node.slice.upper, node.slice.step]
            first, end, step = (self.value(each, scope) if each else None for each in bounds)
            return of[slice(first, end, step)]
        return of[self.value(node.slice, scope)]

    def _value_listcomp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: "Scope"
    ) -> Any:
        if len(node.generators) != 1:
            return UNKNOWN
        generator = node.generators[0]
        items = self.items(self.value(generator.iter, scope))
        if items is None:
            return UNKNOWN
        inner = Scope(scope.module, {}, scope.chain())
        found: list[Any] = []
        for item in items:
            self.assign(generator.target, item, inner)
            tests = [self.value(each, inner) for each in generator.ifs]
            if not all(is_constant(each) for each in tests):
                return UNKNOWN
            if all(tests):
                parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
                found.append([self.value(each, inner) for each in parts])
        return dict(found) if isinstance(node, ast.DictComp) else [each[0] for each in found]

    _value_setcomp = _value_generatorexp = _value_dictcomp = _value_listcomp

    def _value_lambda(self, node: ast.Lambda, scope: "Scope") -> Any:
        return Function(node, scope.module, scope.chain())

    def _value_namedexpr(self, node: ast.NamedExpr, scope: "Scope") -> Any:
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def _value_await(self, node: ast.Await, scope: "Scope") -> Any:
        return self.value(node.value, scope)

    def items(self, value: Any) -> list[Any] | None:
        """Return the elements of a constant collection; None if they aren't known."""
        if isinstance(value, dict):
            return list(value)
        if isinstance(value, list | tuple | set) and len(value) <= MOST_ITEMS:
            return list(value)
        return None

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _value_call(self, node: ast.Call, scope: "Scope") -> Any:
        function = self.resolved(self.value(node.func, scope))
        args: list[Any] = []
        for each in node.args:
            value = self.value(each.value if isinstance(each, ast.Starred) else each, scope)
            if isinstance(each, ast.Starred):
                args.extend(self.items(value) or [UNKNOWN])
            else:
                args.append(self.resolved(value))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.resolved(self.value(keyword.value, scope))
            if keyword.arg:
                kwargs[keyword.arg] = value
            elif isinstance(value, dict):
                kwargs.update({str(key): each for key, each in value.items()})
        return self.call(function, args, kwargs, node, scope)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: "Scope") -> Any:
        """Return what a call returns."""
        if isinstance(function, Function):
            return self.enter(function, args, kwargs)
        if isinstance(function, Class):
            return self.construct(function, args, kwargs, node, scope)
        if isinstance(function, Library):
            return self._library(function.name, args, kwargs, node, scope)
        if isinstance(function, Method):
            if is_constant(function.of) or isinstance(function.of, list | dict):
                return method_of(function.of, function.name, args, kwargs)
            return self.method(function.of, function.name, args, kwargs, node)
        return UNKNOWN

    def _library(self, name: str, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: "Scope") -> Any:
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

    def _of_python(self, name: str, args: list[Any], scope: "Scope") -> Any:
        """Return what a few functions of Python return; None for others."""
        match name, args:
            case "range", [int(), *_] if all(isinstance(each, int) for each in args):
                return list(range(*args)[:MOST_ITEMS])
            case "type", [of] if is_constant(of):
                return Library(f"builtins.{type(of).__name__}")
            case "isinstance", [of, kinds] if is_constant(of):
                names = {
                    each.name
                    for each in (kinds if isinstance(kinds, list | tuple) else [kinds])
                    if isinstance(each, Library)
                }
                return bool(names & {f"builtins.{each.__name__}" for each in type(of).__mro__})
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

    def construct(self, cls: Class, args: list[Any], kwargs: dict[str, Any], node: ast.Call, scope: "Scope") -> Any:
        """Return an object of a class of the folder."""
        found = Instance(cls)
        library = next((each for each in cls.line() if isinstance(each, Library)), None)
        if library is not None and library.name != "builtins.object":
            found.of_library = self.called(library.name, [found, *args], kwargs, node, scope)
        initialise = self.member(cls, "__init__")
        if isinstance(initialise, Function):
            self.enter(_bound(initialise, found, initialise.owner or cls), args, kwargs)
        else:  # a dataclass
            found.names.update(kwargs)
        return found

    def enter(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Follow a call of a function of the folder, at most a few times each."""
        node = function.node
        count = self.calls[id(node)] = self.calls.get(id(node), 0) + 1
        if self.depth >= _DEEPEST or count > 20:
            return UNKNOWN
        names = self._arguments(function, args, kwargs)
        if function.owner is not None:
            names["__class__"] = function.owner
        scope = Scope(function.module, names, function.around)
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
        spec = function.node.args
        plain = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        names: dict[str, Any] = dict.fromkeys([*plain, *(each.arg for each in spec.kwonlyargs)], UNKNOWN)
        around = Scope(function.module, {}, function.around)
        for name, default in zip(plain[::-1], spec.defaults[::-1], strict=False):
            names[name] = self.value(default, around)
        for each, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if value is not None:
                names[each.arg] = self.value(value, around)
        given = [*([function.instance] if function.instance is not None else []), *args]
        names.update(zip(plain, given, strict=False))
        if spec.vararg:
            names[spec.vararg.arg] = tuple(given[len(plain) :])
        if spec.kwarg:
            names[spec.kwarg.arg] = {name: each for name, each in kwargs.items() if name not in names}
        names.update({name: each for name, each in kwargs.items() if name in names})
        return names


class Scope:
    """The names of a block, and those around it."""

    def __init__(self, module: Module, names: dict[str, Any], around: dict[str, Any] | None = None) -> None:
        self.module, self.names, self.around = module, names, around or {}
        self.returned: Any = None
        """What a branch that Python might not execute returned."""

    def chain(self) -> dict[str, Any]:
        """Return the names that an inner function sees, besides the module's."""
        return self.around if self.names is self.module.names else {**self.around, **self.names}

    def lookup(self, name: str) -> Any:
        """Return the value of a name; None if it has none or is None."""
        for names in (self.names, self.around, self.module.names):
            if name in names:
                return names[name]
        return None

    def constant(self, name: str) -> Any:
        """Return None for a name that is None; the module's own names; else one of Python's."""
        if any(name in names for names in (self.names, self.around, self.module.names)):
            return None
        if name == "__name__":
            return "__main__" if self.module.is_entry else self.module.path.stem
        return str(self.module.path) if name == "__file__" else Library(f"builtins.{name}")


def _is_made_by(function: Function, decorator: str) -> bool:
    return Library(f"builtins.{decorator}") in function.decorators


def _bound(function: Function, instance: Any, owner: Class) -> Function:
    return Function(function.node, function.module, function.around, function.decorators, instance, owner)
