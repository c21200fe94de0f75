"""The exercises of a home: those shipped with Parallab and its own, with the problems of broken files."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.errors import ConfigError, UnknownName
from engine.exercises.files import MOST_BYTES, Exercise, read
from engine.home import Home

SHIPPED = Path(__file__).parent / "shipped"
MOST_FILES = 200


@dataclass(frozen=True)
class ExerciseFile:
    """A file of the catalogue."""

    name: str
    """The name of the file, without `.md`."""
    exercise: Exercise | None
    """None for a broken file."""
    problems: tuple[str, ...] = ()
    """A sentence per error."""

    @property
    def title(self) -> str:
        """Its title; the file's name if it is broken."""
        return self.exercise.title if self.exercise else self.name


class ExerciseCatalogue:
    """All exercises of a home by name: its own, and the shipped ones that they don't replace."""

    def __init__(self, home: Home) -> None:
        paths = sorted((_files(SHIPPED) | _files(home.exercises)).items())
        self.listed: Mapping[str, ExerciseFile] = {name: _listed(path) for name, path in paths}

    def exercise(self, name: str) -> Exercise:
        """Return one exercise; raises UnknownName, ConfigError for a broken file."""
        found = self.listed.get(name)
        if found is None:
            raise UnknownName("exercise", name, self.listed)
        if found.exercise is None:
            raise ConfigError.of("", f"Exercise '{name}' can't be used. {' '.join(found.problems)}")
        return found.exercise


def _files(folder: Path) -> dict[str, Path]:
    try:
        paths = sorted(path for path in folder.glob("*.md") if path.is_file())
    except OSError:
        return {}
    return {path.stem: path for path in paths[:MOST_FILES]}


def _listed(path: Path) -> ExerciseFile:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        return ExerciseFile(path.stem, None, (f"The file can't be read: {error.strerror}.",))
    try:
        return ExerciseFile(path.stem, _kept(content, path.stem))
    except ConfigError as error:
        return ExerciseFile(path.stem, None, tuple(problem.sentence for problem in error.problems))


_kept = lru_cache(maxsize=MOST_FILES)(read)
