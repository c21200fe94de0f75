// Draws the picture of a stretch (app/charts/timeline_picture.py) as SVG.

const SVG = "http://www.w3.org/2000/svg";
const AXIS_PX = 24, ROW_PX = 30, BAR_PX = 22, WORD_PX = 7;
const LIKE = { send: "communicate", receive: "communicate", rpc: "communicate", collective: "lock", barrier: "wait", queue: "wait", serve: "other" };
const IDLE = new Set(["wait", "barrier"]);

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return parent.appendChild(element);
}

function colourOf(picture, kind, colours) {
  const name = picture.kinds[kind];
  const index = picture.kinds.indexOf(LIKE[name] ?? name);
  return colours[index % colours.length];
}

// The view: which stretch is shown, and where its times lie on the screen.
function viewOf(picture, width) {
  const labels = Math.min(150, 16 + WORD_PX * Math.max(...picture.rows.map((row) => row.length)));
  const left = Math.min(labels, width / 3);
  const x = (us) => left + ((us - picture.begin) / (picture.end - picture.begin)) * (width - left);
  return { width, left, x, at: (px) => picture.begin + ((px - left) / (width - left)) * (picture.end - picture.begin), height: AXIS_PX + ROW_PX * picture.rows.length + 4 };
}

function draw(svg, picture, view, { colours, ground, path }) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${view.width} ${view.height}`);
  const { x, left, width } = view;
  const inside = (us) => Math.min(Math.max(x(us), left), width);
  gaps(svg, picture, view, inside);
  for (const [at, label] of ticks(picture.begin, picture.end, (width - left) / 90)) {
    add(svg, "line", { class: "grid", x1: x(at), x2: x(at), y1: AXIS_PX - 6, y2: view.height });
    if (x(at) < width - 30) add(svg, "text", { class: "tick", x: x(at) + 3, y: AXIS_PX - 9 }, label);
  }
  picture.rows.forEach((row, index) => {
    const y = AXIS_PX + ROW_PX * index;
    add(svg, "line", { class: "lane", x1: 0, x2: width, y1: y + ROW_PX - 1, y2: y + ROW_PX - 1 });
    const most = Math.floor((left - 8) / WORD_PX);
    const label = add(svg, "text", { x: 2, y: y + 19 }, row.length > most ? `${row.slice(0, most - 1)}…` : row);
    add(label, "title", {}, row);
  });
  picture.rectangles.forEach(([row, inner, begin, length, kind, , said], index) => {
    const from = inside(begin), to = inside(begin + length);
    if (to <= left || from >= width) return;
    const y = AXIS_PX + ROW_PX * row + 3 + (inner ? BAR_PX * 0.72 : 0), height = inner ? BAR_PX * 0.28 : BAR_PX;
    const bar = { x: from, y, width: Math.max(0.7, to - from), height, fill: colourOf(picture, kind, colours), "data-index": index };
    add(svg, "rect", { ...bar, class: IDLE.has(picture.kinds[kind]) ? "bar idle" : "bar" });
    const word = (said || picture.kinds[kind]).split(",")[0];
    if (!inner && to - from > WORD_PX * word.length + 8) {
      add(svg, "text", { class: "part", x: from + 4, y: y + 14, style: `fill:${IDLE.has(picture.kinds[kind]) ? "currentColor" : ground}` }, word);
    }
  });
  for (const message of picture.messages) arrow(svg, message, x, view);
  if (path) critical(svg, picture, inside);
}

function gaps(svg, picture, view, inside) {
  let from = picture.begin;
  for (const [begin, end] of [...picture.windows, [picture.end, picture.end]]) {
    if (begin > from && from < picture.end) {
      const [left, right] = [inside(from), inside(Math.min(begin, picture.end))];
      if (right > left) add(add(svg, "rect", { class: "gap", x: left, y: AXIS_PX, width: right - left, height: view.height }), "title", {}, "Not stored");
    }
    from = Math.max(from, end);
  }
}

function arrow(svg, [fromRow, sent, toRow, got], x, view) {
  const middle = (row) => AXIS_PX + ROW_PX * row + 3 + BAR_PX / 2;
  const [x1, x2, y1, y2] = [x(sent), x(got), middle(fromRow), middle(toRow)];
  if (Math.max(x1, x2) < view.left || Math.min(x1, x2) > view.width || x1 < view.left) return;
  const angle = Math.atan2(y2 - y1, x2 - x1), head = (turn) => `${x2 - 6 * Math.cos(angle + turn)},${y2 - 6 * Math.sin(angle + turn)}`;
  add(svg, "path", { class: "message", d: `M${x1},${y1}L${x2},${y2}M${head(0.45)}L${x2},${y2}L${head(-0.45)}` });
}

function critical(svg, picture, inside) {
  const points = [];
  for (const [row, begin, end] of [...picture.path].reverse()) {
    const y = AXIS_PX + ROW_PX * row + 2 + BAR_PX + 3;
    points.push(`${inside(begin)},${y}`, `${inside(end)},${y}`);
  }
  if (points.length) add(svg, "polyline", { class: "path", points: points.join(" ") });
}
