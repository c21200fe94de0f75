// A curve that grew long in the browser: thinned there, so that a page that stays open never asks for all of it again.

const LISTS = ["steps", "times", "passes", "values"];

// Keeps of each of equal stretches of steps the first point, the last, the least, the greatest and the first gap; no more than `most` in all.
// Thinned again and again, a curve keeps its extremes, and as many points to a stretch in its old part as in its new one.
function thin(curve, most) {
  const stretches = Math.floor(most / 5);
  const { steps, values } = curve;
  const width = (steps.at(-1) - steps[0]) / stretches || 1;
  const kept = new Set();
  let at = -1;
  let corners = {};
  steps.forEach((step, place) => {
    const stretch = Math.min(stretches - 1, Math.floor((step - steps[0]) / width));
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
