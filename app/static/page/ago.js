// A moment (ms since 1970) relative to now, in the words of `formatting.ago`.
function ago(moment) {
  const seconds = Math.max(0, (Date.now() - moment) / 1000);
  if (seconds < 2) return "just now";
  const [size, unit] = [[31_557_600, "y"], [86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]].find(([length]) => seconds >= length);
  return `${Math.floor(seconds / size)} ${unit} ago`;
}
