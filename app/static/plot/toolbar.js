// The buttons above a chart: how it is shown, then how it is saved. Nothing here sends a chart anywhere.

const icon = (path) => ({ width: 24, height: 24, path });
const LOG_ICON = icon("M4 3h2v16h15v2H4V3zm5 12c5 0 9-3 11-11l-2-.6C16.300 10 13 13 9 13v2zM8 5h3v2H8V5zm0 4h2v2H8V9z");
const DASHES_ICON = icon("M3 6h18v2H3V6zm0 5h4v2H3v-2zm7 0h4v2h-4v-2zm7 0h4v2h-4v-2zM3 16h2v2H3v-2zm5 0h2v2H8v-2zm5 0h2v2h-2v-2zm5 0h2v2h-2v-2z");
const FULL_ICON = icon("M4 4h6v2H6v4H4V4zm10 0h6v6h-2V6h-4V4zM4 14h2v4h4v2H4v-6zm14 0h2v6h-6v-2h4v-4z");
const PRESENT_ICON = icon("M2 3h20v2h-1v11h-8v1.600l4 3.400-1.300 1.500L12 19.200l-3.700 3.300L7 21l4-3.400V16H3V5H2V3zm3 2v9h14V5H5zm2 6l3-3 2 2 4-4 1.400 1.400L12 12.800l-2-2-1.600 1.600L7 11z");

function toolButtons() {
  return [
    { name: "log", title: "Log y-axis", icon: LOG_ICON, click: toggleLog },
    { name: "dashes", title: "Dashes and markers", icon: DASHES_ICON, click: toggleDashes },
    { name: "full", title: "Full screen", icon: FULL_ICON, click: (node) => toggleEnlarged(node, "full") },
    { name: "present", title: "Present (Esc to leave)", icon: PRESENT_ICON, click: (node) => toggleEnlarged(node, "present") },
    ...saveButtons(),
  ];
}

// Shows the state of the toggles, and no log toggle where no value can be on a log axis.
function updateToolbar(node) {
  const states = { "Log y-axis": node.isLog, "Dashes and markers": viewOf(node).isDashed, "Full screen": node.enlarged === "full", "Present (Esc to leave)": node.enlarged === "present" };
  for (const [title, isOn] of Object.entries(states)) {
    const button = node.querySelector(`.modebar-btn[data-title="${title}"]`);
    if (!button) continue;
    button.setAttribute("aria-pressed", Boolean(isOn));
    button.hidden = (title === "Log y-axis" && !node.canLog) || (title === "Dashes and markers" && linesOf(node.drawn.traces).length < 2);
  }
}
