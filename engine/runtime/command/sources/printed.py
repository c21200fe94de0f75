"""Reader of what a script prints: numbers with a name, at a step that the same line has or that lines before it had.

It accepts what is clearly a measurement: JSON objects, dicts, `name: value` and `name=value` pairs, progress bars with
values, tables of two columns. All else is left alone: configs, versions, paths, times, tensors, tracebacks.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.runtime.command.sources.readings import Value

LONGEST, MOST_DULL = 2_000, 2_000
"""Characters of a line that isn't JSON, and kinds of lines without a measurement that are remembered."""
MOST_PENDING = 500
"""Kinds of lines without a step that are remembered until one is repeated."""
_I = re.IGNORECASE

# ---- What surrounds a line -----------------------------------------------------------------------------------------

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_TIMES = re.compile(
    r"\d{4}[-/.]\d\d?[-/.]\d\d?(?:[T ,]+\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
    r"|\d\d?[-/]\d\d?[-/]\d{4}|\b\d\d/\d\d(?= \d\d:\d\d)|\b(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?[AP]M\b)?"
    r"|\b[IWEFD]\d{4}(?= )|\d+h ?\d+m(?: ?\d+s)?|\b\d+m ?\d+(?:\.\d+)?s\b"
)
_PLACES = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+|(?<![\w.%])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.+=@-]+(?:[/\\][\w.+=@-]*)*"
    r"|(?<![\w./\\=+@-])[\w./\\=+@-]{1,300}\.(?:py|pth?|ckpt|safetensors|bin|json|jsonl|ya?ml|txt|csv|tsv|npy|npz|png|jpe?g|log|gz|zip|h5|pkl|so)"
    r"\b(?::\d+)?",
    _I,
)
_PREFIX = re.compile(
    r"^(?:\s*(?:\[(?:rank|default|\d+,)? ?\d*\](?:<std\w+>)?:|\(\w+ pid=\d+[^)]*\)|\d{1,4}:(?=\s)"
    r"|[\[(<|]?(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL)\b[\])>|:]*(?:[\w.]+:)?))+",
)
_TRACE = "Traceback (most recent call last)"
_NOISE = re.compile(
    r"^\s*(?:File \"|[\w.]*(?:Error|Exception|Warning|Interrupt)\b|Usage:|\[?W\d{4}\b|usage:|#)"
    r"|\bwarn(?:ing)?\b|\bdeprecated\b|tensor\(\s*\[|\barray\(|^\s*[\[(]*[-+\d.e, ]+[\])]*$|^\s*\w+\((?!.*\bloss\b)"
    r"|\bNamespace\(|^\s*-{0,2}\+?(?:diff|index) ",
    _I,
)
_SCALAR = re.compile(
    r"\b(?:tensor|(?:np\.)?(?:float|int)\d*|Array)\(\s*([-+\d.e]+|nan|[-+]?inf)\s*(?:,[^()<]*(?:<[^>]*>)?\s*)?\)", _I
)

_LIST_OF_ONE = re.compile(r"(?<=[\w)][=:])\s?\[\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*\](?!\s*\[)")
_DIGITS = re.compile(r"\d+")

# ---- Numbers and names ---------------------------------------------------------------------------------------------

_PLAIN = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan\b|inf(?:inity)?\b)"
_UNIT = r"%|(?:ms|msec|us|µs|ns|s|sec|secs|seconds|min|mins|h|MB|GB|MiB|GiB|db|dB|x)(?![\w])|[a-zA-Z]+/[a-zA-Z]+(?!\w)"
_NUMBER = re.compile(
    rf"(?<![\w.#@$^~\\])(?P<number>{_PLAIN})(?P<ratio>/\d+\s*\((?:\d*\.)?\d+\s?%\))?\s?(?P<unit>(?:{_UNIT}))?(?=$|[\s,;)\]}}|'\"(±·•:]|\.(?:\s|$))(?!:\S)",
    _I,
)
_NAME = re.compile(r"[A-Za-z*][\w@/.()%+#^&*-]*(?: [\w@/.()%+#^&*-]+){0,5}")
_LABELS = {"val": "val", "valid": "val", "validation": "val", "test": "test", "testing": "test", "eval": "eval"}
_LABELS |= {"evaluation": "eval", "dev": "dev", "train": "", "training": ""}
_LABEL = re.compile(
    r"(?:^|[\[(|*>-]\s*)(train|training|test|testing|val|valid|validation|eval|evaluation|dev)"
    r"(?:[ _-](?:set|results?|phase|stats?|metrics?|summary|dataset|loop|dataloader \d+))?\s*"
    r"(?=[\])|:>\[]|-\s|\t|\b(?:epoch|step|iter|iteration|batch)\b)",
    _I,
)
_SIDE = re.compile(rf"({'|'.join(sorted(_LABELS, key=len, reverse=True))})\.? ", _I)
"""What a name says of the measures after it in the line, too: `Val loss: 0.5 acc: 0.9`."""
_MEASURES = frozenset(
    [
        "loss",
        "losses",
        "acc",
        "accuracy",
        "err",
        "error",
        "errors",
        "reward",
        "rewards",
        "return",
        "returns",
        "score",
        "ppl",
        "perplexity",
        "f1",
        "auc",
        "auroc",
        "map",
        "iou",
        "miou",
        "dice",
        "bleu",
        "rouge",
        "mse",
        "mae",
        "rmse",
        "r2",
        "kl",
        "nll",
        "elbo",
        "bpc",
        "bpd",
        "psnr",
        "ssim",
        "fid",
        "wer",
        "cer",
        "precision",
        "recall",
        "top1",
        "top5",
        "acc1",
        "acc5",
        "prec1",
        "entropy",
        "cost",
        "objective",
        "likelihood",
        "bce",
        "ce",
        "mape",
        "jaccard",
        "kappa",
        "mcc",
        "ndcg",
        "mrr",
        "hits",
    ]
)
"""Words of names that are measures of learning, enough for a line without a step."""
_ALSO = _MEASURES | frozenset(
    [
        "lr",
        "rate",
        "time",
        "norm",
        "grad",
        "gradient",
        "fps",
        "data",
        "batch",
        "len",
        "length",
        "scale",
        "alpha",
        "beta",
        "eps",
        "epsilon",
        "temperature",
        "tps",
        "tok",
        "tokens",
        "mfu",
        "wps",
        "ups",
        "value",
        "policy",
        "q",
        "critic",
        "actor",
        "memory",
        "mem",
        "gpu",
        "speed",
        "throughput",
        "samples",
        "images",
        "d",
        "g",
    ]
)
"""Words that are enough for a pair without a separator, in a line with a step."""
_SETTINGS = frozenset(
    [
        "weight",
        "scale",
        "coef",
        "coefficient",
        "lambda",
        "smoothing",
        "threshold",
        "target",
        "margin",
        "fn",
        "function",
        "type",
        "factor",
        "seed",
    ]
)
_OTHER = frozenset(
    [
        "cuda",
        "cpu",
        "gpu",
        "mps",
        "port",
        "pid",
        "seed",
        "version",
        "v_num",
        "device",
        "rank",
        "local_rank",
        "world_size",
        "line",
        "id",
        "job",
        "host",
        "python",
        "torch",
        "node",
        "process",
        "worker",
        "thread",
        "eta",
        "epochs",
        "max_steps",
        "num_epochs",
        "gpus",
        "workers",
        "timestamp",
        "ts",
        "time_stamp",
        "date",
        "args",
        "config",
        "cudnn",
        "nccl",
    ]
)
"""Names that are no metrics."""

# ---- Steps ---------------------------------------------------------------------------------------------------------

_INT = r"\d{1,3}(?:,\d{3})+|\d+"
_WORD = (
    r"global[ _-]?steps?|train(?:ing)?[ _-]?step|total[ _]?timesteps|time[ _]?steps?|env[ _]?steps?|steps?|iterations?"
    r"|iters?|itr|it|num[ _]updates|updates?|mini-?batch|batch(?:[ _]?(?:idx|index|num))?|rounds?|frames?"
)
_EPOCH = r"epochs?|ep|episodes?|generation|gen"
_STEP = re.compile(
    rf"(?P<before>(?:\b[\w-]{{1,20}} )?\b[\w-]{{1,20}}[ _])?(?<![\w./-])(?P<word>{_WORD}|{_EPOCH})"
    rf"(?:\s*(?:number|no\.?|num|idx))?\s*[:=#]?\s*[\[(]?\s*(?P<n>{_INT})(?![\w]|\.\d|:\d|-\d)"
    rf"(?:\s*(?:/|of|out of)\s*(?P<total>{_INT}))?(?:\s*\(\s*[\d.]+\s?%\))?\s*[\])]?",
    _I,
)
_NOT_BEFORE = re.compile(
    r"(?:^|[ _])(?:max|num|n|total|warm-?up|save|eval|log|every|per|(?:number|total|out|num|amount) of|each|"
    r"accumulation|start|from|last|resume|best|early|stop|skipped|nan|next)[ _]$",
    _I,
)
_RATIO = re.compile(
    rf"(?P<open>[\[(]\s*)?(?<![\w./:-])(?P<n>{_INT})\s*(?P<slash>/)\s*(?P<total>{_INT})(?![\w./]*\d)(?:\s*\(\s*[\d.]+\s?%\))?(?(open)[^\])]*[\])])",
    _I,
)
_PAIR = re.compile(rf"^\s*\[\s*({_INT}),\s*({_INT})\s*\]")
_BAR = re.compile(
    r"(?P<desc>.*?)\s*(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<n>[\d.]+)(?P<k>[kMGT]?)/(?P<total>[\d.]+)(?P<kt>[kMGT]?)\s*"
    r"\[[^\],<]*<[^\],]*(?:,\s*(?P<rate>[^\],]*))?(?:,\s*(?P<post>.*?))?\]?\s*(?P<more>[^\]]*)$"
)
_COUNTER = re.compile(r"^(?P<desc>[^|]*?)\s*(?P<n>\d+)it \[[\d:]+(?:,\s*(?P<rate>[^\],]*))?(?:,\s*(?P<post>[^\]]*))?\]")
_TIMES_OF_1000 = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_STEP_KEYS: tuple[str, ...] = (
    "global_step",
    "trainer/global_step",
    "step",
    "_step",
    "iteration",
    "iter",
    "num_updates",
    "total_timesteps",
)
_STEP_KEYS += (
    "timesteps",
    "time/total_timesteps",
    "time/iterations",
    "totalenvinteracts",
    "update",
    "batch",
    "round",
    "episode",
)
_EPOCH_KEYS = ("epoch", "ep")
_JSON_PAIR = re.compile(rf"""['"]([^'"]{{1,200}})['"]\s*:\s*['"]?({_PLAIN})['"]?(?=\s*[,}}])""", _I)
_ROW = re.compile(rf"^\s*[|│┃]\s*(?P<name>[^|│┃]+?)\s*[|│┃]\s*(?P<value>{_PLAIN})?\s*[|│┃]\s*$", _I)


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
    bar: int | None = None
    clocks: dict[str, _Clock] = field(default_factory=dict)
    pending: dict[str, list[Value]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    """The number of lines without a step that had a metric."""
    table: list[tuple[str, str]] = field(default_factory=list)
    section: str = ""
    dull: set[str] = field(default_factory=set)
    last: dict[str, tuple[int, float]] = field(default_factory=dict)

    def read(self, line: str, at: float) -> list[Value]:
        """Return the values of a line."""
        if "\x1b" in line:
            line = _ESCAPES.sub("", line)
        if "\b" in line:
            line = line.rpartition("\b")[2]
        example = line.strip()[:200]
        found = list(self._table(line, at)) if self.table or line.lstrip()[:1] in ("|", "│", "┃") else []
        if not found and not self.table:
            found = [] if self._is_noise(line) else self._values(line, at)
        return [value._replace(example=example) for value in self._fresh(found)]

    def rest(self, at: float) -> list[Value]:
        """Return what was held back, at the end of the log: a measure that was printed once."""
        found = list(self._end_of_table(at))
        for values in self.pending.values():
            found += [value for value in values[:1] if _words(value.name) & _MEASURES]
        self.pending.clear()
        return found

    def _fresh(self, values: list[Value]) -> Iterator[Value]:
        """Yield the values that aren't a repetition of the last one at the same step, as redrawn bars show them."""
        for value in values:
            last = self.last.get(value.name)
            if last is None or last[0] != value.step or not _same(last[1], value.value):
                self.last[value.name] = value.step, value.value
                yield value

    def _is_noise(self, line: str) -> bool:
        if _TRACE in line:
            self.in_traceback = True
        elif self.in_traceback:
            text = re.sub(r"^\s?\[rank\d+\]: ?", "", line)
            self.in_traceback = text[:1] in " \t" or text.startswith(("During", "The above"))
            return True
        return self.in_traceback or (not any(map(str.isdigit, line)) and not re.search(r"\b(?:nan|inf)", line, _I))

    # ---- Objects and tables ----------------------------------------------------------------------------------------

    def _values(self, line: str, at: float) -> list[Value]:
        found = self._structured(line, at)
        return self._bar_or_text(line, at) if found is None else found

    def _structured(self, line: str, at: float) -> list[Value] | None:
        """Return the values of a line that holds a JSON object or a dict; None for another line."""
        begin, end = line.find("{"), line.rfind("}")
        if begin < 0 or end < begin:
            return None
        text, values = line[begin : end + 1], dict[str, float]()
        try:
            loaded = json.loads(text)
        except ValueError:
            if not re.match(r"\{\s*['\"]", text):
                return None
            loaded = {name: _number(number) for name, number in _JSON_PAIR.findall(text)}
        _flatten(loaded, "", values)
        return self._of_keys(values, at, str(sorted(values)))

    def _of_keys(self, values: dict[str, float], at: float, kind: str) -> list[Value]:
        """Return values by name, one of which may be the step."""
        lower = {name.lower(): name for name in values}
        steps = {name: values[lower[name]] for name in (*_STEP_KEYS, *_EPOCH_KEYS) if name in lower}
        whole = {name: int(step) for name, step in steps.items() if math.isfinite(step) and step == int(step)}
        fine = next((whole[name] for name in _STEP_KEYS if name in whole), None)
        epoch = next((whole[name] for name in _EPOCH_KEYS if name in whole), None)
        rest = {
            name: value for name, value in values.items() if name.lower() not in steps and not _is_time(name, value)
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
        if match := _ROW.match(line):
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
            values = {name: _number(value) for name, value in table}
            yield from self._of_keys(values, at, str(sorted(values)))

    # ---- Bars and text ---------------------------------------------------------------------------------------------

    def _bar_or_text(self, line: str, at: float) -> list[Value]:
        if len(line) > LONGEST or (kind := _DIGITS.sub("0", line)) in self.dull:
            return []
        text = _PLACES.sub("\t", line)
        if "%|" in text and (match := _BAR.match(text)):
            return self._bar(match, at)
        if "it [" in text and (match := _COUNTER.match(text)) and match["post"]:
            step = self._at_bar(match["desc"], int(match["n"]), None)
            return [value._replace(step=step) for value in self._pairs(match["post"], True, "", at)]
        text = _PREFIX.sub("", _TIMES.sub("\t", text)).strip(" ")
        is_noise, text = _NOISE.search(text), _SCALAR.sub(r"\1", _LIST_OF_ONE.sub(r"\1", text))
        if is_noise or not self._may_measure(text):
            if len(self.dull) < MOST_DULL:
                self.dull.add(kind)
            return []
        return self._text(text, at)

    def _may_measure(self, text: str) -> bool:
        """Return whether a line, or one like it with other digits, may have an index or a measurement."""
        return bool(_STEP.search(text) or _RATIO.search(text) or _PAIR.match(text)) or bool(
            self._pairs(text, True, "", 0.0) or _sentence(text, 0.0)
        )

    def _bar(self, match: re.Match[str], at: float) -> list[Value]:
        done = int(float(match["n"]) * _TIMES_OF_1000[match["k"]])
        total = int(float(match["total"]) * _TIMES_OF_1000[match["kt"]])
        desc, rate = match["desc"], match["rate"] or ""
        if "B/s" in rate or re.search(r"sanity|download|loading|shard|tokeniz|\bmap\b", desc, _I):
            return []
        label = _label(desc)
        step = self._at_bar(desc, done, total)
        if not label:
            self.bar = step
            self._note_progress(desc, done, total)
        shown = f"{_STEP.sub(chr(9), desc)}\t{match['post'] or ''}\t{match['more'] or ''}".strip()
        return [value._replace(step=step) for value in self._pairs(shown, True, label or "", at)] if shown else []

    def _at_bar(self, desc: str, done: int, total: int | None) -> int:
        label, epoch = _label(desc), self.epoch
        if (step := _STEP.search(desc)) and step["word"].lower() in ("epoch", "ep", "epochs", "episode"):
            epoch = _int(step["n"])
            self.epoch = epoch if not label else self.epoch
        clock = self.clocks.setdefault(f"bar {label}", _Clock())
        return clock.step(done, total, epoch)

    def _note_progress(self, desc: str, done: int, total: int) -> None:
        step = _STEP.search(desc)
        if step and step["total"] and total:
            epochs, epoch = _int(step["total"]), max(_int(step["n"]) - 1, 0)
            self.progress = epoch * total + done, epochs * total, "batches"
        else:
            self.progress = done, total, "steps"

    def _text(self, text: str, at: float) -> list[Value]:
        """Return the pairs of a line, at its step or else at the one of the lines before."""
        label = _label(text)
        text = _LABEL.sub("\t", text, count=1) if label is not None else text
        rest, epoch, inner, word = _steps(text, self.epoch is not None)
        if epoch is not None or inner is not None:
            values = self._pairs(rest, True, label or "", at)
            step = self._step(epoch, inner, f"{label or ''} {word}", is_training=not label, has_values=bool(values))
            if not label and (values or (inner is None and not self.is_fine)):
                self.step = step
            return [value._replace(step=step) for value in values]
        values = self._pairs(text, False, label or "", at) or _sentence(text, at)
        if not values or self.step is None:
            return self._counted("".join(sorted(value.name for value in values)), values) if values else []
        found = []
        for value in values:  # a measure again at the same step goes to the next
            last = self.last.get(value.name)
            is_again = last is not None and last[0] >= self.step
            found.append(value._replace(step=last[0] + 1 if last and is_again else self.step))
        return found

    def _step(
        self, epoch: "_Index | None", inner: "_Index | None", kind: str, *, is_training: bool, has_values: bool
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
        if not has_values:
            return index
        self.is_fine = self.is_fine or is_training
        return self.clocks.setdefault(kind, _Clock()).step(index, total, epoch[0] if epoch else self.epoch)

    # ---- Pairs -----------------------------------------------------------------------------------------------------

    def _pairs(self, text: str, has_step: bool, label: str, at: float) -> list[Value]:
        """Return the named numbers of a text."""
        found, begin, beside = dict[str, Value](), 0, ""
        mark = "* " if text.startswith("*") else ""
        for match in _NUMBER.finditer(text):
            gap = text[begin : match.start()]
            begin = match.end()
            name, is_explicit = _name(gap, match["number"].lstrip("+-")[0] in "nN")
            name = name.lstrip("* ")
            words = _words(name)
            if not name or not _is_metric(name, words) or _is_time(name, _number(match["number"])):
                continue
            if has_step:
                if not is_explicit and not words & _ALSO and not _stands_alone(gap, text[match.end() :]):
                    continue
            elif not (is_explicit or mark) or not words & _MEASURES or words & _SETTINGS:
                continue
            value, unit = _number(match["number"]), match["unit"] or ""
            if match["ratio"]:
                value, unit = 100 * value / float(re.split(r"[(\s]", match["ratio"][1:])[0] or "nan"), "%"
            if side := _SIDE.match(name):
                beside = _LABELS[side[1].lower()]
            split = label or (beside if words & _MEASURES else "")
            name = mark + (f"{split}/{name}" if split and not words & set(_LABELS) else name)
            found.setdefault(name, Value(name, 0, value, at, unit))
        return list(found.values())

    def _counted(self, kind: str, values: list[Value], sure: bool = False) -> list[Value]:
        """Return values of a kind of line without a step, at the count of such lines, from the second one on."""
        if kind not in self.counts and not sure:
            if len(self.pending) < MOST_PENDING:
                self.pending[kind], self.counts[kind] = values, 1
            return []
        held = self.pending.pop(kind, [])
        step = max([len(held[:1]), *(self.named.get(value.name, 0) for value in values)])
        self.counts[kind] = 1
        self.named |= {value.name: step + 1 for value in values}
        return [*held, *(value._replace(step=step) for value in values)]


_OPEN_END = re.compile(r"\b(?:from|to|by|than|at|after|before|over|for|with|in|below|above|took)$", _I)
_SEPARATED = re.compile(r"(?<![:=<>!+*-])[:=]$|\b(?:is|was|of|are)$")


_Index = tuple[int, int | None]
"""An index, and how many there are where that is known."""


def _steps(text: str, has_epoch: bool) -> tuple[str, _Index | None, _Index | None, str]:
    """Return a line without its indices; the epoch; the index that is finer than it; and the word before that."""
    epoch: _Index | None = None
    inner: _Index | None = None
    word = ""
    if match := _PAIR.match(text):
        epoch, inner = (_int(match[1]), None), (_int(match[2]), None)
        text = "\t" + text[match.end() :]
    for match in [*_STEP.finditer(text)]:
        if match["before"] and _NOT_BEFORE.search(match["before"]):
            continue
        here = _int(match["n"]), _int(match["total"]) if match["total"] else None
        if re.fullmatch(_EPOCH, match["word"], _I):
            epoch = epoch or here
        else:
            inner, word = inner or here, word or match["word"].lower()
        text = _blank(text, match.start("word"), match.end())
    if inner:
        return text, epoch, inner, word
    ratios = [match for match in _RATIO.finditer(text) if match["open"] or not text[: match.start()].strip("\t |-:>")]
    if epoch is None and len(ratios) > 1 and ratios[0]["open"]:  # [epoch/epochs][batch/batches]
        epoch, text = _index(ratios[0]), _blank(text, *ratios[0].span())
        ratios = ratios[1:]
    if ratios and (ratios[0]["open"] or epoch or (has_epoch and _BATCHES.match(text, ratios[0].end()))):
        inner, text = _index(ratios[0]), _blank(text, *ratios[0].span())
    return text, epoch, inner, word


_BATCHES = re.compile(r"\s*(?:━|\[|batches|-)")


def _index(ratio: re.Match[str]) -> _Index:
    return _int(ratio["n"]), _int(ratio["total"])


def _blank(text: str, begin: int, end: int) -> str:
    return text[:begin] + "\t" * (end - begin) + text[end:]


def _sentence(text: str, at: float) -> list[Value]:
    """Return the measure of a sentence, whose name may hold numbers: accuracy of the network on the 10000 images."""
    match = _SENTENCE.fullmatch(text.strip())
    if match is None or not _words(match["name"]) & _MEASURES:
        return []
    return [Value(match["name"].strip(), 0, _number(match["number"]), at, match["unit"] or "")]


_SENTENCE = re.compile(rf"(?P<name>[A-Z][\w ]{{3,80}}):\s*(?P<number>{_PLAIN})\s?(?P<unit>%)?", _I)


def _name(gap: str, is_nan: bool) -> tuple[str, bool]:
    """Return the name before a number, and whether a separator is between them; empty without one."""
    text = gap.rstrip()
    is_explicit = bool(_SEPARATED.search(text)) and not (is_nan and text.endswith(("is", "was", "of", "are")))
    if is_explicit:
        text = re.sub(r"(?:[:=]|\b(?:is|was|of|are))$", "", text).rstrip(" ")
        if text.endswith("\t"):  # cost after epoch 10: 0.3
            before = re.sub(r"(?:\s(?:after|at|in|for|on|@))?[\s:]*$", "", text)
            text = before if re.fullmatch(r"[\w ]+", before.strip()) else ""
        text = re.split(r"\s{2,}", text.strip())[-1] if text.strip() else ""
    elif not gap[-1:].isspace() or not text or re.search(r"[\[(/<>=:±*,;|~^!-]$", text):
        return "", False
    text = re.split(
        r"[,;|\t{}\[\]•·│]|\s[-–—~>]+\s|(?<![Vv]al)(?<![Aa]vg)(?<![Aa]cc)\.\s|:\s+(?=\S)|:$|=|^\)|(?<=\s)\((?![^()]*\))|->|=>",
        text,
    )[-1].strip(" '\"-–>~")
    if not is_explicit:
        text = re.split(r"\s{2,}", text)[-1]
    text = re.sub(r"^(?:(?:and|with|the|at|has|got|a|of|in|for)\s+)+", "", text, flags=_I)
    if text.count("(") != text.count(")"):
        text = text.strip("()")
    return (text, is_explicit) if _NAME.fullmatch(text) and not _OPEN_END.search(text) else ("", False)


def _stands_alone(gap: str, after: str) -> bool:
    """Return whether a pair without a separator has its place between delimiters: `| lr 5.00 |`."""
    return bool(re.search(r"[|,;\t]\s*[\w/.@-]+\s+$", gap)) and (not after.strip() or after.lstrip()[:1] in "|,;\t(")


def _label(text: str) -> str | None:
    match = _LABEL.search(text)
    return _LABELS[match[1].lower()] if match else None


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("@", "")))


def _is_metric(name: str, words: set[str]) -> bool:
    lower = name.lower()
    return (
        lower not in _OTHER
        and not (len(words) == 1 and words & _OTHER)
        and not re.fullmatch(rf"(?:{_EPOCH}|{_WORD})", lower)
    )


def _is_time(name: str, value: float) -> bool:
    """Return whether a value is a moment (s or ms since 1970)."""
    return 1e9 <= value < 4e9 and value > 1.2e9 and bool(re.search(r"time|stamp|\bts\b|date|_at$", name, _I))


def _flatten(value: object, name: str, into: dict[str, float]) -> None:
    """Collect the numbers of nested objects, named by their path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(inner, f"{name}/{key}" if name else str(key), into)
    elif isinstance(value, int | float) and not isinstance(value, bool) and name:
        into[name] = float(value)
    elif isinstance(value, str) and name and len(value) < 40:
        if re.fullmatch(_PLAIN, value, _I):
            into[name] = _number(value)
        elif name in (*_STEP_KEYS, *_EPOCH_KEYS) and (ratio := re.fullmatch(r"(\d+)/\d+", value)):
            into[name] = float(ratio[1])


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)
