// Saves a chart of the page as a picture of a chosen size, or its data.

const LEAST = 100, MOST = 4000; // px
const USUAL = [800, 450]; // px of a picture with text of the usual size; a larger one has larger text
const LIST = ".pl-figure, .pl-plot";

export default function ({ parentElement }) {
  const form = parentElement.querySelector(".pl-pictures");
  const [chart, ...sizes] = form.querySelectorAll("select, input");
  const note = form.querySelector("p");
  const refresh = () => {
    const found = [...document.querySelectorAll(LIST)].filter((node) => node._fullData && node.checkVisibility());
    const names = found.map(chartName);
    if (names.join("\n") !== form.names) chart.replaceChildren(...names.map((name, index) => new Option(name, index)));
    form.names = names.join("\n");
    form.charts = found;
    form.querySelectorAll("select, input, button").forEach((each) => (each.disabled = !found.length));
    note.textContent = found.length ? "" : "No chart is shown.";
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    refresh();
    const plot = form.charts[chart.value];
    const asked = sizes.map((size) => Number(size.value));
    const scale = Math.max(1, Math.min(...asked.map((size, at) => size / USUAL[at])));
    const [width, height] = asked.map((size) => size / scale);
    if (!plot) return;
    note.textContent = "";
    if (event.submitter.value === "csv") saveNumbers(plot);
    else await savePicture(plot, event.submitter.value, { width, height, scale }).catch((error) => (note.textContent = `The picture could not be made: ${error.message}`));
  };
  for (const size of sizes) Object.assign(size, { min: LEAST, max: MOST });
  refresh();
  const again = setInterval(refresh, 1000); // charts are drawn after the page
  return newestCleanup(parentElement, () => clearInterval(again));
}
