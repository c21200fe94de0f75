// What a zoom into a figure shows more of: where the figure says whom to ask, the stretch in sight comes finer by itself.

const LET_GO_MS = 250; // a person who still drags or scrolls has not chosen yet

// A figure's zoom: `state.finer` holds what is drawn instead of the whole, `again` asks anew for the stretch in sight.
function watchStretch(node, state) {
  let range = null; // [from, to] along the axis
  let timer = null;
  let asked = 0;

  const ask = async () => {
    const own = asked;
    const [from, to] = node.layout?.xaxis?.type === "log" ? range.map((end) => 10 ** end) : range;
    try {
      const answer = await fetch(`${state.data.zoom}&${new URLSearchParams({ from, to })}`, { cache: "no-store" });
      if (!answer.ok || own !== asked) return;
      state.finer = await answer.json();
      if (own === asked) state.draw();
    } catch {
      // the whole figure stays; the next zoom asks again
    }
  };

  const again = (isOther) => {
    if (isOther) range = null; // another axis: plotly shows all of it
    asked += 1;
    clearTimeout(timer);
    if (range && state.data.zoom) timer = setTimeout(ask, LET_GO_MS);
  };

  node.on("plotly_relayout", (change) => {
    const shown = "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : change["xaxis.range"];
    if (!shown && !change["xaxis.autorange"]) return;
    range = shown ? shown.map(Number) : null;
    const had = state.finer;
    if (!range) state.finer = null;
    again();
    if (had && !range) state.draw();
  });

  return { again, stop: () => clearTimeout(timer) };
}
