// Draws a message flow (app/launch/message_flow.py) as SVG and moves its messages; with reduced motion each stands still halfway.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return parent.appendChild(element);
}

function links(svg, messages) {
  const drawn = new Set();
  for (const { origin, target } of messages) {
    const key = [origin, target].map(String).sort().join(" ");
    if (drawn.has(key)) continue;
    drawn.add(key);
    add(svg, "line", { class: "link", x1: origin[0], y1: origin[1], x2: target[0], y2: target[1] });
  }
}

function node(svg, { at: [x, y], label, kind }) {
  const size = { process: 13, memory: 17, slot: 9 }[kind];
  const shape =
    kind === "process"
      ? add(svg, "circle", { class: kind, cx: x, cy: y, r: size })
      : add(svg, "rect", { class: kind, x: x - size, y: y - size, width: 2 * size, height: 2 * size, rx: kind === "slot" ? 2 : 5 });
  if (label) add(svg, "text", { x, y: y + size + 11 }, label);
  return shape;
}

function flash(shape, moments, name, cycle) {
  const rest = { offset: 0, fill: getComputedStyle(shape).fill };
  for (const moment of moments) {
    const at = Math.min(0.9, moment);
    const lit = `var(--flow-${name})`;
    shape.animate([rest, { offset: at, fill: rest.fill }, { offset: at + 0.01, fill: lit }, { offset: Math.min(0.99, at + 0.09), fill: rest.fill }, { offset: 1, fill: rest.fill }],
      { duration: cycle, iterations: Infinity, composite: "replace" });
  }
}

function move(dot, { origin, target, start, until }, travel, cycle) {
  const place = ([x, y]) => `translate(${x}px, ${y}px)`;
  const arrival = Math.min(start + travel, until);
  dot.animate(
    [
      { offset: 0, opacity: 0, transform: place(origin) },
      { offset: start, opacity: 0, transform: place(origin) },
      { offset: Math.min(start + 0.005, arrival), opacity: 1, transform: place(origin) },
      { offset: arrival, opacity: 1, transform: place(target) },
      { offset: Math.min(until, 0.99), opacity: 1, transform: place(target) },
      { offset: Math.min(until + 0.01, 1), opacity: 0, transform: place(target) },
      { offset: 1, opacity: 0, transform: place(target) },
    ],
    { duration: cycle, iterations: Infinity },
  );
}

export default function ({ data, parentElement }) {
  const key = JSON.stringify(data);
  const holder = parentElement.querySelector(".pl-flow");
  if (holder.dataset.drawn === key) return;
  holder.dataset.drawn = key;
  holder.replaceChildren();
  const svg = add(holder, "svg", { viewBox: `0 0 320 ${data.height}`, role: "img", "aria-label": data.alt });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const cycle = data.cycle_s * 1000;
  links(svg, data.messages);
  const shapes = data.nodes.map((each) => node(svg, each));
  for (const message of data.messages) {
    const dot = add(svg, "circle", { class: `message ${message.sort}`, r: 4.5 });
    if (still) dot.style.transform = `translate(${(message.origin[0] + message.target[0]) / 2}px, ${(message.origin[1] + message.target[1]) / 2}px)`;
    else move(dot, message, data.travel, cycle);
  }
  if (!still)
    data.nodes.forEach((each, index) => {
      flash(shapes[index], each.flashes, "update", cycle);
      flash(shapes[index], each.clashes, "clash", cycle);
    });
  const list = holder.appendChild(document.createElement("dl"));
  list.setAttribute("aria-hidden", "true"); // the picture's label says the same
  for (const [who, what] of data.flows) {
    list.appendChild(document.createElement("dt")).textContent = who;
    list.appendChild(document.createElement("dd")).textContent = what;
  }
  const button = holder.appendChild(document.createElement("button"));
  Object.assign(button, { type: "button", title: "Present the message flow" }).dataset.present = `${data.title}: how the processes exchange messages`;
}
