// One legend for several charts: a swatch with colour, dash and marker for each run or group, and its name, which may be a link.

export default function ({ data, parentElement }) {
  const list = parentElement.querySelector(".pl-legend");
  const draw = () => {
    const theme = themeOf(parentElement);
    list.replaceChildren(...data.map((entry) => item(entry, theme.colours[entry.colour % theme.colours.length])));
  };
  draw();
  return onThemeChange(parentElement, draw);
}
