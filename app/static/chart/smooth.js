// Smoothing of long, noisy curves.

// Bias-corrected exponential moving average over points. It stays within the range of the values so far; gaps are kept.
function smoothed(values, weight) {
  let mean = null;
  let norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    norm = norm * weight + (1 - weight);
    mean = mean === null ? value : mean + (value - mean) * ((1 - weight) / norm);
    return mean;
  });
}

// A monotone or constant curve has no noise: an average would lag behind it.
function isMonotone(values) {
  const known = values.filter((value) => value !== null);
  const never = (against) => known.every((value, place) => !place || !against(value, known[place - 1]));
  return never((value, before) => value < before) || never((value, before) => value > before);
}
