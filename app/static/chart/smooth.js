// Smoothing of long, noisy curves.

const FULL = 200; // points from which a requested smoothing counts in full; a shorter curve is smoothed less, or it would lag visibly
const START = 3; // the n-th value counts for at least START / n of the average, which follows the first ones closely: else it would lag far above a loss that begins to fall
const DETOUR = 1.25; // up to this ratio of all that a curve rises and falls to its range, it has little noise

// Bias-corrected exponential moving average over points. It stays within the range of the values so far; gaps are kept.
function smoothed(values, requested) {
  const count = values.filter((value) => value !== null).length;
  const weight = requested ** Math.max(1, FULL / Math.max(1, count));
  let mean = 0;
  let norm = 0;
  let seen = 0;
  return values.map((value) => {
    if (value === null) return null;
    norm = norm * weight + (1 - weight);
    const share = Math.max((1 - weight) / norm, Math.min(1, START / ++seen));
    mean = share < 0.5 ? mean + (value - mean) * share : value - (value - mean) * (1 - share); // from the nearer end, so that rounding leaves it between the two
    return mean;
  });
}

// A nearly monotone curve has little noise: an average would lag behind it.
function isNoiseless(values) {
  const known = values.filter((value) => value !== null);
  const steps = known.slice(1).reduce((sum, value, place) => sum + Math.abs(value - known[place]), 0);
  const [least, most] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  return !known.length || steps <= DETOUR * (most - least);
}
