// The x-axis of a run's charts, one for all: what a rank did not record of it is interpolated from what others recorded at the same time.

const AXES = {
  step: { key: "steps", title: "Step (per rank)", unit: "" },
  passes: { key: "passes", title: "Passes over the training data (all ranks)", unit: "" },
  updates: { key: "updates", title: "Updates of the model", unit: "" },
  time: { key: "times", title: "Time since all ranks were ready", unit: "s" },
};

// The axis on which these curves are drawn: RL runs have no passes over training data, and few runs count no updates.
function axisOf(curves, x) {
  const key = AXES[x]?.key;
  return key && curves.some((curve) => curve[key]?.some((value) => value !== null)) ? x : "step";
}

function axisOfBand(band, x) {
  return band[AXES[x]?.key] ? x : "step";
}

const FAR = 5; // times its own end, as far as a chart goes where steps may count different work

// From where to where the chart of each metric goes: as far as all charts over its axis, so that one x is at one place in each of them.
// Of another program (`apart`), one metric may count epochs and another one batches: a chart ignores those whose steps end FAR times later.
function spansOf(chart) {
  const own = chart.metrics.map(({ name }) => {
    const held = [...chart.curves.values()].filter((curve) => curve.metric === name);
    const band = chart.bands.get(name);
    const along = band ? axisOfBand(band, chart.data.x) : axisOf(held, chart.data.x);
    const span = [Infinity, -Infinity];
    for (const each of band ? [band] : held.filter((curve) => curve.total > 1)) {
      for (const x of each[AXES[along].key]) if (x !== null) Object.assign(span, [Math.min(span[0], x), Math.max(span[1], x)]);
    }
    return { name, along, span };
  });
  const spans = own.map(({ name, along, span: [, end] }) => {
    const most = chart.data.apart && along === "step" ? FAR * end : Infinity;
    const beside = own.filter((other) => other.along === along && other.span[1] <= most).map((other) => other.span);
    return [name, [Math.min(...beside.map(([from]) => from)), Math.max(...beside.map(([, to]) => to))]];
  });
  return new Map(spans);
}

// Gives each curve and band of a chart its places on the chosen axis, where it lacks them.
function placeAlong(chart) {
  const { key } = AXES[chart.data.x] ?? AXES.step;
  const clock = key === "passes" ? passClock(chart) : key === "updates" ? updateClock(chart) : null;
  if (!clock) return;
  for (const curve of chart.curves.values()) {
    if (key === "updates") curve.updates = curve.times.map(clock);
    else if (curve.passes.includes(null)) curve.passes = curve.passes.map((value, place) => value ?? clock(curve.times[place]));
  }
  for (const band of chart.bands.values()) band[key] = band.times.map(clock);
}

// The passes at a time, by the curve with the most points that has them: each rank counts those of all.
function passClock(chart) {
  const counted = [...chart.curves.values()].filter((curve) => !curve.passes.includes(null));
  const longest = counted.reduce((best, curve) => (best && best.times.length >= curve.times.length ? best : curve), null);
  return longest && interpolation(longest.times, longest.passes);
}

// The updates of the model at a time: the sum of the steps of the ranks that count them, their mean, the most of one, or the number of points.
function updateClock(chart) {
  const { metric, counts } = chart.data.clock ?? {};
  let clocks = [...chart.curves.values()].filter((curve) => curve.metric === metric);
  if (!clocks.length) return null;
  if (counts === "most") clocks = [clocks.reduce((best, curve) => ((curve.steps.at(-1) ?? 0) > (best.steps.at(-1) ?? 0) ? curve : best))];
  const share = counts === "mean" ? 1 / clocks.length : 1;
  const numbered = ({ times, total }) => interpolation([...times].sort((one, other) => one - other), times.map((_, place) => ((place + 1) * total) / times.length));
  const parts = clocks.map((curve) => (counts === "points" ? numbered(curve) : interpolation(curve.times, curve.steps)));
  return (time) => Math.round(parts.reduce((sum, part) => sum + part(time), 0) * share * 100) / 100;
}

// A function through points in any order, from 0 at 0, constant after the last.
function interpolation(places, heights) {
  const order = places.map((_, at) => at).sort((one, other) => places[one] - places[other]);
  const [xs, ys] = [places, heights].map((list) => order.map((at) => list[at]));
  return (x) => {
    let [low, high] = [0, xs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle + 1;
      else high = middle;
    }
    if (low === xs.length) return ys.at(-1);
    const [x0, y0] = low ? [xs[low - 1], ys[low - 1]] : [0, 0];
    return xs[low] > x0 ? y0 + ((ys[low] - y0) * Math.max(0, x - x0)) / (xs[low] - x0) : ys[low];
  };
}
