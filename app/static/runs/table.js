// The table of runs (app/runs/grid.py): rows of a fixed height, of which only those in view are in the document; ticks, folds and sorting are sent to the page.
// Keys: j and k move, x ticks, Enter opens, o folds, c compares the ticked rows, Esc unticks them.

const ROW_PX = 33;
const BEYOND = 12; // rows drawn above and below the visible ones
const NAME_SHARE = 0.5; // of the table's width at most: the name stays in view on a phone, and so must something beside it
const SEND_MS = 120; // ticks in quick succession are sent together
const AIM_MS = 1500; // rows keep their places so long after the pointer moved over them: a click hits the row that was aimed at
const SPARK = { width: 72, height: 20, edge: 2 };

function make(name, attributes = {}, children = []) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...[children].flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function sparkline(values) {
  const low = Math.min(...values);
  const range = Math.max(...values) - low || 1;
  const place = (value, index) => {
    const x = (index / Math.max(1, values.length - 1)) * SPARK.width;
    return `${x.toFixed(1)},${(SPARK.height - SPARK.edge - ((value - low) / range) * (SPARK.height - 2 * SPARK.edge)).toFixed(1)}`;
  };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${SPARK.width} ${SPARK.height}`);
  svg.setAttribute("aria-hidden", "true");
  const line = svg.appendChild(document.createElementNS(svg.namespaceURI, "polyline"));
  line.setAttribute("points", values.map(place).join(" "));
  return svg;
}

function content(cell) {
  if (cell === null || typeof cell !== "object") return [cell === null ? "" : String(cell)];
  if (Array.isArray(cell)) return cell.length > 1 ? [sparkline(cell)] : [];
  if (cell.time) return [make("time", { datetime: new Date(cell.time).toISOString(), title: new Date(cell.time).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC") }, ago(cell.time))];
  if (cell.states) return states(cell);
  return [cell.href ? make("a", { href: cell.href }, cell.text) : cell.tone ? make("span", { class: `pl-${cell.tone}` }, cell.text) : cell.text];
}

function states({ states: parts, note, hover }) {
  const badges = parts.map(({ status, text, share }) => {
    const badge = make("span", { class: `pl-cell pl-${status}${share === null ? "" : " pl-part"}` }, text);
    if (share !== null) badge.style.setProperty("--pl-share", `${share * 100}%`);
    return badge;
  });
  const kind = `pl-why${note.startsWith("disturbed") ? " pl-explained" : ""}`;
  return note ? [...badges, make("span", { class: kind, ...(hover && { role: "button", tabindex: 0, "data-whole": hover }) }, note)] : badges;
}

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const table = (parentElement.runs ??= start(parentElement));
  Object.assign(table, { data, setStateValue, setTriggerValue });
  table.take();
  return newestCleanup(parentElement, table.stop);
}

function start(parent) {
  const root = parent.querySelector(".pl-runs");
  const table = { data: null, rows: [], shown: null, ticked: new Set(), here: null, anchor: null, sending: null, isHeld: false, aimed: -Infinity, isOver: false, later: null };
  const head = make("thead");
  const body = make("tbody");
  const widths = make("colgroup");
  const grid = make("table", {}, [widths, head, body]);
  const whole = make("div", { class: "pl-whole", popover: true }); // a note of a status that its cell cuts, in full
  const news = make("div", { class: "pl-new", role: "status" }); // how many rows wait until the pointer leaves
  root.append(news, grid, whole);

  const rows = () => table.rows;
  const send = () => {
    clearTimeout(table.sending);
    table.sending = setTimeout(() => {
      table.sending = null;
      table.setStateValue("ticked", [...table.ticked]);
    }, SEND_MS);
  };
  // Sent right after Back, ticks would carry the search and filter of the left address and undo it (Streamlit 1.67): they wait for the page's answer.
  const postponeTicks = () => {
    clearTimeout(table.sending);
    table.isHeld = table.sending !== null;
  };
  window.addEventListener("popstate", postponeTicks, true);

  function drawHead() {
    const most = Math.max(160, root.clientWidth * NAME_SHARE);
    const each = table.data.columns.map(({ kind, width }) => (kind === "name" ? Math.min(width, most) : width));
    widths.replaceChildren(...each.map((width) => {
      const column = make("col");
      column.style.width = `${width}px`;
      return column;
    }));
    grid.style.minWidth = `${each.reduce((sum, width) => sum + width, 0)}px`;
    const all = rows().length > 0 && rows().every(({ key }) => table.ticked.has(key));
    const sort = table.data.sort;
    head.replaceChildren(make("tr", {}, table.data.columns.map((column) => {
      if (column.kind === "tick") {
        const box = make("input", { type: "checkbox", "aria-label": "Select all rows" });
        box.checked = all;
        box.indeterminate = !all && table.ticked.size > 0;
        return make("th", { class: "pl-tick", scope: "col" }, make("label", {}, box));
      }
      const sorted = sort && column.sort === sort.key;
      const label = `${column.label}${sorted ? (sort.descending ? " ↓" : " ↑") : ""}`;
      return make(
        "th",
        { class: column.kind === "name" ? "pl-name" : column.kind === "number" ? "pl-number" : "", scope: "col", title: column.help || column.label,
          "aria-sort": sorted ? (sort.descending ? "descending" : "ascending") : false },
        column.sort ? make("button", { type: "button", "data-sort": column.sort, "data-first": column.kind === "text" ? "up" : "down" }, label) : label,
      );
    })));
  }

  function drawRow(row, index) {
    const is = { ticked: table.ticked.has(row.key), here: row.key === table.here };
    const cells = table.data.columns.map((column, place) => {
      if (column.kind === "tick") {
        const box = make("input", { type: "checkbox", "aria-label": `Select ${row.name}`, tabindex: -1 });
        box.checked = is.ticked;
        return make("td", { class: "pl-tick" }, make("label", {}, box));
      }
      if (column.kind === "name") {
        const fold = row.open === null ? null : make("button", { type: "button", class: "pl-fold", "aria-expanded": String(row.open), "aria-label": `Runs of ${row.name}` }, row.open ? "▾" : "▸");
        const name = row.href ? make("a", { href: row.href }, row.name) : row.name;
        return make("th", { class: `pl-name${row.child ? " pl-child" : ""}`, scope: "row", title: row.title }, [fold, ...row.marks.map((mark) => make("span", { class: "pl-mark" }, mark)), name]);
      }
      const cell = row.cells[place];
      const title = cell && typeof cell === "object" ? cell.hover : cell;
      return make("td", { class: column.kind === "number" ? "pl-number" : "", title }, content(cell));
    });
    return make("tr", { "data-key": row.key, "aria-rowindex": index + 2, class: [is.ticked && "pl-ticked", is.here && "pl-here"].filter(Boolean).join(" ") }, cells);
  }

  function drawBody() {
    const count = rows().length;
    const first = Math.max(0, Math.floor(root.scrollTop / ROW_PX) - BEYOND);
    // Before the first rows are drawn the table is low, so its own height says nothing; it is never higher than the window.
    const last = Math.min(count, Math.ceil((root.scrollTop + Math.max(root.clientHeight, window.innerHeight)) / ROW_PX) + BEYOND);
    table.drawn = [first, last];
    const space = (height) => {
      const row = make("tr", { class: "pl-space", "aria-hidden": "true" }, make("td", { colspan: table.data.columns.length }));
      row.style.height = `${height}px`;
      return row;
    };
    const focused = document.activeElement?.closest?.(".pl-runs tbody tr")?.dataset.key;
    const kind = focused && document.activeElement.matches("a") ? "a" : focused && document.activeElement.matches("input") ? "input" : "button";
    body.replaceChildren(space(first * ROW_PX), ...rows().slice(first, last).map((row, place) => drawRow(row, first + place)), space((count - last) * ROW_PX));
    if (focused) body.querySelector(`tr[data-key="${CSS.escape(focused)}"] ${kind}`)?.focus({ preventScroll: true });
  }

  // New and moved rows wait until the mouse leaves, or a finger has long been lifted; what the rows say is always new.
  function place() {
    const { rows: found, columns, view } = table.data;
    const shape = JSON.stringify([view, columns.map(({ label }) => label)]);
    const left = table.aimed + AIM_MS - performance.now();
    clearTimeout(table.later);
    let fresh = 0;
    if (shape === table.shown && (table.isOver || left > 0)) {
      const known = new Map(found.map((row) => [row.key, row]));
      const before = new Set(table.rows.map(({ key }) => key));
      fresh = found.filter(({ key }) => !before.has(key)).length;
      table.rows = table.rows.map((row) => known.get(row.key) ?? row);
      if (!table.isOver) table.later = setTimeout(table.take, left);
    } else table.rows = found;
    table.shown = shape;
    news.replaceChildren(...(fresh ? [make("button", { type: "button", title: "Show them" }, `${fresh} new`)] : []));
  }

  table.take = () => {
    place();
    const keys = new Set(rows().map(({ key }) => key));
    const gone = [...table.ticked].filter((key) => !keys.has(key));
    for (const key of gone) table.ticked.delete(key);
    if (!keys.has(table.here)) table.here = null;
    root.setAttribute("aria-label", table.data.label);
    grid.setAttribute("aria-rowcount", rows().length + 1);
    root.style.maxHeight = table.data.height;
    drawHead();
    drawBody();
    if (table.isHeld || gone.length) send(); // or rows that come back would be selected without a tick
    table.isHeld = false;
  };

  function tick(key, on, range) {
    const from = rows().findIndex((row) => row.key === table.anchor);
    const to = rows().findIndex((row) => row.key === key);
    const some = range && from >= 0 ? rows().slice(Math.min(from, to), Math.max(from, to) + 1) : [rows()[to]];
    for (const row of some) on ? table.ticked.add(row.key) : table.ticked.delete(row.key);
    table.anchor = key;
    drawHead();
    drawBody();
    send();
  }

  function tickAll(on) {
    table.ticked = new Set(on ? rows().map(({ key }) => key) : []);
    drawHead();
    drawBody();
    send();
  }

  function showWhole(note) {
    const { left, bottom } = note.getBoundingClientRect();
    whole.textContent = note.dataset.whole;
    whole.showPopover();
    whole.style.left = `${Math.max(8, Math.min(left, window.innerWidth - whole.offsetWidth - 8))}px`;
    whole.style.top = `${Math.min(bottom + 4, window.innerHeight - whole.offsetHeight - 8)}px`;
  }

  function fold(key) {
    const open = new Set(rows().filter((row) => row.open).map((row) => row.key));
    open.has(key) ? open.delete(key) : open.add(key);
    table.setStateValue("open", [...open]);
  }

  function move(steps) {
    const index = rows().findIndex(({ key }) => key === table.here);
    const next = Math.max(0, Math.min(rows().length - 1, index < 0 ? 0 : index + steps));
    if (!rows().length) return;
    table.here = rows()[next].key;
    const top = next * ROW_PX;
    const seen = root.clientHeight - 2 * ROW_PX;
    if (top < root.scrollTop) root.scrollTop = top;
    else if (top > root.scrollTop + seen) root.scrollTop = top - seen;
    drawBody();
    body.querySelector(".pl-here a")?.focus({ preventScroll: true });
  }

  const act = {
    j: () => move(1),
    k: () => move(-1),
    x: () => table.here && tick(table.here, !table.ticked.has(table.here), false),
    o: () => table.here && rows().find(({ key }) => key === table.here).open !== null && fold(table.here),
    c: () => document.querySelector(".st-key-runs-actions a[href*='compare']")?.click(),
    Escape: () => table.ticked.size && tickAll(false),
  };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable=true], [role=dialog], [role=combobox], [role=listbox]")) return;
    const isCovered = [...document.querySelectorAll("[role=dialog], dialog")].some((dialog) => dialog.checkVisibility());
    if (isCovered || !act[event.key]) return;
    event.preventDefault();
    act[event.key]();
  };
  document.addEventListener("keydown", pressed);

  const letGo = () => {
    table.isOver = false;
    table.aimed = -Infinity;
    table.take();
  };
  root.addEventListener("pointerenter", ({ pointerType }) => (table.isOver = pointerType === "mouse"));
  root.addEventListener("pointerleave", () => table.isOver && letGo());
  news.addEventListener("click", letGo);
  root.addEventListener("change", ({ target }) => {
    if (target.closest("thead")) return tickAll(target.checked);
    tick(target.closest("tr").dataset.key, target.checked, table.shift);
  });
  root.addEventListener("click", (event) => {
    table.shift = event.shiftKey;
    const sort = event.target.closest("[data-sort]");
    if (sort) {
      const now = table.data.sort;
      const descending = now && now.key === sort.dataset.sort ? !now.descending : sort.dataset.first === "down";
      return table.setTriggerValue("sort", `${descending ? "-" : ""}${sort.dataset.sort}`);
    }
    if (event.target.matches("[data-whole]")) showWhole(event.target);
    const row = event.target.closest("tbody tr[data-key]");
    if (!row) return;
    table.here = row.dataset.key;
    if (event.target.closest(".pl-fold")) fold(row.dataset.key);
  });
  body.addEventListener("keydown", (event) => event.key === "Enter" && event.target.matches("[data-whole]") && showWhole(event.target));
  for (const event of ["pointermove", "pointerdown"]) body.addEventListener(event, () => (table.aimed = performance.now()), { passive: true });
  window.addEventListener("resize", drawBody);
  root.addEventListener("scroll", () => {
    whole.hidePopover();
    if (table.drawn && Math.abs(Math.floor(root.scrollTop / ROW_PX) - BEYOND - table.drawn[0]) >= BEYOND / 2) drawBody();
  });
  table.stop = () => {
    document.removeEventListener("keydown", pressed);
    window.removeEventListener("popstate", postponeTicks, true);
    window.removeEventListener("resize", drawBody);
    clearTimeout(table.sending);
    clearTimeout(table.later);
    news.remove();
    grid.remove();
    whole.remove();
    delete parent.runs;
  };
  return table;
}
