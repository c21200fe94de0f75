// Thins long curves in the browser, so that an open page never has to reload them.

const LISTS = ["ids", "steps", "times", "passes", "values"];

// Keeps the first, last, minimum and maximum point and the first gap of each of equal step intervals; at most `most` points in total.
// Steps are counted forwards where they go back, as in a resumed run. Repeated thinning keeps the extremes and a uniform density over old and new parts.
function thin(curve, most) {
  const stretches = Math.floor(most / 5);
  const { values } = curve;
  let done = 0;
  const steps = curve.steps.map((step, place) => (done += Math.abs(step - (curve.steps[place - 1] ?? step))));
  const width = done / stretches || 1;
  const kept = new Set();
  let at = -1;
  let corners = {};
  steps.forEach((step, place) => {
    const stretch = Math.min(stretches - 1, Math.floor(step / width));
    if (stretch !== at) {
      keep(corners);
      corners = { first: place };
      at = stretch;
    }
    const value = values[place];
    corners.last = place;
    if (value === null) corners.gap ??= place;
    else {
      if (corners.least === undefined || value < values[corners.least]) corners.least = place;
      if (corners.greatest === undefined || value > values[corners.greatest]) corners.greatest = place;
    }
  });
  keep(corners);
  for (const list of LISTS) curve[list] = curve[list].filter((_, place) => kept.has(place));

  function keep(found) {
    for (const place of Object.values(found)) kept.add(place);
  }
}
