// Draws every chart of ours: in the page's theme, with our buttons, and without plotly's own that sends a chart to a service of its maker.

const PLOT_CONFIG = {
  responsive: false,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toImage"],
};

// Draws what is new of a chart; `name` is what its files are called. A zoom is kept until the layout's `uirevision` changes.
// Plotly draws a chart anew, and forgets its zoom, where the buttons of its bar are other functions: they are made once.
async function drawPlot(node, name, traces, theme, layout) {
  node.dataset.file = fileName(name);
  PLOT_CONFIG.modeBarButtonsToAdd ??= saveButtons();
  await window.Plotly.react(node, traces, themedLayout(theme, layout), PLOT_CONFIG);
}

// Follows its node's size. A plot that is no longer shown keeps its own: plotly refuses to measure it.
function followSize(plot, node) {
  const resizing = new ResizeObserver(() => plot.data && plot.checkVisibility() && window.Plotly.Plots.resize(plot));
  resizing.observe(node);
  return resizing;
}
