// Preloads plotly.js on the form, so that the first curve after a launch appears without delay.

export default function ({ data }) {
  const load = () => loadPlotly(data.plotly).catch(() => {});
  if (window.requestIdleCallback) requestIdleCallback(load, { timeout: 1500 });
  else setTimeout(load, 300);
}
