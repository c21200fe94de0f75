// Draws a report from its embedded data: charts in the selected theme, and their numbers on demand.

const MOST_ROWS = 500; // shown; a saved file holds all

const charts = [...document.querySelectorAll("figure[data-chart]")].map((node) => ({
  node,
  plot: node.querySelector(".plot"),
  told: JSON.parse(node.querySelector("script").textContent),
}));

const legends = [...document.querySelectorAll("ul.legend")].map((node) => ({ node, entries: JSON.parse(node.querySelector("script").textContent) }));

function drawLegends() {
  const { colours } = themeOf(document.body);
  for (const { node, entries } of legends) node.replaceChildren(...entries.map((entry) => item(entry, colours[entry.colour % colours.length])));
}

async function drawAll() {
  drawLegends();
  for (const { plot, told } of charts) {
    const theme = themeOf(document.body);
    const traces = told.figure.data.map((trace, index) => paint(trace, told.colours[index], theme));
    await drawPlot(plot, told.name, traces, theme, { ...told.figure.layout, height: told.height, uirevision: "kept" });
  }
  document.body.dataset.drawn = charts.length;
}

function showNumbers({ node, plot, told }) {
  const [names, ...rows] = numbersOf(plot);
  const table = document.createElement("table");
  for (const [kind, row] of [["th", names], ...rows.slice(0, MOST_ROWS).map((row) => ["td", row])]) {
    const line = table.insertRow();
    for (const value of row) {
      const cell = document.createElement(kind);
      cell.textContent = value ?? "";
      line.append(cell);
    }
  }
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.append(table);
  const button = saveButton(() => [names, ...rows], told.name);
  const said = document.createElement("p");
  said.className = "made";
  said.textContent = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length.toLocaleString("en")} rows; the CSV file has all.` : "";
  node.querySelector(".numbers").replaceChildren(button, said, scroll);
}

function saveButton(rows, name) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Save as CSV";
  button.addEventListener("click", () => saveText(asCsv(rows()), `${fileName(name)}.csv`, "text/csv"));
  return button;
}

for (const chart of charts) {
  const details = chart.node.querySelector("details");
  details.addEventListener("toggle", () => details.open && showNumbers(chart));
}
for (const grid of document.querySelectorAll("section[data-grid]")) {
  const { name, rows } = JSON.parse(grid.querySelector("script").textContent);
  grid.querySelector("button").replaceWith(saveButton(() => rows, name));
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
document.getElementById("theme").addEventListener("click", () => {
  const dark = (root.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  drawAll();
});
prefersDark.addEventListener("change", () => drawAll());
let before;
window.addEventListener("beforeprint", () => {
  before = root.dataset.theme;
  root.dataset.theme = "light";
  drawAll();
});
window.addEventListener("afterprint", () => {
  if (before) root.dataset.theme = before;
  else delete root.dataset.theme;
  drawAll();
});
window.addEventListener("resize", () => charts.forEach(({ plot }) => plot.data && window.Plotly.Plots.resize(plot)));
drawAll();
