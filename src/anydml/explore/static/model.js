// The half of a model. `show` is called once, with the element to fill and a function that asks the server.
import { el } from "./elements.js";
import { Minimap } from "./minimap.js";
import { Panel } from "./panel.js";
import { JOBS } from "./reports.js";
import { MODES, Shades } from "./shades.js";
import { Viewport } from "./viewport.js";

const NONE = [
  el("h1", {}, "No model is open"),
  el("p", {}, "Give one as you start the page, an ONNX model (.onnx) or a DxDispatch model (.json):"),
  el("pre", { tabindex: 0 }, "anydml explore MODEL"),
  el("p", {}, "Its graph stands here then, with shapes, weights, passes and times, and with the reason of each node that cannot run."),
];

export async function show(section, ask, say) {
  const model = await ask("model", {});
  if (!model) {
    section.replaceChildren(el("div", { class: "none" }, ...NONE));
    return;
  }
  const view = new ModelView(model, ask, say);
  section.replaceChildren(view.root);
  section.view = view; // for who looks on from outside
  await view.follow();
  addEventListener("hashchange", () => view.follow().catch((error) => view.tell(error.message)));
  if (model.done?.passes?.state === "done") await view.work("passes"); // a file has them; the check says why one has not
  await view.work("check");
}

class ModelView {
  constructor(model, ask, say) {
    Object.assign(this, { model, ask, say, done: {}, graphs: new Map(), chosen: -1, mode: "type" });
    this.shades = new Shades(this);
    this.panel = new Panel(this);
    this.canvas = el("canvas", {
      tabindex: 0, role: "application", "aria-roledescription": "graph",
      "aria-label": `Graph of ${model.name}. Arrows move it, plus and minus zoom, 0 fits it. The list of nodes says the same in words.`,
    });
    this.titles = el("select", { "aria-label": "Graph", hidden: model.graphs.length < 2, onchange: () => this.enter(Number(this.titles.value)) },
      ...model.graphs.map((graph, k) => el("option", { value: k }, graph.title)));
    this.modes = el("select", { "aria-label": "Colour by", onchange: () => this.colour(this.modes.value) });
    this.outer = el("button", { type: "button", onclick: () => this.enter(this.graph.around) }, "↑ Outer graph");
    this.status = el("p", { class: "told" });
    this.foot = el("div", { class: "foot" }, this.shades.legend);
    this.nothing = el("p", { class: "nothing", hidden: true }, "This graph has no nodes.");
    const zoom = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const jobs = Object.keys(JOBS).filter((name) => name !== "check" && model.jobs.includes(name) && !model.done);
    this.buttons = Object.fromEntries(jobs.map((name) => [name, el("button", { type: "button", onclick: () => this.work(name, true) }, JOBS[name].split(" with ")[0],
      JOBS[name].includes(" with ") ? el("span", { class: "long" }, " with ONNX Runtime") : null)]));
    this.root = el("div", { class: "view" },
      el("div", { class: "bar" }, el("h1", {}, model.name), this.titles, this.outer, ...Object.values(this.buttons),
        el("label", {}, el("span", { class: "long" }, "Colour by "), this.modes)),
      el("p", { class: "facts" }, model.facts.map(([name, text]) => `${name}: ${text}`).join(" · ")), this.status,
      el("div", { class: "stage" }, this.canvas, this.nothing,
        el("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
          zoom("+", "Zoom in", () => this.port.zoom(1.25)), zoom("−", "Zoom out", () => this.port.zoom(0.8)), zoom("⤢", "Fit", () => this.port.fit())),
        this.foot),
      this.panel.root);
    this.port = new Viewport(this.canvas, {
      fills: (_, k) => this.shades.colours[k], choose: (k) => this.choose(k, { stays: true }), moved: (sight) => this.map.move(sight),
      room: () => this.shades.legend.offsetHeight,
    });
    this.map = new Minimap(this.port);
    this.foot.append(this.map.root);
    const repaint = () => this.graph && (this.colour(this.mode), this.port.colours());
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  }

  // What an address says: a graph and a node; where it says neither, all stays as it is.
  async follow() {
    if (!location.hash.startsWith("#model") && this.graph) return;
    document.title = `${this.model.name} · anydml explore`;
    const [graph, node] = location.hash.split("/").slice(1).map(Number);
    if (graph === undefined && this.graph) return this.remember();
    if (!this.graph || graph !== this.number) await this.open(this.model.graphs[graph] ? graph : 0);
    if (this.graph.nodes[node] && node !== this.chosen) this.choose(node, { keepsFocus: true });
    else this.remember();
  }

  remember() {
    const own = this.chosen >= 0 ? `#model/${this.number}/${this.chosen}` : this.number ? `#model/${this.number}` : "#model";
    if (location.hash || own !== "#model") history.replaceState(null, "", own);
  }

  async open(number) {
    if (!this.graphs.has(number)) {
      this.tell("Laying the graph out …");
      this.graphs.set(number, index(await this.ask("graph", { graph: number })));
      this.tell("");
    }
    this.number = number;
    this.graph = this.graphs.get(number);
    this.titles.value = number;
    this.outer.hidden = this.graph.around === null;
    this.chosen = -1;
    this.nothing.hidden = this.graph.nodes.length > 0;
    this.colour(this.mode);
    this.port.show(this.graph);
    this.panel.search.value = "";
    this.panel.list();
    this.say(`${this.graph.title}, ${this.graph.nodes.length} nodes`);
  }

  // Another graph by somebody's wish: it is remembered in the address, and a server that is gone is told.
  async enter(number) {
    try {
      await this.open(number);
      this.remember();
    } catch (error) {
      this.tell(error.message);
      this.titles.value = this.number;
    }
  }

  async go(place) {
    const [graph, k] = place.split(".").map(Number);
    if (graph !== this.number) await this.enter(graph);
    if (graph === this.number) this.choose(k);
  }

  kind(place) {
    const [graph, k] = place.split(".").map(Number);
    return this.graphs.get(graph)?.nodes[k]?.kind;
  }

  tell(text) {
    this.status.textContent = text;
  }

  choose(k, { stays = false, keepsFocus = false } = {}) {
    this.chosen = this.port.chosen = k;
    this.remember();
    if (k < 0) {
      this.panel.list();
      return this.port.draw();
    }
    this.panel.show(k, keepsFocus || stays);
    if (stays) this.port.draw();
    else this.port.centre(k);
  }

  light(found) {
    this.port.found = found;
    this.port.draw();
  }

  colour(mode) {
    const has = { type: true, support: this.done.check, time: this.done.profile, bytes: this.done.profile ?? this.done.passes, difference: this.done.compare };
    this.modes.replaceChildren(...Object.keys(MODES).filter((key) => has[key]).map((key) => el("option", { value: key }, MODES[key])));
    this.mode = this.modes.value = has[mode] ? mode : "type";
    this.shades.prepare(this.mode);
    this.map.show(this.graph, this.shades.spots());
    this.port.draw();
  }

  async work(name, isAsked = false) {
    const button = this.buttons[name], { reports } = this.panel, wait = () => new Promise((ready) => setTimeout(ready, 400));
    if (button) button.disabled = true;
    try {
      let state = await this.ask("job", { name });
      for (; state.state === "running"; state = await this.ask("job", { name })) {
        this.tell(`${JOBS[name]}: ${state.says}, ${Math.round(state.seconds)} s …`);
        reports.running(name, `${state.says} …`);
        await wait();
      }
      if (state.state === "failed") throw new Error(state.says);
      this.finish(name, state.result, isAsked);
    } catch (error) {
      this.tell(`${JOBS[name]}: ${error.message}`);
      this.say(error.message);
      reports.failed(name, error.message);
    } finally {
      if (button) button.disabled = false;
    }
  }

  finish(name, result, isAsked) {
    this.done[name] = result;
    this.byNode = this.sort();
    this.tell(`${JOBS[name]}: ${result.says}`);
    this.say(result.says);
    this.panel.reports.done(name, result, isAsked);
    const wanted = { profile: "time", compare: "difference" }[name];
    const isBad = name === "check" && Object.values(result.nodes).some((node) => node.state);
    this.colour(wanted ?? (isBad ? "support" : this.mode));
    if (this.chosen >= 0) this.panel.show(this.chosen, true);
    else if (!this.panel.root.contains(document.activeElement)) this.panel.list();
  }

  // By node, the passes that do its work: those of a profile with their times, and the words of those that were compiled.
  sort() {
    const found = new Map(), words = new Map((this.done.passes?.passes ?? []).map((one) => [one.nodes.join(), one.does]));
    (this.done.profile ?? this.done.passes ?? { passes: [] }).passes.forEach((one, number) => {
      for (const place of one.nodes) {
        if (!found.has(place)) found.set(place, []);
        found.get(place).push({ ...one, number, does: one.does ?? words.get(one.nodes.join()) });
      }
    });
    return found;
  }

  known(k) {
    return this.done.check?.nodes[`${this.number}.${k}`];
  }

  type(tensor) {
    return this.done.check?.types[tensor] ?? this.graph.types[tensor];
  }

  passes(k) {
    const own = `${this.number}.`;
    return (this.byNode?.get(own + k) ?? []).map((one) => ({
      ...one,
      others: one.nodes.filter((place) => place.startsWith(own) && place !== own + k).map((place) => Number(place.slice(own.length))),
    }));
  }

  difference(tensor) {
    return this.done.compare?.tensors[tensor];
  }

  neighbours(k, tensor, isBefore) {
    const reads = (other) => (this.graph.nodes[other].in ?? []).some((slot) => slot[1] === tensor);
    const makes = (other) => (this.graph.nodes[other].out ?? []).some((slot) => slot[1] === tensor);
    return isBefore ? this.graph.before[k].filter(makes) : this.graph.after[k].filter(reads);
  }

  weight(name) {
    return this.ask("weight", { name });
  }
}

function index(graph) {
  graph.before = graph.nodes.map(() => []);
  graph.after = graph.nodes.map(() => []);
  for (const [from, to] of graph.edges) {
    graph.after[from].push(to);
    graph.before[to].push(from);
  }
  return graph;
}
