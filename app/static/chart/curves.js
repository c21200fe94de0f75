// The lines of a run's metric, one per rank, raw and smoothed.

function picture(metric, curves, goal, data, theme) {
  const along = axisOf(curves, data.x);
  const axis = AXES[along];
  const whole = curves.every((curve) => curve.rank < 0);
  const traces = curves.flatMap((curve, index) => lines(curve, index, axis, metric.smooth ? data.smoothing : 0, theme));
  const longest = curves.reduce((best, curve) => (curve[axis.key].length > best.length ? curve[axis.key] : best), []);
  traces.push(...goalLine(goal, longest, theme));
  const layout = {
    height: data.height,
    uirevision: "kept", // keeps lines hidden by the legend; the zoom is kept per axis
    showlegend: traces.filter((trace) => trace.showlegend !== false).length > 1,
    hovermode: "x unified",
    meta: { value: metric.label, units: { x: axis.unit, y: metric.unit }, span: data.spans.get(metric.name) },
    xaxis: { title: { text: data.titles?.[along] ?? (whole && axis === AXES.step ? "Step (all ranks)" : axis.title), standoff: 6 }, uirevision: along, ...(axis === AXES.passes && { hoverformat: ",.4~r" }) },
    yaxis: { title: { text: "" }, rangemode: metric.range_mode, uirevision: along },
  };
  return { traces, layout };
}

function lines(curve, index, axis, smoothing, theme) {
  const colour = theme.colours[index % theme.colours.length];
  const turn = Math.floor(index / theme.colours.length); // where colours repeat, dashes and markers tell lines apart
  const line = { color: colour, width: 2, dash: DASHES[turn % DASHES.length] };
  const base = { type: "scatter", x: curve[axis.key], y: curve.values, name: curve.role, legendgroup: curve.role, hovertemplate: `%{y:,.5~r} {y unit}<extra>${curve.role}</extra>` };
  const few = curve.values.length <= 60;
  if (few || !(smoothing > 0) || isNoiseless(curve.values)) {
    return [{ ...base, mode: few ? "lines+markers" : "lines", line: { ...line, width: few ? 2 : 1.4 }, marker: { color: colour, size: 6, symbol: MARKERS[turn % MARKERS.length] } }];
  }
  return [
    { ...base, mode: "lines", line: { color: colour, width: 1 }, opacity: 0.28, meta: { as: "raw" }, showlegend: false, hoverinfo: "skip", hovertemplate: undefined },
    { ...base, y: averageOf(curve.values, smoothing), meta: { as: "smoothed" }, mode: "lines", line },
  ];
}

const averages = new WeakMap();

// Return the same list if nothing changed, so that react does not redraw.
function averageOf(values, weight) {
  const known = averages.get(values);
  if (known?.weight === weight) return known.list;
  const list = smoothed(values, weight);
  averages.set(values, { weight, list });
  return list;
}
