// What came of the work that was asked for: a line each, with its figures behind it.
import { bytes, el, milliseconds, number } from "./elements.js";

const MOST = 12;
export const WORDS = { refused: "cannot run", host: "runs on the host", unknown: "known at a run alone" };
export const JOBS = { check: "Check", passes: "Passes", profile: "Profile", compare: "Compare with ONNX Runtime", trace: "ONNX Runtime's profile" };

export class Reports {
  constructor(view) {
    this.view = view;
    this.root = el("div", { class: "reports" });
    this.parts = new Map();
    this.part("check"); // it has its place before it is done
  }

  part(name) {
    if (!this.parts.has(name)) {
      const head = el("span", {}), body = el("div", { class: "body" });
      const whole = el("details", { class: "report" }, el("summary", {}, el("b", {}, JOBS[name]), " ", head), body);
      this.parts.set(name, { head, body, whole });
      this.root.append(whole);
    }
    return this.parts.get(name);
  }

  running(name, text) {
    this.part(name).head.textContent = text;
  }

  stopped(name) {
    this.part(name).head.textContent = "stopped";
  }

  failed(name, text) {
    const { head, body, whole } = this.part(name);
    head.textContent = "could not be done";
    body.replaceChildren(el("p", { class: "state refused" }, text));
    this.open(whole);
  }

  done(name, result, isAsked) {
    const { head, body, whole } = this.part(name);
    head.textContent = result.says;
    const told = { check: () => this.judged(result), compare: () => this.compared(result) }[name] ?? (() => this.heaviest(result));
    body.replaceChildren(el("p", {}, result.says), ...told());
    if (isAsked) this.open(whole);
  }

  // The newest stands first, in sight.
  open(whole) {
    whole.open = true;
    this.root.prepend(whole);
    this.root.parentElement.scrollTop = 0;
  }

  // Nodes that do not simply run, counted by type: a click searches for them.
  judged({ nodes, faults }) {
    const counts = new Map();
    for (const [place, { state }] of Object.entries(nodes)) {
      const [graph, k] = place.split(".").map(Number);
      if (!state || graph !== this.view.number) continue;
      const key = `${WORDS[state]}\n${this.view.graph.nodes[k].kind}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([key, count]) => {
      const [words, kind] = key.split("\n");
      return el("li", {}, el("button", { type: "button", class: "node", onclick: () => this.view.panel.find(kind) }, el("b", {}, kind), ` ${number(count)} × `, el("i", {}, words)));
    });
    const told = (faults ?? []).map((text) => el("p", { class: "state refused" }, text));
    return [...told, ...(rows.length ? [el("ul", { class: "slots" }, ...rows)] : [])];
  }

  // The passes that take longest, or move most.
  heaviest({ passes, ms }) {
    const key = ms === undefined ? "bytes" : "ms", total = ms ?? passes.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
    const first = passes.map((one, k) => ({ ...one, k })).filter((one) => one[key] && !one.once).sort((a, b) => b[key] - a[key]).slice(0, MOST);
    const rows = first.map((one) => {
      const share = total ? one[key] / total : 0, told = key === "ms" ? milliseconds(one.ms) : bytes(one.bytes);
      const kinds = one.nodes.map((place) => this.view.kind(place)).filter(Boolean);
      const name = kinds.length ? kinds.slice(0, 3).join(" + ") + (kinds.length > 3 ? " + …" : "") : one.does ?? `pass ${one.k + 1}`;
      const bar = el("i", { class: "share", style: `width:${(100 * one[key]) / first[0][key]}%` });
      return el("tr", {}, el("td", {}, el("button", { type: "button", class: "node", disabled: !one.nodes.length, onclick: () => this.view.go(one.nodes[0]) }, name), bar),
        el("td", { class: "figure" }, told), el("td", { class: "figure" }, `${number(Math.round(1000 * share) / 10)} %`));
    });
    return rows.length ? [table(key === "ms" ? "The slowest passes" : "The passes that move most", ["nodes", key === "ms" ? "time" : "bytes", "share"], rows)] : [];
  }

  compared({ outputs }) {
    const rows = outputs.map((one) =>
      el("tr", { class: one.agrees || !one.compared ? "" : "bad" }, el("td", {}, one.name), el("td", {}, one.agrees ? "agrees" : one.compared ? "is off" : "not compared"),
        el("td", { class: "figure" }, one.largest === null ? "" : number(one.largest))));
    return [table("Outputs by anydml and by ONNX Runtime", ["output", "", "largest difference"], rows)];
  }
}

export function table(title, heads, rows) {
  return el("table", {}, el("caption", {}, title), el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...rows));
}
