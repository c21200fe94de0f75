// The legend of several charts as a table (app/compare/lines.py): pins, the baseline, what is shown alone, and columns that sort. Each button sends what it is for.

const PIN = '<svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true"><path d="M5 1.5h6l-1 5 3 3H8.8L8 15l-.8-5.5H3l3-3z" stroke="currentColor" stroke-linejoin="round"/></svg>';

function make(name, { text, html, ...attributes } = {}, children = []) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== "") element.setAttribute(key, value);
  if (html) element.innerHTML = html;
  if (text !== undefined) element.textContent = text;
  element.append(...children);
  return element;
}

const button = (press, pressed, attributes) => make("button", { type: "button", "data-press": press, ...(pressed !== undefined && { "aria-pressed": String(pressed) }), ...attributes });

function nameOf(row, theme) {
  const sample = swatch(row, theme.colours[row.colour % theme.colours.length]);
  const name = button(row.show, row.on, { text: row.label, class: "pl-line-name", title: row.on ? "Show all again" : "Show alone" });
  const parts = [sample, name];
  if (row.href) parts.push(make("a", { href: row.href, text: "↗", title: "Open the run", "aria-label": `Open ${row.label}` }));
  const about = row.about ? [make("span", { text: row.about, class: "pl-about" })] : [];
  if (row.child) return [...parts, ...about];
  const isBase = row.base ? "No baseline" : "Make this the baseline: the others say how they differ from it";
  return [
    button(`pin ${row.id}`, row.pinned, { html: PIN, title: row.pinned ? "Unpin" : "Pin: first in every chart", "aria-label": `Pin ${row.label}` }),
    ...parts,
    button(`base ${row.id}`, row.base, { text: "Δ", class: "pl-base", title: isBase, "aria-label": `Baseline ${row.label}` }),
    ...about,
  ];
}

function cellOf({ text, title, delta, tone, why }) {
  const lines = [make("div", { text, title })];
  if (delta) lines.push(make("div", { text: delta, title: why, class: `pl-delta ${tone && `pl-${tone}`}` }));
  return lines;
}

function headOf({ label, press, order, number }) {
  const arrow = { ascending: " ↑", descending: " ↓" }[order] ?? "";
  return make("th", { scope: "col", class: number ? "pl-number" : "", "aria-sort": order }, [button(press, undefined, { text: `${label}${arrow}`, title: "Sort" })]);
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".pl-lines");
  const draw = () => {
    const theme = themeOf(parentElement);
    const all = data.narrowed ? [button("show all", undefined, { text: "Show all", class: "pl-all" })] : [];
    const heads = [make("th", { scope: "col" }, [make("span", { text: data.grouped ? "Group" : "Run" }), ...all]), ...(data.grouped ? [make("th", { scope: "col", class: "pl-number", text: "n", title: "Number of runs" })] : []), ...data.columns.map(headOf)];
    const rows = data.rows.map((row) =>
      make("tr", { class: ["pl-dim", "pl-child", "pl-pinned"].filter((name) => row[name.slice(3)]).join(" ") }, [
        make("th", { scope: "row" }, [make("div", {}, nameOf(row, theme))]),
        ...(data.grouped ? [make("td", { class: "pl-number" }, [make("div", { text: row.n ?? "" }), ...(row.fewer ? [make("div", { class: "pl-delta", text: row.fewer })] : [])])] : []),
        ...row.cells.map((cell, place) => make("td", { class: data.columns[place].number ? "pl-number" : "" }, cellOf(cell))),
      ]),
    );
    const focused = root.contains(document.activeElement) && document.activeElement.dataset.press;
    root.replaceChildren(make("table", {}, [make("thead", {}, [make("tr", {}, heads)]), make("tbody", {}, rows)]));
    if (focused) root.querySelector(`[data-press="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  draw();
  // A shade over the right edge, which takes no room and no presses, while there are columns beyond it.
  const edge = () => root.parentElement.toggleAttribute("data-more", root.scrollLeft + root.clientWidth < root.scrollWidth - 2);
  edge();
  root.onscroll = edge;
  const resizing = new ResizeObserver(edge);
  for (const each of [root, root.firstElementChild]) resizing.observe(each);
  root.onclick = ({ target }) => {
    const press = target.closest("[data-press]")?.dataset.press;
    if (press) setTriggerValue("press", press);
  };
  const stopTheme = onThemeChange(parentElement, () => [draw(), edge()]);
  return newestCleanup(parentElement, () => [stopTheme(), resizing.disconnect()]);
}
