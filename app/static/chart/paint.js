// Applies the page's theme to a trace: palette colour, shade, heat scale.

function paint(trace, colour, theme) {
  if (trace.type === "heatmap") return { ...trace, colorscale: heatOf(theme) };
  if (colour === undefined || colour === null) return trace;
  const value = colour.share === undefined ? theme.colours[colour % theme.colours.length] : shadeOf(theme, colour.share);
  const marker = { ...trace.marker, color: value };
  if (marker.line) marker.line = { color: theme.ground, ...marker.line }; // separates adjacent bars
  const insidetextfont = { color: theme.ground, ...trace.insidetextfont };
  return { ...trace, marker, line: { ...trace.line, color: value }, ...(trace.type === "bar" && { insidetextfont }) };
}

// A colour for a share from 0 to 1, visible against the background over the whole range.
function shadeOf(theme, share) {
  const [colour] = theme.colours;
  const half = share * 2;
  return half < 1 ? mixed(mixed(theme.ground, colour, 0.35), colour, half) : mixed(colour, mixed(colour, theme.text, 0.75), half - 1);
}
