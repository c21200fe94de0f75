// How the reader chose to see a chart: with a log y-axis or with dashes. Remembered in the page while it is open.

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "x", "star"];
const PRESENT = { font: 24, least: 14, letters: 24, line: 2.2, marker: 1.8 };

function viewOf(node) {
  const views = (window.parallabViews ??= new Map());
  const key = keyOf(node);
  if (!views.has(key)) views.set(key, { log: null, isDashed: false });
  return views.get(key);
}

// Whether values along y can be on a log axis: lines and markers, some of them positive.
function canLog(traces, layout) {
  if (!["linear", "log", undefined].includes(layout.yaxis?.type) || layout.yaxis?.visible === false) return false;
  return traces.length > 0 && traces.every((trace) => trace.type === "scatter") && traces.some((trace) => (unpack(trace.y) ?? []).some((value) => value > 0));
}

// The y-axis as the reader toggled it; a new choice beside the chart replaces the toggle.
function applyLog(node, traces, layout) {
  const own = layout.yaxis?.type === "log" ? "log" : "linear";
  const view = viewOf(node);
  if (view.log?.instead !== own) view.log = null;
  node.isLog = (view.log?.type ?? own) === "log";
  node.canLog = canLog(traces, layout);
  if (!view.log || !node.canLog) return { traces, layout };
  const yaxis = { ...layout.yaxis, type: view.log.type, uirevision: `${layout.yaxis?.uirevision ?? layout.uirevision} ${view.log.type}`, autorange: true, range: undefined };
  return { traces: view.log.type === "log" ? traces.map((trace) => (trace.fill ? aboveZero(trace, traces) : trace)) : traces, layout: { ...layout, yaxis } };
}

// A band that reaches 0 ends at the smallest positive value.
function aboveZero(trace, traces) {
  let least = Infinity;
  for (const each of traces) for (const value of unpack(each.y) ?? []) if (value > 0 && value < least) least = value;
  return { ...trace, y: Array.from(unpack(trace.y), (value) => (value <= 0 && value !== null ? least : value)) };
}

// Whole numbers at 1, 2 and 5 of each power of ten, or at the powers alone where there are many: Plotly's own ticks between powers are bare digits.
function tickLog(traces, layout) {
  const axes = {};
  for (const letter of ["x", "y"]) {
    const axis = layout[`${letter}axis`];
    if (axis?.type !== "log" || axis.tickvals) continue;
    const decades = axis.range ? axis.range[1] - axis.range[0] : decadesOf(traces, letter);
    const nticks = decades > 3 ? Math.min(8, Math.ceil(decades)) : decades > 1 ? Math.ceil(2 * decades) : undefined;
    axes[`${letter}axis`] = { ...axis, tickformat: ",.6~r", ...(nticks && { nticks }) };
  }
  return { ...layout, ...axes };
}

// The powers of ten that positive values span, with the margin of the axis.
function decadesOf(traces, letter) {
  let [least, most] = [Infinity, 0];
  for (const trace of traces) {
    for (const value of unpack(trace[letter]) ?? []) {
      if (!(value > 0)) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  return most ? 1.1 * Math.log10(most / least) : 0;
}

function toggleLog(node) {
  const own = node.drawn.layout.yaxis?.type === "log" ? "log" : "linear";
  viewOf(node).log = { instead: own, type: node.isLog ? "linear" : "log" };
  return redraw(node);
}

// Each line with a dash and a marker of its own, for print and for eyes that tell few colours apart.
function applyDashes(node, traces) {
  if (!viewOf(node).isDashed) return traces;
  const names = [...new Set(linesOf(traces).map((trace) => trace.name))];
  return traces.map((trace) => {
    const place = names.indexOf(trace.name);
    if (place < 0) return trace;
    return { ...trace, line: { ...trace.line, dash: DASHES[place % DASHES.length] }, marker: { ...trace.marker, symbol: MARKERS[place % MARKERS.length] } };
  });
}

// The traces that are lines with a name in the legend.
function linesOf(traces) {
  return traces.filter((trace) => trace.type === "scatter" && /lines/.test(trace.mode ?? "") && trace.name && trace.showlegend !== false && (trace.fill ?? "none") === "none");
}

function toggleDashes(node) {
  const view = viewOf(node);
  view.isDashed = !view.isDashed;
  return redraw(node);
}

// The text of a presented chart: large, but on a phone so that the title of an axis fits.
function presentedFont(node) {
  return Math.min(PRESENT.font, Math.max(PRESENT.least, node.clientWidth / PRESENT.letters));
}

// A presented chart fills its box, with text and lines for a projector.
function applySize(node, traces, layout) {
  if (!node.presented) return { traces, layout };
  const size = presentedFont(node) / PRESENT.font;
  const names = new Set(traces.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name));
  const filled = { height: node.clientHeight, showlegend: layout.showlegend === false ? names.size > 1 : layout.showlegend };
  return {
    traces: traces.map(thicken),
    layout: {
      ...layout,
      ...filled,
      margin: { l: 80 * size, r: 30, t: 16, b: 80 * size },
      annotations: layout.annotations?.map((note) => ({ ...note, font: { ...note.font, size: size * PRESENT.font * 0.8 } })),
      shapes: layout.shapes?.map((shape) => ({ ...shape, line: { ...shape.line, width: (shape.line?.width ?? 1) * PRESENT.line } })),
    },
  };
}

function thicken(trace) {
  const { line, marker } = trace;
  const larger = (size) => (Array.isArray(size) ? size.map((each) => each * PRESENT.marker) : (size ?? 6) * PRESENT.marker);
  const errors = (bars) => ({ ...bars, thickness: (bars.thickness ?? 2) * PRESENT.line, width: (bars.width ?? 4) * PRESENT.marker });
  return {
    ...trace,
    ...(trace.type === "scatter" && { line: { ...line, width: (line?.width ?? 2) * PRESENT.line }, marker: { ...marker, size: larger(marker?.size) } }),
    ...(trace.error_y && { error_y: errors(trace.error_y) }),
    ...(trace.error_x && { error_x: errors(trace.error_x) }),
  };
}
