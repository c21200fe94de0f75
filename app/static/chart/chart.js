// The live curves of one run: pulls what is new from /api/series, draws one panel a metric and in it one line a rank, or a band over all.
// It asks nothing while the tab is hidden and stops when the run has ended; a zoom outlives new points.

const HELD = 2000; // points of one curve in the browser; past it half of them are kept
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "x", "star"];
const AXES = {
  step: { key: "steps", title: "Step of each rank" },
  passes: { key: "passes", title: "Passes over the training data, by all ranks" },
  time: { key: "times", title: "Seconds since all ranks were ready" },
};

export default function ({ data, parentElement }) {
  const chart = (parentElement.chart ??= begin(parentElement));
  const other = chart.data && chart.data.run !== data.run;
  const wasActive = chart.data?.active;
  const first = !chart.data;
  chart.data = data;
  if (other) chart.forget();
  if (first || other || (wasActive && !data.active)) chart.ask();
  else chart.draw();
  return newestCleanup(parentElement, chart.stop);
}

function begin(element) {
  const box = element.querySelector(".pl-panels");
  const chart = { data: null, curves: new Map(), bands: new Map(), goals: {}, metrics: [], last: 0, version: 0, done: false, timer: null, born: Date.now(), failures: 0, slower: 1, hiddenAt: 0 };
  const panels = new Map();
  let asking = false;
  let again = false;

  chart.forget = () => {
    Object.assign(chart, { curves: new Map(), bands: new Map(), goals: {}, metrics: [], last: 0, version: 0, done: false, born: Date.now() });
    for (const panel of panels.values()) panel.zoom?.forget();
  };

  chart.ask = async () => {
    if (asking) return void (again = true);
    asking = true;
    clearTimeout(chart.timer);
    loadPlotly(chart.data.plotly).catch(() => {});
    try {
      await pull();
      chart.failures = 0;
    } catch {
      chart.failures += 1;
    }
    asking = false;
    if (again) {
      again = false;
      return chart.ask();
    }
    if (!chart.done && !document.hidden && element.chart) chart.timer = setTimeout(chart.ask, delay());
  };

  const drawable = () => chart.curves.size + chart.bands.size > 0;

  function delay() {
    if (chart.failures) return Math.min(5000, 400 * 2 ** chart.failures);
    const age = Date.now() - chart.born;
    if (!drawable() && age < 15000) return 150;
    return chart.slower * (age < 10000 ? 400 : 750);
  }

  async function pull() {
    const run = chart.data.run;
    const query = new URLSearchParams({ run, after: chart.last, version: chart.version });
    if (chart.data.metrics.length) query.set("metrics", chart.data.metrics.join(","));
    const answer = await fetch(`api/series?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    chart.slower = Number(answer.headers.get("x-slower")) || 1; // what a console asks for that does not keep up
    const news = await answer.json();
    if (run !== chart.data.run) return;
    if (!news.unchanged) {
      take(news);
      await chart.draw();
    }
  }

  function take(news) {
    chart.metrics = news.metrics;
    chart.version = news.version;
    chart.goals = news.goals;
    chart.bands = new Map(news.bands.map((band) => [band.metric, band]));
    for (const part of news.series) merge(chart.curves, part, chart.last === 0);
    chart.last = news.last_id;
    chart.done = !news.active;
  }

  chart.draw = async () => {
    const note = element.querySelector(".pl-note");
    note.textContent = drawable() ? "" : chart.done ? "This run recorded no curves." : "Waiting for the first value.";
    if (!drawable()) return;
    await loadPlotly(chart.data.plotly);
    const theme = themeOf(element);
    for (const metric of chart.metrics) {
      const held = [...chart.curves.values()].filter((curve) => curve.metric === metric.name).sort((a, b) => a.rank - b.rank);
      const x = axisOf(held, chart.data.x);
      const zoom = panels.get(metric.name)?.zoom;
      const curves = zoom ? held.map((curve) => zoom.of(curve, x, AXES[x].key)) : held;
      const band = chart.bands.get(metric.name);
      if (!curves.length && !band) continue;
      const panel = panels.get(metric.name) ?? addPanel(box, panels, metric);
      panel.node.style.order = chart.metrics.indexOf(metric);
      if (band) describeBand(panel, metric, band);
      else describe(panel, metric, curves);
      const goal = chart.goals[metric.name];
      const { traces, layout } = band ? bandPicture(metric, band, goal, chart.data, theme) : picture(metric, curves, goal, chart.data, theme);
      await drawPlot(panel.plot, `run ${chart.data.run} ${metric.name}`, traces, theme, layout);
      panel.fold.refresh();
      if (!band) panel.zoom ??= watchZoom(panel, metric.name, chart);
    }
    element.dataset.drawn = [...chart.curves.keys(), ...chart.bands.keys()].join(" ");
    element.dataset.drawnAt ??= Date.now();
  };

  const seen = () => {
    clearTimeout(chart.timer);
    if (document.hidden) return void (chart.hiddenAt = Date.now());
    if (chart.done) return;
    if (Date.now() - chart.hiddenAt > 10000) chart.last = chart.version = 0;
    chart.ask();
  };
  document.addEventListener("visibilitychange", seen);
  const ignoreTheme = onThemeChange(element, () => chart.draw());
  chart.stop = () => {
    clearTimeout(chart.timer);
    document.removeEventListener("visibilitychange", seen);
    ignoreTheme();
    for (const panel of panels.values()) {
      panel.resizing.disconnect();
      window.Plotly?.purge(panel.plot);
    }
    delete element.chart;
  };
  return chart;
}

function merge(curves, part, anew) {
  const key = `${part.metric}|${part.rank}`;
  const held = curves.get(key);
  if (!held || anew) return void curves.set(key, part);
  for (const list of LISTS) held[list] = [...held[list], ...part[list]]; // a new list: react takes one that grew in place for the same
  if (held.values.length > HELD) thin(held, HELD / 2);
  held.total = part.total;
  held.role = part.role;
}

function addPanel(box, panels, metric) {
  const node = document.createElement("section");
  node.className = "pl-panel";
  const title = document.createElement("h2");
  const caption = document.createElement("span");
  caption.className = "pl-caption";
  const plot = document.createElement("div");
  plot.className = "pl-plot";
  plot.dataset.metric = metric.name;
  plot.setAttribute("role", "figure");
  const fold = tableFold(plot);
  node.append(title, caption, plot, fold);
  box.append(node);
  const panel = { node, title, caption, plot, fold };
  panel.resizing = followSize(plot, node);
  panels.set(metric.name, panel);
  return panel;
}

function entitle(panel, metric) {
  panel.title.textContent = metric.unit ? `${metric.label} (${metric.unit})` : metric.label;
  panel.title.title = metric.help || metric.name;
}

function describeBand(panel, metric, band) {
  entitle(panel, metric);
  panel.caption.textContent = `${band.total.toLocaleString("en")} over all ranks; band: ± 1 standard deviation`;
  panel.plot.setAttribute("aria-label", `${metric.label} over all ranks; running mean at last: ${band.running.at(-1)}`);
}

function describe(panel, metric, curves) {
  entitle(panel, metric);
  const shown = curves.reduce((sum, curve) => sum + curve.values.length, 0);
  const total = curves.reduce((sum, curve) => sum + curve.total, 0);
  const gaps = curves.reduce((sum, curve) => sum + curve.values.filter((value) => value === null).length, 0);
  const words = [];
  if (total > shown) words.push(`showing ${shown.toLocaleString("en")} of ${total.toLocaleString("en")} points`);
  if (gaps) words.push(`${gaps.toLocaleString("en")} not finite, left out`);
  panel.caption.textContent = words.join("; ");
  const last = curves.map((curve) => `${curve.role} ${curve.values.at(-1)}`).join(", ");
  panel.plot.setAttribute("aria-label", `${metric.label} by rank; last values: ${last}`);
}

// A learner that plays has no training data to pass over.
function axisOf(curves, x) {
  const counted = x !== "passes" || curves.some((curve) => curve.passes.some((value) => value !== null));
  return counted && AXES[x] ? x : "step";
}

function picture(metric, curves, goal, data, theme) {
  const along = axisOf(curves, data.x);
  const axis = AXES[along];
  const whole = curves.every((curve) => curve.rank < 0);
  const traces = curves.flatMap((curve, index) => lines(curve, index, axis, metric.smooth ? data.smoothing : 0, theme));
  const longest = curves.reduce((best, curve) => (curve[axis.key].length > best.length ? curve[axis.key] : best), []);
  traces.push(...goalLine(goal, longest, theme));
  const layout = {
    height: data.height,
    uirevision: "kept", // of what the legend hides; a zoom is of one axis
    showlegend: traces.filter((trace) => trace.showlegend !== false).length > 1,
    hovermode: "closest",
    xaxis: { title: { text: whole && axis === AXES.step ? "Work done by all ranks" : axis.title, standoff: 6 }, uirevision: along },
    yaxis: { title: { text: "" }, uirevision: along },
  };
  return { traces, layout };
}

function lines(curve, index, axis, smoothing, theme) {
  const colour = theme.colours[index % theme.colours.length];
  const line = { color: colour, width: 2, dash: DASHES[index % DASHES.length] };
  const base = { type: "scatter", x: curve[axis.key], y: curve.values, name: curve.role, legendgroup: curve.role, hovertemplate: `%{y:.5g}<extra>${curve.role}</extra>` };
  const few = curve.values.length <= 60;
  if (few || !(smoothing > 0) || isMonotone(curve.values)) {
    return [{ ...base, mode: few ? "lines+markers" : "lines", line: { ...line, width: few ? 2 : 1.4 }, marker: { color: colour, size: 6, symbol: MARKERS[index % MARKERS.length] } }];
  }
  return [
    { ...base, mode: "lines", line: { color: colour, width: 1 }, opacity: 0.28, meta: { as: "raw" }, showlegend: false, hoverinfo: "skip", hovertemplate: undefined },
    { ...base, y: averageOf(curve.values, smoothing), meta: { as: "smoothed" }, mode: "lines", line },
  ];
}

const averages = new WeakMap();

// The same list again where nothing is new, so that react draws nothing.
function averageOf(values, weight) {
  const known = averages.get(values);
  if (known?.weight === weight) return known.list;
  const list = smoothed(values, weight);
  averages.set(values, { weight, list });
  return list;
}
