// Loads plotly.js while a person still fills the form, so that the first curve after a launch waits for nothing.

export default function ({ data }) {
  const load = () => loadPlotly(data.plotly).catch(() => {});
  if (window.requestIdleCallback) requestIdleCallback(load, { timeout: 1500 });
  else setTimeout(load, 300);
}
