// Smoothing of long, noisy curves.

// Exponential moving average over points, corrected for its start. It stays between the least and the greatest value so far; a gap stays a gap.
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

// A curve that only rises, only falls, or never changes has no noise: an average would lag behind it.
function isMonotone(values) {
  const known = values.filter((value) => value !== null);
  const never = (against) => known.every((value, place) => !place || !against(value, known[place - 1]));
  return never((value, before) => value < before) || never((value, before) => value > before);
}
