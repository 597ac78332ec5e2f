// Two models side by side: which nodes are the same, which differ and how, and which only one of them has.
import { el, number } from "./elements.js";
import { dropZones, notOpened, opener } from "./files.js";
import { table } from "./reports.js";
import { Stage } from "./stage.js";

const SIDES = ["a", "b"], MOST_TOLD = 200;
const STATES = { same: ["the same", null], changed: ["changed", 2], a: ["only in the left one", 5], b: ["only in the right one", 1] };

export async function show(section, ask, say) {
  const enter = async () => {
    if (!location.hash.startsWith("#compare")) return;
    document.title = "Two models · anydml explore";
    try {
      const models = await Promise.all(SIDES.map((model) => ask("model", { model })));
      const view = new PairView(models, ask, say, enter);
      section.replaceChildren(view.root);
      section.view = view;
      if (models.every(Boolean)) await view.compare();
      else await view.invite();
    } catch (error) {
      section.replaceChildren(el("p", { class: "refused", role: "alert" }, error.message));
    }
  };
  addEventListener("hashchange", enter);
  await enter();
}

class PairView {
  constructor(models, ask, say, enter) {
    Object.assign(this, { models, ask, say, enter, chosen: {} });
    this.status = el("p", { class: "told", role: "status" });
    this.legend = el("p", { class: "legend" });
    this.list = el("div", { class: "found" });
    this.stages = models.map((model, k) => model && this.stage(model, k));
    const sides = models.map((model, k) => el("div", { class: "side" },
      el("div", { class: "bar" }, el("h2", {}, model ? model.name : k ? "Another model" : "A model"), opener(model ? "Open another" : "Open", (files) => this.open(files, k), { multiple: true })),
      model ? this.stages[k].root : el("p", { class: "missing" }, "Open a model here, or drop it.")));
    this.root = el("div", { class: "pair" }, this.status, ...sides, el("aside", { "aria-label": "Differences" }, this.list),
      dropZones({ "Drop the left model": (files) => this.open(files, 0), "Drop the right model": (files) => this.open(files, 1) }));
  }

  stage(model, k) {
    const side = SIDES[k];
    const made = new Stage({
      label: `Graph of ${model.name}`, load: (open) => this.ask("scene", { model: side, graph: 0, open }),
      fills: (number) => this.colours?.[k]?.[number] ?? this.plain, choose: (item) => this.choose(k, item), type: (tensor) => this.graphs?.[k].types[tensor],
      legend: k ? el("p", { class: "legend" }) : this.legend, colours: () => this.colour(k), failed: (text) => this.tell(text, true),
    });
    return made;
  }

  tell(text, isBad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("refused", isBad);
  }

  async open(files, k) {
    try {
      const batch = await this.ask.send(files, (text) => this.tell(text));
      await this.ask("open", { batch, model: SIDES[k] });
      await this.enter();
    } catch (error) {
      this.tell(notOpened(files, error, this.models[k]?.name), true);
    }
  }

  async compare() {
    this.tell("Comparing …");
    this.found = await this.ask("differences", {});
    this.graphs = await Promise.all(SIDES.map((model) => this.ask("graph", { model, graph: 0 })));
    this.pairs = [new Map(this.found.pairs), new Map(this.found.pairs.map(([a, b]) => [b, a]))];
    this.graphs.forEach((graph, k) => this.stages[k].show(graph, this.models[k].name));
    const { counts } = this.found, told = Object.entries(counts).filter(([, count]) => count).map(([key, count]) => `${number(count)} ${STATES[key][0]}`);
    this.tell(`Nodes: ${told.join(", ")}`);
    this.say(this.status.textContent);
    this.report();
  }

  // Fewer than two models: the graph of the one that is open, and what to do next.
  async invite() {
    this.graphs = await Promise.all(SIDES.map((model, k) => this.models[k] && this.ask("graph", { model, graph: 0 })));
    this.graphs.forEach((graph, k) => graph && this.stages[k].show(graph, this.models[k].name));
    this.tell(this.models.some(Boolean) ? "Open a second model to compare the two." : "Open two models to compare them.");
  }

  state(k, node) {
    return this.found?.marks[SIDES[k]][node] ?? "same";
  }

  colour(k) {
    const style = getComputedStyle(document.documentElement), name = (key) => style.getPropertyValue(`--${key}`).trim();
    this.plain = [name("cell"), name("line")];
    const hue = (state) => (STATES[state][1] ? [name(`h${STATES[state][1]}`), name(`e${STATES[state][1]}`)] : this.plain);
    const graph = this.graphs?.[k], { port } = this.stages[k];
    if (!graph) return;
    (this.colours ??= [])[k] = graph.scene.boxes.map(({ item }) => {
      const states = (item < 0 ? graph.groups[~item].nodes : [item]).map((one) => this.state(k, one));
      return hue(["changed", "a", "b"].find((one) => states.includes(one)) ?? "same");
    });
    const chip = (state) => el("span", {}, el("i", { class: "chip", style: `background:${hue(state)[0]};border-color:${hue(state)[1]}` }), STATES[state][0]);
    if (this.found) this.legend.replaceChildren(...Object.keys(STATES).map(chip));
    this.stages[k].map.show(graph.scene, this.colours[k].map((one) => one[1]));
    port.draw();
  }

  // A node on one side, and its counterpart on the other.
  async choose(k, item) {
    const other = item === null || item < 0 ? null : this.pairs?.[k].get(item) ?? null;
    for (const [side, one, stays] of [[k, item, true], [1 - k, other, false]]) {
      const stage = this.stages[side];
      if (!stage) continue;
      if (one !== null && one >= 0) await stage.reveal(one);
      stage.port.chosen = one;
      if (one !== null && !stays) stage.port.centre(one);
      else stage.port.draw();
    }
    if (this.found) this.report(k, item, other);
  }

  async go(row) {
    const k = row.a === undefined ? 1 : 0, item = k ? row.b : row.a;
    await this.choose(k, item);
    this.stages[k].port.centre(item);
  }

  name(k, node) {
    const { kind, name } = this.graphs[k].nodes[node];
    return [el("b", {}, kind), " ", el("span", {}, name ?? "")];
  }

  report(k, item, other) {
    const { rows, kinds, counts } = this.found;
    const own = item === undefined || item === null || item < 0 ? null : rows.find((row) => row[SIDES[k]] === item);
    const chosen = item === undefined || item === null || item < 0 ? [] : [el("div", { class: "state" }, ...this.name(k, item),
      el("p", {}, own ? (own.says ?? [STATES[own.state][0]]).join("\n") : other === null ? "" : "the same on both sides"))];
    const shown = rows.slice(0, MOST_TOLD), left = counts.changed + counts.a + counts.b - shown.length;
    const list = shown.map((row) => el("li", {}, el("button", { type: "button", class: "node", onclick: () => this.go(row) },
      ...this.name(row.a === undefined ? 1 : 0, row.a ?? row.b), el("i", {}, ` ${STATES[row.state][0]}`)), row.says ? el("p", {}, row.says.join("; ")) : null));
    this.list.replaceChildren(...chosen,
      kinds.length ? table("Types of nodes of which one has more", ["type", "left", "right"], kinds.slice(0, 12).map(([kind, a, b]) =>
        el("tr", {}, el("td", {}, kind), el("td", { class: "figure" }, number(a)), el("td", { class: "figure" }, number(b))))) : "",
      list.length ? el("ul", { class: "slots" }, ...list) : el("p", { class: "note" }, "Nothing differs: nodes, attributes, shapes and weights are the same."),
      left > 0 ? el("p", { class: "note" }, `and ${number(left)} more, coloured in the graphs`) : "");
    this.list.scrollTop = 0;
  }
}
