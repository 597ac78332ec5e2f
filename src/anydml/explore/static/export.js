// A graph as a file: the same drawing by another pen.
const MOST_SIDE = 16_000, MOST_PIXELS = 100_000_000, SHARP = 2, RIM = 16;

export function drawing(port, kind) {
  const { graph } = port, sight = { left: -RIM, top: -RIM, right: graph.width + RIM, bottom: graph.height + RIM };
  const width = graph.width + 2 * RIM, height = graph.height + 2 * RIM;
  if (kind === "svg") {
    const pen = new SvgPen(port.pen);
    port.paintOn(pen, sight, 1);
    return Promise.resolve(new Blob([pen.written(width, height, port.palette.ground)], { type: "image/svg+xml" }));
  }
  const scale = Math.min(SHARP, MOST_SIDE / width, MOST_SIDE / height, Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  const pen = canvas.getContext("2d", { alpha: false });
  pen.fillStyle = port.palette.ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(scale, 0, 0, scale, RIM * scale, RIM * scale);
  port.paintOn(pen, sight, scale);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("The picture is too large for this browser: SVG has no bound."))), "image/png"));
}

export async function save(made, name) {
  const address = URL.createObjectURL(await made), link = document.createElement("a");
  Object.assign(link, { href: address, download: name.replace(/[^\w.-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// As much of a canvas's pen as draws a graph, written down as SVG.
class SvgPen {
  constructor(measure) {
    Object.assign(this, { measure, parts: [], path: "", globalAlpha: 1, lineWidth: 1 });
  }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${round1(x)} ${round1(y)}`; }
  lineTo(x, y) { this.path += `L${round1(x)} ${round1(y)}`; }
  bezierCurveTo(...points) { this.path += `C${points.map(round1).join(" ")}`; }
  roundRect(x, y, w, h, radius) {
    const k = Math.min(radius, w / 2, h / 2);
    this.path += `M${round1(x + k)} ${round1(y)}H${round1(x + w - k)}A${k} ${k} 0 0 1 ${round1(x + w)} ${round1(y + k)}V${round1(y + h - k)}A${k} ${k} 0 0 1 ${round1(x + w - k)} ${round1(y + h)}`
      + `H${round1(x + k)}A${k} ${k} 0 0 1 ${round1(x)} ${round1(y + h - k)}V${round1(y + k)}A${k} ${k} 0 0 1 ${round1(x + k)} ${round1(y)}Z`;
  }
  fill() { this.add(`<path d="${this.path}" fill="${this.fillStyle}"${this.alpha()}/>`); }
  stroke() { if (this.path) this.add(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${round1(this.lineWidth)}"${this.alpha()}/>`); }
  fillRect(x, y, w, h) { this.add(`<rect x="${round1(x)}" y="${round1(y)}" width="${round1(w)}" height="${round1(h)}" fill="${this.fillStyle}"${this.alpha()}/>`); }
  fillText(text, x, y) {
    const [, weight, size, family] = /^(?:(\d+) )?(\d+)px (.*)$/.exec(this.font);
    const anchor = { left: "start", center: "middle" }[this.textAlign];
    this.add(`<text x="${round1(x)}" y="${round1(y)}" fill="${this.fillStyle}" font-family="${family}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ""} text-anchor="${anchor}" dominant-baseline="central">${escaped(text)}</text>`);
  }
  measureText(text) { return this.measure.measureText(text); }
  alpha() { return this.globalAlpha === 1 ? "" : ` opacity="${this.globalAlpha}"`; }
  add(part) { this.parts.push(part); }
  written(width, height, ground) {
    const box = `${-RIM} ${-RIM} ${round1(width)} ${round1(height)}`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${round1(width)}" height="${round1(height)}">\n`
      + `<rect x="${-RIM}" y="${-RIM}" width="${round1(width)}" height="${round1(height)}" fill="${ground}"/>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

const round1 = (value) => Math.round(value * 10) / 10;
const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
