// The live curves of one run: polls /api/series for new points and draws one panel per metric, with a line per rank or a band over all ranks.
// The main metrics are on top; other metrics are in sections, which stay open or closed as the reader left them and are drawn only while open.
// It does not poll while the tab is hidden and stops when the run has ended; new points keep the zoom.

const HELD = 2000; // maximum number of points per curve in the browser; above it, half are kept
const FEW = 6; // charts of a run that need no search

export default function ({ data, parentElement }) {
  const chart = (parentElement.chart ??= begin(parentElement));
  const other = chart.data && chart.data.run !== data.run;
  const wasActive = chart.data?.active;
  const first = !chart.data;
  const revised = !first && chart.data.revision !== data.revision;
  chart.data = data;
  if (other) chart.forget();
  if (revised) chart.version = 0; // else the answer could be that nothing changed
  if (first || other || revised || wasActive !== data.active) chart.ask();
  else chart.draw();
  return newestCleanup(parentElement, chart.stop);
}

function begin(element) {
  const sections = new Map();
  const search = searchField(element, () => chart.draw());
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
    const query = new URLSearchParams({ run, after: chart.last, version: chart.version, revision: chart.data.revision ?? 0 });
    for (const name of chart.data.metrics) query.append("metrics", name); // a name may have commas
    const answer = await fetch(`api/series?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    chart.slower = Number(answer.headers.get("x-slower")) || 1; // an overloaded console asks clients to poll less often
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
    note.textContent = drawable() ? "" : chart.done ? "This run recorded no curves." : "No values yet.";
    element.querySelector(".pl-panels").classList.toggle("pl-none", (chart.done || chart.data.apart) && !drawable()); // a script may never have curves
    if (!drawable()) return;
    await loadPlotly(chart.data.plotly);
    const theme = themeOf(element);
    placeAlong(chart);
    const data = { ...chart.data, spans: spansOf(chart) };
    const shown = new Set(chart.metrics.map((metric) => metric.name));
    for (const [name, panel] of panels) if (!shown.has(name)) panel.node.hidden = true; // a person switched it off
    for (const section of sections.values()) section.count();
    for (const metric of chart.metrics) {
      const held = [...chart.curves.values()].filter((curve) => curve.metric === metric.name).sort((a, b) => a.rank - b.rank);
      const x = axisOf(held, chart.data.x);
      const zoom = panels.get(metric.name)?.zoom;
      const curves = zoom ? held.map((curve) => zoom.of(curve, x, AXES[x].key)) : held;
      const band = chart.bands.get(metric.name);
      if (!curves.length && !band) continue;
      const section = sectionOf(element, sections, metric, () => chart.draw());
      const panel = panels.get(metric.name) ?? addPanel(section.box, panels, metric);
      if (panel.node.parentElement !== section.box) {
        section.box.append(panel.node); // which are the main ones depends on what was recorded by then
        for (const each of sections.values()) each.count();
      }
      panel.node.style.order = chart.metrics.indexOf(metric);
      panel.node.hidden = !search.matches(metric);
      if (search.text && section.details && !panel.node.hidden) section.details.open = true;
      section.count();
      if (panel.node.hidden || (section.details && !section.details.open)) continue;
      if (band) describeBand(panel, metric, band);
      else describe(panel, metric, curves);
      entitle(panel, metric, metric.unit);
      const single = !band && chart.done && curves.every((curve) => curve.total === 1);
      panel.node.classList.toggle("pl-single", single);
      if (single) {
        entitle(panel, metric, "");
        showNumbers(panel, curves, metric.unit);
        continue;
      }
      const goal = chart.goals[metric.name];
      const { traces, layout } = band ? bandPicture(metric, band, goal, data, theme) : picture(metric, curves, goal, data, theme);
      await drawPlot(panel.plot, `run ${chart.data.run} ${metric.name}`, traces, theme, layout);
      entitle(panel, metric, panel.plot.units.y?.unit ?? metric.unit);
      panel.fold.refresh();
      if (!band) panel.zoom ??= watchZoom(panel, metric.name, chart);
    }
    element.querySelector(".pl-find").hidden = panels.size <= FEW;
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
      panel.plot.shrink?.(true);
      window.Plotly?.purge(panel.plot);
    }
    delete element.chart;
  };
  return chart;
}

function merge(curves, part, isFirst) {
  const key = `${part.metric}|${part.rank}`;
  const held = curves.get(key);
  if (!held || isFirst) return void curves.set(key, part);
  for (const list of LISTS) held[list] = [...held[list], ...part[list]]; // a new array: Plotly.react ignores in-place changes
  if (held.values.length > HELD) thin(held, HELD / 2);
  held.total = part.total;
  held.role = part.role;
}

// A metric of one value is a number, not a chart.
function showNumbers(panel, curves, unit) {
  const list = document.createElement("dl");
  for (const curve of curves) {
    list.appendChild(document.createElement("dt")).textContent = curve.rank < 0 ? "" : curve.role;
    list.appendChild(document.createElement("dd")).textContent = curve.values[0] === null ? "not finite" : measure(curve.values[0], unit);
  }
  panel.plot.replaceChildren(list);
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
  plot.dataset.key = `curve ${metric.name}`;
  plot.setAttribute("role", "figure");
  const fold = tableFold(plot);
  node.append(title, caption, plot, fold);
  box.append(node);
  const panel = { node, title, caption, plot, fold };
  panel.resizing = followSize(plot, node);
  panels.set(metric.name, panel);
  return panel;
}

function entitle(panel, metric, unit) {
  panel.title.textContent = unit ? `${metric.label} (${unit})` : metric.label;
  panel.title.title = metric.help || metric.name;
}

function describeBand(panel, metric, band) {
  panel.caption.textContent = `${band.total.toLocaleString("en")} over all ranks; band: ± 1 standard deviation`;
  panel.plot.setAttribute("aria-label", `${metric.label} over all ranks; last running mean: ${band.running.at(-1)}`);
}

function describe(panel, metric, curves) {
  const shown = curves.reduce((sum, curve) => sum + curve.values.length, 0);
  const total = curves.reduce((sum, curve) => sum + curve.total, 0);
  const gaps = curves.reduce((sum, curve) => sum + curve.values.filter((value) => value === null).length, 0);
  const words = [];
  if (total > shown) words.push(`showing ${shown.toLocaleString("en")} of ${total.toLocaleString("en")} points`);
  if (gaps) words.push(`${gaps.toLocaleString("en")} non-finite ${gaps === 1 ? "value" : "values"} omitted`);
  panel.caption.textContent = words.join("; ");
  const last = curves.map((curve) => `${curve.role} ${curve.values.at(-1)}`).join(", ");
  panel.plot.setAttribute("aria-label", `${metric.label} by rank; last values: ${last}`);
}
