// Smoothing of long, noisy curves.

const FULL = 200; // points from which a requested smoothing counts in full; a shorter curve is smoothed less, or it would lag visibly
const START = 3; // the n-th value counts for at least START / n of the average, which follows the first ones closely: else it would lag far above a loss that begins to fall

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

// A monotone or constant curve has no noise: an average would lag behind it.
function isMonotone(values) {
  const known = values.filter((value) => value !== null);
  const never = (against) => known.every((value, place) => !place || !against(value, known[place - 1]));
  return never((value, before) => value < before) || never((value, before) => value > before);
}
