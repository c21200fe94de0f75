// A chart's data as a table below it, created when opened: an accessible alternative with exact values.

const MOST_SHOWN = 500;

function tableFold(plot) {
  const fold = document.createElement("details");
  const [title, said, scroll] = ["summary", "p", "div"].map((kind) => document.createElement(kind));
  fold.className = "pl-numbers";
  title.textContent = "Table";
  said.className = "pl-note";
  Object.assign(scroll, { className: "pl-scroll", tabIndex: 0 });
  scroll.setAttribute("role", "region");
  fold.append(title, said, scroll);
  fold.refresh = () => {
    if (!fold.open || !plot._fullData) return;
    const [names, ...rows] = numbersOf(plot);
    const label = `Data: ${plot.getAttribute("aria-label")}`;
    said.textContent = rows.length > MOST_SHOWN ? `First ${MOST_SHOWN} of ${rows.length.toLocaleString("en")} rows. Save all as CSV from the chart's toolbar.` : "";
    scroll.setAttribute("aria-label", label);
    scroll.replaceChildren(tableOf(names, rows.slice(0, MOST_SHOWN), label));
  };
  fold.addEventListener("toggle", fold.refresh);
  return fold;
}

function tableOf(names, rows, label) {
  const table = document.createElement("table");
  table.className = "pl-table";
  table.setAttribute("aria-label", label);
  const [head, body] = [table.createTHead(), table.createTBody()];
  const line = head.insertRow();
  for (const name of names) line.append(Object.assign(document.createElement("th"), { scope: "col", textContent: name }));
  for (const row of rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().textContent = typeof value === "number" ? String(shortest(value)) : (value ?? "");
  }
  return table;
}

// The number with the fewest digits, from 6, that is the same float32, else with 10.
function shortest(value) {
  const found = [6, 7, 8, 9].map((digits) => Number(value.toPrecision(digits))).find((each) => Math.fround(each) === value);
  return found ?? Number(value.toPrecision(10));
}
