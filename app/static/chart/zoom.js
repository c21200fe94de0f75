// What a zoom shows more of: a long curve comes down-sampled, so the stretch in sight is asked for by itself and put in its place.

const SETTLED_MS = 250;

// A panel's zoom: `look` asks for what is in sight, once the person has let go of it; `of` gives the curves to draw.
function zoomOf(ask, changed) {
  let stretch = null; // [from, to] along the axis that is drawn
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
        // the down-sampled curve stays; the next zoom asks again
      }
    }, SETTLED_MS);
  };

  const of = (curve, x, key) => {
    const part = stretch && axis === x ? held.get(curve.rank) : null;
    return part && part.values.length ? spliced(curve, part, key) : curve;
  };

  return { look, of, forget };
}

// Lets a panel ask for what a person zooms in on, and draw it; a double click draws the whole curve again.
function watchZoom(panel, metric, chart) {
  const curves = () => [...chart.curves.values()].filter((curve) => curve.metric === metric);
  const ask = async ([from, to], axis) => {
    const query = new URLSearchParams({ run: chart.data.run, metrics: metric, axis, from, to });
    const answer = await fetch(`api/series?${query}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    return (await answer.json()).series.filter((part) => part.metric === metric);
  };
  const zoom = zoomOf(ask, () => chart.draw());
  panel.plot.on("plotly_relayout", (change) => {
    const range = "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : change["xaxis.range"];
    if (range || change["xaxis.autorange"]) zoom.look(range, axisOf(curves(), chart.data.x), curves());
  });
  return zoom;
}

// The curve with its points between the part's ends replaced by the part's; what came after the part was asked for stays.
function spliced(curve, part, key) {
  const [from, to] = [part[key][0], part[key].at(-1)];
  const before = curve[key].findIndex((at) => at >= from);
  const after = curve[key].findIndex((at) => at > to);
  const lists = LISTS.map((name) => [
    name,
    [...curve[name].slice(0, before < 0 ? curve[name].length : before), ...part[name], ...(after < 0 ? [] : curve[name].slice(after))],
  ]);
  return { ...curve, ...Object.fromEntries(lists) };
}
