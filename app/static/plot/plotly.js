// Shared by all charts: plotly.js, loaded once per tab, and Streamlit's theme in Plotly's terms.

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

// Low to high: colours from the background to the text colour, with the theme's first colour in the middle.
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

const MARGIN = { l: 44, r: 14, t: 28, b: 40 }; // the toolbar is above the plot

// With `size` as the font size in px. On a touch screen a drag scrolls the page, so it does not zoom.
function themedLayout(theme, layout, size) {
  const isTouch = window.matchMedia("(hover: none)").matches;
  const axis = { gridcolor: theme.faint, zerolinecolor: theme.faint, linecolor: theme.faint, automargin: true, fixedrange: isTouch, separatethousands: true, exponentformat: "SI", minexponent: 5 };
  const { legend = {}, ...rest } = layout;
  const axes = new Set(["xaxis", "yaxis", ...Object.keys(rest).filter((name) => /^[xy]axis\d+$/.test(name))]);
  const font = { family: theme.font, color: theme.text, size };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font,
    colorway: theme.colours,
    hoverlabel: { bgcolor: theme.raised, bordercolor: theme.faint, font },
    modebar: { bgcolor: theme.ground, color: mixed(theme.ground, theme.text, 0.6), activecolor: theme.text },
    margin: MARGIN,
    ...(isTouch && { dragmode: false }),
    ...rest,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)", ...legend },
    ...Object.fromEntries([...axes].map((name) => [name, { ...axis, ...rest[name] }])),
  };
}

// Calls back when Streamlit's theme changes: its variables are then reset on an ancestor.
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
