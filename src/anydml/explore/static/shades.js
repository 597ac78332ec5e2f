// A node's colours: by its type, by where it runs, or by a figure of it; and the legend that says so.
import { bytes, el, milliseconds } from "./elements.js";

const STATES = { "": ["runs", 3], host: ["runs on the host", 2], unknown: ["known at a run alone", 4], refused: ["cannot run", 0] };
export const MODES = { type: "type", support: "support", time: "time", bytes: "bytes", difference: "difference" };

export class Shades {
  constructor(view) {
    this.view = view;
    this.legend = el("p", { class: "legend" });
  }

  // What is looked up once, and not for each node of each frame.
  prepare(mode) {
    const style = getComputedStyle(document.documentElement);
    const name = (key) => style.getPropertyValue(`--${key}`).trim();
    const hues = [1, 2, 3, 4, 5, 6].map((k) => [name(`h${k}`), name(`e${k}`)]);
    this.plain = [name("cell"), name("line")];
    this.open = [name("ground"), name("soft")];
    this.grey = [mix(name("line"), name("soft"), 0.25), name("soft"), name("ink")];
    this.mode = mode;
    const { nodes } = this.view.graph, counts = new Map();
    nodes.forEach((node) => node.end || counts.set(node.kind, (counts.get(node.kind) ?? 0) + 1));
    const kinds = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([kind]) => kind);
    const byKind = new Map(kinds.map((kind, k) => [kind, hues[k]]));
    const values = nodes.map((_, k) => this.value(k));
    const most = Math.max(0, ...values.filter((value) => Number.isFinite(value)));
    const ramp = [mix(name("ground"), name("e2"), 0.06), name("e2"), name("ground"), name("ink")];
    this.colours = nodes.map((node, k) => {
      const state = this.view.known(k)?.state ?? "";
      if (node.end) return this.open;
      if (mode === "support") return state === "refused" ? this.grey : hues[STATES[state][1] - 1];
      if (mode === "type") return state === "refused" ? this.grey : byKind.get(node.kind) ?? this.plain;
      if (values[k] === undefined) return this.plain;
      const share = most ? Math.sqrt(Math.min(values[k] / most, 1)) : 0;
      const fill = mix(ramp[0], ramp[1], share);
      return [fill, ramp[1], contrast(fill, ramp[2]) > contrast(fill, ramp[3]) ? ramp[2] : ramp[3]];
    });
    const chip = (text, [fill, edge]) => el("span", {}, el("i", { class: "chip", style: `background:${fill};border-color:${edge}` }), text);
    if (mode === "type") this.legend.replaceChildren(...kinds.map((kind) => chip(kind, byKind.get(kind))));
    else if (mode === "support") this.legend.replaceChildren(...Object.entries(STATES).map(([key, [text, hue]]) => chip(text, key === "refused" ? this.grey : hues[hue - 1])));
    else {
      const told = { time: milliseconds, bytes, difference: (value) => String(Number(value.toPrecision(3))) }[mode];
      const bar = el("i", { class: "ramp", style: `background:linear-gradient(90deg,${ramp[0]},${mix(ramp[0], ramp[1], 0.5)} 25%,${ramp[1]})` });
      this.legend.replaceChildren(el("span", {}, `${MODES[mode]} 0`), bar, el("span", {}, told(most)));
    }
  }

  // A colour for each node where it is a spot: of a figure its fill, or else its edge, which is stronger.
  spots() {
    const part = this.mode === "type" || this.mode === "support" ? 1 : 0;
    return this.colours.map((one) => one[part]);
  }

  value(k) {
    if (this.mode === "difference") {
      const node = this.view.graph.nodes[k];
      const found = (node.out ?? []).map(([, tensor]) => this.view.difference(tensor)).filter(Boolean);
      const largest = found.map((one) => (one.largest === "inf" ? Infinity : one.largest)).filter((one) => one !== null);
      return largest.length ? Math.max(...largest) : undefined;
    }
    const key = { time: "ms", bytes: "bytes" }[this.mode];
    const found = this.view.passes(k).filter((one) => one[key] !== undefined && !one.once);
    return found.length ? found.reduce((sum, one) => sum + one[key], 0) : undefined;
  }
}

function mix(a, b, share) {
  const parts = (colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
  const [from, to] = [parts(a), parts(b)];
  return `#${from.map((one, k) => Math.round(one + (to[k] - one) * share).toString(16).padStart(2, "0")).join("")}`;
}

function contrast(a, b) {
  const part = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, share, k) => sum + share * part(parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16) / 255), 0.05);
  return Math.max(light(a), light(b)) / Math.min(light(a), light(b));
}
