// What every chart of ours shares: plotly.js loaded once a tab, and Streamlit's theme as plotly wants it.

function loadPlotly(url) {
  window.parallabPlotly ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      window.parallabPlotly = undefined;
      reject(new Error("plotly.js could not be loaded"));
    };
    document.head.append(script);
  });
  return window.parallabPlotly;
}

function themeOf(element) {
  const style = getComputedStyle(element);
  const read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  return {
    text: read("--st-text-color", "#0d1720"),
    faint: read("--st-border-color", "#d5dde3"),
    ground: read("--st-background-color", "#ffffff"),
    raised: read("--st-secondary-background-color", "#f3f6f8"),
    font: read("--st-font", "sans-serif"),
    colours: read("--st-chart-categorical-colors", "#0072b2,#d55e00,#00805c,#b3478f").split(",").map((colour) => colour.trim()),
  };
}

// From few to many: colours between the ground and the text, with the theme's first colour in the middle.
function heatOf(theme) {
  const [colour] = theme.colours;
  return [[0, mixed(theme.ground, colour, 0.16)], [0.45, colour], [1, mixed(colour, theme.text, 0.68)]];
}

function mixed(one, other, share) {
  const [from, to] = [one, other].map(channels);
  return `rgb(${from.map((value, index) => Math.round(value + (to[index] - value) * share)).join(",")})`;
}

function channels(colour) {
  const brush = document.createElement("canvas").getContext("2d");
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function themedLayout(theme, layout) {
  const axis = { gridcolor: theme.faint, zerolinecolor: theme.faint, linecolor: theme.faint, automargin: true, fixedrange: false, separatethousands: true };
  const { legend = {}, ...rest } = layout;
  const axes = new Set(["xaxis", "yaxis", ...Object.keys(rest).filter((name) => /^[xy]axis\d+$/.test(name))]);
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: theme.font, color: theme.text, size: 12 },
    colorway: theme.colours,
    hoverlabel: { bgcolor: theme.raised, bordercolor: theme.faint, font: { color: theme.text, family: theme.font } },
    margin: { l: 44, r: 14, t: 8, b: 40 },
    ...rest,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", ...legend },
    ...Object.fromEntries([...axes].map((name) => [name, { ...axis, ...rest[name] }])),
  };
}

// Calls back when Streamlit's theme changes: its variables are then set anew on an ancestor.
function onThemeChange(element, callback) {
  let before = JSON.stringify(themeOf(element));
  const look = () => {
    const now = JSON.stringify(themeOf(element));
    if (now !== before) {
      before = now;
      callback();
    }
  };
  const observer = new MutationObserver(look);
  for (let node = element; node; node = node.parentElement) observer.observe(node, { attributes: true, attributeFilter: ["style", "class"] });
  observer.observe(document.head, { childList: true });
  return () => observer.disconnect();
}
