// A trace in the page's theme: its place in the palette, its heat.

function paint(trace, colour, theme) {
  if (trace.type === "heatmap") return { ...trace, colorscale: heatOf(theme) };
  if (colour === undefined || colour === null) return trace;
  const value = theme.colours[colour % theme.colours.length];
  const marker = { ...trace.marker, color: value };
  if (marker.line) marker.line = { color: theme.ground, ...marker.line }; // bars that lie side by side are set apart
  const insidetextfont = { color: theme.ground, ...trace.insidetextfont };
  return { ...trace, marker, line: { ...trace.line, color: value }, ...(trace.type === "bar" && { insidetextfont }) };
}
