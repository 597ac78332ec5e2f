// A box's colours: by its category, by where it runs, or by a figure of it; and the legend that says so.
import { bytes, el, milliseconds } from "./elements.js";

const STATES = { "": ["runs", 3], host: ["runs on the host", 2], unknown: ["known at a run alone", 4], refused: ["cannot run", 0] };
const WORST = ["refused", "unknown", "host", ""];
const HUES = 11;
export const MODES = { type: "category", support: "support", time: "time", trace: "ONNX Runtime's time", bytes: "bytes", fusion: "fused passes", difference: "difference" };

export class Shades {
  constructor(view) {
    this.view = view;
    this.legend = el("p", { class: "legend" });
  }

  // What is looked up once, and not for each box of each frame.
  prepare(mode) {
    const style = getComputedStyle(document.documentElement);
    const name = (key) => style.getPropertyValue(`--${key}`).trim();
    this.hues = Array.from({ length: HUES }, (_, k) => [name(`h${k + 1}`), name(`e${k + 1}`)]);
    this.plain = [name("cell"), name("line")];
    this.open = [name("ground"), name("soft")];
    this.grey = [mix(name("line"), name("soft"), 0.25), name("soft"), name("ink")];
    this.ramp = [mix(name("ground"), name("e2"), 0.06), name("e2"), name("ground"), name("ink")];
    this.mode = mode;
    const passes = (this.view.done.profile ?? this.view.done.passes)?.passes ?? [];
    const several = passes.map((one, number) => [one, number]).filter(([one]) => one.nodes.length > 1 && !one.once);
    this.order = new Map(several.map(([, number], k) => [number, k]));
    const { boxes } = this.view.graph.scene;
    const values = boxes.map(({ item }) => this.value(this.members(item)));
    this.most = Math.max(0, ...values.filter((value) => Number.isFinite(value)));
    this.colours = boxes.map((box, k) => this.shade(box, values[k]));
    this.explain();
  }

  members(item) {
    return item < 0 ? this.view.graph.groups[~item].nodes : [item];
  }

  shade({ item, end }, value) {
    if (end) return this.open;
    const members = this.members(item), states = members.map((k) => this.view.known(k)?.state ?? "");
    const state = WORST.find((one) => states.includes(one));
    if (this.mode === "support") return state === "refused" ? this.grey : this.hues[STATES[state][1] - 1];
    if (this.mode === "fusion") return this.hues[this.fused(members) % HUES] ?? this.plain;
    if (this.mode === "type") return state === "refused" && item >= 0 ? this.grey : this.hue(this.category(members));
    if (value === undefined) return this.plain;
    const { ramp, most } = this, share = most ? Math.sqrt(Math.min(value / most, 1)) : 0;
    const fill = mix(ramp[0], ramp[1], share);
    return [fill, ramp[1], contrast(fill, ramp[2]) > contrast(fill, ramp[3]) ? ramp[2] : ramp[3]];
  }

  // The first of the categories that nodes have: of a layer that is its product or convolution.
  category(members) {
    const found = new Set(members.map((k) => this.view.category(k)));
    return this.view.model.categories.find((one) => found.has(one));
  }

  // The pass that does the work of all of these, and of others: by its place among such passes.
  fused(members) {
    const { view } = this, own = members.map((k) => view.passes(k).find((one) => one.nodes.length > 1 && !one.once)?.number);
    return own.every((number) => number === own[0]) ? this.order.get(own[0]) : undefined;
  }

  hue(category) {
    return this.hues[this.view.model.categories.indexOf(category)] ?? this.plain;
  }

  explain() {
    const chip = (text, [fill, edge]) => el("span", {}, el("i", { class: "chip", style: `background:${fill};border-color:${edge}` }), text);
    if (this.mode === "type") {
      const { nodes } = this.view.graph, found = new Set(nodes.map((node, k) => (node.end ? null : this.view.category(k))));
      this.legend.replaceChildren(...this.view.model.categories.filter((one) => found.has(one)).map((one) => chip(one, this.hue(one))));
    } else if (this.mode === "fusion") {
      const told = this.order.size ? `nodes of one colour are one pass (${this.order.size} such pass${this.order.size > 1 ? "es" : ""})` : "each node is a pass of its own";
      this.legend.replaceChildren(...(this.order.size ? [chip(told, this.hues[0]), chip("a pass of its own, or several passes", this.plain)] : [chip(told, this.plain)]));
    } else if (this.mode === "support") {
      this.legend.replaceChildren(...Object.entries(STATES).map(([key, [text, hue]]) => chip(text, key === "refused" ? this.grey : this.hues[hue - 1])));
    } else {
      const told = { time: milliseconds, trace: milliseconds, bytes, difference: (value) => String(Number(value.toPrecision(3))) }[this.mode], { ramp } = this;
      const bar = el("i", { class: "ramp", style: `background:linear-gradient(90deg,${ramp[0]},${mix(ramp[0], ramp[1], 0.5)} 25%,${ramp[1]})` });
      this.legend.replaceChildren(el("span", {}, `${this.title()} 0`), bar, el("span", {}, told(this.most)));
    }
  }

  // What the figures are of: where a pass does the work of several nodes, each of them has the pass's whole figure.
  title() {
    const { profile, passes } = this.view.done, isOwn = this.mode === "time" || this.mode === "bytes";
    const isShared = isOwn && (profile ?? passes)?.passes.some((one) => one.nodes.length > 1 && !one.once);
    return isShared ? `${MODES[this.mode]} of the node's pass` : MODES[this.mode];
  }

  // A colour for each box where it is a spot: of a figure its fill, or else its edge, which is stronger.
  spots() {
    const part = ["type", "support", "fusion"].includes(this.mode) ? 1 : 0;
    return this.colours.map((one) => one[part]);
  }

  // The figure of some nodes together: a pass that does the work of several counts once.
  value(members) {
    if (this.mode === "difference") {
      const found = members.flatMap((k) => this.view.graph.nodes[k].out ?? []).map(([, tensor]) => this.view.difference(tensor)).filter(Boolean);
      const largest = found.map((one) => (one.largest === "inf" ? Infinity : one.largest)).filter((one) => one !== null);
      return largest.length ? Math.max(...largest) : undefined;
    }
    const key = { time: "ms", trace: "ms", bytes: "bytes" }[this.mode];
    if (!key) return undefined;
    const passes = members.flatMap((k) => this.view.passes(k, this.mode === "trace" ? "trace" : undefined)).filter((one) => one[key] !== undefined && !one.once);
    const once = new Map(passes.map((one) => [one.number, one[key]]));
    return once.size ? [...once.values()].reduce((sum, one) => sum + one, 0) : undefined;
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
