// A complete Plotly figure; node and zoom are kept across updates, and an unchanged figure is not redrawn.

export default function ({ data, parentElement, setTriggerValue }) {
  const state = (parentElement.figure ??= begin(parentElement));
  state.setTriggerValue = setTriggerValue;
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
    node.style.height = `${state.data.height}px`; // reserved before plotly.js is there
    await loadPlotly(state.data.plotly);
    const theme = themeOf(element);
    const { layout } = state.data.figure;
    const { figure, colours } = state.finer ?? state.data;
    const coloured = figure.data.map((trace, index) => paint(trace, colours?.[index], theme));
    node.dataset.key = state.data.key;
    node.setAttribute("role", "figure");
    node.setAttribute("aria-label", state.data.alt);
    await drawPlot(node, state.data.alt, coloured, theme, { ...layout, height: state.data.height, uirevision: axesOf(layout) });
    if (state.data.pressed) state.presses ??= watchPresses(node, state);
    if (state.data.keeps) state.zooms ??= watchZooms(node, state);
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
    node.shrink?.(true);
    window.Plotly?.purge(node);
    delete element.figure;
  };
  return state;
}

const NEAR_LINE = 24; // px from a line within which a press is meant for it

const SECOND_MS = 300; // in which a second press makes it a double click, which resets the zoom

// A press on a line sends what its trace says; of the lines that have a point at that x, the nearest one is meant.
function watchPresses(node, state) {
  let timer = null;
  let doubled = -Infinity;
  node.on("plotly_doubleclick", () => {
    doubled = performance.now();
    clearTimeout(timer);
  });
  node.on("plotly_click", ({ points, event }) => {
    const { yaxis } = node._fullLayout;
    const at = event.clientY - node.getBoundingClientRect().top - yaxis._offset;
    const near = ({ y }) => Math.abs(yaxis.d2p(y) - at);
    const [found] = points.filter(({ data, y }) => data.meta?.press && Number.isFinite(near({ y }))).sort((one, other) => near(one) - near(other));
    if (!found || near(found) > NEAR_LINE || performance.now() - doubled < SECOND_MS) return;
    clearTimeout(timer);
    timer = setTimeout(() => node.isConnected && state.setTriggerValue("press", found.data.meta.press), SECOND_MS);
  });
  return true;
}

const KEPT_MS = 300; // from a zoom until the page's address has it

// A zoom along x is sent, so that the page's address holds it for all its charts.
function watchZooms(node, state) {
  let timer = null;
  node.on("plotly_relayout", (change) => {
    const shown = zoomedTo(node, change);
    if (!shown && !change["xaxis.autorange"]) return;
    clearTimeout(timer);
    const text = shown ? shown.map((end) => Number(end.toPrecision(9))).join("..") : "";
    timer = setTimeout(() => node.isConnected && state.setTriggerValue("press", `zoom ${text}`), KEPT_MS);
  });
  return true;
}

// Identifies what the axes show: the zoom is kept while it is unchanged.
function axesOf(layout) {
  return layout.uirevision ?? JSON.stringify([layout.xaxis, layout.yaxis].map((axis) => [axis?.title?.text, axis?.type]));
}
