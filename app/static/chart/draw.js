// An empty chart to draw a prediction on: one value at each place along x, set by a stroke, by dragging a point, or by the arrow keys on a point.
// The values are sent when a stroke or a key ends; the fields below the chart take them, and may set them too.

const HIGH = 340, LEFT = 64, RIGHT = 24, TOP = 20, BOTTOM = 52;
const STEPS = 100; // of the axis, by the keyboard
const TICKS = 5;
const LOST_MS = 5000;

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".pl-draw");
  const state = (root.state ??= { values: [], sent: "", unanswered: [], stroke: null });
  const told = JSON.stringify([data.places, data.values, data.low, data.high]);
  const given = JSON.stringify(data.values);
  state.unanswered = state.unanswered.filter((each) => performance.now() - each.at < LOST_MS); // of two at once, one may be answered
  const answers = state.unanswered.findIndex((each) => each.now === given);
  state.unanswered.splice(0, answers + 1);
  const isUnsent = state.stroke || JSON.stringify(state.values) !== state.sent; // a key is down, or a stroke goes on: the next answer has it
  const isLate = answers >= 0 && state.unanswered.length > 0; // a later key was sent meanwhile: so has the next answer
  if (told !== state.told && !(state.told && (isUnsent || isLate))) Object.assign(state, { told, values: [...data.values], sent: given, unanswered: [] });
  const span = data.high - data.low;
  const digits = Math.max(0, 2 - Math.floor(Math.log10(span)));
  let wide = 640; // units of the picture are pixels, so that its text has one size in any window
  const along = (index) => LEFT + ((index + 0.5) * (wide - LEFT - RIGHT)) / data.places.length;
  const up = (value) => TOP + (1 - (value - data.low) / span) * (HIGH - TOP - BOTTOM);
  const bounded = (value) => Number(Math.min(data.high, Math.max(data.low, value)).toFixed(digits));
  const words = (value) => (value === null || value === undefined ? "not set" : `${value.toLocaleString("en-US")}${data.unit && ` ${data.unit}`}`);

  const send = () => {
    const now = JSON.stringify(state.values);
    if (now === state.sent) return;
    state.sent = now;
    state.unanswered.push({ now, at: performance.now() });
    setTriggerValue("values", state.values);
  };

  const draw = () => {
    wide = Math.max(260, root.clientWidth || wide);
    root.style.setProperty("--pl-drawn", themeOf(parentElement).colours[1]);
    const focused = document.activeElement?.dataset?.index;
    const [bottom, middle, half] = [HIGH - BOTTOM, (TOP + HIGH - BOTTOM) / 2, (data.low + data.high) / 2];
    const text = (x, y, words, more = 'text-anchor="middle"') => `<text x="${x}" y="${y}" ${more}>${escaped(words)}</text>`;
    const ticks = Array.from({ length: TICKS + 1 }, (_, tick) => data.low + (span * tick) / TICKS).map(
      (value) => `<line class="grid" x1="${LEFT}" x2="${wide - RIGHT}" y1="${up(value)}" y2="${up(value)}"/>${text(LEFT - 8, up(value) + 4, Number(value.toFixed(digits)).toLocaleString("en-US"), 'text-anchor="end"')}`,
    );
    const marks = data.places.map((place, index) => `<line class="here" x1="${along(index)}" x2="${along(index)}" y1="${TOP}" y2="${bottom}"/>${text(along(index), bottom + 18, place)}`);
    const line = state.values.flatMap((value, index) => (value === null ? [] : [`${along(index)},${up(value)}`])).join(" ");
    const points = data.places.map((place, index) => {
      const value = state.values[index];
      const now = `aria-label="${escaped(`${data.y} at ${data.x} ${place}`)}" aria-valuemin="${data.low}" aria-valuemax="${data.high}" aria-valuenow="${value ?? data.low}" aria-valuetext="${escaped(words(value))}"`;
      const circle = (radius, style = "") => `<circle cx="${along(index)}" cy="${up(value ?? half)}" r="${radius}" ${style}/>`;
      return `<g role="slider" aria-orientation="vertical" tabindex="0" data-index="${index}" class="${value === null ? "pl-unset" : ""}" ${now}>${circle(22, 'style="opacity: 0"')}${circle(8)}</g>`;
    });
    const titles = text((LEFT + wide - RIGHT) / 2, HIGH - 10, data.x) + text(14, middle, data.y, `text-anchor="middle" transform="rotate(-90 14 ${middle})"`);
    root.inert = data.disabled;
    root.innerHTML = `<svg viewBox="0 0 ${wide} ${HIGH}" role="group" aria-label="${escaped(data.alt)}">${[...ticks, ...marks].join("")}${titles}<polyline class="line" points="${line}"/>${points.join("")}</svg>
      <p>Draw across the chart, drag a point, or use the arrow keys on a point.</p>`;
    if (focused !== undefined) root.querySelector(`[data-index="${focused}"]`)?.focus({ preventScroll: true });
  };

  // A stroke sets every place that it passes.
  const at = (event) => {
    const box = root.querySelector("svg").getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) * wide) / box.width, ((event.clientY - box.top) * HIGH) / box.height];
    const value = data.low + (1 - (y - TOP) / (HIGH - TOP - BOTTOM)) * span;
    return { x, value };
  };
  const nearest = (x) => Math.min(data.places.length - 1, Math.max(0, Math.round(((x - LEFT) * data.places.length) / (wide - LEFT - RIGHT) - 0.5)));
  const mark = (from, to) => {
    const [first, last] = [from, to].sort((one, other) => one.x - other.x);
    data.places.forEach((_, index) => {
      const x = along(index);
      if (x >= first.x && x <= last.x) state.values[index] = bounded(last.x === first.x ? to.value : first.value + ((last.value - first.value) * (x - first.x)) / (last.x - first.x));
    });
  };
  const stretch = (event) => {
    const now = at(event);
    mark(state.stroke, now);
    state.values[nearest(now.x)] = bounded(now.value);
    state.stroke = now;
    draw();
  };
  root.onpointerdown = (event) => {
    if (!event.target.closest("svg") || event.button) return;
    const handle = event.target.closest("[role=slider]");
    root.setPointerCapture(event.pointerId);
    Object.assign(state, { stroke: at(event), before: [...state.values] });
    if (event.pointerType === "touch" && !handle) return; // it may become a scroll of the page
    event.preventDefault();
    state.values[handle ? Number(handle.dataset.index) : nearest(state.stroke.x)] = bounded(state.stroke.value);
    draw();
    if (handle) root.querySelector(`[data-index="${handle.dataset.index}"]`).focus({ preventScroll: true });
  };
  root.onpointermove = (event) => state.stroke && stretch(event);
  root.onpointerup = (event) => {
    if (!state.stroke) return;
    stretch(event);
    state.stroke = null;
    send();
  };
  root.onpointercancel = () => {
    if (!state.stroke) return;
    Object.assign(state, { stroke: null, values: state.before }); // it was a scroll
    draw();
  };
  root.onkeydown = (event) => {
    const index = event.target.dataset?.index;
    const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[event.key];
    const to = { Home: data.low, End: data.high }[event.key];
    if (index === undefined || (by === undefined && to === undefined)) return;
    event.preventDefault();
    state.values[index] = bounded(to ?? (state.values[index] ?? (data.low + data.high) / 2) + (by * span) / STEPS);
    draw();
  };
  root.onkeyup = send;
  draw();
  const resizing = new ResizeObserver(() => root.clientWidth && root.clientWidth !== wide && draw());
  resizing.observe(root);
  const ignoreTheme = onThemeChange(parentElement, draw);
  return newestCleanup(parentElement, () => {
    resizing.disconnect();
    ignoreTheme();
  });
}
