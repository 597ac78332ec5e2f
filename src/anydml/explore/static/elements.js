// Elements from names, attributes and children: text is always text, so that a stranger's names stay names.
export function el(name, attributes = {}, ...children) {
  const isDrawing = ["svg", "rect", "title"].includes(name);
  const made = isDrawing ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

export function number(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(5)).toString();
}

export function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  for (; count >= 1024 && k < units.length - 1; k++) count /= 1024;
  return `${Number(count.toPrecision(4))} ${units[k]}`;
}

export function milliseconds(value) {
  if (value >= 100) return `${number(Math.round(value))} ms`;
  return value >= 1 ? `${Number(value.toPrecision(3))} ms` : `${Number((value * 1000).toPrecision(3))} µs`;
}
