// Chart downloads: an image with the page's background, as PNG or SVG, or the data, as CSV.

const TABLE_ICON = { width: 24, height: 24, path: "M3 4h18v16H3V4zm2 5v4h6V9H5zm8 0v4h6V9h-6zm-8 6v3h6v-3H5zm8 0v3h6v-3h-6z" };

function saveButtons() {
  const { camera, disk } = window.Plotly.Icons;
  return [
    { name: "png", title: "Save as PNG", icon: camera, click: (plot) => savePicture(plot, "png") },
    { name: "svg", title: "Save as SVG", icon: disk, click: (plot) => savePicture(plot, "svg") },
    { name: "csv", title: "Save data as CSV", icon: TABLE_ICON, click: (plot) => saveText(asCsv(numbersOf(plot)), `${plot.dataset.file}.csv`, "text/csv") },
  ];
}

// Charts are transparent on the page; a file needs its own background.
function savePicture(plot, format) {
  const { ground } = themeOf(plot);
  const size = { width: plot.offsetWidth, height: plot.offsetHeight };
  const names = new Set(plot._fullData.filter((trace) => trace.name && plot.data[trace.index].showlegend !== false).map((trace) => trace.name));
  const layout = { ...plot.layout, ...size, showlegend: plot.layout.showlegend || names.size > 1, paper_bgcolor: ground, plot_bgcolor: ground };
  return window.Plotly.downloadImage({ data: plot.data, layout, config: {} }, { format, filename: plot.dataset.file, ...size, scale: format === "png" ? 2 : 1 });
}

// A list of names, then a row per point of every visible line.
function numbersOf(plot) {
  const shown = plot._fullData.filter((trace) => trace.visible === true);
  const columns = ["series", "x", "y", ...["z", "base", "width", "text"].filter((name) => shown.some((trace) => listed(trace[name])))];
  const titles = { x: titleOf(plot, "xaxis", "x"), y: titleOf(plot, "yaxis", "y") };
  const rows = shown.flatMap((trace) => (listed(trace.z) ? cells(trace, columns) : points(trace, columns)));
  return [columns.map((name) => titles[name] ?? name), ...rows];
}

function listed(value) {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

function titleOf(plot, axis, otherwise) {
  const text = plot._fullLayout[axis]?.title?.text;
  return text && !/^Click to enter/.test(text) ? text.replace(/<[^>]*>/g, " ") : otherwise;
}

function points(trace, columns) {
  const name = trace.meta?.as ? `${trace.name} (${trace.meta.as})` : trace.name;
  const held = columns.slice(1).map((column) => ({ column, values: listed(trace[column]) ? flat(trace[column]) : null }));
  const count = Math.max(0, ...held.map(({ values }) => values?.length ?? 0));
  const rows = Array.from({ length: count }, (_, at) => [name, ...held.map(({ column, values }) => (values ? values[at] : column === "x" || column === "y" ? at : null))]);
  return rows.filter(([, ...values]) => values.some((value) => value !== null)); // a trace that is only in the legend has none
}

// A multi-category axis has a list for each level.
function flat(values) {
  return listed(values[0]) ? Array.from(values[0], (_, at) => values.map((level) => level[at]).join(", ")) : values;
}

function cells(trace, columns) {
  return [...trace.z].flatMap((row, y) =>
    [...row].map((value, x) => {
      const told = { series: trace.name, x: listed(trace.x) ? trace.x[x] : x, y: listed(trace.y) ? trace.y[y] : y, z: value };
      return columns.map((column) => told[column] ?? null);
    }),
  );
}

// As in engine/transfer/tables.py: text that a spreadsheet would execute is prefixed with an apostrophe.
function asCsv(rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = String(value).replace(/\r\n?/g, "\n");
    const safe = /^[=+\-@\t\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function saveText(text, filename, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = filename;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function fileName(words) {
  return (words.toLowerCase().match(/[a-z0-9]+/g) ?? ["chart"]).slice(0, 8).join("-");
}
