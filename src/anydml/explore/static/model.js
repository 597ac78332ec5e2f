// The half of a model. `show` is called once, with the element to fill and a function that asks the server.
import { el } from "./elements.js";
import { dropZones, isProfile, notOpened, opener } from "./files.js";
import { Panel } from "./panel.js";
import { JOBS } from "./reports.js";
import { MODES, Shades } from "./shades.js";
import { Stage } from "./stage.js";

const ENDINGS = ".onnx,.json,.data,.bin,.weights";

export async function show(section, ask, say) {
  const server = ask.send ? { ask, say, send: ask.send } : null; // a page of one file has none
  const start = async (found) => {
    section.view?.leave();
    const model = found ?? (await ask("model", {}));
    if (!model) return section.replaceChildren(none(open, drop));
    const view = new ModelView(model, ask, say, server && { open, drop, start });
    section.replaceChildren(view.root);
    section.view = view; // for who looks on from outside
    await view.follow();
    if (model.done?.passes?.state === "done") await view.work("passes"); // a file has them; the check says why one has not
    await view.work("check");
    if (model.jobs.includes("trace")) await view.work("trace");
  };
  const tell = (text, isBad = false) => {
    if (section.view && section.contains(section.view.root)) return section.view.tell(text, isBad);
    const told = section.querySelector(".none .told");
    say(told.textContent = text);
    told.classList.toggle("refused", isBad);
  };
  const open = async (files, side = "a") => {
    try {
      if (section.view && side === "a" && (await isProfile(files))) return await section.view.lay(files);
      let found;
      try {
        const batch = await ask.send(files, tell);
        found = await ask("open", { batch, model: side });
      } catch (error) {
        return tell(notOpened(files, error, section.view?.model.name), true);
      }
      if (side === "b") return void (location.hash = "compare");
      history.replaceState(null, "", "#model");
      await start(found);
    } catch (error) {
      tell(error.message, true);
    }
  };
  const drop = { "Open": (files) => open(files) };
  addEventListener("hashchange", async () => {
    if (!location.hash.startsWith("#model")) return;
    try {
      const now = server ? await ask("model", {}) : section.view.model;
      if (now?.number !== section.view?.model.number) await start(now); // another was opened beside another
      else await section.view?.follow();
    } catch (error) {
      tell(error.message, true);
    }
  });
  await start(null);
}

function none(open, drop) {
  return el("div", { class: "none" }, el("h1", {}, "No model is open"),
    el("p", {}, "Open an ONNX model (.onnx, with the files of its weights if it has any) or a DxDispatch model (.json), or drop it on this page."),
    el("p", {}, opener("Open a model", (files) => open(files), { multiple: true, accept: ENDINGS })),
    el("p", { class: "told", role: "alert" }),
    el("p", {}, "Its graph stands here then, with shapes, weights, passes and times, and with the reason of each node that cannot run. The same from a terminal:"),
    el("pre", { tabindex: 0 }, "anydml explore MODEL"),
    dropZones({ "Drop a model": drop.Open }));
}

class ModelView {
  // `server` opens files, where the page has a server.
  constructor(model, ask, say, server) {
    Object.assign(this, { model, ask, say, server, done: {}, graphs: new Map(), chosen: null, mode: "type", isLeft: false });
    this.shades = new Shades(this);
    this.panel = new Panel(this);
    this.stage = new Stage({
      label: `Graph of ${model.name}. Arrows move it, plus and minus zoom, 0 fits it, Enter unfolds. The list of nodes says the same in words.`,
      load: (open) => this.ask("scene", { graph: this.number, open }), fills: (k) => this.shades.colours[k], choose: (item) => this.choose(item, { stays: true }),
      type: (tensor) => this.type(tensor), legend: this.shades.legend, colours: () => this.colour(this.mode), failed: (text) => this.tell(text, true),
      taken: () => this.chosen !== null && this.chosen < 0 && this.panel.showGroup(~this.chosen, true),
    });
    this.port = this.stage.port;
    this.titles = el("select", { "aria-label": "Graph", hidden: model.graphs.length < 2, onchange: () => this.enter(Number(this.titles.value)) },
      ...model.graphs.map((graph, k) => el("option", { value: k }, graph.title)));
    this.modes = el("select", { "aria-label": "Colour by", onchange: () => this.colour(this.modes.value) });
    this.outer = el("button", { type: "button", onclick: () => this.enter(this.graph.around) }, "↑ Outer graph");
    this.status = el("p", { class: "told", role: "status" });
    const jobs = Object.keys(JOBS).filter((name) => !["check", "trace"].includes(name) && model.jobs.includes(name) && !model.done);
    this.buttons = Object.fromEntries(jobs.map((name) => [name, el("button", { type: "button", onclick: () => this.work(name, true) }, JOBS[name].split(" with ")[0],
      JOBS[name].includes(" with ") ? el("span", { class: "long" }, " with ONNX Runtime") : null)]));
    this.running = new Set();
    this.stopper = el("button", { type: "button", class: "stop", hidden: true, onclick: () => this.stop() }, "Stop");
    this.root = el("div", { class: "view" },
      el("div", { class: "bar" }, el("h1", {}, model.name), this.titles, this.outer, ...this.openers(), ...Object.values(this.buttons), this.stopper,
        el("label", {}, el("span", { class: "long" }, "Colour by "), this.modes)),
      el("p", { class: "facts" }, model.facts.map(([name, text]) => `${name}: ${text}`).join(" · ")), this.status, this.stage.root, this.panel.root);
    if (server) this.root.append(dropZones({ "Open this model": (files) => server.open(files), "Compare with this model": (files) => server.open(files, "b") }));
  }

  openers() {
    const { server } = this;
    if (!server) return [];
    return [el("details", { class: "menu" }, el("summary", {}, "Open"), el("div", {},
      opener("A model", (files) => server.open(files), { multiple: true, accept: ENDINGS }),
      opener("Another beside it", (files) => server.open(files, "b"), { multiple: true, accept: ENDINGS }),
      opener("ONNX Runtime's profile", (files) => this.lay(files), { accept: ".json" })))];
  }

  // A profile of ONNX Runtime's over the graph.
  async lay(files) {
    this.root.querySelector(".menu").open = false;
    try {
      await this.ask("profile", { batch: await this.ask.send(files, (text) => this.tell(text)) });
      await this.work("trace", true);
    } catch (error) {
      this.tell(error.message, true);
    }
  }

  // Other sizes: the same model, opened again.
  async resize(given) {
    await this.server.start(await this.ask("sizes", given));
  }

  leave() {
    this.isLeft = true;
  }

  // What an address says: a graph and a node; where it says neither, all stays as it is.
  async follow() {
    if (!location.hash.startsWith("#model") && this.graph) return;
    document.title = `${this.model.name} · anydml explore`;
    const [graph, node] = location.hash.split("/").slice(1).map(Number);
    if (graph === undefined && this.graph) return this.remember();
    if (!this.graph || graph !== this.number) await this.open(this.model.graphs[graph] ? graph : 0);
    if (this.graph.nodes[node] && node !== this.chosen) await this.choose(node, { keepsFocus: true });
    else this.remember();
  }

  remember() {
    if (location.hash && !location.hash.startsWith("#model")) return;
    const own = this.chosen !== null && this.chosen >= 0 ? `#model/${this.number}/${this.chosen}` : this.number ? `#model/${this.number}` : "#model";
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
    this.chosen = null;
    this.stage.show(this.graph, this.model.name);
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
      this.tell(error.message, true);
      this.titles.value = this.number;
    }
  }

  async go(place) {
    const [graph, k] = place.split(".").map(Number);
    if (graph !== this.number) await this.enter(graph);
    if (graph === this.number) await this.choose(k);
  }

  kind(place) {
    const [graph, k] = place.split(".").map(Number);
    return this.graphs.get(graph)?.nodes[k]?.kind;
  }

  // A line below the title; of what could not be done all lines, in red.
  tell(text, isBad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("refused", isBad);
  }

  isRefusing() {
    return this.status.classList.contains("refused");
  }

  async choose(item, { stays = false, keepsFocus = false } = {}) {
    if (item !== null && item >= 0) await this.stage.reveal(item);
    this.chosen = this.port.chosen = item;
    this.remember();
    if (item === null) {
      this.panel.list();
      return this.port.draw();
    }
    if (item < 0) this.panel.showGroup(~item, keepsFocus || stays);
    else this.panel.show(item, keepsFocus || stays);
    const isNarrow = this.panel.grip.offsetParent !== null; // what is known of it stands over the graph then
    if (stays && !isNarrow) this.port.draw();
    else this.port.centre(item);
  }

  light(found) {
    this.port.found = new Set([...found].map((k) => this.stage.seen(k)));
    this.port.draw();
  }

  colour(mode) {
    const has = { type: true, support: this.done.check, time: this.done.profile, trace: this.done.trace, bytes: this.done.profile ?? this.done.passes, fusion: this.done.profile ?? this.done.passes, difference: this.done.compare };
    this.modes.replaceChildren(...Object.keys(MODES).filter((key) => has[key]).map((key) => el("option", { value: key }, MODES[key])));
    this.mode = this.modes.value = has[mode] ? mode : "type";
    this.shades.prepare(this.mode);
    this.stage.map.show(this.graph.scene, this.shades.spots());
    this.port.draw();
  }

  // Stop whatever is at work; what was done stays.
  async stop() {
    this.stopper.disabled = true;
    try {
      for (const name of this.running) await this.ask("stop", { name });
    } catch (error) {
      this.tell(error.message, true);
    }
  }

  atWork(name, isRunning) {
    this.running[isRunning ? "add" : "delete"](name);
    this.stopper.hidden = !this.running.size || Boolean(this.model.done);
    if (!isRunning || this.stopper.hidden) this.stopper.disabled = false;
  }

  async work(name, isAsked = false) {
    const button = this.buttons[name], { reports } = this.panel, wait = () => new Promise((ready) => setTimeout(ready, 400));
    if (button) button.disabled = true;
    try {
      let state = await this.ask("job", { name });
      for (; state.state === "running" && !this.isLeft; state = await this.ask("job", { name })) {
        this.atWork(name, true);
        if (isAsked || !this.isRefusing()) this.tell(`${JOBS[name]}: ${state.says}, ${Math.round(state.seconds)} s …`);
        reports.running(name, `${state.says} …`);
        await wait();
      }
      if (this.isLeft) return;
      if (state.state === "stopped") {
        this.tell(`${JOBS[name]}: stopped after ${Math.round(state.seconds)} s`);
        return reports.stopped(name);
      }
      if (state.state === "failed") throw new Error(state.says);
      this.finish(name, state.result, isAsked);
    } catch (error) {
      this.tell(`${JOBS[name]} could not be done: ${error.message}`, true);
      this.say(error.message);
      reports.failed(name, error.message);
    } finally {
      this.atWork(name, false);
      if (button) button.disabled = false;
    }
  }

  finish(name, result, isAsked) {
    this.done[name] = result;
    this.byNode = this.sort();
    if (name === "check") this.stage.words();
    if (name === "check") this.panel.sizes?.tell(result.sizes);
    if (isAsked || !this.isRefusing()) this.tell(`${JOBS[name]}: ${result.says}`); // the check's words leave a notice
    this.say(result.says);
    this.panel.reports.done(name, result, isAsked);
    const wanted = { profile: "time", trace: "trace", compare: "difference" }[name];
    const isBad = name === "check" && Object.values(result.nodes).some((node) => node.state);
    this.colour(wanted ?? (isBad ? "support" : this.mode));
    if (this.chosen !== null && this.chosen >= 0) this.panel.show(this.chosen, true);
    else if (this.chosen !== null) this.panel.showGroup(~this.chosen, true);
    else if (!this.panel.root.contains(document.activeElement)) this.panel.list();
  }

  // By node, the passes that do its work: those of a profile with their times, and the words of those that were compiled.
  sort() {
    return { own: this.byPlace(this.done.profile ?? this.done.passes), trace: this.byPlace(this.done.trace) };
  }

  byPlace(result) {
    const found = new Map(), words = new Map((this.done.passes?.passes ?? []).map((one) => [one.nodes.join(), one.does]));
    (result ?? { passes: [] }).passes.forEach((one, number) => {
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

  category(k) {
    const own = this.graph.nodes[k].category;
    return own === this.model.categories.at(-1) ? this.known(k)?.category ?? own : own;
  }

  type(tensor) {
    return this.done.check?.types[tensor] ?? this.graph.types[tensor];
  }

  passes(k, source = "own") {
    const own = `${this.number}.`;
    return (this.byNode?.[source].get(own + k) ?? []).map((one) => ({
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
  for (const [from, to] of graph.links) {
    graph.after[from].push(to);
    graph.before[to].push(from);
  }
  return graph;
}
