// A graph on a canvas with what stands around it: zoom, a map, folding, and its picture as a file.
import { drawing, save } from "./export.js";
import { el } from "./elements.js";
import { Minimap } from "./minimap.js";
import { Viewport } from "./viewport.js";

export class Stage {
  // `load` gives a scene by the groups that are open, `fills` the colours of a box, `choose` is told of a chosen item,
  // `type` gives a tensor's type, and `legend` is what the colours say.
  constructor({ label, load, fills, choose, type, legend, colours, failed, taken }) {
    Object.assign(this, { load, type, colours, failed, taken });
    this.canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "graph", "aria-label": label });
    this.foot = el("div", { class: "foot" }, legend);
    this.nothing = el("p", { class: "nothing", hidden: true }, "This graph has no nodes.");
    const button = (text, told, act) => el("button", { type: "button", "aria-label": told, title: told, onclick: act }, text);
    this.folds = [button("⊟", "Fold all", () => this.unfold([])), button("⊞", "Unfold all", () => this.unfold(this.graph.groups.map((_, k) => k)))];
    this.port = new Viewport(this.canvas, {
      fills, choose, fold: (group) => this.toggle(group), moved: (sight) => this.map.move(sight), room: () => legend.offsetHeight,
    });
    this.map = new Minimap(this.port);
    this.foot.append(this.map.root);
    this.root = el("div", { class: "stage" }, this.canvas, this.nothing,
      el("div", { class: "zoom", role: "group", "aria-label": "Zoom" },
        button("+", "Zoom in", () => this.port.zoom(1.25)), button("−", "Zoom out", () => this.port.zoom(0.8)), button("⤢", "Fit", () => this.port.fit()), ...this.folds,
        el("details", { class: "files" }, el("summary", { "aria-label": "Save the picture", title: "Save the picture" }, "⤓"),
          button("SVG", "Save as SVG", () => this.save("svg")), button("PNG", "Save as PNG", () => this.save("png")))),
      this.foot);
    const repaint = () => this.graph && (this.colours(), this.port.colours());
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  }

  // A graph with its first scene.
  show(graph, name) {
    Object.assign(this, { graph, name });
    this.port.chosen = null;
    this.nothing.hidden = graph.nodes.length > 0;
    for (const one of this.folds) one.hidden = !graph.groups.length;
    this.take(graph.scene, null);
  }

  take(scene, stays) {
    this.graph.scene = scene;
    this.opened = new Set(scene.open);
    if (!scene.isNamed) {
      const { nodes, groups } = this.graph, named = (group) => (groups[group].count > 1 ? `${groups[group].count} × ${groups[group].title}` : groups[group].title);
      scene.boxes = scene.boxes.map(([item, x, y, w]) => item < 0
        ? { item, x, y, w, kind: named(~item), name: `${groups[~item].nodes.length} nodes` }
        : { item, x, y, w, kind: nodes[item].kind, name: nodes[item].name, end: nodes[item].end });
      scene.frames = scene.frames.map(([group, x, y, w, h]) => ({ group, x, y, w, h, kind: named(group) }));
      scene.isNamed = true;
    }
    const before = this.port.chosen;
    this.port.graph = scene;
    this.colours();
    this.port.show(scene, { stays });
    if (before !== null && this.port.place(before)) this.port.chosen = before;
    this.words();
    this.taken?.();
  }

  // The shapes of what goes along links: below the box that makes one tensor, or above the one that reads one of several.
  words() {
    const { boxes, edges } = this.graph.scene, below = new Map(), above = new Map();
    for (const [from, to, , tensors] of edges)
      for (const tensor of tensors) {
        below.set(from, (below.get(from) ?? new Set()).add(tensor));
        above.set(to, (above.get(to) ?? new Set()).add(tensor));
      }
    const told = [], add = (number, tensor, isAbove) => {
      const text = shape(this.type(tensor));
      if (text) told.push([number, text, isAbove]);
    };
    boxes.forEach((_, number) => {
      const made = below.get(number), read = above.get(number);
      if (made?.size === 1) add(number, [...made][0], false);
      if (read?.size === 1 && edges.some((edge) => edge[1] === number && below.get(edge[0]).size > 1)) add(number, [...read][0], true);
    });
    this.port.name(told);
  }

  async unfold(groups, stays = null) {
    try {
      this.take(await this.load(groups), stays);
    } catch (error) {
      this.failed(error.message);
    }
  }

  // The groups around one, the outermost last.
  around(group) {
    const found = [];
    for (let one = group; one !== null; one = this.graph.groups[one].outer) found.push(one);
    return found;
  }

  toggle(group) {
    const opened = new Set(this.opened);
    if (opened.has(group)) opened.delete(group);
    else for (const one of this.around(group)) opened.add(one);
    return this.unfold([...opened], ~group);
  }

  // The innermost group of each node, found once for a graph.
  home(node) {
    if (!this.graph.homes) {
      this.graph.homes = new Map();
      this.graph.groups.forEach((group, number) => group.nodes.forEach((one) => this.graph.homes.set(one, number))); // inner ones come last
    }
    return this.graph.homes.get(node);
  }

  // The box that a node is seen as.
  seen(node) {
    if (this.port.byItem.has(node)) return node;
    const group = this.around(this.home(node)).find((one) => this.port.byItem.has(~one));
    return group === undefined ? null : ~group;
  }

  // Bring a node in sight, whatever it is folded into.
  async reveal(node) {
    if (this.port.byItem.has(node)) return;
    await this.unfold([...new Set([...this.opened, ...this.around(this.home(node))])]);
  }

  async save(kind) {
    try {
      await save(drawing(this.port, kind), `${this.name}.${kind}`);
    } catch (error) {
      this.failed(error.message);
    }
    this.root.querySelector("details").open = false;
  }
}

// A type in the fewest letters: the sizes, and what the elements are where those are no floats.
export function shape(type) {
  const [, element, sizes] = /^(\w+)\[(.*)\]$/.exec(type ?? "") ?? [];
  if (element === undefined) return "";
  const told = sizes ? sizes.split(",").join("×") : "scalar", short = told.length > 28 ? `${told.slice(0, 27)}…` : told;
  return /^float(32)?$/.test(element) ? short : `${element} ${short}`;
}
