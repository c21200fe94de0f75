// Times of the timeline, in microseconds: their words, and the ticks of its axis.

const UNITS = [["s", 1e6], ["ms", 1e3], ["µs", 1]];

function unitOf(span) {
  return UNITS.find(([, size]) => span >= size) ?? UNITS.at(-1);
}

function inWords(us, digits = 3) {
  const [name, size] = unitOf(Math.abs(us));
  return `${Number((us / size).toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 })} ${name}`;
}

// Round times within a stretch, about `most` of them, each with its label; far from 0, where labels would be long, they count from the left edge.
function ticks(begin, end, most) {
  const from = Math.max(Math.abs(begin), Math.abs(end)) > 200 * (end - begin) ? begin : 0;
  return roundTimes(begin - from, end - from, Math.max(2, most)).map(([at, label]) => [at + from, from ? `+${label}` : label]);
}

function roundTimes(begin, end, most) {
  const rough = (end - begin) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const [name, size] = unitOf(end - begin);
  const decimals = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  const found = [];
  for (let at = Math.ceil(begin / step) * step; at <= end; at += step) found.push([at, `${(at / size).toFixed(decimals)} ${name}`]);
  return found;
}
