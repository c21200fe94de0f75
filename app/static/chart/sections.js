// The sections of a run's charts, and the field that finds a chart by its name.

// Where a metric's panel belongs: the main box for the main metrics, a fold for every other section.
function sectionOf(element, sections, metric, onToggle) {
  const known = sections.get(metric.section);
  if (known) return known;
  const main = element.querySelector(".pl-panels");
  if (!metric.section) {
    sections.set("", { box: main, details: null, count() {} });
    return sections.get("");
  }
  const details = document.createElement("details");
  details.className = "pl-section";
  const summary = details.appendChild(document.createElement("summary"));
  const box = details.appendChild(document.createElement("div"));
  box.className = "pl-panels";
  const key = `parallab-section-${metric.section}`;
  details.open = localStorage.getItem(key) === "open";
  details.addEventListener("toggle", () => {
    localStorage.setItem(key, details.open ? "open" : "closed");
    if (details.open) onToggle();
  });
  const count = () => {
    const shown = [...box.children].filter((panel) => !panel.hidden).length;
    summary.textContent = `${metric.section} (${shown})`;
    details.hidden = shown === 0;
  };
  const order = ["Learning", "Speed", "Parallelism"];
  const after = [...sections.values()].filter((each) => each.details && order.indexOf(each.details.dataset.section) < order.indexOf(metric.section)).at(-1);
  details.dataset.section = metric.section;
  ((after ?? {}).details ?? element.querySelector(".pl-find")).after(details);
  sections.set(metric.section, { box, details, count });
  return sections.get(metric.section);
}

// The field that finds a chart by its name, there once a run has more charts than fit on a screen.
function searchField(element, onChange) {
  const field = element.querySelector(".pl-find input");
  const search = {
    text: "",
    matches: (metric) => !search.text || `${metric.label} ${metric.name} ${metric.section}`.toLowerCase().includes(search.text),
  };
  field.oninput = () => {
    search.text = field.value.trim().toLowerCase();
    onChange();
  };
  return search;
}
