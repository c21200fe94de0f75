// Chart downloads: a picture with the page's background, as SVG, PDF or PNG, or the data, as CSV.

const TABLE_ICON = { width: 24, height: 24, path: "M3 4h18v16H3V4zm2 5v4h6V9H5zm8 0v4h6V9h-6zm-8 6v3h6v-3H5zm8 0v3h6v-3h-6z" };

function saveButtons() {
  const { camera, disk } = window.Plotly.Icons;
  const size = (plot) => ({ width: plot.offsetWidth, height: plot.offsetHeight });
  return [
    { name: "png", title: "Save as PNG", icon: camera, click: (plot) => savePicture(plot, "png", { ...size(plot), scale: 2 }) },
    { name: "svg", title: "Save as SVG", icon: disk, click: (plot) => savePicture(plot, "svg", size(plot)) },
    { name: "csv", title: "Save data as CSV", icon: TABLE_ICON, click: (plot) => saveText(asCsv(numbersOf(plot)), `${plot.dataset.file}.csv`, "text/csv") },
  ];
}

// Charts are transparent on the page; a file needs its own background.
async function savePicture(plot, format, { width, height, scale = 1 }) {
  const { ground } = themeOf(plot);
  const names = new Set(plot._fullData.filter((trace) => trace.name && plot.data[trace.index].showlegend !== false).map((trace) => trace.name));
  const margin = plot.hasEnds ? { ...plot.layout.margin, r: MARGIN.r } : plot.layout.margin; // names at the ends of lines are not in a picture, its legend has them
  const font = { ...plot.layout.font, family: "sans-serif" }; // a picture has none of the page's fonts, and its texts are measured before
  const layout = { ...plot.layout, width, height, margin, font, showlegend: plot.layout.showlegend || names.size > 1, paper_bgcolor: ground, plot_bgcolor: ground };
  const isPdf = format === "pdf", fine = Math.min(4, Math.sqrt(MOST_PIXELS / (width * height)));
  const url = await window.Plotly.toImage({ data: plot.data, layout, config: {} }, { format: isPdf ? "png" : format, width, height, scale: isPdf ? fine : scale });
  const name = `${plot.dataset.file}.${format}`;
  if (isPdf) saveText(await pdfOf(url, { width, height }), name, "application/pdf");
  else saveAs(url, name);
}

const MOST_PIXELS = 16e6; // of a picture in a PDF, which has up to 4 by 4 pixels for each of the page

// A PDF of one page with a picture, without loss. A pixel of the page is 1/96 inch, a point of PDF 1/72.
async function pdfOf(url, { width, height }) {
  const image = Object.assign(new Image(), { src: url });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  const brush = canvas.getContext("2d");
  brush.drawImage(image, 0, 0);
  const { data } = brush.getImageData(0, 0, image.width, image.height);
  const colours = new Uint8Array((data.length / 4) * 3); // without transparency
  for (let from = 0, to = 0; from < data.length; from += 4) for (let channel = 0; channel < 3; channel += 1) colours[to++] = data[from + channel];
  const packed = new Uint8Array(await new Response(new Blob([colours]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer());
  const [w, h] = [width * 0.75, height * 0.75];
  const drawing = `${w} 0 0 ${h} 0 0 cm /I Do`;
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${w} ${h}] /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >> >>`,
    `<< /Length ${drawing.length} >>\nstream\n${drawing}\nendstream`,
    [`<< /Type /XObject /Subtype /Image /Width ${image.width} /Height ${image.height} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode /Length ${packed.length} >>\nstream\n`, packed, "\nendstream"],
  ];
  const parts = ["%PDF-1.4\n"], places = [];
  let at = parts[0].length;
  const write = (part) => (parts.push(part), (at += part.length));
  objects.forEach((object, index) => {
    places.push(at);
    [`${index + 1} 0 obj\n`, ...[object].flat(), "\nendobj\n"].forEach(write);
  });
  const table = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("");
  parts.push(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${at}\n%%EOF\n`);
  return parts;
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
  const titles = { x: titleOf(plot, "xaxis", "x"), y: titleOf(plot, "yaxis", "y") };
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

// The title of an axis; of one that has only its unit, also what it is.
function titleOf(plot, axis, otherwise) {
  const text = plot._fullLayout[axis]?.title?.text;
  const unit = plot.units?.[axis[0]]?.unit;
  return text && text === unit ? `${otherwise === "y" ? "value" : otherwise} (${unit})` : text && !/^Click to enter/.test(text) ? asText(text) : otherwise;
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
