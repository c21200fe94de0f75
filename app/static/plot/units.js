// Units that grow with the values, as in app/core/formatting.py: an axis of seconds turns into minutes, one of MB into GB.

const SECONDS = [[7200, "h", 3600], [300, "min", 60], [1, "s", 1], [1e-3, "ms", 1e-3], [0, "µs", 1e-6]];
const BYTES = [[1e12, "TB", 1e12], [1e9, "GB", 1e9], [1e6, "MB", 1e6], [1e3, "kB", 1e3], [0, "B", 1]];
const SCALES = { s: [SECONDS, 1], ms: [SECONDS, 1e-3], B: [BYTES, 1], MB: [BYTES, 1e6] };

// The unit that fits values up to `most`, and what one of it is in the given unit: ("MB", 2500) gives GB and 1000.
function unitFor(unit, most) {
  const [steps, base] = SCALES[unit] ?? [];
  if (!steps || !(most > 0)) return { unit, size: 1 };
  const [, name, size] = steps.find(([from]) => most * base >= from);
  return { unit: name, size: size / base };
}

// A list of numbers from a list, or from Plotly's packed form.
function unpack(values) {
  if (!values?.bdata) return values;
  const kinds = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
  const flat = Array.from(new kinds[values.dtype](Uint8Array.from(atob(values.bdata), (byte) => byte.charCodeAt(0)).buffer));
  const width = Number(String(values.shape ?? "").split(",")[1]);
  return width ? Array.from({ length: flat.length / width }, (_, row) => flat.slice(row * width, (row + 1) * width)) : flat;
}

const divided = new WeakMap();

// Values in a larger unit; the same list for the same values, so that react does not redraw.
function inUnits(values, size) {
  if (size === 1 || !values) return values;
  const known = divided.get(values);
  if (known?.size === size) return known.list;
  const list = Array.from(unpack(values), (value) => (typeof value === "number" ? value / size : value));
  divided.set(values, { size, list });
  return list;
}

// The ends that the axis includes whatever its values are: `layout.meta.span`, of x.
function spanOf(layout, letter) {
  const span = letter === "x" ? layout.meta?.span : null;
  return span && span[0] <= span[1] ? span : null;
}

function largest(traces, letter, span) {
  let most = span ? span[1] : 0;
  for (const trace of traces) for (const value of unpack(trace[letter]) ?? []) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  return most;
}

// Traces and layout with the axes in fitting units. `layout.meta.units` names the unit of the values of x and y; a trace's `meta.like_x`
// and `meta.like_y` the columns of its `customdata` that are in that unit. "{x unit}" and "{y unit}" in a hover template stand for the units.
// `zoomed` is the range in sight of a zoomed x and y, in the units of the values: hovers have the digits that tell values in it apart.
function scaleUnits(traces, layout, zoomed = {}) {
  const named = layout.meta?.units;
  if (!named) return { traces, layout, units: {} };
  const units = {};
  for (const letter of ["x", "y"]) if (named[letter]) units[letter] = unitFor(named[letter], named[letter] in SCALES ? largest(traces, letter, spanOf(layout, letter)) : 0);
  const [x, y] = [units.x?.size ?? 1, units.y?.size ?? 1];
  const axes = {};
  for (const [letter, { unit, size }] of Object.entries(units)) {
    const axis = layout[`${letter}axis`];
    axes[`${letter}axis`] = {
      ...axis,
      ...(axis?.range && axis.type !== "log" && { range: axis.range.map((end) => end / size) }),
      ...(size !== 1 && { uirevision: `${axis?.uirevision ?? layout.uirevision} ${unit}` }), // a zoom is in the earlier unit
      title: withUnit(axis?.title, unit),
    };
  }
  const span = spanOf(layout, "x");
  if (span) axes.xaxis = { ...(axes.xaxis ?? layout.xaxis), autorangeoptions: { include: span.map((end) => end / x) } };
  if (named.y) Object.assign(axes.yaxis, honestRange(axes.yaxis, traces, named.y, y));
  else if (isZero(traces)) axes.yaxis = { ...layout.yaxis, range: [0, 1] }; // Plotly's would go from -1 to 1
  const sight = { x: zoomed.x ?? extremesOf(traces, "x"), y: zoomed.y ?? extremesOf(traces, "y") };
  const digits = { x: digitsOf(sight.x), y: digitsOf(sight.y) };
  if (digitsOf(extremesOf(traces, "y")) > USUAL_DIGITS) axes.yaxis = { ...(axes.yaxis ?? layout.yaxis), exponentformat: "none" }; // 1,000,005 instead of 1.000005M
  const even = ["x", "y"].find((letter) => named[letter] === "%" && largest(traces, letter) >= 1); // percentages have as many decimals as one another
  const format = (letter) => (letter === even ? `.${decimalsOf(sight[letter])}f` : `,.${digits[letter]}~r`);
  const written = (template, trace) => {
    const named = template.replaceAll("{x unit}", units.x?.unit ?? "").replaceAll("{y unit}", units.y?.unit ?? "");
    const axisOf = (column) => (trace.meta?.like_x?.includes(Number(column)) ? "x" : "y");
    return named.replace(/%\{(x|y|customdata\[(\d)\]):,\.5~r\}/g, (_, of, column) => `%{${of}:${format(column ? axisOf(column) : of)}}`);
  };
  const shown = traces.map((trace) => ({
    ...trace,
    ...(trace.x && { x: inUnits(trace.x, x) }),
    ...(trace.y && { y: inUnits(trace.y, y) }),
    ...(trace.hovertemplate && { hovertemplate: Array.isArray(trace.hovertemplate) ? trace.hovertemplate.map((each) => written(each, trace)) : written(trace.hovertemplate, trace) }),
    ...(trace.error_y?.array && y !== 1 && { error_y: errorsIn(trace.error_y, y) }),
    ...(trace.error_x?.array && x !== 1 && { error_x: errorsIn(trace.error_x, x) }),
    ...(y !== 1 && columnsIn(trace, trace.meta?.like_y, y)),
    ...(x !== 1 && columnsIn(trace, trace.meta?.like_x, x)),
  }));
  return { traces: shown, layout: { ...layout, ...axes }, units };
}

const NEGLIGIBLE = 2e-7; // spread of values, relative to them, that is rounding of a float32
const USUAL_DIGITS = 5; // in hovers
const MOST_DIGITS = 15;

// The significant digits by which a hover tells the values of a range apart.
function digitsOf([low, high], usual = USUAL_DIGITS) {
  const size = Math.max(Math.abs(low), Math.abs(high));
  return high > low ? Math.min(MOST_DIGITS, Math.max(usual, Math.ceil(Math.log10(size / (high - low))) + 3)) : usual;
}

// The decimals of percentages in a hover.
function decimalsOf([low, high]) {
  return high > low ? Math.min(MOST_DIGITS, Math.max(2, 2 - Math.floor(Math.log10(high - low)))) : 2;
}

function isZero(traces) {
  return extremesOf(traces, "y").every((end) => end === 0);
}

// The lowest and highest value along an axis.
function extremesOf(traces, letter) {
  let [low, high] = [Infinity, -Infinity];
  for (const trace of traces) {
    if ((trace[`${letter}axis`] ?? letter) !== letter) continue;
    for (const value of unpack(trace[letter]) ?? []) {
      if (!Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return [low, high];
}

// Of lines without error bars: a percentage stays within 0 and 100; values that differ only by rounding are a constant, on an axis from 0.
function honestRange(axis, traces, unit, size) {
  const isPlain = traces.every(({ type = "scatter", error_y }) => /^scatter/.test(type) && !error_y);
  if (!isPlain || axis.range || axis.type === "log" || axis.rangemode === "normal") return {};
  const [low, high] = extremesOf(traces, "y");
  if (low === 0 && high === 0) return { range: [0, 1] };
  const isShare = unit === "%" && low >= 0 && high <= 100 * (1 + NEGLIGIBLE);
  if (low >= 0 && high > 0 && high - low <= NEGLIGIBLE * high) return { range: [0, isShare ? 100 : (1.1 * high) / size] };
  return isShare ? { autorangeoptions: { clipmin: 0, clipmax: 100 } } : {};
}

function titleText(axis) {
  return axis?.title?.text ?? axis?.title ?? "";
}

// An axis without a title is titled by its unit; one with an empty title stays without.
function withUnit(title, unit) {
  const text = titleText({ title });
  return { ...(title?.text && title), text: text && unit ? `${text} (${unit})` : title === undefined ? unit : text };
}

// A number as text in a fitting unit.
function measure(value, unit) {
  const { unit: name, size } = unitFor(unit, Math.abs(value));
  return `${(value / size).toLocaleString("en", { maximumSignificantDigits: 5 })} ${name}`.trim();
}

function columnsIn(trace, columns, size) {
  return columns && { customdata: unpack(trace.customdata).map((row) => row.map((value, at) => (columns.includes(at) ? value / size : value))) };
}

function errorsIn(errors, size) {
  return { ...errors, array: inUnits(errors.array, size), arrayminus: inUnits(errors.arrayminus, size) };
}
