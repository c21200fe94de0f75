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
  if (!node.zoomed || node.drawn.layout.uirevision !== layout.uirevision) node.zoomed = {};
  node.drawn = { name, traces, theme, layout };
  PLOT_CONFIG.modeBarButtonsToAdd ??= toolButtons();
  node.along = layout.hovermode === "x unified" ? titleText(layout.xaxis) : "";
  const scaled = scaleUnits(traces, layout, node.zoomed);
  node.units = scaled.units;
  const view = applyLog(node, scaled.traces, scaled.layout);
  const shown = applySize(node, applyDashes(node, view.traces), tickLog(view.traces, view.layout));
  const empty = isEmpty(shown.traces) ? { xaxis: { ...shown.layout.xaxis, visible: false }, yaxis: { ...shown.layout.yaxis, visible: false }, annotations: [EMPTY] } : {};
  const roomy = roomForEnds(node, shown.traces, theme, applyHover(node, shown.traces, { ...shown.layout, ...empty }));
  await window.Plotly.react(node, shown.traces, themedLayout(theme, roomy, node.presented ? PRESENT.font : 12), PLOT_CONFIG);
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

// A zoom gives the hovers more digits, and a reset takes them again.
function followZoom(node) {
  if (node.followsZoom) return;
  node.followsZoom = true;
  node.on("plotly_relayout", () => {
    const digits = () => JSON.stringify(["x", "y"].map((letter) => node.zoomed[letter] && digitsOf(node.zoomed[letter], 0)));
    const before = digits();
    for (const letter of ["x", "y"]) node.zoomed[letter] = rangeInSight(node, letter);
    if (digits() === before) return;
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
