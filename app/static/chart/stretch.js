// Detail on zoom: if a figure has a data address, the visible range is fetched at higher resolution.

const LET_GO_MS = 250; // debounce while the user drags or scrolls

// A figure's zoom: `state.finer` holds the detailed traces, `again` fetches the visible range again.
function watchStretch(node, state) {
  let range = state.data.figure.layout.meta?.zoom ?? null; // [from, to] along the axis
  let timer = null;
  let asked = 0;

  const ask = async () => {
    const own = asked;
    const [from, to] = range;
    try {
      const answer = await fetch(`${state.data.zoom}&${new URLSearchParams({ from, to })}`, { cache: "no-store" });
      if (!answer.ok || own !== asked) return;
      state.finer = await answer.json();
      if (own === asked) state.draw();
    } catch {
      // keep the whole figure; the next zoom retries
    }
  };

  const again = (isOther) => {
    if (isOther) range = null; // another axis: Plotly shows its full range
    if (state.data.keeps) range = state.data.figure.layout.meta?.zoom ?? null;
    look();
  };

  const look = () => {
    asked += 1;
    clearTimeout(timer);
    if (range && state.data.zoom) timer = setTimeout(ask, LET_GO_MS);
  };

  node.on("plotly_relayout", (change) => {
    const shown = zoomedTo(node, change);
    if (!shown && !change["xaxis.autorange"]) return;
    range = shown;
    const had = state.finer;
    if (!range) state.finer = null;
    look();
    if (had && !range) state.draw();
  });

  again(false);
  return { again, stop: () => clearTimeout(timer) };
}
