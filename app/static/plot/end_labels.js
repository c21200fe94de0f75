// The names of a few lines beside the plot, at the height of their ends. A name moves up or down to make room, and is left out where it would be far from its line.

const MOST_LABELS = 8;
const LEAST_WIDTH = 420; // px of a chart
const LABEL_SHARE = 0.32; // of a chart's width, at most

function namedLines(traces) {
  const named = linesOf(traces);
  return named.length > 1 && named.length <= MOST_LABELS ? named : [];
}

// The layout with room for the names on the right.
function roomForEnds(node, traces, theme, layout) {
  const names = node.offsetWidth < LEAST_WIDTH ? [] : namedLines(traces).map((trace) => plainText(trace.name));
  node.hasEnds = names.length > 0;
  if (!names.length) return layout;
  const brush = penOf(labelSize(node), theme);
  const width = Math.max(...names.map((name) => brush.measureText(name).width)) + 14;
  const r = Math.min(node.offsetWidth * LABEL_SHARE, Math.max(layout.margin?.r ?? MARGIN.r, width));
  return { ...layout, margin: { ...MARGIN, ...layout.margin, r } };
}

const labelSize = (node) => (node.presented ? 20 : 11);

function plainText(text) {
  return new DOMParser().parseFromString(text, "text/html").body.textContent;
}

function labelEnds(node, theme) {
  node.endTheme = theme;
  if (!node.ends) {
    node.ends = document.createElement("div");
    node.prepend(node.ends); // below the hover box
    node.ends.className = "pl-ends";
    node.ends.setAttribute("aria-hidden", "true");
    node.on("plotly_afterplot", () => placeEnds(node));
  }
  placeEnds(node);
}

function placeEnds(node) {
  const shown = node.hasEnds ? namedLines(node._fullData.filter((trace) => trace.visible === true)) : [];
  const { xaxis, yaxis, width } = node._fullLayout;
  const size = labelSize(node);
  const found = shown.map((trace) => ({ trace, y: lastHeight(node.calcdata.find(([first]) => first?.trace === trace) ?? [], xaxis, yaxis) })).filter(({ y }) => y >= -1 && y <= yaxis._length + 1);
  node.ends.replaceChildren(
    ...spreadOut(found, size * 1.25, yaxis._length).map(({ trace, place }) => {
      const left = xaxis._offset + xaxis._length + 6; // beside the plot: on it, a name would lie on other lines
      const label = Object.assign(document.createElement("span"), { textContent: fitted(plainText(trace.name), width - left - 4, size, node.endTheme) });
      const color = mixed(trace.line.color, node.endTheme.text, 0.3);
      Object.assign(label.style, { left: `${left}px`, top: `${yaxis._offset + place - size * 0.65}px`, maxWidth: `${width - left - 2}px`, color, fontSize: `${size}px` });
      return label;
    }),
  );
}

// A name without its middle where it is too long: names of similar lines differ at their ends.
function fitted(text, width, size, theme) {
  const brush = penOf(size, theme);
  let shown = text;
  for (let kept = text.length - 1; kept > 6 && brush.measureText(shown).width > width; kept -= 1) {
    const head = Math.ceil(kept / 3);
    shown = `${text.slice(0, head).trimEnd()}…${text.slice(head - kept).trimStart()}`;
  }
  return shown;
}

function penOf(size, theme) {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = `${size}px ${theme.font}`;
  return brush;
}

// The height of the last drawn point in the visible range, in px from the top of the plot.
function lastHeight(points, xaxis, yaxis) {
  for (let at = points.length - 1; at >= 0; at -= 1) {
    const [x, y] = [xaxis.c2p(points[at].x), yaxis.c2p(points[at].y)];
    if (x <= xaxis._length + 1 && Number.isFinite(y)) return y;
  }
  return NaN;
}

// Names that end near one another, from top to bottom at least `gap` apart; those further than twice that from their line are left out.
function spreadOut(found, gap, height) {
  const sorted = [...found].sort((one, other) => one.y - other.y);
  let least = gap / 2;
  for (const each of sorted) {
    each.place = Math.max(each.y, least);
    least = each.place + gap;
  }
  let most = height - gap / 2;
  for (const each of sorted.reverse()) {
    each.place = Math.min(each.place, most);
    most = each.place - gap;
  }
  return sorted.filter((each) => Math.abs(each.place - each.y) <= 2 * gap && each.place >= 0);
}
