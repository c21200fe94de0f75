// A shared legend for several charts: a swatch (colour, dash, marker) and a name, optionally linked, for each run or group.

export default function ({ data, parentElement }) {
  const list = parentElement.querySelector(".pl-legend");
  const draw = () => {
    const theme = themeOf(parentElement);
    list.replaceChildren(...data.map((entry) => item(entry, theme.colours[entry.colour % theme.colours.length])));
  };
  draw();
  return onThemeChange(parentElement, draw);
}
