// Detail on zoom: long curves are down-sampled, so the visible range is fetched separately and spliced in.

const SETTLED_MS = 250;

// A panel's zoom: `look` fetches the visible range after a debounce; `of` returns the curves to draw.
function zoomOf(ask, changed) {
  let stretch = null; // [from, to] on the current axis
  let axis = "";
  let held = new Map();
  let timer = null;
  let asked = 0;

  const forget = () => {
    stretch = null;
    held = new Map();
    asked += 1;
    clearTimeout(timer);
  };

  const look = (range, x, curves) => {
    forget();
    if (!range || !curves.some((curve) => curve.total > curve.values.length)) return void changed();
    timer = setTimeout(async () => {
      const own = asked;
      try {
        const parts = await ask(range, x);
        if (own !== asked) return;
        stretch = range;
        axis = x;
        held = new Map(parts.map((part) => [part.rank, part]));
        changed();
      } catch {
        // keep the down-sampled curve; the next zoom retries
      }
    }, SETTLED_MS);
  };

  const of = (curve, x, key) => {
    const part = stretch && axis === x ? held.get(curve.rank) : null;
    return part && part.values.length && !part[key].includes(null) ? spliced(curve, part) : curve;
  };

  return { look, of, forget };
}

// Fetches and draws the zoomed range of a panel; a double click restores the whole curve.
function watchZoom(panel, metric, chart) {
  const curves = () => [...chart.curves.values()].filter((curve) => curve.metric === metric);
  const ask = async ([from, to], axis) => {
    if (axis === "updates") return []; // the server counts no updates
    const query = new URLSearchParams({ run: chart.data.run, metrics: metric, axis, from, to });
    const answer = await fetch(`api/series?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    return (await answer.json()).series.filter((part) => part.metric === metric);
  };
  const zoom = zoomOf(ask, () => chart.draw());
  panel.plot.on("plotly_relayout", (change) => {
    const range = zoomedTo(panel.plot, change);
    if (range || change["xaxis.autorange"]) zoom.look(range, axisOf(curves(), chart.data.x), curves());
  });
  return zoom;
}

// The curve with the points of a part of it added, in recording order: its axis may go back.
function spliced(curve, part) {
  const points = [curve, part].flatMap((from) => from.ids.map((id, at) => ({ id, from, at }))).sort((one, other) => one.id - other.id);
  const single = points.filter(({ id }, place) => id !== points[place - 1]?.id);
  return { ...curve, ...Object.fromEntries(LISTS.map((name) => [name, single.map(({ from, at }) => from[name][at])])) };
}
