// Chart downloads: a picture with the page's background, as SVG or PNG, or the data, as CSV.

const TABLE_ICON = { width: 24, height: 24, path: "M3 4h18v16H3V4zm2 5v4h6V9H5zm8 0v4h6V9h-6zm-8 6v3h6v-3H5zm8 0v3h6v-3h-6z" };

function saveButtons() {
  const { camera, disk } = window.Plotly.Icons;
  const size = (plot) => ({ width: plot.offsetWidth, height: plot.offsetHeight });
  return [
    { name: "png", title: "Save as PNG", icon: camera, click: (plot) => savePicture(plot, "png", { ...size(plot), scale: 2 }) },
    { name: "svg", title: "Save as SVG", icon: disk, click: (plot) => savePicture(plot, "svg", size(plot)) },
    { name: "csv", title: "Save data as CSV", icon: TABLE_ICON, click: saveNumbers },
  ];
}

const EDGE = 12; // px on both sides of the title of the y-axis

// Charts are transparent and have their titles above them on the page; a file needs its own. The picture is `scale` times as large as the size for which text and lines are drawn.
async function savePicture(plot, format, { width, height, scale = 1 }) {
  const { ground } = themeOf(plot);
  const names = new Set(plot._fullData.filter((trace) => trace.name && plot.data[trace.index].showlegend !== false).map((trace) => trace.name));
  const { r, b } = plot.layout.margin;
  const margin = { ...plot.layout.margin, r: plot.hasEnds ? MARGIN.r : r, b: b + 12 }; // names at the ends of lines are not in a picture, its legend has them
  const font = { ...plot.layout.font, family: "sans-serif" }; // a picture has none of the page's fonts, and its texts are measured before
  const value = valueTitle(plot);
  const yaxis = { ...plot.layout.yaxis, title: { ...plot.layout.yaxis?.title, ...(value && { text: asHtml(value) }), standoff: EDGE } };
  const title = pictureTitle(plot, width);
  const layout = { ...plot.layout, margin, yaxis, font, showlegend: plot.layout.showlegend || names.size > 1, paper_bgcolor: ground, plot_bgcolor: ground };
  const chart = await window.Plotly.toImage({ data: plot.data, layout, config: {} }, { format: "svg", width: width - EDGE, height: height - title.height, imageDataOnly: true });
  const lines = title.lines.map(({ text, y, size }) => `<text x="16" y="${y}" font-size="${size}">${asHtml(text)}</text>`).join("");
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.round(width * scale)}" height="${Math.round(height * scale)}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" fill="${plot.layout.font.color}"><rect width="100%" height="100%" fill="${ground}"/>${lines}${chart.replace("<svg", `<svg x="${EDGE}" y="${title.height}"`)}</svg>`;
  const url = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  saveAs(format === "svg" ? url : await pixelsOf(url, Math.round(width * scale), Math.round(height * scale)), `${plot.dataset.file}.${format}`);
}

async function pixelsOf(src, width, height) {
  const image = Object.assign(new Image(), { src });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  return canvas.toDataURL();
}

// What the chart shows, of which run, sweep or view, and what its line and band are, in lines that fit.
function pictureTitle(plot, width) {
  const { size } = plot.layout.font;
  const lines = [];
  let height = 8;
  for (const [text, larger] of [[chartName(plot), 1.3 * size], [document.querySelector("h1")?.textContent.trim() ?? "", size], [plot.drawn?.layout.meta?.says ?? "", size]]) {
    const letters = Math.floor((width - 32) / (0.55 * larger)); // of a line
    for (const part of text.match(new RegExp(`.{1,${letters}}(\\s|$)|\\S+`, "g")) ?? []) lines.push({ text: part, y: (height += 1.3 * larger), size: larger });
  }
  return { lines, height: height + 4 };
}

function chartName(plot) {
  return (plot.getAttribute("aria-label") ?? plot.drawn.name).split("; ")[0];
}

// What is along y, with its unit; undefined where only the axis has it.
function valueTitle(plot) {
  const { value } = plot.layout.meta ?? {};
  return value && withUnit({ text: value }, plot.units.y?.unit).text;
}

function saveNumbers(plot) {
  saveText(asCsv(numbersOf(plot)), `${plot.dataset.file}.csv`, "text/csv");
}

// A list of names, then a row per point of every visible line. A band is in the columns `low` and `high` of its line; its outline is no data.
function numbersOf(plot) {
  const shown = plot._fullData.filter((trace) => trace.visible === true && !isOutline(trace));
  const extra = { low: (trace) => barEnds(trace), high: (trace) => barEnds(trace), run: (trace) => trace.meta?.runs ?? trace.meta?.members };
  const columns = [
    "series",
    "x",
    "y",
    ...["z", "base", "width", "text"].filter((name) => shown.some((trace) => listed(trace[name]))),
    ...Object.keys(extra).filter((name) => shown.some((trace) => extra[name](trace))),
  ];
  const titles = { x: titleOf(plot, "xaxis", "x"), y: valueTitle(plot) ?? titleOf(plot, "yaxis", "y") };
  const rows = shown.flatMap((trace) => (listed(trace.z) ? cells(trace, columns) : points(trace, columns)));
  return [columns.map((name) => titles[name] ?? name), ...rows];
}

function isOutline(trace) {
  return trace.type === "scatter" && trace.mode === "lines" && trace.line?.width === 0;
}

// The ends of each point's band or error bar; undefined where a trace has neither.
function barEnds(trace) {
  for (const letter of ["y", "x"]) {
    const like = trace.meta?.[`like_${letter}`];
    const rows = like && unpack(trace.customdata);
    if (rows) return like.map((column) => rows.map((row) => row?.[column] ?? null));
    const { array, arrayminus, visible } = trace[`error_${letter}`] ?? {};
    if (visible && array) return [[-1, arrayminus ?? array], [1, array]].map(([sign, sizes]) => Array.from(unpack(trace[letter]), (value, at) => value + sign * unpack(sizes)[at]));
  }
}

function listed(value) {
  return Array.isArray(value) || ArrayBuffer.isView(value);
}

function titleOf(plot, axis, otherwise) {
  const text = plot._fullLayout[axis]?.title?.text;
  return text && !/^Click to enter/.test(text) ? asText(text) : otherwise;
}

function points(trace, columns) {
  const called = asText(trace.name);
  const name = trace.meta?.as ? `${called} (${trace.meta.as})` : called;
  const [low, high] = barEnds(trace) ?? [];
  const own = { low, high, run: runsOf(trace) };
  const held = columns.slice(1).map((column) => ({ column, values: column in own ? own[column] : listed(trace[column]) ? flat(trace[column]) : null }));
  const count = Math.max(0, ...held.map(({ values }) => values?.length ?? 0));
  const rows = Array.from({ length: count }, (_, at) => [name, ...held.map(({ column, values }) => (values ? values[at] : column === "x" || column === "y" ? at : null))]);
  return rows.filter(([, x]) => x !== null && !Number.isNaN(x)); // a gap between lines, or a trace that is only in the legend
}

// The run of each point, where a trace has several: `meta.runs` says that its custom data begin with it, `meta.members` are the runs of lines of one length.
function runsOf({ meta, x, customdata }) {
  if (meta?.runs) return Array.from(unpack(customdata), (row) => (listed(row) ? row[0] : row));
  const { length } = meta?.members ?? [];
  return length && Array.from(unpack(x), (_, at) => meta.members[Math.floor((at * length) / x.length)]);
}

// A multi-category axis has a list for each level; values in single precision have seven digits.
function flat(values) {
  if (values instanceof Float32Array) return Array.from(values, (value) => Number(value.toPrecision(7)));
  return Array.from(listed(values[0]) ? Array.from(values[0], (_, at) => values.map((level) => level[at]).join(", ")) : values, asText);
}

// Plotly's texts are HTML.
function asText(value) {
  return typeof value === "string" && /[&<]/.test(value) ? plainText(value.replace(/<br>/g, " ")) : value;
}

function asHtml(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function cells(trace, columns) {
  return [...trace.z].flatMap((row, y) =>
    [...row].map((value, x) => {
      const told = { series: trace.name.replace(/^trace \d+$/, ""), x: listed(trace.x) ? trace.x[x] : x, y: listed(trace.y) ? trace.y[y] : y, z: value };
      return columns.map((column) => told[column] ?? null);
    }),
  );
}

// As in engine/transfer/tables.py: text that a spreadsheet would execute is prefixed with an apostrophe, and a mark says that it is UTF-8.
function asCsv(rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = String(value).replace(/\r\n?/g, "\n");
    const safe = /^[=+\-@\t\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `\ufeff${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;
}

function saveText(text, name, type) {
  const url = URL.createObjectURL(new Blob([text].flat(), { type }));
  saveAs(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// The link is not put into the page, where its click would close the popover that asked for it.
function saveAs(href, download) {
  Object.assign(document.createElement("a"), { href, download }).click();
}

function fileName(words) {
  return (words.toLowerCase().match(/[a-z0-9]+/g) ?? ["chart"]).slice(0, 8).join("-");
}
