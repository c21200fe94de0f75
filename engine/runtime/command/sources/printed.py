"""Reader of what a script prints: numbers with a name, at a step that the same line has or that lines before it had.

It accepts what is clearly a measurement: JSON objects, dicts, `name: value` and `name=value` pairs, progress bars with
values, tables. All else is left alone: configs, versions, paths, times, tensors, tracebacks.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.runtime.command.sources import grammar
from engine.runtime.command.sources.readings import Value

LONGEST, MOST_DULL = 2_000, 2_000
"""Characters of a line that isn't JSON, and kinds of lines without a measurement that are remembered."""
MOST_PENDING = 500
"""Kinds of lines without a step that are remembered until one is repeated."""


@dataclass
class _Clock:
    """Turns an index that begins again in each epoch into a step that does not."""

    base: int = 0
    last: int = -1
    stride: int = 0
    epoch: int | None = None

    def step(self, index: int, total: int | None, epoch: int | None) -> int:
        """Return the step of an index, of so many in its epoch."""
        began_again = (
            index < self.last if epoch is None or self.epoch is None else epoch != self.epoch and index <= self.last
        )
        if began_again:
            known = total and total >= self.last
            self.base += total if total and known else self.last + (self.stride or index or 1) - index
        elif 0 <= self.last < index:
            self.stride = index - self.last
        self.last, self.epoch = index, epoch if epoch is not None else self.epoch
        return self.base + index


@dataclass
class PrintedLines:
    """Reads the lines of one log in their order."""

    progress: tuple[int, int, str] = (0, 0, "")
    in_traceback: bool = False
    epoch: int | None = None
    step: int | None = None
    """The last step of training, for lines that have none."""
    is_fine: bool = False
    """Whether steps are finer than epochs."""
    epochs: int | None = None
    """The total number of epochs."""
    within: tuple[int, int] | None = None
    """The epoch and the step of the last progress that started over with its epoch, as far as one can tell."""
    over: bool = False
    """Whether steps are counted over all epochs, as they went on into another one."""
    bar: int | None = None
    example: str = ""
    clocks: dict[str, _Clock] = field(default_factory=dict)
    pending: dict[str, list[Value]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """The number of lines without a step that had a metric."""
    table: list[tuple[str, str]] = field(default_factory=list)
    columns: tuple[str, list[str]] | None = None
    """The separator and the names of a table's columns."""
    section: str = ""
    dull: set[str] = field(default_factory=set)
    last: dict[str, tuple[int, float]] = field(default_factory=dict)

    def read(self, line: str, at: float) -> list[Value]:
        """Return the values of a line."""
        if "\x1b" in line:
            line = grammar.ESCAPES.sub("", line)
        if "\b" in line:
            line = line.rstrip("\b").rpartition("\b")[2]
        self.example = line.strip()[:200]
        if columns := grammar.columns_of(line):
            self.columns = columns
            return []
        row = grammar.row_of(line, *self.columns) if self.columns else {}
        found = self._of_keys(row, at, str(sorted(row))) if row else []
        if not row and (self.table or line.lstrip()[:1] in ("|", "│", "┃")):
            found = list(self._table(line, at))
        if not found and not self.table:
            found = [] if self._is_noise(line) else self._values(line, at)
        return [value._replace(example=value.example or self.example) for value in self._fresh(found)]

    def rest(self, at: float) -> list[Value]:
        """Return what was held back, at the end of the log: a measure that was printed once."""
        found = list(self._end_of_table(at))
        for values in self.pending.values():
            named = [(value, grammar.words_of(value.name)) for value in values]
            found += [value for value, words in named if words & grammar.MEASURES and not words & grammar.SETTINGS]
        self.pending.clear()
        return found

    def _fresh(self, values: list[Value]) -> Iterator[Value]:
        """Yield the values that aren't a repetition of the last one at the same step, as redrawn bars show them."""
        for value in values:
            last = self.last.get(value.name)
            if last is None or last[0] != value.step or not grammar.is_same(last[1], value.value):
                self.last[value.name] = value.step, value.value
                yield value

    def _is_noise(self, line: str) -> bool:
        if grammar.TRACE in line:
            self.in_traceback = True
        elif self.in_traceback:
            text = re.sub(r"^\s?\[rank\d+\]: ?", "", line)
            self.in_traceback = text[:1] in " \t" or text.startswith(("During", "The above"))
            return True
        return self.in_traceback or (
            not any(map(str.isdigit, line)) and not re.search(r"\b(?:nan|inf)", line, re.IGNORECASE)
        )

    # ---- Objects and tables ----------------------------------------------------------------------------------------

    def _values(self, line: str, at: float) -> list[Value]:
        found = self._structured(line, at)
        return self._bar_or_text(line, at) if found is None else found

    def _structured(self, line: str, at: float) -> list[Value] | None:
        """Return the values of a line that holds a JSON object or a dict; None for another line."""
        begin, end = line.find("{"), line.rfind("}")
        if begin < 0 or end < begin:
            return None
        if grammar.SETTINGS_OF.search(line, 0, begin):
            return self._bar_or_text(line[:begin] + line[end + 1 :], at)
        text, values = line[begin : end + 1], dict[str, float]()
        try:
            loaded = json.loads(text)
        except ValueError:
            if not re.match(r"\{\s*['\"]", text):
                return None
            loaded = {name: grammar.number_of(number) for name, number in grammar.JSON_PAIR.findall(text)}
        grammar.flatten(loaded, "", values)
        return self._of_keys(values, at, str(sorted(values)))

    def _of_keys(self, values: dict[str, float], at: float, kind: str) -> list[Value]:
        """Return values by name, one of which may be the step."""
        lower = {name.lower().rpartition("/")[2]: name for name in values}
        steps = {name: values[lower[name]] for name in (*grammar.STEP_KEYS, *grammar.EPOCH_KEYS) if name in lower}
        whole = {name: int(step) for name, step in steps.items() if math.isfinite(step) and step == int(step)}
        fine = next((whole[name] for name in grammar.STEP_KEYS if name in whole), None)
        epoch = next((whole[name] for name in grammar.EPOCH_KEYS if name in whole), None)
        rest = {
            name: value
            for name, value in values.items()
            if name.lower().rpartition("/")[2] not in steps and not grammar.is_time(name, value)
        }
        if not rest:
            return []
        if fine is None and self.bar is not None and "epoch" in steps:
            fine = self.bar
        if fine is not None:
            self.step, self.is_fine = fine, True
            return [Value(name, fine, value, at) for name, value in rest.items()]
        if epoch is not None:
            self.step = self.step if self.is_fine and self.step is not None else epoch
            return [Value(name, self.step, value, at) for name, value in rest.items()]
        found = self._counted(kind, [Value(name, 0, value, at) for name, value in rest.items()], sure="epoch" in steps)
        if "epoch" in steps:  # of fractions of epochs: the count is the finest step there is
            self.step, self.is_fine = max(value.step for value in found), True
        return found

    def _table(self, line: str, at: float) -> Iterator[Value]:
        """Take a row of a table of two columns; its end yields the values."""
        if match := grammar.ROW.match(line):
            name = match["name"].strip()
            if match["value"] is None:
                self.section = name if name.endswith("/") else ""
            else:
                self.table.append((self.section + name if self.section else name, match["value"]))
            return
        yield from self._end_of_table(at)

    def _end_of_table(self, at: float) -> Iterator[Value]:
        table, self.table, self.section = self.table, [], ""
        if len(table) > 1:
            values = {name: grammar.number_of(value) for name, value in table}
            yield from self._of_keys(values, at, str(sorted(values)))

    # ---- Bars and text ---------------------------------------------------------------------------------------------

    def _bar_or_text(self, line: str, at: float) -> list[Value]:
        if len(line) > LONGEST or (kind := grammar.DIGITS.sub("0", line)) in self.dull:
            return []
        text = grammar.PLACES.sub("\t", line)
        if "%|" in text and (glued := grammar.GLUED.match(text)):
            return [*self._bar_or_text(glued[1], at), *self._bar_or_text(glued[2], at)]
        if "%|" in text and (match := grammar.BAR.match(text)):
            return self._bar(match, at)
        if "it [" in text and (match := grammar.COUNTER.match(text)) and match["post"]:
            step = self._at_bar(match["desc"], int(match["n"]), None)
            return [value._replace(step=step) for value in self._pairs(match["post"], True, "", at)]
        text = grammar.PREFIX.sub("", grammar.TIMES.sub("\t", text)).strip(" ")
        text = grammar.SPREAD.sub(r"\1 \3: \4, \2 \3: \5", text)
        is_noise, text = grammar.NOISE.search(text), grammar.SCALAR.sub(r"\1", grammar.LIST_OF_ONE.sub(r"\1", text))
        if is_noise or not self._may_measure(text):
            if len(self.dull) < MOST_DULL:
                self.dull.add(kind)
            return []
        return self._text(text, at)

    def _may_measure(self, text: str) -> bool:
        """Return whether a line, or one like it with other digits, may have an index or a measurement."""
        return bool(grammar.STEP.search(text) or grammar.RATIO.search(text) or grammar.PAIR.match(text)) or bool(
            self._pairs(text, True, "", 0.0) or grammar.sentence_of(text, 0.0)
        )

    def _bar(self, match: re.Match[str], at: float) -> list[Value]:
        done = int(float(match["n"]) * grammar.TIMES_OF_1000[match["k"]])
        total = int(float(match["total"]) * grammar.TIMES_OF_1000[match["kt"]])
        desc, rate = match["desc"], match["rate"] or ""
        if "B/s" in rate or re.search(r"sanity|download|loading|shard|tokeniz|\bmap\b", desc, re.IGNORECASE):
            return []
        label = grammar.label_of(desc)
        step = self._at_bar(desc, done, total)
        if not label:
            self.bar = step
            self._note_progress(desc, done, total)
        row = grammar.row_of(desc.rstrip(": "), *self.columns) if self.columns else {}
        if row:
            return [Value(name, step, value, at) for name, value in [*row.items()][1:]]
        shown = f"{grammar.STEP.sub(chr(9), desc)}\t{match['post'] or ''}\t{match['more'] or ''}".strip()
        return [value._replace(step=step) for value in self._pairs(shown, True, label or "", at)] if shown else []

    def _at_bar(self, desc: str, done: int, total: int | None) -> int:
        label, epoch = grammar.label_of(desc), self.epoch
        if (step := grammar.STEP.search(desc)) and step["word"].lower() in ("epoch", "ep", "epochs", "episode"):
            epoch = grammar.integer(step["n"])
            self.epoch = epoch if not label else self.epoch
        clock = self.clocks.setdefault(f"bar {label}", _Clock())
        return clock.step(done, total, epoch)

    def _note_progress(self, desc: str, done: int, total: int) -> None:
        step = grammar.STEP.search(desc)
        if step and step["total"] and total:
            epochs, epoch = grammar.integer(step["total"]), max(grammar.integer(step["n"]) - 1, 0)
            self.progress = epoch * total + done, epochs * total, "batches"
        else:
            self.progress = done, total, "steps"
            self._note_within(done)

    def _note_within(self, done: int) -> None:
        """Note whether the progress counts from the begin of an epoch, of which one doesn't know how many there are."""
        if self.within and self.epoch != self.within[0]:
            self.over = done > self.within[1]
        is_within = self.epoch is not None and not self.epochs and not self.over
        self.within = (self.epoch, done) if is_within and self.epoch is not None else None

    def _text(self, text: str, at: float) -> list[Value]:
        """Return the pairs of a line, at its step or else at the one of the lines before."""
        label = grammar.label_of(text)
        text = grammar.LABEL.sub("\t", text, count=1) if label is not None else text
        rest, epoch, inner, word = grammar.indices_of(text, self.epoch is not None)
        if epoch is not None or inner is not None:
            values = self._pairs(rest, True, label or "", at)
            if not values and (alone := grammar.ALONE.fullmatch(rest)):
                values = [Value(f"{label}/value" if label else "value", 0, grammar.number_of(alone[1]), at, alone[2])]
            step = self._step(epoch, inner, f"{label or ''} {word}", is_training=not label, has_values=bool(values))
            if not label and (values or (inner is None and not self.is_fine) or not re.search(r"\w", rest)):
                self.step = step
            return [value._replace(step=step) for value in values]
        values = self._pairs(text, grammar.are_measures(text), label or "", at) or grammar.sentence_of(text, at)
        if not values or self.step is None:
            return self._counted("".join(sorted(value.name for value in values)), values) if values else []
        found = []
        for value in values:  # a measure again at the same step goes to the next
            last = self.last.get(value.name)
            is_again = last is not None and last[0] >= self.step
            found.append(value._replace(step=last[0] + 1 if last and is_again else self.step))
        return found

    def _step(
        self,
        epoch: "grammar.Index | None",
        inner: "grammar.Index | None",
        kind: str,
        *,
        is_training: bool,
        has_values: bool,
    ) -> int:
        """Return the step of a line from its indices, and note the progress."""
        if is_training and epoch is not None:
            self.epoch, self.epochs = epoch[0], epoch[1] or self.epochs
            if epoch[1] and not self.is_fine:
                self.progress = epoch[0], epoch[1], "epochs"
        if inner is None:
            assert epoch is not None
            return self.step if self.is_fine and self.step is not None else epoch[0]
        index, total = inner
        if is_training and total:
            before = max((self.epoch or 0) - 1, 0) if self.epochs else 0
            self.progress = before * total + index, (self.epochs or 1) * total, "steps"
            self._note_within(index)
        if not has_values:
            return index
        self.is_fine = self.is_fine or is_training
        return self.clocks.setdefault(kind, _Clock()).step(index, total, epoch[0] if epoch else self.epoch)

    # ---- Pairs -----------------------------------------------------------------------------------------------------

    def _pairs(self, text: str, has_step: bool, label: str, at: float) -> list[Value]:
        """Return the named numbers of a text."""
        found, begin, beside = dict[str, Value](), 0, ""
        mark = "* " if text.startswith("*") else ""
        measures = grammar.MEASURES | (set(grammar.LABELS) if len(grammar.SPLITS.findall(text)) > 1 else set())
        for match in grammar.NUMBER.finditer(text):
            gap = text[begin : match.start()]
            begin = match.end()
            name, is_explicit = grammar.name_of(gap, match["number"].lstrip("+-")[0] in "nN")
            name = name.lstrip("* ")
            words = grammar.words_of(name)
            if (
                not name
                or not grammar.is_metric(name, words)
                or grammar.is_time(name, grammar.number_of(match["number"]))
            ):
                continue
            if has_step:
                if not is_explicit and not words & grammar.ALSO and not grammar.stands_alone(gap, text[match.end() :]):
                    continue
            elif not (is_explicit or mark) or not words & measures or words & grammar.SETTINGS:
                continue
            value, unit = grammar.number_of(match["number"]), match["unit"] or ""
            if match["ratio"]:
                value, unit = 100 * value / float(re.split(r"[(\s]", match["ratio"][1:])[0] or "nan"), "%"
            if side := grammar.SIDE.match(name):
                beside = grammar.LABELS[side[1].lower()]
            split = label or (beside if words & grammar.MEASURES else "")
            name = mark + (f"{split}/{name}" if split and not words & set(grammar.LABELS) else name)
            found.setdefault(name, Value(name, 0, value, at, unit))
        return list(found.values())

    def _counted(self, kind: str, values: list[Value], sure: bool = False) -> list[Value]:
        """Return values of a kind of line without a step, at the count of such lines, from the second one on."""
        if kind not in self.counts and not sure:
            if len(self.pending) < MOST_PENDING:
                self.pending[kind] = [value._replace(example=self.example) for value in values]
                self.counts[kind] = 1
            return []
        held = self.pending.pop(kind, [])
        step = max([len(held[:1]), *(self.named.get(value.name, 0) for value in values)])
        self.counts[kind] = 1
        self.named |= {value.name: step + 1 for value in values}
        return [*held, *(value._replace(step=step) for value in values)]
