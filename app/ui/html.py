"""Safe pieces of HTML and Markdown, and the glossary's terms on a page."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from markupsafe import Markup

from app.core.assets import as_html, at, macro
from app.core.formatting import LEAST_PERCENT, absolute, ago

# ------------------------------------------------------------------------------------------------------------------
# Safe pieces of HTML and Markdown: strings are escaped and shown as text, except Markup, which is HTML already.
# Times, links and table cells are built in code, not from templates: a page has hundreds of them.

Slot = Literal[
    "cause",
    "bar",
    "result",
    "facts",
    "showed",
    "strip",
    "tiles",
    "ranks",
    "events",
    "home-now",
    "home-queue",
    "home-news",
    "home-machine",
    "home-best",
    "home-published",
]
"""Places on a run's page and on the Home page whose HTML pulse.js replaces while runs are active."""
_PUNCTUATION = re.compile(r"([!-/:-@\[-^`{-~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
"""What Markdown may read as its own; within a word it leaves `_` alone, and a widget's name for screen readers is the
unread text.
"""


def as_text(text: str) -> str:
    """Return `text` escaped for Markdown: it is shown literally."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))


def _piece(name: str) -> Callable[..., Markup]:
    return macro("ui/pieces.html", name)


_SLOT, _AS_CELL, _CELL_LINK, _BLOCK, _CODE = map(_piece, ("slot", "as_cell", "cell_link", "block", "code"))
_NOWRAP, _TITLED, _STRONG, _SMALL, _QUIET = map(_piece, ("nowrap", "titled", "strong", "small", "quiet"))
_PARAGRAPH, _LABELLED, _CAPTION = map(_piece, ("paragraph", "labelled", "caption"))
_FACT_ROW, _ENTRY, _FACTS, _TABLE = map(_piece, ("fact_row", "entry", "facts", "table"))
_TILE, _TILE_ROW, _WIDE, _BAR, _BRANCH = map(_piece, ("tile", "tile_row", "wide", "bar", "branch"))
_FILE_CARD, _PICTURE, _DOWNLOAD, _TEXT = map(_piece, ("file_card", "picture", "download", "preformatted"))
_BREADCRUMB, _STRIP, _TERM = map(_piece, ("breadcrumb", "strip", "term"))


def when(text: str | None) -> str:
    """Return a time as HTML: relative, with the absolute time on hover."""
    return moment(ago(text), text, absolute(text)) if text else "–"


def moment(words: str, text: str, title: str) -> Markup:
    """Return a `time` element for the time `text`, with a title on hover."""
    return Markup(f'<time datetime="{as_html(text)}" title="{as_html(title)}">{as_html(words)}</time>')


def link(words: str, address: str, title: str = "") -> Markup:
    """Return a link, with an optional title on hover; `address` includes the console's base path."""
    hover = f' title="{as_html(title)}"' if title else ""
    return Markup(f'<a href="{as_html(address)}"{hover}>{as_html(words)}</a>')


def run_link(words: str, run_id: int) -> Markup:
    """Return a link to a run as HTML; a Streamlit link on the run page itself would leave the old address in the
    browser.
    """
    return link(words, f"{at('/run')}?run={run_id}")


def sweep_link(words: str, sweep_id: int) -> Markup:
    """Return a link to a sweep as HTML."""
    return link(words, f"{at('/sweep')}?sweep={sweep_id}")


def queue_link(words: str) -> Markup:
    """Return a link to the queued runs."""
    return link(words, f"{at('/runs')}?filter=status+%3D%3D+%22queued%22")


def duel_link(words: str, duel_id: int) -> Markup:
    """Return a link to a duel as HTML."""
    return link(words, f"{at('/duel')}?duel={duel_id}")


def exercise_link(words: str, name: str) -> Markup:
    """Return a link to an exercise, given by the name of its file."""
    return link(words, f"{at('/exercises')}?exercise={name}")


def figure_link(figure: str) -> Markup:
    """Return a link to a published figure, given with its size (`hogwild/full`), as HTML."""
    name, _, size = figure.partition("/")
    return link(name, f"{at('/figures')}?figure={name}") + f", {size}"


def breadcrumb(links: Sequence[Markup], here: str) -> Markup:
    """Return the way from a list to the page that is shown."""
    return _BREADCRUMB(links, here)


def term(words: str, name: str = "") -> Markup:
    """Return words that show their definition in the glossary on hover and on click, by `name` if that differs; other
    words as text.
    """
    name = (name or words).lower()
    return _TERM(words, name, TERMS[name]) if name in TERMS else Markup(as_html(words))


def term_within(text: str, words: str, name: str) -> Markup:
    """Return a text in which the first occurrence of `words`, if any, opens the definition of `name`."""
    before, found, after = text.partition(words)
    return joined([before, term(found, name), after], "") if found else Markup(as_html(text))


def slot(name: Slot, content: Markup) -> Markup:
    """Return HTML as a slot, whose content can be replaced without a script run."""
    return _SLOT(name, content)


def as_cell(words: str, status: str) -> Markup:
    """Return words in a badge of the colour of a status."""
    return _AS_CELL(words, status)


def cell_link(words: str, run_id: int, status: str, sign: str, title: str) -> Markup:
    """Return such a badge as a link to a run, with a sign before the words."""
    return _CELL_LINK(words, f"{at('/run')}?run={run_id}", status, sign, title)


def nowrap(words: str) -> Markup:
    """Return words that stay on one line."""
    return _NOWRAP(words)


def titled(words: str, title: str) -> Markup:
    """Return words with a title on hover."""
    return _TITLED(words, title)


def strong(words: str) -> Markup:
    """Return words in bold."""
    return _STRONG(words)


def small(words: str) -> Markup:
    """Return words in small letters."""
    return _SMALL(words)


def quiet(words: str) -> Markup:
    """Return words in a muted colour."""
    return _QUIET(words)


def joined(parts: Iterable[str], between: str = ", ") -> Markup:
    """Return texts and HTML joined by a separator."""
    return Markup(between).join(parts)


def stacked(parts: Iterable[str]) -> Markup:
    """Return texts and HTML joined by line breaks."""
    return Markup("<br>").join(parts)


def paragraph(words: str) -> Markup:
    """Return a paragraph."""
    return _PARAGRAPH(words)


def labelled(label: str, words: str) -> Markup:
    """Return a paragraph below a small label."""
    return _LABELLED(label, words)


def caption(words: str) -> Markup:
    """Return a paragraph below a picture."""
    return _CAPTION(words)


def block(css_class: str, content: str) -> Markup:
    """Return content in a block of its own."""
    return _BLOCK(css_class, content)


def code(words: str) -> Markup:
    """Return words as code."""
    return _CODE(words)


def preformatted(words: str) -> Markup:
    """Return a text with its lines and blanks."""
    return _TEXT(words)


def picture(address: str, alt: str, width: int, height: int) -> Markup:
    """Return a picture of this console's own, as large as its place allows; a press opens nothing."""
    return _PICTURE(address, alt, width, height)


def download_link(words: str, address: str) -> Markup:
    """Return a link that downloads a file."""
    return _DOWNLOAD(words, address)


def file_card(head: Iterable[str], content: str) -> Markup:
    """Return a file below its heading."""
    return _FILE_CARD(head, content)


def fact_row(parts: Iterable[str]) -> Markup:
    """Return facts in a row that wraps."""
    return _FACT_ROW(parts)


def entry(head: str, parts: Iterable[str]) -> Markup:
    """Return a list entry: a heading, and a row of facts below."""
    return _ENTRY(head, parts)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return a row of small label-over-value pairs."""
    return _FACTS(pairs)


def tile(label: str, value: str, beside: str, help_text: str) -> Markup:
    """Return a large number with its label above, a note below and help on hover."""
    return _TILE(label, value, beside, help_text)


def tile_row(found: Iterable[Markup]) -> Markup:
    """Return tiles in a row that wraps."""
    return _TILE_ROW(found)


def strip(rows: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Markup:
    """Return a stacked bar for each named row; its parts are names and shares (0 to 1), the same names in each row."""
    return _STRIP(rows)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, even: bool = False) -> Markup:
    """Return a table that scrolls sideways on a narrow screen, with columns of one width where they fit if `even`."""
    body = "".join("<tr>" + "".join(f"<td>{as_html(cell)}</td>" for cell in cells) + "</tr>" for cells in rows)
    return _TABLE(headers, Markup(body), caption, even)


def branch(left: str, up: bool, down: bool, status: str, words: str) -> Markup:
    """Return a table cell that draws a row of a tree (`lineage._drawn`): the lines left of a dot in the colour of a
    status, the dot with its lines up and down, and words beside it.
    """
    return _BRANCH(left, up, down, status, words)


def wide(cell: str, *, breaks: bool = False) -> Markup:
    """Return a table cell with a minimum width; `breaks` allows line breaks within words."""
    return _WIDE(cell, breaks)


def bar(share: float, label: str, *, is_over: bool = False) -> Markup:
    """Return a progress bar of a share from 0 to 1; if `is_over`, grey, and of the whole only its room."""
    return _BAR(max(0.0, min(1.0, share)) * 100, label, is_over)


LARGEST = 1e12
"""Size from which a number is written with an exponent."""


def number(value: float | None, digits: int = 4, unit: str = "") -> str:
    """Return a number with `digits` significant figures and thousands separators, a percentage and a mean age in
    updates with two decimals; a dash for None.
    """
    if value is None:
        return "–"
    if (unit == "%" and (not value or abs(value) >= LEAST_PERCENT)) or (unit == "updates" and value % 1):
        return f"{value:.2f}"
    return f"{value:,.0f}" if 10 ** (digits - 1) <= abs(value) < LARGEST else f"{value:.{digits}g}"


# ---- The glossary: each term of the console in at most two sentences -----------------------------------------------
# The only place of these definitions.

TERMS = {
    "accuracy": "The share of images that a model classifies correctly, or of bytes of text that it predicts. Test "
    "accuracy is measured on data that no trainer has seen.",
    "agent": "The process that chooses actions for all observers and learns from their rewards.",
    "all-reduce": "An exchange after which every process holds the same sum or average of what all of them sent.",
    "baseline": "The run that others are compared with. Each experiment can have one pinned baseline.",
    "bubble": "The share of a pipeline's time in which stages are idle. Equal stages have a bubble too: later stages "
    "wait for the first micro-batch, earlier ones for the last.",
    "collector": "A process that plays episodes with the current policy and sends the data to the learner.",
    "confidence interval": "A range, computed so that it contains the true mean in 95 % of repeated experiments; in "
    "about 90 % over 3 to 8 skewed values. It needs at least 3 seeds.",
    "disturbance": "The share of the CPU time of a run's cores that other programs, or the host of a virtual machine, "
    "took while its ranks worked. Above 5 % (an admin can set another share) a run is disturbed: its times are not "
    "reliable.",
    "duel": "A comparison of strategies with equal budgets, initial weights and seeds, and learning rates tuned on the "
    "same grid.",
    "efficiency": "The speed-up divided by the number of processes. It is 100 % if twice as many processes are "
    "twice as fast.",
    "environment step": "One action in an environment and its answer: the next observation and a reward.",
    "episode": "One game, from a reset of the environment to its end. Its return is the sum of its rewards.",
    "execution time": "The time from all ranks ready to all ranks finished. It excludes the start-up time.",
    "experiment": "A way to train a model with several processes, such as Hogwild!. A run is one execution of it.",
    "gradient": "The direction in which the loss grows fastest, computed from one mini-batch. An optimizer moves the "
    "weights against it.",
    "learner": "The process that updates the policy with the data of all collectors.",
    "lesson size": "One run of each value of a ready-made sweep, for an answer within minutes; how much results vary "
    "stays unknown.",
    "loss": "The quantity that training minimizes. It measures how far the model's outputs are from the targets.",
    "micro-batch": "A part of a mini-batch that moves through a pipeline on its own, so that stages can work at the "
    "same time.",
    "mini-batch": "The samples that one gradient is computed from.",
    "observer": "A process that runs an environment and requests every action from the agent.",
    "oversubscribe": "To start a run on cores that other runs hold. The timings of all these runs become unreliable.",
    "p99": "The 99th percentile: 99 % of the values are at most this large.",
    "parameter server": "A process that stores the weights. Trainers send it gradients and receive new weights.",
    "pass": "One pass over the training set, also called an epoch. Passes count the work of all trainers together.",
    "policy": "The function that chooses actions, here a neural network.",
    "policy age": "The number of updates that a policy lacks when the data that it collected is trained on.",
    "preset": "A named set of settings: published as in the source, tuned for this program, quick for a first try.",
    "rank": "One process of a run. Each rank has a number and a role, such as trainer or server.",
    "runner": "The background process that starts queued runs when enough cores and GPUs are free.",
    "seed": "The number that the random order of data and the initial weights follow from. Runs that differ only in "
    "their seed show how much chance matters; runs with the same seed are compared with each other.",
    "smoothing": "An exponential moving average over a noisy curve. The raw curve stays visible.",
    "speed-up": "How many times faster several processes are than one. The ideal speed-up of 4 processes is 4.",
    "splits": "The number of micro-batches that a pipeline cuts each mini-batch into. More splits shrink the bubble, "
    "but each adds overhead.",
    "stage": "The layers of a model that one process of a pipeline holds.",
    "staleness": "The number of updates by other trainers between reading the weights and applying the gradient "
    "computed from them; Hogwild! and asynchronous SGD record it. Stale gradients can slow down learning.",
    "start-up time": "The time from the worker accepting the run to all ranks ready: starting processes and loading "
    "data.",
    "step": "One iteration of a rank's training loop. Methods do different work per step, so compare them over passes "
    "or time.",
    "straggler": "A process that is slower than the others. Synchronous methods wait for it at every update.",
    "sweep": "A set of runs over several values of one or two settings, usually with several seeds each, or over seeds "
    "alone.",
    "throughput": "The work of all ranks (samples trained on, or environment steps) divided by the execution time.",
    "total time": "The time for which a run holds its cores: start-up time, execution time and shutdown. Estimates "
    "before a launch state it.",
    "trainer": "A process that computes gradients on its mini-batches.",
    "tuning run": "A run of a duel that only finds a good learning rate. Its result does not count.",
    "uncontrolled difference": "A difference between the sides of a duel that its budget cannot equalize.",
    "universal scalability law": "A model of speed-up with two costs: work that only one process can do, and "
    "coordination between processes. It predicts the number of processes with the highest throughput.",
    "update": "One change of the shared weights. Methods differ in how many gradients make an update.",
    "utilization": "The share of time in which a core or GPU is busy.",
    "worker": "The process that starts the ranks of one run and writes their measurements.",
}
