// The timeline of a run: loads the picture of a stretch, and zooms by drag, buttons, keys and Ctrl + wheel.

const LIVE_MS = 2000, WHEEL_MS = 90;

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".pl-timeline");
  const own = (root.timeline ??= build(root));
  own.data = data;
  if (!own.picture) own.svg.setAttribute("height", AXIS_PX + ROW_PX * data.ranks + 4);
  if (own.run !== data.run) {
    own.run = data.run;
    own.stretch = null;
    own.follows = data.active; // until another stretch is chosen
  }
  load(own);
  clearInterval(own.timer);
  if (data.active) own.timer = setInterval(() => document.hidden || own.drag || load(own), LIVE_MS);
  const resized = new ResizeObserver(() => render(own));
  resized.observe(root);
  const themed = new MutationObserver(() => render(own));
  themed.observe(document.documentElement, { attributes: true, attributeFilter: ["style", "class"] });
  const escape = (event) => event.key === "Escape" && dismiss(own);
  document.addEventListener("keydown", escape);
  return newestCleanup(root, () => {
    clearInterval(own.timer);
    document.removeEventListener("keydown", escape);
    resized.disconnect();
    themed.disconnect();
    own.hover.hidden = true;
  });
}

function build(root) {
  root.innerHTML = `
    <div class="tools" role="toolbar" aria-label="Timeline">
      <select aria-label="Stored part of the run"></select>
      <button data-do="in" aria-label="Zoom in">+</button><button data-do="out" aria-label="Zoom out">−</button>
      <button data-do="left" aria-label="Earlier">←</button><button data-do="right" aria-label="Later">→</button>
      <button data-do="reset">A few steps</button>
      <label><input type="checkbox" data-do="path"> Critical path</label>
      <button type="button" title="Present the timeline" data-present="Timeline"></button>
      <span class="span"></span>
    </div>
    <svg tabindex="0" role="img" aria-label="Timeline"></svg>
    <ul class="legend"></ul><p class="note" role="status"></p><ul class="said"></ul>
    <details hidden><summary>As a table</summary><table></table></details><div class="hover" hidden></div>`;
  const find = (selector) => root.querySelector(selector);
  const own = { root, svg: find("svg"), hover: find(".hover"), legend: find(".legend"), note: find(".note"), said: find(".said"), table: find("table"), select: find("select"), span: find(".span"), path: find("[data-do=path]"), stretch: null, scale: 1 };
  const { svg } = own;
  root.querySelectorAll("button[data-do]").forEach((button) => button.addEventListener("click", () => act(own, button.dataset.do)));
  own.path.addEventListener("change", () => render(own));
  own.select.addEventListener("change", () => {
    const [begin, end] = (own.select.value === "all" ? own.picture.all : own.picture.windows[own.select.value]) ?? [];
    if (end > begin) show(own, begin, end);
  });
  svg.addEventListener("keydown", (event) => {
    const what = { ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", 0: "reset" }[event.key];
    if (!what || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(own, what);
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey || !own.picture) return;
    event.preventDefault();
    zoom(own, event.deltaY > 0 ? 1.5 : 1 / 1.5, own.view.at(inSvg(own, event)));
  }, { passive: false });
  svg.addEventListener("dblclick", (event) => own.picture && zoom(own, 0.25, own.view.at(inSvg(own, event))));
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button || !own.picture || inSvg(own, event) < own.view.left) return;
    own.drag = { from: inSvg(own, event) };
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => (own.drag ? drag(own, inSvg(own, event)) : point(own, event)));
  svg.addEventListener("pointerup", (event) => drop(own, inSvg(own, event)));
  svg.addEventListener("pointercancel", () => drop(own, own.drag?.from));
  svg.addEventListener("pointerleave", () => (own.hover.hidden = true));
  return own;
}

const PRESENTED = 1.6; // how much larger a presented timeline is drawn
const inSvg = (own, event) => (event.clientX - own.svg.getBoundingClientRect().left) / own.scale;

function act(own, what) {
  if (!own.picture) return;
  const { begin, end } = own.picture;
  if (what === "reset") {
    own.stretch = null;
    own.follows = own.data.active;
    load(own);
  } else if (what === "in" || what === "out") zoom(own, what === "in" ? 0.5 : 2, (begin + end) / 2);
  else if (what === "left" || what === "right") {
    const by = ((end - begin) / 2) * (what === "left" ? -1 : 1);
    show(own, begin + by, end + by);
  }
}

function zoom(own, factor, around) {
  const { begin, end } = own.stretch ? { begin: own.stretch[0], end: own.stretch[1] } : own.picture;
  const span = Math.max(1, (end - begin) * factor), share = (around - begin) / (end - begin);
  show(own, around - span * share, around + span * (1 - share));
}

function show(own, begin, end) {
  own.stretch = within(own.picture.all, begin, end);
  clearTimeout(own.soon);
  own.soon = setTimeout(() => load(own), WHEEL_MS);
}

// The part of a stretch that lies in the run, or the nearest one of its length.
function within([first, last], begin, end) {
  const span = Math.min(end - begin, last - first), from = Math.min(Math.max(begin, first), last - span);
  return [from, from + span];
}

async function load(own) {
  const asked = (own.asked = Symbol("request"));
  const stretch = own.stretch ? `&from=${own.stretch[0]}&to=${own.stretch[1]}` : own.follows ? "&newest" : "";
  try {
    const answer = await fetch(own.data.url + stretch, { cache: "no-store" });
    if (answer.status === 401) return location.reload(); // signed out
    const found = await answer.json();
    if (asked !== own.asked) return;
    if (!answer.ok) own.note.textContent = found.error;
    else if (found.operations) {
      own.picture = found;
      render(own);
    }
  } catch {
    if (asked === own.asked) own.note.textContent = "The console does not answer; the timeline is tried again.";
  }
}

function render(own) {
  const { picture, root } = own, width = own.svg.clientWidth;
  if (!picture || !width || own.drag) return;
  const theme = themeOf(root);
  own.table.parentElement.hidden = false;
  own.scale = root.classList.contains("pl-present") ? PRESENTED : 1;
  own.view = viewOf(picture, width / own.scale);
  draw(own.svg, picture, own.view, { colours: theme.colours, ground: theme.ground, path: own.path.checked });
  own.svg.setAttribute("height", own.view.height * own.scale);
  const many = picture.rectangles.reduce((sum, [, , , , , count]) => sum + count, 0);
  own.svg.setAttribute("aria-label", `Timeline of ${picture.rows.length} lanes from ${inWords(picture.begin)} to ${inWords(picture.end)}: ${many} operations, ${picture.message_count ?? "many"} messages`);
  own.span.textContent = `${inWords(picture.begin, 5)} to ${inWords(picture.end, 5)}`;
  const hidden = picture.message_count === null ? "Zoom in to see messages and what bounds the run. "
    : picture.message_count && !picture.messages.length ? `${picture.message_count.toLocaleString("en")} messages: zoom in to see them. ` : "";
  const lost = picture.lost ? `${picture.lost.toLocaleString("en")} operations were overwritten before they could be stored. ` : "";
  const apart = picture.sentences.length ? "" : "Choose a stretch within one stored part to see what bounds the run. ";
  const follows = own.data.active && own.follows && !own.stretch ? "Follows the newest stored steps until you zoom or move. " : "";
  own.note.textContent = `${follows}${picture.message_count === null ? hidden : hidden + apart}${lost}${matchMedia("(hover: none)").matches ? "" : "Drag to zoom in, double-click or + and − to zoom, arrow keys to move."}`;
  const windows = picture.windows.map(([begin, end, reason], index) => `<option value="${index}">${{ start: "Start", sample: "Sample", request: "Requested", end: "End" }[reason]}: ${inWords(begin)}, ${inWords(end - begin)}</option>`);
  const options = `<option value="">Stored parts</option><option value="all">All: ${inWords(picture.all[0])} to ${inWords(picture.all[1])}</option>${windows.join("")}`;
  if (own.options !== options) own.select.innerHTML = own.options = options;
  const at = picture.windows.findIndex(([begin, end]) => Math.abs(begin - picture.begin) < 1 && Math.abs(end - picture.end) < 1);
  own.select.value = at < 0 ? "" : String(at);
  own.legend.replaceChildren(...Object.entries(picture.labels).map(([kind, label]) => {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.style.background = colourOf(picture, Number(kind), theme.colours);
    if (IDLE.has(picture.kinds[kind])) swatch.style.opacity = 0.28;
    item.append(swatch, label);
    return item;
  }));
  own.legend.append(...[["gap", "not stored"], ["none", "nothing recorded"]].map(([name, label]) => {
    const item = document.createElement("li"), swatch = document.createElement("i");
    swatch.className = name;
    item.append(swatch, label);
    return item;
  }));
  own.said.replaceChildren(...picture.sentences.map((sentence) => Object.assign(document.createElement("li"), { textContent: sentence })));
  tabulate(own);
}

function tabulate({ table, picture }) {
  const rows = picture.totals.map(([row, kind, count, ms]) => [picture.rows[row], picture.kinds[kind], count.toLocaleString("en"), inWords(ms * 1e3)]);
  const line = (cells, name) => {
    const element = document.createElement("tr");
    element.append(...cells.map((text) => Object.assign(document.createElement(name), { textContent: text })));
    return element;
  };
  table.replaceChildren(line(["Rank", "Kind", "Operations", "Time"], "th"), ...rows.map((cells) => line(cells, "td")));
}

function point(own, event) {
  const index = event.target.dataset?.index;
  own.hover.hidden = index === undefined;
  if (index === undefined) return;
  const [row, , begin, length, kind, count, said] = own.picture.rectangles[index];
  const what = count > 1 ? `${count.toLocaleString("en")} operations, mostly ${own.picture.kinds[kind]}` : said || own.picture.kinds[kind];
  own.hover.textContent = `${own.picture.rows[row]}: ${what}. ${inWords(length)}, from ${inWords(begin, 7)}.`;
  const { width, height } = own.hover.getBoundingClientRect();
  own.hover.style.left = `${Math.min(event.clientX + 12, innerWidth - width - 8)}px`;
  own.hover.style.top = `${Math.min(event.clientY + 14, innerHeight - height - 8)}px`;
}

function drag(own, px) {
  own.hover.hidden = true;
  own.drag.to = Math.max(own.view.left, px);
  own.svg.querySelector(".chosen")?.remove();
  const [left, right] = [own.drag.from, own.drag.to].sort((one, other) => one - other);
  add(own.svg, "rect", { class: "chosen", x: left, y: AXIS_PX, width: right - left, height: own.view.height });
}

function dismiss(own) {
  own.hover.hidden = true;
  own.drag = null;
  own.svg.querySelector(".chosen")?.remove();
}

function drop(own, px) {
  const { drag: dragged } = own;
  dismiss(own);
  if (!dragged || Math.abs(px - dragged.from) < 5) return;
  const [begin, end] = [dragged.from, Math.max(own.view.left, px)].sort((one, other) => one - other).map(own.view.at);
  show(own, begin, Math.max(end, begin + 1));
}
