// A legend item: a line sample (colour, dash, marker) and a name.

const STROKES = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4", longdashdot: "11 3 2 3" };
const SHAPES = {
  circle: '<circle cx="17" cy="7" r="4"/>',
  square: '<rect x="13.2" y="3.2" width="7.6" height="7.6"/>',
  diamond: '<path d="M17 2l5 5-5 5-5-5z"/>',
  "triangle-up": '<path d="M17 2.4l4.6 8.2h-9.2z"/>',
  x: '<path d="M14 4l6 6M20 4l-6 6" stroke-width="2.6"/>',
  star: '<path d="M17 1.6l1.6 3.6 3.9.4-2.9 2.6.8 3.9-3.4-2-3.4 2 .8-3.9-2.9-2.6 3.9-.4z"/>',
};

function swatch({ dash, symbol }, colour) {
  const sample = document.createElement("span");
  const line = `<line x1="0" y1="7" x2="34" y2="7" stroke-width="2.4" stroke-dasharray="${STROKES[dash] ?? ""}"/>`;
  sample.innerHTML = `<svg width="34" height="14" aria-hidden="true" stroke="${colour}" fill="${colour}">${line}${SHAPES[symbol] ?? ""}</svg>`;
  return sample;
}

function item(entry, colour) {
  const row = document.createElement("li");
  const name = document.createElement("span");
  name.textContent = entry.label;
  row.append(swatch(entry, colour), name);
  return row;
}
