// Shows an SVG that our own Python drew, inline, so that it takes the page's colours.

export default function ({ data, parentElement }) {
  parentElement.querySelector(".pl-drawing").innerHTML = data;
}
