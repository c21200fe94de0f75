// One crosshair for all charts of a page over the same x-axis: hovering over one shows its x in all.

function followHover(node) {
  if (node.crosshair) return;
  skipEnded(node);
  node.crosshair = Object.assign(document.createElement("div"), { className: "pl-crosshair", hidden: true });
  node.prepend(node.crosshair); // below the hover box
  const alike = () => [...document.querySelectorAll(".js-plotly-plot")].filter((other) => other.crosshair && other.along && other.along === node.along);
  node.on("plotly_hover", ({ points: [point] }) => {
    if (typeof point?.x === "number") for (const other of alike()) placeCrosshair(other, point.x * (node.units.x?.size ?? 1));
  });
  node.on("plotly_unhover", () => alike().forEach((other) => (other.crosshair.hidden = true)));
  node.on("plotly_relayout", () => (node.crosshair.hidden = true));
}

const NEAR_END = 12; // px beyond a line's ends within which it still has a value

// A line has no value in the hover box before its first and after its last point.
function skipEnded(node) {
  const skip = ({ clientX }) => {
    const { xaxis, hovermode } = node._fullLayout;
    if (hovermode !== "x unified") return;
    const at = clientX - node.getBoundingClientRect().left - xaxis._offset;
    for (const points of node.calcdata) {
      const { trace } = points[0] ?? {};
      if (!trace || (trace.hoverinfo === "skip" && !trace.isEnded)) continue;
      const isDrawn = ({ x, y }) => Number.isFinite(xaxis.c2p(x)) && Number.isFinite(y);
      const [first, last] = [points.find(isDrawn), points.findLast(isDrawn)].map((point) => (point ? xaxis.c2p(point.x) : NaN));
      if (!trace.isEnded) trace.toldInHover = trace.hoverinfo;
      trace.isEnded = at < first - NEAR_END || at > last + NEAR_END;
      trace.hoverinfo = trace.isEnded ? "skip" : trace.toldInHover;
    }
  };
  node.addEventListener("mousemove", skip, { capture: true }); // before Plotly's own listener, which is further in
}

// `x` is in the axis's own unit, before it was scaled to the values of a chart.
function placeCrosshair(node, x) {
  const { xaxis, yaxis } = node._fullLayout;
  const at = xaxis.d2p(x / (node.units.x?.size ?? 1));
  node.crosshair.hidden = !(at >= 0 && at <= xaxis._length) || !node.checkVisibility();
  Object.assign(node.crosshair.style, { left: `${xaxis._offset + at}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
}
