// What is recorded once an episode, over all ranks: the mean of each bin with a band of one standard deviation, and the running mean.

const RUNNING = 100; // values that the running mean is over

function bandPicture(metric, band, goal, data, theme) {
  const [colour, second] = theme.colours;
  const along = data.x === "time" ? "time" : "step";
  const x = along === "time" ? band.times : band.steps;
  const each = band.width > 1 ? `mean of ${band.width.toLocaleString("en")}` : "one each";
  const edge = { type: "scatter", x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const traces = [
    { ...edge, y: band.lows },
    { ...edge, y: band.highs, fill: "tonexty", fillcolor: mixed(theme.ground, colour, 0.22) },
    { type: "scatter", x, y: band.means, mode: band.width > 1 ? "lines" : "markers", name: `Episodes, ${each}`, line: { color: colour, width: 1.2 }, marker: { color: colour, size: 5 },
      customdata: band.means.map((_, bin) => [band.counts[bin], band.lows[bin], band.highs[bin]]),
      hovertemplate: "mean of %{customdata[0]:,d}: %{y:.5g}<br>%{customdata[1]:.5g} to %{customdata[2]:.5g}<extra></extra>" },
    { type: "scatter", x, y: band.running, mode: "lines", name: `Running mean of ${RUNNING}`, line: { color: second, width: 2.4 }, hovertemplate: `%{y:.5g}<extra>mean of the last ${RUNNING}</extra>` },
    ...goalLine(goal, x, theme),
  ];
  const layout = {
    height: data.height,
    uirevision: "kept",
    showlegend: true,
    hovermode: "closest",
    xaxis: { title: { text: along === "time" ? "Seconds since all ranks were ready" : "Step of each rank", standoff: 6 }, uirevision: along },
    yaxis: { title: { text: "" }, uirevision: along },
  };
  return { traces, layout };
}

// A line at the value from which a run has done what it is for: a trace, so that the axis reaches up to it.
function goalLine(goal, x, theme) {
  if (goal === undefined || !x.length) return [];
  const line = { color: theme.text, width: 1.4, dash: "dot" };
  return [{ type: "scatter", x: [x[0], x.at(-1)], y: [goal, goal], mode: "lines", name: `Solved at ${goal}`, line, hoverinfo: "skip" }];
}
