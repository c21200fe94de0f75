// Draws all charts: in the page's theme, with our buttons, and without Plotly's button that uploads a chart to its cloud service.

const PLOT_CONFIG = {
  responsive: false,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
};
const MOST_IN_HOVER = 12; // lines that one hover box lists
const X_DIGITS = 7; // at least, in the heading of a hover box
const SETTLE_MS = 250; // from a zoom to the digits of its hovers

// Updates a chart; `name` is used for downloaded files. The zoom is kept until the layout's `uirevision` changes.
// Plotly redraws a chart and resets its zoom if the mode bar's button functions change: they are created once.
async function drawPlot(node, name, traces, theme, layout) {
  node.dataset.file = fileName(name);
  const given = layout.meta?.zoom; // of the page's address
  if (!node.zoomed || node.drawn.layout.uirevision !== layout.uirevision) node.zoomed = { x: given };
  else if (String(given) !== String(node.drawn.layout.meta?.zoom)) node.zoomed = given ? { ...node.zoomed, x: given } : {};
  node.drawn = { name, traces, theme, layout };
  PLOT_CONFIG.modeBarButtonsToAdd ??= toolButtons();
  node.along = layout.hovermode === "x unified" ? titleText(layout.xaxis) : "";
  const scaled = scaleUnits(traces, layout, node.zoomed);
  node.units = scaled.units;
  const view = applyLog(node, scaled.traces, applyZoom(node, scaled.layout));
  const sight = fitInSight(node, view.traces, view.layout);
  const shown = applySize(node, applyDashes(node, view.traces), tickLog(view.traces, sight));
  const empty = isEmpty(shown.traces) ? { xaxis: { ...shown.layout.xaxis, visible: false }, yaxis: { ...shown.layout.yaxis, visible: false }, annotations: [EMPTY] } : {};
  const roomy = roomForEnds(node, shown.traces, theme, applyHover(node, shown.traces, { ...shown.layout, ...empty }));
  await window.Plotly.react(node, shown.traces, themedLayout(theme, roomy, node.presented ? presentedFont(node) : 12), PLOT_CONFIG);
  followHover(node);
  followZoom(node);
  labelEnds(node, theme);
  updateToolbar(node);
  presentAgain(node);
}

const EMPTY = { text: "No values yet", xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false };

// Whether no line or bar has a point: Plotly's axes would then go from -1 to 6 and -1 to 4.
function isEmpty(traces) {
  const isNumber = (value) => value !== null && value === value;
  return traces.every((trace) => /^(scatter|bar)(gl)?$/.test(trace.type ?? "scatter") && !["x", "y"].every((letter) => [...(unpack(trace[letter]) ?? [])].some(isNumber)));
}

// Draws a chart again as its buttons now say.
function redraw(node) {
  const { name, traces, theme, layout } = node.drawn;
  return drawPlot(node, name, traces, theme, layout);
}

// One hover box for all lines at an x, while they are few.
function applyHover(node, traces, layout) {
  if (!node.along) return layout;
  const listed = traces.filter((trace) => trace.hoverinfo !== "skip").length;
  const short = node.along.split(/ \(| since | over /)[0];
  const sight = node.zoomed.x ?? extremesOf(node.drawn.traces, "x");
  const text = [short, `%{x:,.${digitsOf(sight, X_DIGITS)}~r}`, node.units.x?.unit].filter(Boolean).join(" ");
  const xaxis = { ...layout.xaxis, unifiedhovertitle: { text }, showspikes: false };
  return { ...layout, hovermode: listed <= MOST_IN_HOVER ? "x unified" : "closest", hoverdistance: -1, xaxis, yaxis: { ...layout.yaxis, showspikes: false } };
}

// The range along x that the page's address has; a reader's own zoom is in the state that Plotly keeps.
function applyZoom(node, layout) {
  const given = layout.meta?.zoom;
  if (!given) return layout;
  const ends = given.map((end) => end / (node.units.x?.size ?? 1));
  const range = layout.xaxis?.type === "log" ? ends.map(Math.log10) : ends;
  return { ...layout, xaxis: { ...layout.xaxis, range, autorange: false, uirevision: `${layout.xaxis?.uirevision ?? layout.uirevision} ${given}` } };
}

const NOTHING_IN_SIGHT = "No points here. Double-click to see all.";
const MARGIN_Y = 0.06; // of the range, above and below the points in sight

// Of curves that are zoomed along x alone, the y-axis fits what is in sight.
function fitInSight(node, traces, layout) {
  const { x, y } = node.zoomed;
  const isLog = layout.yaxis?.type === "log";
  if (!x || !node.along || layout.xaxis?.type === "category" || layout.yaxis?.type === "category") return layout;
  const within = x.map((end) => end / (node.units.x?.size ?? 1));
  const [low, high] = reachOf(node, traces, within, isLog);
  const [bottom, top] = y ? y.map((end) => end / (node.units.y?.size ?? 1)) : [-Infinity, Infinity];
  if (!(low <= high && low <= top && high >= bottom)) return { ...layout, annotations: [...(layout.annotations ?? []), { ...EMPTY, text: NOTHING_IN_SIGHT }] };
  if (y || layout.yaxis?.range) return layout;
  const [from, to] = isLog ? [Math.log10(low), Math.log10(high)] : [low, high];
  const margin = MARGIN_Y * (to - from) || Math.abs(to) * MARGIN_Y || 1;
  const { clipmin = -Infinity, clipmax = Infinity } = layout.yaxis?.autorangeoptions ?? {};
  const least = !isLog && (low >= 0 || layout.yaxis?.rangemode === "nonnegative") ? Math.max(0, clipmin) : clipmin;
  const range = [Math.max(least, from - margin), Math.min(clipmax, to + margin)];
  return { ...layout, yaxis: { ...layout.yaxis, range, autorange: false, uirevision: `${layout.yaxis?.uirevision ?? layout.uirevision} ${x}` } };
}

// The lowest and highest value along y of points, and of lines between them, within a range along x.
function reachOf(node, traces, [from, to], isLog) {
  const hidden = new Set((node._fullData ?? []).filter(({ visible }) => visible === "legendonly").map(({ name }) => name));
  let [low, high] = [Infinity, -Infinity];
  const take = (value) => {
    if (!Number.isFinite(value) || (isLog && value <= 0)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const trace of traces) {
    if (hidden.has(trace.name)) continue;
    const [xs, ys] = [unpack(trace.x) ?? [], unpack(trace.y) ?? []];
    const hasLines = /lines/.test(trace.mode ?? "");
    for (let at = 0; at < xs.length; at++) {
      if (xs[at] >= from && xs[at] <= to) take(ys[at]);
      if (!hasLines || at === 0 || ys[at] === null || ys[at - 1] === null) continue;
      for (const edge of [from, to]) {
        const share = (edge - xs[at - 1]) / (xs[at] - xs[at - 1]);
        if (share > 0 && share < 1) take(ys[at - 1] + share * (ys[at] - ys[at - 1]));
      }
    }
  }
  return [low, high];
}

// A zoom gives the hovers more digits and fits the y-axis, and a reset takes both back.
function followZoom(node) {
  if (node.followsZoom) return;
  node.followsZoom = true;
  node.on("plotly_relayout", (change) => {
    const before = JSON.stringify(node.zoomed);
    for (const letter of ["x", "y"]) if (`${letter}axis.range` in change || `${letter}axis.range[0]` in change) node.zoomed[letter] = rangeInSight(node, letter);
    if (change["yaxis.autorange"]) node.zoomed.y = undefined;
    if (change["xaxis.autorange"]) node.zoomed = {}; // what y had was fitted to this range
    if (JSON.stringify(node.zoomed) === before) return;
    clearTimeout(node.settling); // other listeners may draw other points
    node.settling = setTimeout(() => node.isConnected && redraw(node), SETTLE_MS);
  });
}

// The range of a zoomed axis of numbers, in the unit of the data; undefined if the whole is shown.
function rangeInSight(node, letter) {
  const { autorange, range, type } = node._fullLayout[`${letter}axis`] ?? {};
  if (autorange !== false || !["linear", "log"].includes(type)) return undefined;
  return range.map((end) => (type === "log" ? 10 ** end : end) * (node.units[letter]?.size ?? 1));
}

// The range along x of a zoom, in the unit of the data; undefined after other changes.
function zoomedTo(node, change) {
  const ends = "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : change["xaxis.range"];
  const isLog = node.layout.xaxis?.type === "log";
  return ends?.map((end) => (isLog ? 10 ** end : Number(end)) * (node.units.x?.size ?? 1));
}

// Resizes with its node. A hidden plot keeps its size: Plotly can't measure it.
function followSize(plot, node) {
  const resizing = new ResizeObserver(() => plot.data && plot.checkVisibility() && window.Plotly.Plots.resize(plot));
  resizing.observe(node);
  return resizing;
}
