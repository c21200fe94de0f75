// A plotly figure that is handed over whole; the node and its zoom outlive each new figure, and one that is the same is not drawn again.

export default function ({ data, parentElement }) {
  const state = (parentElement.figure ??= begin(parentElement));
  state.take(data);
  return state.stop;
}

function begin(element) {
  const node = element.querySelector(".pl-figure");
  const state = { data: null, told: "" };
  state.take = (data) => {
    const told = JSON.stringify(data);
    if (told !== state.told) {
      Object.assign(state, { data, told });
      state.draw();
    }
  };
  state.draw = async () => {
    const Plotly = await loadPlotly(state.data.plotly);
    const theme = themeOf(element);
    const { data, layout } = state.data.figure;
    const coloured = data.map((trace, index) => paint(trace, state.data.colours?.[index], theme));
    node.style.height = `${state.data.height}px`;
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", state.data.alt);
    await Plotly.react(node, coloured, themedLayout(theme, { ...layout, height: state.data.height, uirevision: layout.uirevision ?? "kept" }), PLOT_CONFIG);
  };
  const told = ({ detail }) => {
    const news = detail[state.data.key];
    if (news) state.take({ ...state.data, ...news });
  };
  window.addEventListener("parallab-figures", told);
  const resizing = new ResizeObserver(() => node.data && window.Plotly.Plots.resize(node));
  resizing.observe(element);
  const ignoreTheme = onThemeChange(element, () => state.draw());
  state.stop = () => {
    window.removeEventListener("parallab-figures", told);
    ignoreTheme();
    resizing.disconnect();
    window.Plotly?.purge(node);
    delete element.figure;
  };
  return state;
}

function paint(trace, colour, theme) {
  if (trace.type === "heatmap") return { ...trace, colorscale: heatOf(theme) };
  if (colour === undefined || colour === null) return trace;
  const value = colour.share === undefined ? theme.colours[colour % theme.colours.length] : shadeOf(theme, colour.share);
  const marker = { ...trace.marker, color: value };
  if (marker.line) marker.line = { color: theme.ground, ...marker.line }; // bars that lie side by side are set apart
  const insidetextfont = { color: theme.ground, ...trace.insidetextfont };
  return { ...trace, marker, line: { ...trace.line, color: value }, ...(trace.type === "bar" && { insidetextfont }) };
}

// A colour for a share from 0 to 1 that is seen on the ground all the way.
function shadeOf(theme, share) {
  const [colour] = theme.colours;
  const half = share * 2;
  return half < 1 ? mixed(mixed(theme.ground, colour, 0.35), colour, half) : mixed(colour, mixed(colour, theme.text, 0.75), half - 1);
}
