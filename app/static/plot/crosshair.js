// One crosshair for all charts of a page over the same x-axis: hovering over one shows its x in all.

function followHover(node) {
  if (node.crosshair) return;
  node.crosshair = Object.assign(document.createElement("div"), { className: "pl-crosshair", hidden: true });
  node.prepend(node.crosshair); // below the hover box
  const alike = () => [...document.querySelectorAll(".js-plotly-plot")].filter((other) => other.crosshair && other.along && other.along === node.along);
  node.on("plotly_hover", ({ points: [point] }) => {
    if (typeof point?.x === "number") for (const other of alike()) placeCrosshair(other, point.x * (node.units.x?.size ?? 1));
  });
  node.on("plotly_unhover", () => alike().forEach((other) => (other.crosshair.hidden = true)));
  node.on("plotly_relayout", () => (node.crosshair.hidden = true));
}

// `x` is in the axis's own unit, before it was scaled to the values of a chart.
function placeCrosshair(node, x) {
  const { xaxis, yaxis } = node._fullLayout;
  const at = xaxis.d2p(x / (node.units.x?.size ?? 1));
  node.crosshair.hidden = !(at >= 0 && at <= xaxis._length) || !node.checkVisibility();
  Object.assign(node.crosshair.style, { left: `${xaxis._offset + at}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
}
