// A plotly figure that is handed over whole; the node and its zoom outlive each new figure, and one that is the same is not drawn again.

export default function ({ data, parentElement }) {
  const state = (parentElement.figure ??= begin(parentElement));
  state.take(data);
  return newestCleanup(parentElement, state.stop);
}

function begin(element) {
  const node = element.querySelector(".pl-figure");
  const state = { data: null, told: "", finer: null, stretch: null, fold: null };
  state.take = (data) => {
    const told = JSON.stringify(data);
    if (told !== state.told) {
      const isOther = state.data && axesOf(state.data.figure.layout) !== axesOf(data.figure.layout);
      Object.assign(state, { data, told, finer: null });
      state.draw();
      state.stretch?.again(isOther);
    }
  };
  state.draw = async () => {
    await loadPlotly(state.data.plotly);
    const theme = themeOf(element);
    const { layout } = state.data.figure;
    const { figure, colours } = state.finer ?? state.data;
    const coloured = figure.data.map((trace, index) => paint(trace, colours?.[index], theme));
    node.style.height = `${state.data.height}px`;
    node.setAttribute("role", "figure");
    node.setAttribute("aria-label", state.data.alt);
    await drawPlot(node, state.data.alt, coloured, theme, { ...layout, height: state.data.height, uirevision: axesOf(layout) });
    if (state.data.zoom) state.stretch ??= watchStretch(node, state);
    if (state.data.table && !state.fold) node.after((state.fold = tableFold(node)));
    state.fold?.refresh();
  };
  const told = ({ detail }) => {
    const news = detail[state.data.key];
    if (news) state.take({ ...state.data, ...news });
  };
  window.addEventListener("parallab-figures", told);
  const resizing = followSize(node, element);
  const ignoreTheme = onThemeChange(element, () => state.draw());
  state.stop = () => {
    window.removeEventListener("parallab-figures", told);
    ignoreTheme();
    resizing.disconnect();
    state.stretch?.stop();
    window.Plotly?.purge(node);
    delete element.figure;
  };
  return state;
}

// What the axes show, in a word: a zoom is kept while that is the same.
function axesOf(layout) {
  return layout.uirevision ?? JSON.stringify([layout.xaxis, layout.yaxis].map((axis) => [axis?.title?.text, axis?.type]));
}
