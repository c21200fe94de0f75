"""The small diagram on an experiment's card: who writes what to whom, drawn from its flows as inline SVG in the page's
own colours.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

from engine.experiment.definition import Flow

WIDTH, NODE_WIDTH, NODE_HEIGHT = 330, 122, 28
LEFT = 14
"""Room for arrows that pass other nodes."""
LINE, LETTERS = 15, 31
GAP = 20
"""Room above and below the words on an arrow."""


def diagram(flows: Sequence[Flow]) -> str:
    """Return the SVG of the flows: nodes one below the other in the order they appear, arrows between them with what
    they carry.
    """
    nodes = list(dict.fromkeys(name for flow in flows for name in (flow.source, flow.target)))
    tops = _tops(nodes, flows)
    height = tops[nodes[-1]] + NODE_HEIGHT + 2
    parts = [_node(name, tops[name]) for name in nodes]
    for upper, lower in pairwise(nodes):
        parts += _between(upper, lower, flows, tops)
    parts += [_around(flow, tops) for flow in flows if abs(nodes.index(flow.source) - nodes.index(flow.target)) > 1]
    told = "; ".join(f"{flow.source} to {flow.target}: {flow.what}" for flow in flows)
    return (
        f'<svg class="pl-diagram" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" aria-label="{escape(told)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-size="12" fill="currentColor" stroke="none">{"".join(parts)}</svg>'
    )


def _tops(nodes: Sequence[str], flows: Sequence[Flow]) -> dict[str, int]:
    """Return each node's upper edge, with room for the words between it and the one above."""
    tops, y = {nodes[0]: 2}, 2
    for upper, lower in pairwise(nodes):
        lines = sum(len(_words(flow)) for flow in flows if {flow.source, flow.target} == {upper, lower})
        y += NODE_HEIGHT + max(1, lines) * LINE + GAP
        tops[lower] = y
    return tops


def _words(flow: Flow) -> list[str]:
    return wrap(flow.what, LETTERS) or [""]


def _node(name: str, top: int) -> str:
    middle = LEFT + NODE_WIDTH / 2
    return (
        f'<rect x="{LEFT}" y="{top}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="5" fill="currentColor" '
        'fill-opacity="0.07" '
        f'stroke="currentColor" stroke-opacity="0.35"/><text x="{middle}" y="{top + 18.5}" '
        f'text-anchor="middle" font-weight="600">{escape(name)}</text>'
    )


def _between(upper: str, lower: str, flows: Sequence[Flow], tops: dict[str, int]) -> list[str]:
    """Return the arrows between two neighbours, side by side, each with its words at the right."""
    here = [flow for flow in flows if {flow.source, flow.target} == {upper, lower}]
    start, end = tops[upper] + NODE_HEIGHT, tops[lower]
    both = len({flow.source for flow in here}) > 1
    parts, y = [], start + GAP / 2 + 11
    for flow in here:
        down = flow.source == upper
        x = LEFT + NODE_WIDTH / 2 + (0 if not both else -11 if down else 11)
        parts.append(
            _arrow(
                f"M{x} {start + 2}V{end - 2}" if down else f"M{x} {end - 2}V{start + 2}",
                x,
                end - 2 if down else start + 2,
                down,
            )
        )
        for number, line in enumerate(_words(flow)):
            sign = ("↓ " if down else "↑ ") if both and number == 0 else ""
            parts.append(
                f'<text x="{LEFT + NODE_WIDTH / 2 + 24}" y="{y}" fill-opacity="0.8">{sign}{escape(line)}</text>'
            )
            y += LINE
    return parts


def _arrow(path: str, x: float, tip: float, down: bool) -> str:
    back = tip - 6 if down else tip + 6
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity="0.65" stroke-width="1.4"/>'
        f'<path d="M{x - 4} {back}L{x} {tip}L{x + 4} {back}Z" fill-opacity="0.8"/>'
    )


def _around(flow: Flow, tops: dict[str, int]) -> str:
    """Return an arrow that passes other nodes on the left, its words on hover."""
    start, end = tops[flow.source] + NODE_HEIGHT / 2, tops[flow.target] + NODE_HEIGHT / 2
    return (
        f'<g><title>{escape(flow.what)}</title><path d="M{LEFT} {start}C-4 {start} -4 {end} {LEFT - 6} {end}" '
        'fill="none" stroke="currentColor" '
        f'stroke-opacity="0.65" stroke-width="1.4"/><path d="M{LEFT - 7} {end - 4}L{LEFT} {end}L{LEFT - 7} '
        f'{end + 4}Z" fill-opacity="0.8"/></g>'
    )
