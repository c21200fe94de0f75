// Draws all charts: in the page's theme, with our buttons, and without Plotly's button that uploads a chart to its cloud service.

const PLOT_CONFIG = {
  responsive: false,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
};
const MOST_IN_HOVER = 12; // lines that one hover box lists

// Updates a chart; `name` is used for downloaded files. The zoom is kept until the layout's `uirevision` changes.
// Plotly redraws a chart and resets its zoom if the mode bar's button functions change: they are created once.
async function drawPlot(node, name, traces, theme, layout) {
  node.dataset.file = fileName(name);
  node.drawn = { name, traces, theme, layout };
  PLOT_CONFIG.modeBarButtonsToAdd ??= toolButtons();
  node.along = layout.hovermode === "x unified" ? titleText(layout.xaxis) : "";
  const scaled = scaleUnits(traces, layout);
  node.units = scaled.units;
  const view = applyLog(node, scaled.traces, scaled.layout);
  const shown = applySize(node, applyDashes(node, view.traces), tickLog(view.traces, view.layout));
  const empty = isEmpty(shown.traces) ? { xaxis: { ...shown.layout.xaxis, visible: false }, yaxis: { ...shown.layout.yaxis, visible: false }, annotations: [EMPTY] } : {};
  const roomy = roomForEnds(node, shown.traces, theme, applyHover(node, shown.traces, { ...shown.layout, ...empty }));
  await window.Plotly.react(node, shown.traces, themedLayout(theme, roomy, node.presented ? PRESENT.font : 12), PLOT_CONFIG);
  followHover(node);
  labelEnds(node, theme);
  updateToolbar(node);
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
  const text = [short, "%{x:,.7~r}", node.units.x?.unit].filter(Boolean).join(" ");
  const xaxis = { ...layout.xaxis, unifiedhovertitle: { text }, showspikes: false };
  return { ...layout, hovermode: listed <= MOST_IN_HOVER ? "x unified" : "closest", hoverdistance: -1, xaxis, yaxis: { ...layout.yaxis, showspikes: false } };
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
