"""What printed lines look like: patterns for what surrounds a measurement, for numbers, names and steps, and functions
that take one line apart.
"""

import re

from engine.runtime.command.sources.readings import Value

_I = re.IGNORECASE

# ---- What surrounds a line -----------------------------------------------------------------------------------------

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
TIMES = re.compile(
    r"\d{4}[-/.]\d\d?[-/.]\d\d?(?:[T ,]+\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
    r"|\d\d?[-/]\d\d?[-/]\d{4}|\b\d\d/\d\d(?= \d\d:\d\d)|\b(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?[AP]M\b)?"
    r"|\b[IWEFD]\d{4}(?= )|\d+h ?\d+m(?: ?\d+s)?|\b\d+m ?\d+(?:\.\d+)?s\b"
)
PLACES = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+|(?<![\w.%])(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w.+=@-]+(?:[/\\][\w.+=@-]*)*"
    r"|(?<![\w./\\=+@-])[\w./\\=+@-]{1,300}\.(?:py|pth?|ckpt|safetensors|bin|json|jsonl|ya?ml|txt|csv|tsv|npy|npz|png|jpe?g|log|gz|zip|h5|pkl|so)"
    r"\b(?::\d+)?",
    _I,
)
PREFIX = re.compile(
    r"^(?:\s*(?:\[(?:rank|default|\d+,)? ?\d*\](?:<std\w+>)?:|\(\w+ pid=\d+[^)]*\)|\d{1,4}:(?= )"
    r"|[\[(<|]?(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL)\b[\])>|:]*(?:[\w.]+:)?))+",
)
TRACE = "Traceback (most recent call last)"
NOISE = re.compile(
    r"^\s*(?:File \"|[\w.]*(?:Error|Exception|Warning|Interrupt)\b|Usage:|\[?W\d{4}\b|usage:|#(?! ?of ))"
    r"|\bwarn(?:ing)?\b|\bdeprecated\b|tensor\(\s*\[|\barray\(|^\s*[\[(]*[-+\d.e, ]+[\])]*$|^\s*\w+\((?!.*\bloss\b)"
    r"|\bNamespace\(|^\s*-{0,2}\+?(?:diff|index) ",
    _I,
)
SCALAR = re.compile(
    r"\b(?:tensor|(?:np\.)?(?:float|int)\d*|Array)\(\s*([-+\d.e]+|nan|[-+]?inf)\s*(?:,[^()<]*(?:<[^>]*>)?\s*)?\)", _I
)

LIST_OF_ONE = re.compile(r"(?<=[\w)][=:])\s?\[\s*([-+]?[\d.]+(?:e[-+]?\d+)?)\s*\](?!\s*\[)")
DIGITS = re.compile(r"\d+")

# ---- Numbers and names ---------------------------------------------------------------------------------------------

_PLAIN = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan\b|inf(?:inity)?\b)"
_UNIT = (
    r"%|(?:ms|msec|us|µs|ns|s|sec|secs|seconds|min|mins|h|MB|GB|MiB|GiB|db|dB|x)(?!\w)|[a-zA-Z]+/[a-zA-Z]+(?!\w| ?[:=])"
)
NUMBER = re.compile(
    rf"(?<![\w.#@$^~\\])(?P<number>{_PLAIN})(?P<ratio>/\d+\s*\((?:\d*\.)?\d+\s?%\))?\s?(?P<unit>(?:{_UNIT}))?(?=$|[\s,;)\]}}|'\"(±·•:]|\.(?:\s|$))(?!:\S)",
    _I,
)
_NAME = re.compile(r"[A-Za-z*][\w@/.()%+#^&*'-]*(?: [\w@/.()%+#^&*'-]+){0,5}")
LABELS = {"val": "val", "valid": "val", "validation": "val", "test": "test", "testing": "test", "eval": "eval"}
LABELS |= {"validate": "val", "validating": "val", "evaluate": "eval", "evaluating": "eval", "evaluation": "eval"}
LABELS |= {"dev": "dev", "train": "", "training": ""}
LABEL = re.compile(
    r"(?:^|[\[(|*>-]\s*)(train|training|test|testing|val|valid|validat(?:ion|e|ing)|eval|evaluat(?:ion|e|ing)|dev)"
    r"(?:[ _-](?:set|results?|phase|stats?|metrics?|summary|dataset|loop|dataloader \d+))?\s*"
    r"(?=[\])|:>\[]|-\s|\t|\b(?:epoch|step|iter|iteration|batch)\b)(?!:\s*-?\d*\.\d+\s*(?:[,|]|$))",
    _I,
)
SIDE = re.compile(rf"({'|'.join(sorted(LABELS, key=len, reverse=True))})\.? ", _I)
"""What a name says of the measures after it in the line, too: `Val loss: 0.5 acc: 0.9`."""


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


MEASURES = _set_of(
    "loss losses acc accuracy err error errors reward rewards return returns score ppl perplexity f1 auc auroc "
    "map iou miou dice bleu rouge mse mae rmse r2 kl nll elbo bpc bpd psnr ssim fid wer cer precision recall top1 "
    "top5 acc1 acc5 prec1 entropy cost objective likelihood bce ce mape jaccard kappa mcc ndcg mrr hits logloss "
    "roc"
)
"""Words of names that are measures of learning, enough for a line without a step."""
ALSO = MEASURES | _set_of(
    "lr rate time norm grad gradient fps data batch len length scale alpha beta eps epsilon temperature tps tok "
    "tokens mfu wps ups value policy q critic actor memory mem gpu speed throughput samples images d g"
)
"""Words that are enough for a pair without a separator, in a line with a step."""
SETTINGS = _set_of(
    "weight scale coef coefficient lambda smoothing threshold target margin fn function type factor seed"
)
_OTHER = _set_of(
    "cuda cpu gpu mps port pid seed version v_num device rank local_rank world_size line id job host python torch "
    "node process worker thread eta epochs max_steps num_epochs gpus workers timestamp ts time_stamp date args "
    "config cudnn nccl remaining batchsize batch_size"
)
"""Names that are no metrics."""

# ---- Steps ---------------------------------------------------------------------------------------------------------

_INT = r"\d{1,3}(?:,\d{3})+|\d+"
_WORD = (
    r"(?:global|inner|outer|local|optimi[sz]er)[ _-]?steps?|train(?:ing)?[ _-]?step|total[ _]?timesteps|time[ _]?steps?"
    r"|env[ _]?steps?|steps?|iterations?|iters?|itr|it|num[ _]updates|updates?|mini-?batch"
    r"|batch(?:[ _]?(?:idx|index|num))?|rounds?|frames?"
)
_EPOCH = r"epochs?|ep|episodes?|generation|gen|trial"
STEP = re.compile(
    rf"(?P<before>(?:(?:#|\b[\w-]{{1,20}}) )?\b[\w-]{{1,20}}[ _])?(?:(?<![\w./-])|(?<=\bn_))(?P<word>{_WORD}|{_EPOCH})"
    rf"(?:\s*(?:number|no\.?|num|idx|#))?\s*[:=#]?\s*[\[(]?\s*(?P<n>{_INT})(?![\w]|\.\d|:\d|-\d)"
    rf"(?:\s*(?:/|of|out of)\s*(?P<total>{_INT}))?(?:\s*\(\s*[\d.]+\s?%\))?\s*[\])]?",
    _I,
)
_NOT_BEFORE = re.compile(
    r"(?:^|[ _])(?:max|num|n|total|warm-?up|save|eval|log|every|per|(?:number|total|out|num|amount) of|each|"
    r"accumulation|start|from|last|resume|best|early|stop|skipped|nan|next)[ _]$",
    _I,
)
_COUNTED = re.compile(r"(?:^|[ _])n[ _]$|(?:#|num(?:ber)?) of $", _I)
"""Before a singular it is an index, n_episode, and before a plural a total, n_episodes."""
LEADING = re.compile(r"\s*(?:\[(\d+)\]|(\d+):)\t")
RATIO = re.compile(
    rf"(?P<open>[\[(]\s*)?(?<![\w./:-])(?P<n>{_INT})\s*(?P<slash>/)\s*(?P<total>{_INT})(?![\w./]*\d)(?:\s*\(\s*[\d.]+\s?%\))?(?(open)[^\])]*[\])])",
    _I,
)
PAIR = re.compile(rf"^\s*\[\s*({_INT}),\s*({_INT})\s*\]")
BARS = "━╸╺"
GLUED = re.compile(r"(.*?\d%\|[^|]*\|[^\[]*\[[^\]]*<[^\]]*\])([A-Za-z].*)")
"""A line printed where a progress bar was left standing."""
SPREAD = re.compile(rf"\b([a-z]+)/([a-z]+) ([a-z]+)s?:? ({_PLAIN})/({_PLAIN})", _I)
"""Two statistics of a measure: `mean/median reward 21.5/20.0`."""
SETTINGS_OF = re.compile(r"\b(?:param(?:eter)?s|hparams|config|args|options|settings)\W*$", _I)
BAR = re.compile(
    r"(?P<desc>.*?)\s*(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<n>[\d.]+)(?P<k>[kMGT]?)/(?P<total>[\d.]+)(?P<kt>[kMGT]?)\s*"
    r"\[[^\],<]*<[^\],]*(?:,\s*(?P<rate>[^\],]*))?(?:,\s*(?P<post>.*?))?\]?\s*(?P<more>[^\]]*)$"
)
COUNTER = re.compile(r"^(?P<desc>[^|]*?)\s*(?P<n>\d+)it \[[\d:]+(?:,\s*(?P<rate>[^\],]*))?(?:,\s*(?P<post>[^\]]*))?\]")
TIMES_OF_1000 = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
STEP_KEYS = (
    *("global_step", "step", "_step", "iteration", "iter", "num_updates", "total_timesteps", "timesteps"),
    *("iterations", "nupdates", "totalenvinteracts", "update", "batch", "round", "episode"),
)
EPOCH_KEYS = ("epoch", "ep")
JSON_PAIR = re.compile(rf"""['"]([^'"]{{1,200}})['"]\s*:\s*['"]?({_PLAIN})['"]?(?=\s*[,}}])""", _I)
ROW = re.compile(rf"^\s*[|│┃]\s*(?P<name>[^|│┃]+?)\s*[|│┃]\s*(?P<value>{_PLAIN})?\s*[|│┃]\s*$", _I)


_OPEN_END = re.compile(r"\b(?:from|to|by|than|at|after|before|over|for|with|in|below|above|took)$", _I)
_SEPARATED = re.compile(r"(?<![:=<>!+*-])[:=]$|\b(?:is|was|of|are)$")


Index = tuple[int, int | None]
"""An index, and how many there are where that is known."""


def indices_of(text: str, has_epoch: bool) -> tuple[str, Index | None, Index | None, str]:
    """Return a line without its indices; the epoch; the index that is finer than it; and the word before that."""
    epoch: Index | None = None
    inner: Index | None = None
    word = ""
    if match := PAIR.match(text):
        epoch, inner = (integer(match[1]), None), (integer(match[2]), None)
        text = "\t" + text[match.end() :]
    elif match := LEADING.match(text):
        inner, text = (integer(match[1] or match[2]), None), text[match.end() - 1 :]
    for match in [*STEP.finditer(text)]:
        before = match["before"] or ""
        if _NOT_BEFORE.search(before) and (match["word"][-1:] in "sS" or not _COUNTED.search(before)):
            continue
        here = integer(match["n"]), integer(match["total"]) if match["total"] else None
        if re.fullmatch(_EPOCH, match["word"], _I):
            epoch = epoch or here
        else:
            inner, word = inner or here, word or match["word"].lower()
        text = _blank(text, match.start("word"), match.end())
    ratios = [match for match in RATIO.finditer(text) if _is_index(match, text, has_epoch)]
    if inner and word.startswith("round") and ratios:  # of a client, which begins again with each one
        return _blank(text, *ratios[0].span()), None, _index(ratios[0]), word
    if inner:
        return text, epoch, inner, word
    if epoch is None and len(ratios) > 1 and ratios[0]["open"]:  # [epoch/epochs][batch/batches]
        epoch, text = _index(ratios[0]), _blank(text, *ratios[0].span())
        ratios = ratios[1:]
    if ratios and (ratios[0]["open"] or epoch or (has_epoch and _BATCHES.match(text, ratios[0].end()))):
        inner, text = _index(ratios[0]), _blank(text, *ratios[0].span())
    return text, epoch, inner, word


_BATCHES = re.compile(r"\s*(?:━|\[|batches|-|$)|(?<=━)")


def _is_index(ratio: re.Match[str], text: str, has_epoch: bool) -> bool:
    """Return whether a ratio has the place of an index: in brackets, but not after its percentage, or at an end."""
    before = text[: ratio.start()].rstrip("\t ")
    if ratio["open"]:
        return before[-1:] != "%"
    return (
        not before.strip("\t |-:>")
        or before[-1:] in BARS
        or (has_epoch and before[-1:] not in ":=" and not text[ratio.end() :].strip())
    )


def _index(ratio: re.Match[str]) -> Index:
    return integer(ratio["n"]), integer(ratio["total"])


def _blank(text: str, begin: int, end: int) -> str:
    return text[:begin] + "\t" * (end - begin) + text[end:]


def sentence_of(text: str, at: float) -> list[Value]:
    """Return the measure of a sentence, whose name may hold numbers: accuracy of the network on the 10000 images."""
    match = _SENTENCE.fullmatch(text.strip())
    if match is None or not words_of(match["name"]) & MEASURES or _OPEN_END.search(match["name"]):
        return []
    return [
        Value(
            re.sub(r" (?:is|was)$", "", match["name"].strip()), 0, number_of(match["number"]), at, match["unit"] or ""
        )
    ]


_SENTENCE = re.compile(rf"(?P<name>[A-Z][\w ]{{3,80}}):\s*(?P<number>{_PLAIN})\s?(?P<unit>%)?", _I)


_MEASURE = re.compile(rf"\s*[A-Za-z][\w@-]*(?: [\w@-]+){{0,3}}\s+(?:{_PLAIN})\s?%?\s*", _I)


ALONE = re.compile(r"[\t :|>-]*([-+]?\d*\.\d+(?:e[-+]?\d+)?)\s?(%?)[\t ]*")
"""The rest of a line whose only number, besides the index, has no name."""
SPLITS = re.compile(r"\b(?:train|val|valid|validation|test|dev)\w*[:=]\s?\d*\.\d", _I)


def are_measures(text: str) -> bool:
    """Return whether a line without a step is measures and nothing else: `train acc 0.9, test acc 0.8`."""
    parts = re.split(r"[,;|]\s", text.strip(" \t|"))
    return all(
        _MEASURE.fullmatch(part)
        and re.findall(r"[a-z]+\d*(?=\W*\s[-+\d.naif%]+\s*$)", part.lower())[-1:] != []
        and words_of(part) & MEASURES
        and not words_of(part) & SETTINGS
        for part in parts
    )


_FIRST_COLUMN = re.compile(rf"\W*(?:{_EPOCH}|steps?|iter|iteration|round|batch)", _I)
_CELL = re.compile(r"[A-Za-z#][\w./@%+()'-]*(?: [\w./@%+()'-]+)*")


def columns_of(line: str) -> tuple[str, list[str]] | None:
    """Return the separator and the names of a table's columns: an index, and some measure; None for another line."""
    if not _FIRST_COLUMN.match(line) or re.search(r"[:=]|\d/\d", line):
        return None
    for separator in (r"[|│┃]", ",", r"\t", r"\s{2,}", r"\s"):
        names = cells_of(line, separator)
        if len(names) > 1:
            is_table = bool(_FIRST_COLUMN.fullmatch(names[0])) and all(map(_CELL.fullmatch, names))
            is_table = is_table and any(words_of(name) & MEASURES for name in names)
            return (r"\s+" if separator[:2] == r"\s" else separator, names) if is_table else None
    return None


def cells_of(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in re.split(separator, line.strip(" \t|│┃"))]


def row_of(line: str, separator: str, names: list[str]) -> dict[str, float]:
    """Return the numbers of a table's row by their columns, the first of which is the index; empty for another line."""
    cells = cells_of(line, separator)
    index = re.fullmatch(r"(\d+)(?:/\d+)?", cells[0])
    if index is None or len(cells) != len(names):
        return {}
    found = {names[0]: float(index[1])}
    for name, cell in zip(names[1:], cells[1:], strict=True):
        if number := re.fullmatch(rf"\[?({_PLAIN})\]?\s?(?:{_UNIT}|m)?", cell, _I):
            found[name] = number_of(number[1])
    return found if len(found) > 1 else {}


def name_of(gap: str, is_nan: bool) -> tuple[str, bool]:
    """Return the name before a number, and whether a separator is between them; empty without one."""
    text = gap.rstrip()
    is_explicit = bool(_SEPARATED.search(text)) and not (is_nan and text.endswith(("is", "was", "of", "are")))
    if is_explicit:
        text = re.sub(r"(?:(?:\b(?:is|was|are)\s*)?[:=]|\b(?:is|was|of|are))$", "", text).rstrip(" ")
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
    text = re.sub(r"^(?:(?:and|with|the|at|has|got|a|of|in|for|finished)\s+)+", "", text, flags=_I)
    if text.count("(") != text.count(")"):
        text = text.strip("()")
    return (text, is_explicit) if _NAME.fullmatch(text) and not _OPEN_END.search(text) else ("", False)


def stands_alone(gap: str, after: str) -> bool:
    """Return whether a pair without a separator has its place between delimiters: `| lr 5.00 |`."""
    return bool(re.search(r"[|,;\t]\s*[\w/.@-]+\s+$", gap)) and (not after.strip() or after.lstrip()[:1] in "|,;\t(")


def label_of(text: str) -> str | None:
    match = LABEL.search(text)
    return LABELS[match[1].lower()] if match else None


def words_of(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d*", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("@", "")))


def is_metric(name: str, words: set[str]) -> bool:
    lower = name.lower()
    return (
        lower not in _OTHER
        and not (len(words) == 1 and words & _OTHER)
        and not re.fullmatch(rf"(?:{_EPOCH}|{_WORD})", lower)
    )


def is_time(name: str, value: float) -> bool:
    """Return whether a value is a moment (s or ms since 1970)."""
    return 1e9 <= value < 4e9 and value > 1.2e9 and bool(re.search(r"time|stamp|\bts\b|date|_at$", name, _I))


def flatten(value: object, name: str, into: dict[str, float]) -> None:
    """Collect the numbers of nested objects, named by their path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            flatten(inner, f"{name}/{key}" if name else str(key), into)
    elif isinstance(value, int | float) and not isinstance(value, bool) and name:
        into[name] = float(value)
    elif isinstance(value, str) and name and len(value) < 40:
        if re.fullmatch(_PLAIN, value, _I):
            into[name] = number_of(value)
        elif name in (*STEP_KEYS, *EPOCH_KEYS) and (ratio := re.fullmatch(r"(\d+)/\d+", value)):
            into[name] = float(ratio[1])


def number_of(text: str) -> float:
    return float(text.replace(",", ""))


def integer(text: str) -> int:
    return int(text.replace(",", ""))


def is_same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)
