// Per-episode metrics over all ranks: binned means with a band of one standard deviation, and the running mean.

const RUNNING = 100; // number of values in the running mean

function bandPicture(metric, band, goal, data, theme) {
  const [colour, second] = theme.colours;
  const along = axisOfBand(band, data.x);
  const x = band[AXES[along].key];
  const each = band.width > 1 ? `mean of ${band.width.toLocaleString("en")}` : "single";
  const edge = { type: "scatter", x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const traces = [
    { ...edge, y: band.lows },
    { ...edge, y: band.highs, fill: "tonexty", fillcolor: mixed(theme.ground, colour, 0.22) },
    { type: "scatter", x, y: band.means, mode: band.width > 1 ? "lines" : "markers", name: `Episodes, ${each}`, line: { color: colour, width: 1.2 }, marker: { color: colour, size: 5 },
      meta: { like_y: [1, 2] },
      customdata: band.means.map((_, bin) => [band.counts[bin], band.lows[bin], band.highs[bin]]),
      hovertemplate: "%{y:,.5~r} (%{customdata[1]:,.5~r} to %{customdata[2]:,.5~r})<extra>mean of %{customdata[0]:,d}</extra>" },
    { type: "scatter", x, y: band.running, mode: "lines", name: `Running mean of ${RUNNING}`, line: { color: second, width: 2.4 }, hovertemplate: `%{y:,.5~r}<extra>mean of the last ${RUNNING}</extra>` },
    ...goalLine(goal, x, theme),
  ];
  const layout = {
    height: data.height,
    uirevision: "kept",
    showlegend: true,
    hovermode: "x unified",
    meta: { value: metric.label, units: { x: AXES[along].unit }, span: data.spans.get(metric.name) },
    xaxis: { title: { text: data.titles?.[along] ?? AXES[along].title, standoff: 6 }, uirevision: along },
    yaxis: { title: { text: "" }, uirevision: along },
  };
  return { traces, layout };
}

// A line at the target value: a trace, so that the axis range includes it.
function goalLine(goal, x, theme) {
  if (goal === undefined || !x.length) return [];
  const line = { color: theme.text, width: 1.4, dash: "dot" };
  return [{ type: "scatter", x: [Math.min(0, x[0]), x.at(-1)], y: [goal, goal], mode: "lines", name: `Target: ${goal}`, line, hoverinfo: "skip" }];
}
