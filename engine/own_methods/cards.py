"""Experiments of the lab's own as pages, command line and runner know them: from the card that a child process printed,
and its answers to settings. Torch-free; their code is never imported here.
"""

import json
import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, create_model

from engine.config import Config, Rules, setting
from engine.errors import ConfigError, MethodFault, Problem, UnknownName
from engine.experiment import (
    Baseline,
    Clock,
    Contender,
    Experiment,
    Flow,
    MessagePattern,
    Pace,
    Preset,
    Ready,
    ReadySweep,
    Reference,
    Scaling,
    Work,
)
from engine.home import Home
from engine.metrics import Result
from engine.own_methods import children, folders
from engine.own_methods.folders import MethodFolder, MethodVersion

API = 1
"""The versions of `engine.plugin` that are understood."""
RETRY_S, LONGEST_RETRY_S = 30.0, 3_600.0
"""Age of a fault from which on the code is read again, as a missing package may be there now; it doubles each time."""
MOST_KEPT = 5_000
CODE = "code"
"""The setting that has the version of the code."""
FRESH_S = 1.0
"""Time for which what the folders hold is taken as known."""

# ---- A card: what the child printed, checked like everything that another program wrote ----------------------------

_Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,59}$")]
_Text = Annotated[str, StringConstraints(max_length=1_000)]
_Title = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\[\]<>`*\\$\n]+$")]
_Role = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_. -]{1,60}$")]
_Value = bool | int | float | Annotated[str, StringConstraints(max_length=500)] | None
_Shown = Literal["unit", "advanced", "empty", "otherwise", "only", "catalogue"]
_Values = Annotated[dict[_Word, _Value], Field(max_length=200)]


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _Setting(_Plain):
    type: Literal["int", "float", "bool", "str"]
    empty: bool
    default: _Value
    description: _Text
    choices: list[_Value] = Field(max_length=100)
    bounds: dict[Literal["ge", "gt", "le", "lt"], float]
    shown: Annotated[dict[_Shown, Any], Field(max_length=6)]

    def field(self) -> tuple[Any, Any]:
        """Return the type and the field of a class of settings."""
        kinds = {"int": int, "float": float, "bool": bool, "str": str}
        kind: Any = Literal[tuple(self.choices)] if self.choices else kinds[self.type]
        whole = self.type == "int"
        given: dict[str, Any] = {name: int(bound) if whole else bound for name, bound in self.bounds.items()}
        if self.shown:
            given["json_schema_extra"] = dict(self.shown)
        described: Any = Field(self.default, description=self.description, **given)
        return (kind | None if self.empty else kind), described


class _Preset(_Plain):
    sentence: _Text
    settings: _Values
    expects: dict[_Text, float]
    takes: _Text


class _Contender(_Plain):
    length: _Word
    strategies: Annotated[dict[_Word, Ready], Field(min_length=1, max_length=6)]
    data: _Text
    tests: _Text


class _Scaling(_Plain):
    field: _Word
    start: _Value
    explained: _Text
    called: _Title
    at_once: _Word | Literal[""]
    rank_metrics: Annotated[tuple[_Text, ...], Field(max_length=10)]


class _Card(_Plain):
    name: _Word
    title: _Title
    tagline: Annotated[_Title, StringConstraints(max_length=60)]
    sentence: _Text
    pattern: MessagePattern
    flows: Annotated[list[Flow], Field(max_length=20)]
    source: _Text
    api: int
    presets: Annotated[dict[_Word, _Preset], Field(max_length=30)]
    ready_sweeps: Annotated[list[ReadySweep], Field(max_length=10)]
    resumable: bool
    result: Result
    headline: Annotated[tuple[_Text, ...], Field(max_length=30)]
    update_clock: Clock | None
    stale_gradients: _Text
    axis: _Word
    counts: Annotated[dict[_Word, _Word], Field(max_length=10)]
    server_roles: Annotated[tuple[_Text, ...], Field(max_length=20)]
    work_fields: Annotated[tuple[_Word, ...], Field(max_length=10)]
    counts_work: bool
    has_goals: bool
    duel: _Contender | None
    scaling: _Scaling | None
    settings: Annotated[dict[_Word, _Setting], Field(max_length=200)]
    description: _Text

    def why_not(self, name: str) -> str:
        """Return what is wrong with it, with the cure; empty if nothing is."""
        if self.api != API:
            return f"It is written for version {self.api} of engine.plugin, and this Parallab has version {API}."
        if self.name != name:
            return f"EXPERIMENT.name is '{self.name}', but its folder is called '{name}'. Give both the same name."
        if self.axis not in self.settings:
            return f"axis must be one of its settings, got '{self.axis}'."
        named = [self.duel and self.duel.length, self.scaling and self.scaling.field]
        if strange := [each for each in named if each and each not in self.settings]:
            return f"length of Contender and field of Scaling must be one of its settings, got '{strange[0]}'."
        if self.duel and (lacking := [each for each in ("learning_rate", "batch_size") if each not in self.settings]):
            return f"An experiment with a Contender needs the setting {lacking[0]}, which duels set. Add it."
        shorts = self.duel.strategies if self.duel else ()
        if strange := [each for each in shorts if not f"{each}_".startswith(f"{name}_")]:
            return f"Strategies must be called {name} or {name}_…, apart from those of others, got '{strange[0]}'."
        for preset, each in self.presets.items():
            if strange := sorted(set(each.settings) - {*self.settings, *Config.model_fields}):
                return f"The preset {preset} sets {strange[0]}, which is no setting. Correct its name."
        return ""


class DuelFacts(BaseModel):
    """What duels ask of the settings of a run, as its `Contender` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pace: Pace
    momentum: _Text
    gradients: int = Field(ge=1)


class Facts(BaseModel):
    """What follows from the settings of a run, as its `Config` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    roles: Annotated[tuple[_Role, ...], Field(min_length=1, max_length=1_024)]
    max_gpus: int = Field(ge=0)
    trains_on: _Text | None
    listens: tuple[bool, bool]
    why_one_node: _Text
    unused: frozenset[str]
    counts: tuple[str, ...]
    work: Work | None
    goals: dict[str, float]
    duel: DuelFacts | None


class OwnConfig(Config):
    """The settings of an experiment of the lab's own; the child that read its code checks its rules."""

    origin: ClassVar[tuple[Home, MethodVersion]]
    """The home, and the version that these settings are of."""

    @property
    def facts(self) -> Facts:
        """What follows from them; raises MethodFault if its code does not say."""
        found = self._answer()
        assert isinstance(found, Facts)
        return found

    def _answer(self) -> "Facts | list[Problem]":
        answer = _ask(*self.origin, "settings", self.model_dump(mode="json", exclude={CODE}))
        if (problems := answer.get("problems")) is not None:
            return [Problem(str(field)[:60], str(sentence)[:1_000]) for field, sentence in problems]
        return cast("Facts", _checked(self.origin[1], answer, "facts", Facts))

    def rules(self) -> Rules:
        """Yield nothing: raises ConfigError for what its own rules refuse."""
        if isinstance(found := self._answer(), list):
            raise ConfigError(found)
        yield from ()

    @property
    def roles(self) -> tuple[str, ...]:
        return self.facts.roles

    @property
    def max_gpus(self) -> int:
        return self.facts.max_gpus

    @property
    def trains_on(self) -> str | None:
        return self.facts.trains_on

    @property
    def unused(self) -> frozenset[str]:
        return self.facts.unused

    def listens(self, gpus: int) -> bool:
        return self.facts.listens[min(gpus, 1)]

    def why_one_node(self) -> str:
        return self.facts.why_one_node


def _experiment(home: Home, version: MethodVersion, card: _Card) -> Experiment:
    """Return an experiment from its card."""
    code: Any = setting(version.version, "Version of the experiment's code.", fixed=True)
    text = Annotated[str, StringConstraints(pattern=f"^{version.version}$")]
    declared: dict[str, Any] = {name: each.field() for name, each in card.settings.items()} | {CODE: (text, code())}
    made: Any = create_model(f"{card.name}_settings", __base__=OwnConfig, __doc__=card.description, **declared)
    made.origin, made.server_roles, made.work_fields = (home, version), card.server_roles, card.work_fields
    same = ("name", "title", "tagline", "sentence", "pattern", "source", "api", "resumable", "result", "headline")
    more = ("update_clock", "stale_gradients", "axis", "counts")
    given: dict[str, Any] = {name: getattr(card, name) for name in (*same, *more)}
    given["work"] = (lambda config: config.facts.work) if card.counts_work else None
    if card.has_goals:
        given["goals"] = lambda config: config.facts.goals
    return Experiment(
        **given,
        duel=_contender(home, version, card.duel) if card.duel else None,
        scaling=_scaling(home, version, card.scaling) if card.scaling else None,
        flows=tuple(card.flows),
        config=made,
        presets={name: Preset(**dict(each)) for name, each in card.presets.items()},
        ready_sweeps=tuple(card.ready_sweeps),
    )


def _contender(home: Home, version: MethodVersion, said: _Contender) -> Contender:
    """Return how it takes part in duels; the code says what follows from settings."""

    def given(settings: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = _ask(home, version, "given", {name: value for name, value in settings.items() if name != CODE})
        return cast("Mapping[str, Any]", _checked(version, answer, "given", _Values))

    return Contender(
        **{name: getattr(said, name) for name in type(said).model_fields},
        pace=lambda config: config.facts.duel.pace,
        momentum=lambda config: config.facts.duel.momentum,
        gradients=lambda config: config.facts.duel.gradients,
        given=given,
    )


def _scaling(home: Home, version: MethodVersion, said: _Scaling) -> Scaling:
    """Return the reference lines of its sweeps, which the code computes."""

    def references(baseline: Baseline, axis: Sequence[int]) -> list[Reference]:
        about = asdict(baseline) | {"config": {name: value for name, value in baseline.config.items() if name != CODE}}
        answer = _ask(home, version, "references", {"baseline": about, "axis": list(axis)})
        lines: list[Reference] = _checked(
            version, answer, "references", Annotated[list[Reference], Field(max_length=10)]
        )
        if wrong := [each.label for each in lines if len(each.times_s) != len(axis)]:
            raise MethodFault(
                version.name, f"The line '{wrong[0]}' must have a time for each of the {len(axis)} values."
            )
        return lines

    return Scaling(**{name: getattr(said, name) for name in type(said).model_fields}, references=references)


@lru_cache(maxsize=MOST_KEPT)
def _answer(home: Home, version: MethodVersion, question: str) -> dict[str, Any]:
    """Return what the code of a version answers to a line of JSON; raises MethodFault."""
    check_approval(home, version)
    return children.answer(home, version, question)


def _ask(home: Home, version: MethodVersion, kind: str, about: Any) -> dict[str, Any]:
    return _answer(home, version, json.dumps({kind: about}, sort_keys=True))


def _checked(version: MethodVersion, answer: Mapping[str, Any], name: str, shape: Any) -> Any:
    """Return a part of an answer in its shape; raises MethodFault where it has another."""
    try:
        return TypeAdapter(shape).validate_python(answer[name])
    except (ValidationError, KeyError) as error:
        raise MethodFault(version.name, _words(error)) from None


def _words(error: ValidationError | KeyError) -> str:
    if isinstance(error, KeyError):
        return f"It says nothing of {error}."
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))} can't be {str(first['input'])[:80]!r}: {first['msg']}."


def read(home: Home, version: MethodVersion) -> Experiment:
    """Return the experiment of a version; its code is read in a child unless its card is there. Raises MethodFault."""
    check_approval(home, version)
    if fault := _fault(version, young=True):
        raise fault
    if not version.card.exists():
        try:
            try:
                card = _Card.model_validate(children.read_card(home, version).get("card"))
            except ValidationError as error:
                raise MethodFault(version.name, f"config.py: {_words(error)}") from None
            if why := card.why_not(version.name):
                raise MethodFault(version.name, f"config.py: {why}")
            _write(version.card, card.model_dump(mode="json"))
        except MethodFault as error:
            retry_s = min(2 * _age_of_retry(version), LONGEST_RETRY_S)
            _write(version.fault, {"why": error.why, "at": time.time(), "retry_s": retry_s})
            raise
        version.fault.unlink(missing_ok=True)
    return _known(home, version)


def _fault(version: MethodVersion, *, young: bool = False) -> MethodFault | None:
    """Return why a version could not be read last, if so; if it is `young`, only until it is to be read again."""
    with suppress(OSError, ValueError, KeyError):
        fault = json.loads(version.fault.read_text())
        if not young or 0 <= time.time() - fault["at"] < fault["retry_s"]:
            return MethodFault(version.name, fault["why"])
    return None


def _age_of_retry(version: MethodVersion) -> float:
    with suppress(OSError, ValueError, KeyError):
        return float(json.loads(version.fault.read_text())["retry_s"])
    return RETRY_S / 2


@lru_cache(maxsize=256)
def _known(home: Home, version: MethodVersion) -> Experiment:
    """Return the experiment of a version from its card; raises MethodFault."""
    try:
        return _experiment(home, version, _Card.model_validate_json(version.card.read_text()))
    except (OSError, ValidationError) as error:
        raise MethodFault(version.name, f"Its card {version.card} can't be read. Delete {version.path}.") from error


def _write(path: Path, told: Mapping[str, Any]) -> None:
    aside = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    aside.write_text(json.dumps(told))
    aside.replace(path)


# ---- Approval, in a lab with accounts ------------------------------------------------------------------------------


def check_approval(home: Home, version: MethodVersion) -> None:
    """Raise MethodFault for a version that no admin of a lab with accounts has approved: its code does not run."""
    if home.accounts.exists() and not version.approval.exists():
        how = f"python -m engine approve {version.name}"
        fault = MethodFault(version.name, f"Version {version.version} waits for the approval of an admin: {how}")
        fault.version = version.version
        raise fault


def approve(version: MethodVersion, by: str) -> None:
    """Note who has approved a version; to be called with the permission to."""
    _write(version.approval, {"by": by, "at": time.time()})
    _offers.clear()


# ---- What there is, by name ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """An experiment of the lab's own as the list shows it: one of these, or neither while its code is being read."""

    name: str
    experiment: Experiment | None = None
    fault: MethodFault | None = None


_latest: dict[tuple[Home, str, str], tuple[float, Experiment | None]] = {}
_offers: dict[Home, tuple[float, list[Offer]]] = {}
_reading: dict[MethodVersion, threading.Thread] = {}


def current(home: Home, name: str, code: str = "") -> Experiment:
    """Return the experiment of a version of the code, by default of the folder as it is now, which is read if new.
    Raises UnknownName, MethodFault.
    """
    if code:
        if (version := folders.version(home, name, code)) is None:
            known = [each.version for each in folders.versions(home, name)]
            raise UnknownName("version", str(code)[:60], known, field=CODE)
        return read(home, version)
    found = folders.folders(home)
    if name not in found:
        raise UnknownName("experiment", name, found, field="experiment")
    return read(home, folders.keep(home, found[name]))


def latest(home: Home, name: str, code: str = "") -> Experiment | None:
    """Return the experiment of a version of the code, else of the folder as it is now or, where it is not read yet or
    can't be, that of its last card; None for none. Starts no process.
    """
    asked = home, name, code
    kept = _latest.get(asked)
    if kept and time.monotonic() - kept[0] < FRESH_S:
        return kept[1]
    versions = folders.versions(home, name)
    with suppress(MethodFault):
        if not code and versions and (folder := folders.folders(home).get(name)):
            code = folders.version_of(folder)[0]
    found = None
    for version in sorted(versions, key=lambda version: version.version != code):
        if version.card.exists():
            with suppress(MethodFault):
                found = _known(home, version)
                break
    if len(_latest) > MOST_KEPT:
        _latest.clear()
    _latest[asked] = time.monotonic(), found
    return found


def offers(home: Home, taken: Collection[str], *, within_s: float = 0.0) -> list[Offer]:
    """Return the experiments of all folders, whose names must not be `taken`. New ones are read beside the caller, who
    waits for them up to `within_s`.
    """
    kept = _offers.get(home)
    if kept and not within_s and time.monotonic() - kept[0] < FRESH_S:
        return kept[1]
    every, deadline = folders.folders(home).values(), time.monotonic() + within_s
    threads = [each for folder in every if (each := _offer(home, folder, taken)[1])]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    found = [_offer(home, folder, taken)[0] for folder in every]
    _offers[home] = time.monotonic(), found
    return found


def _offer(home: Home, folder: MethodFolder, taken: Collection[str]) -> tuple[Offer, threading.Thread | None]:
    """Return what a folder offers, and the thread that reads it, if one does."""
    name, thread = folder.name, None
    try:
        if name in taken:
            rule = "is an experiment of Parallab. Rename the folder, and EXPERIMENT.name in its config.py."
            raise MethodFault(name, f"'{name}' {rule}")
        version = folders.keep(home, folder)
        check_approval(home, version)
        if version.card.exists():
            return Offer(name, read(home, version)), None
        thread = _reading.get(version)
        if thread is None or not thread.is_alive():
            if fault := _fault(version, young=True):
                raise fault
            thread = _reading[version] = threading.Thread(target=_read_beside, args=(home, version), daemon=True)
            thread.start()
        return Offer(name, fault=_fault(version)), thread
    except MethodFault as fault:
        return Offer(name, fault=fault), None
    except OSError as error:
        return Offer(name, fault=MethodFault(name, f"{folder.path} can't be kept: {error.strerror}.")), None


_AT_ONCE = threading.Semaphore(2)


def _read_beside(home: Home, version: MethodVersion) -> None:
    with _AT_ONCE, suppress(MethodFault, OSError):
        read(home, version)
