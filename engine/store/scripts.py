"""Commands of the lab's own scripts, each stored once, how their metrics are shown, and recipes: commands under a name,
in versions.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

from engine.access.confusables import visible
from engine.errors import ConfigError, NoSuchRun, UnknownName
from engine.metrics import MetricSetting
from engine.registry import EXPERIMENTS, is_registered
from engine.script.command import Command, Rendered
from engine.store.access.authorization import Authorization, command
from engine.store.connection import Connection, Row, WriteConnection
from engine.store.timestamps import now


def command_of(table: str) -> str:
    """Return the columns of a query that `as_command` reads, for rows of `runs` or `sweeps`."""
    return f"(SELECT spec FROM commands WHERE commands.id = {table}.command_id) AS command_spec"


SCRIPT = "coalesce((SELECT script FROM commands WHERE commands.id = runs.command_id), '')"
"""Expression in a query of runs: what identifies the script of each (`Command.identity`), empty without a command."""

REPEATS = (
    "EXISTS (SELECT 1 FROM commands, json_each(commands.spec, '$.fields') WHERE commands.id = runs.command_id"
    " AND value ->> '$.name' = 'seed' AND value ->> '$.style' = 'switch' AND value ->> '$.flag' = '')"
)
"""Expression in a query of runs: `Command.numbers_repeats` of each one's command."""


def as_command(row: Row) -> Command | None:
    """Return the command of a row, None if it has none."""
    return None if row["command_spec"] is None else _parsed(row["command_spec"])


@lru_cache(maxsize=64)
def _parsed(spec: str) -> Command:
    return Command.of(json.loads(spec))


def rendered(command: Command, config: Mapping[str, Any]) -> Rendered:
    """Return a command as it runs with the config of a run, of which settings that the command lacks don't count."""
    return command.rendered({each.name: config[each.name] for each in command.fields if each.name in config})


_LAST_RANKED = "SELECT result, better FROM commands WHERE script = ? ORDER BY id DESC LIMIT 1"
"""The ranking metric of the last command of a script: once chosen, it holds for later ones."""


def keep_command(db: WriteConnection, command: Command | None, experiment: str) -> int | None:
    """Store a command of runs of this name, within a change, unless it is there, and return its number; None for none.

    The first one of a recipe takes over the ranking metric of its script.
    """
    if command is None:
        return None
    spec, script = json.dumps(command.plain(), sort_keys=True), command.identity(experiment)
    digest = sha256(f"{script}\n{spec}".encode()).hexdigest()
    if found := db.row("SELECT id FROM commands WHERE digest = ?", [digest]):
        return int(found["id"])
    ranked = {"result": command.result, "better": command.better}
    if not command.result:
        before = db.row(_LAST_RANKED, [script]) or db.row(_LAST_RANKED, [command.identity(command.name)])
        ranked = {name: before[name] for name in ranked} if before else ranked
    return db.insert("commands", {"script": script, "digest": digest, "spec": spec, **ranked, "created_at": now()})


# ---- Recipes: commands that the lab keeps under a name, with their ranking metric ----------------------------------

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,59}")
TITLE_LENGTH, DESCRIPTION_LENGTH = 100, 2_000
_NEWEST = "version = (SELECT max(version) FROM recipes AS others WHERE others.name = recipes.name)"


@dataclass(frozen=True)
class Recipe:
    """One version of a recipe; the values of its command are the defaults of its runs."""

    name: str
    """The name that its runs have as their experiment."""
    version: int
    title: str
    description: str
    created_at: str
    created_by: str
    hidden_by: str | None
    """Person who hid the recipe; hidden ones are not offered and still launch by their name."""
    command: Command
    command_id: int

    @property
    def is_hidden(self) -> bool:
        return self.hidden_by is not None


UNIT_LENGTH = 20


def settings_of(db: Connection, scripts: Collection[str]) -> dict[str, dict[str, MetricSetting]]:
    """Return the settings of metrics that people have set for scripts (`Command.identity`), by script and metric."""
    found: dict[str, dict[str, MetricSetting]] = {}
    if named := [script for script in scripts if script]:
        columns = "script, name, is_shown, unit, better"
        sql = f"SELECT {columns} FROM script_metrics WHERE script IN (SELECT value FROM json_each(?))"
        for script, name, *values in db.rows(sql, [json.dumps(named)]):
            found.setdefault(script, {})[name] = MetricSetting(bool(values[0]), *values[1:])
    return found


class RecipeReader:
    """Queries of recipes, and of how the metrics of scripts are shown."""

    def __init__(self, db: Connection) -> None:
        self.db = db

    def everyone(self, *, hidden: bool = False) -> list[Recipe]:
        """Return the newest version of each recipe by name, optionally with hidden ones."""
        return self._found(f"{_NEWEST} AND (?1 OR hidden_by IS NULL) ORDER BY sort_key(name)", [hidden])

    def one(self, name: str, version: int | None = None) -> Recipe:
        """Return a version of a recipe, the newest by default; raises UnknownName."""
        found = self._found("name = ?1 AND (?2 IS NULL OR version = ?2) ORDER BY version DESC LIMIT 1", [name, version])
        if found:
            return found[0]
        if version is None or not (versions := self.versions(name)):
            raise UnknownName("recipe", name, self.names(), field="recipe")
        raise UnknownName("version", str(version), [str(each.version) for each in versions], field="version")

    def command_of(self, name: str) -> Command | None:
        """Return the command that a launch by this name runs: None for an experiment of Parallab, else that of the
        newest version of the recipe. Raises UnknownName.
        """
        if is_registered(name):
            return None
        if name not in (names := self.names()):
            raise UnknownName("experiment", name, (*EXPERIMENTS, *names), field="experiment")
        return self.one(name).command

    def versions(self, name: str) -> list[Recipe]:
        """Return all versions of a recipe, newest first."""
        return self._found("name = ? ORDER BY version DESC", [name])

    def version_of(self, name: str, command_id: int | None) -> int | None:
        """Return the version of a recipe that a run was launched from; None if its experiment is no recipe."""
        sql = "SELECT max(version) AS version FROM recipes WHERE name = ? AND command_id = ?"
        row = self.db.row(sql, [name, command_id])
        return row["version"] if row else None

    def ranking_of(self, script: str) -> tuple[str, Literal["max", "min", ""]]:
        """Return the metric chosen to rank the runs of a script (`Command.identity`), and which of its values are
        better; empty texts without one.
        """
        row = self.db.row(_LAST_RANKED, [script])
        return (row["result"], row["better"]) if row else ("", "")

    def names(self) -> list[str]:
        """Return the names of all recipes, hidden ones too."""
        return self.db.column("SELECT DISTINCT name FROM recipes ORDER BY sort_key(name)")

    def last_command(self, owner: str) -> Command | None:
        """Return the command that a person launched last, None without any."""
        sql = (
            f"SELECT {command_of('runs')} FROM runs WHERE owner = ? AND command_id IS NOT NULL ORDER BY id DESC LIMIT 1"
        )
        row = self.db.row(sql, [owner])
        return as_command(row) if row else None

    def metric_settings(self, script: str) -> dict[str, MetricSetting]:
        """Return the settings of metrics that a person has set for a script (`Command.identity`), by metric; none for
        an empty text.
        """
        return settings_of(self.db, [script]).get(script, {})

    def _found(self, where: str, values: list[object]) -> list[Recipe]:
        same = ("name", "version", "title", "description", "created_at", "created_by", "hidden_by", "command_id")
        rows = self.db.rows(f"SELECT *, {command_of('recipes')} FROM recipes WHERE {where}", values)
        return [
            Recipe(**{name: row[name] for name in same}, command=found) for row in rows if (found := as_command(row))
        ]


class RecipeCommands:
    """Commands of recipes and of the metrics of scripts."""

    def __init__(self, db: WriteConnection) -> None:
        self.db = db
        self._authorization = Authorization(db)
        self._recipes = RecipeReader(db)

    @command("save recipe", "recipe")
    def save(self, name: str, command: Command, *, by: str, title: str = "", description: str = "") -> int:
        """Save a command as the next version of a recipe and return the version, the newest where nothing differs from
        it; the recipe is shown again if it was hidden.

        Raises ConfigError for an invalid name or one of an experiment, Forbidden without permission to run commands.
        """
        name, title, description = checked_recipe(name), title.strip() or name, description.strip()
        for field, text, most in (("title", title, TITLE_LENGTH), ("description", description, DESCRIPTION_LENGTH)):
            if len(visible(field, text)) > most:
                raise ConfigError.of(field, f"{field} must have at most {most:,} characters; got {len(text):,}.")
        with self.db.change():
            self._authorization.check("run commands", by, "", [])
            version = self.db.number("SELECT coalesce(max(version), 0) FROM recipes WHERE name = ?", [name])
            self.db.connection.execute("UPDATE recipes SET hidden_by = NULL WHERE name = ?", [name])
            kept = keep_command(self.db, command, name)
            same = "name = ? AND version = ? AND command_id = ? AND title = ? AND description = ?"
            told = [name, version, kept, title, description]
            if not self.db.number(f"SELECT count(*) FROM recipes WHERE {same}", told):
                version += 1
                made = {"command_id": kept, "created_at": now(), "created_by": str(by)}
                about = {"name": name, "version": version, "title": title, "description": description}
                self.db.insert("recipes", about | made)
        return version

    @command("hide recipe", "recipe")
    def hide(self, name: str, *, by: str, hidden: bool = True) -> None:
        """Offer a recipe no longer, or again; its runs stay. Raises UnknownName."""
        with self.db.change() as connection:
            self._recipes.one(name)
            connection.execute("UPDATE recipes SET hidden_by = ? WHERE name = ?", [by if hidden else None, name])

    @command("rank by", "run")
    def rank_by(self, run_id: int, metric: str, better: Literal["max", "min"], *, by: str) -> None:
        """Choose the metric that ranks the runs of a run's script or recipe, those that were launched before too.

        Raises NoSuchRun, and ConfigError for a run without a command, or a metric that it has not recorded.
        """
        with self.db.change() as connection:
            script = self._script_of(run_id, metric)
            connection.execute("UPDATE commands SET result = ?, better = ? WHERE script = ?", [metric, better, script])
            sql = "UPDATE script_metrics SET better = ? WHERE script = ? AND name = ?"
            connection.execute(sql, [better, script, metric])

    @command("set metric", "run")
    def set_metric(
        self, run_id: int, metric: str, *, is_shown: bool, unit: str, better: Literal["max", "min", ""], by: str
    ) -> None:
        """Set how a metric is shown for all runs of a run's script or recipe. The direction of the metric that ranks
        them is that of the ranking, too. No value is deleted.

        Raises NoSuchRun, and ConfigError for a run without a command, a metric that it has not recorded, a unit that is
        too long, or a ranking metric without a direction.
        """
        unit = visible("unit", unit.strip())
        if len(unit) > UNIT_LENGTH:
            raise ConfigError.of("unit", f"unit must have at most {UNIT_LENGTH} characters; got {len(unit):,}.")
        with self.db.change() as connection:
            script = self._script_of(run_id, metric)
            if not better and self.db.exists(
                "SELECT 1 FROM commands WHERE result = ? AND script = ?", [metric, script]
            ):
                rule = f"better must be max or min for {metric}, which ranks the runs of {script}; got none."
                raise ConfigError.of("better", f"{rule} Rank by another metric first.")
            told = {"script": script, "name": metric, "is_shown": is_shown, "unit": unit, "better": better}
            self.db.insert("script_metrics", told, "REPLACE")
            sql = "UPDATE commands SET better = ? WHERE result = ? AND script = ?"
            connection.execute(sql, [better, metric, script])

    def _script_of(self, run_id: int, metric: str) -> str:
        """Return what identifies a run's script, for a metric that the run has recorded."""
        run = self.db.row(f"SELECT experiment, {SCRIPT} AS script FROM runs WHERE id = ?", [run_id])
        if run is None:
            raise NoSuchRun(f"Run {run_id} doesn't exist.")
        if not run["script"]:
            raise ConfigError.of("run", f"Run {run_id} is of the experiment {run['experiment']}, which has its own.")
        names = self.db.column("SELECT DISTINCT name FROM metrics WHERE run_id = ? ORDER BY name", [run_id])
        if metric not in names:
            raise UnknownName("metric", metric, names, field="metric")
        return str(run["script"])


def checked_recipe(name: str) -> str:
    """Return the name of a recipe; raises ConfigError for an invalid one, and for one of an experiment of Parallab."""
    name = name.strip()
    if not NAME.fullmatch(name):
        rule = "1 to 60 letters of English, digits and the signs _ . + -, the first a letter or a digit"
        raise ConfigError.of("name", f"The name of a recipe must have {rule}; got '{name[:100]}'.")
    if is_registered(name):
        raise ConfigError.of("name", f"'{name}' is an experiment of Parallab. Choose another name for the recipe.")
    return name
