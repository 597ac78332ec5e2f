// Beside the graph: what was searched for, or what is known of the node that was chosen.
import { bytes, el, milliseconds, number } from "./elements.js";
import { Reports, WORDS, table } from "./reports.js";
import { sizesForm } from "./sizes.js";

const MOST_SHOWN = 200;

export class Panel {
  // `view` is the model's page: its graph, what is known of its nodes, and how another node or graph is chosen.
  constructor(view) {
    this.view = view;
    this.search = el("input", {
      type: "search", placeholder: "Search names, types, tensors", "aria-label": "Search nodes", autocomplete: "off",
      oninput: () => this.list(), onkeydown: (event) => event.key === "Enter" && this.next(event.shiftKey ? -1 : 1),
    });
    this.count = el("p", { class: "count", role: "status" });
    this.nodes = el("ol", { class: "nodes", "aria-label": "Nodes", onkeydown: (event) => this.step(event) });
    this.details = el("div", { class: "details", hidden: true });
    this.reports = new Reports(view);
    const { sizes } = view.model;
    this.sizes = view.server && sizes.length ? sizesForm(sizes, (given) => view.resize(given)) : null;
    this.found = el("div", { class: "found" }, this.sizes?.root, this.reports.root, this.count, this.nodes);
    this.grip = el("button", { type: "button", class: "grip", onclick: () => this.lift(!this.isLifted) });
    this.search.addEventListener("focus", () => this.lift(true));
    this.root = el("aside", { "aria-label": "Nodes of the graph", onkeydown: (event) => event.key === "Escape" && this.leave(event) },
      el("div", { class: "head" }, this.search, this.grip), this.found, this.details);
    this.lift(false);
  }

  // On a narrow screen the list is a sheet over the graph's foot, which is lifted where somebody asks for it.
  lift(isLifted) {
    this.isLifted = isLifted;
    this.root.classList.toggle("lifted", isLifted);
    this.grip.textContent = isLifted ? "▾" : "▴";
    this.grip.setAttribute("aria-label", isLifted ? "Hide the list" : "Show the list");
    this.grip.setAttribute("aria-expanded", String(isLifted));
  }

  // Escape goes back one step: from a node to the list, and from a search to every node.
  leave(event) {
    if (this.details.hidden && !this.search.value) return;
    event.preventDefault();
    if (this.details.hidden) this.find("");
    else this.back();
  }

  find(text) {
    this.search.value = text;
    this.list();
    this.search.focus();
  }

  matches(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const { nodes } = this.view.graph, own = (node) => `${node.kind}\n${node.name ?? ""}`.toLowerCase();
    const around = (node) => [...(node.in ?? []), ...(node.out ?? [])].map((slot) => slot[1]).join("\n").toLowerCase();
    const found = nodes.map((_, k) => k).filter((k) => words.every((word) => own(nodes[k]).includes(word) || around(nodes[k]).includes(word)));
    const isOwn = (k) => words.every((word) => own(nodes[k]).includes(word));
    const kind = words.join(" "), isKind = (k) => [nodes[k].kind, nodes[k].kind.split(".").at(-1)].some((one) => one.toLowerCase() === kind);
    const rank = (k) => (isKind(k) ? 0 : isOwn(k) ? 1 : 2); // those of the very type come first, and those that only read or write it last
    return found.sort((a, b) => rank(a) - rank(b) || a - b);
  }

  list() {
    const text = this.search.value.trim();
    this.results = this.matches(text);
    this.view.light(text ? new Set(this.results) : new Set());
    const shown = this.results.slice(0, MOST_SHOWN);
    const more = this.results.length - shown.length;
    this.count.textContent = (text ? `${number(this.results.length)} found` : this.counted()) + (more > 0 ? `, the first ${MOST_SHOWN} below` : "");
    this.reports.root.hidden = text !== "";
    this.nodes.replaceChildren(...shown.map((k) => el("li", {}, this.link(k))));
    this.details.hidden = true;
    this.found.hidden = false;
  }

  counted() {
    const { nodes } = this.view.graph, ends = { input: 0, output: 0, "": 0 };
    nodes.forEach((node) => ends[node.end ?? ""]++);
    const told = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
    const others = ["input", "output"].filter((end) => ends[end] && this.view.model.kind === "ONNX").map((end) => told(ends[end], end));
    return [told(others.length ? ends[""] : nodes.length, "node"), ...others].join(", ");
  }

  // Enter goes through what was found, one after another, with Shift backwards.
  next(way) {
    const count = this.results?.length;
    if (!count) return;
    const at = this.results.indexOf(this.view.chosen), to = at < 0 && way < 0 ? count - 1 : (at + way + count) % count;
    this.view.choose(this.results[to], { keepsFocus: true });
    this.view.say(`${to + 1} of ${count}: ${this.view.graph.nodes[this.results[to]].kind} ${this.view.graph.nodes[this.results[to]].name ?? ""}`);
  }

  step(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const links = [...this.nodes.querySelectorAll("button")];
    links[Math.min(Math.max(links.indexOf(document.activeElement) + way, 0), links.length - 1)]?.focus();
  }

  link(k) {
    const node = this.view.graph.nodes[k], state = this.view.known(k)?.state;
    return el(
      "button", { type: "button", class: `node ${state ?? ""}`, onclick: () => this.view.choose(k) },
      el("b", {}, node.kind), " ", el("span", {}, node.name ?? ""), state ? el("i", {}, ` ${WORDS[state]}`) : null,
    );
  }

  show(k, keepsFocus) {
    this.lift(true);
    const node = this.view.graph.nodes[k], known = this.view.known(k) ?? {};
    const title = el("h2", { tabindex: -1 }, node.kind);
    const at = this.results?.indexOf(k) ?? -1, isSearched = this.search.value.trim() && at >= 0;
    this.details.replaceChildren(
      el("button", { type: "button", class: "back", onclick: () => this.back() }, isSearched ? `← ${at + 1} of ${number(this.results.length)} found` : "← All nodes"),
      title,
      ...(node.name ? [el("p", { class: "name" }, node.name)] : []),
      ...(known.state ? [el("p", { class: `state ${known.state}` }, el("b", {}, WORDS[known.state]), el("br"), known.note)] : []),
      ...(known.note && !known.state ? [el("p", { class: "note" }, known.note)] : []),
      ...this.bodies(node),
      ...this.becomes(node, known, k),
      ...this.slots("Inputs", node.in, k),
      ...this.slots("Outputs", node.out, k),
      ...this.pairs("Attributes", node.attributes),
      ...this.passes(k),
      ...this.passes(k, "trace"),
      ...this.differences(node),
    );
    this.details.hidden = false;
    this.found.hidden = true;
    this.details.scrollTop = 0;
    if (!keepsFocus) title.focus({ preventScroll: true });
  }

  // A group: what is in it, to be unfolded or folded.
  showGroup(group, keepsFocus) {
    this.lift(true);
    const { stage, graph } = this.view, { title, count, nodes } = graph.groups[group], isOpen = stage.opened.has(group);
    const kinds = new Map();
    for (const k of nodes) kinds.set(graph.nodes[k].kind, (kinds.get(graph.nodes[k].kind) ?? 0) + 1);
    const inner = graph.groups.map((one, k) => [one, k]).filter(([one]) => one.outer === group);
    const head = el("h2", { tabindex: -1 }, title);
    this.details.replaceChildren(
      el("button", { type: "button", class: "back", onclick: () => this.back() }, "← All nodes"), head,
      el("p", { class: "name" }, count > 1 ? `${count} × the same block, ${number(nodes.length)} nodes` : `${number(nodes.length)} nodes`),
      el("button", { type: "button", onclick: async () => (await stage.toggle(group), this.showGroup(group)) }, isOpen ? "Fold" : "Unfold"),
      ...this.pairs("Types of nodes", [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, own]) => [kind, number(own)])),
      ...(inner.length ? [this.part("Groups", el("ul", { class: "slots" }, ...inner.slice(0, MOST_SHOWN).map(([one, k]) =>
        el("li", {}, el("button", { type: "button", class: "node", onclick: () => this.enterGroup(k) }, el("b", {}, one.count > 1 ? `${one.count} × ${one.title}` : one.title), " ", el("span", {}, `${number(one.nodes.length)} nodes`))))))] : []),
      this.part("Nodes", el("ul", { class: "slots" }, ...nodes.slice(0, MOST_SHOWN).map((k) => el("li", {}, this.link(k)))), nodes.length > MOST_SHOWN ? el("p", {}, `and ${number(nodes.length - MOST_SHOWN)} more`) : null),
    );
    this.details.hidden = false;
    this.found.hidden = true;
    this.details.scrollTop = 0;
    if (!keepsFocus) head.focus({ preventScroll: true });
  }

  async enterGroup(group) {
    const { stage } = this.view;
    if (!stage.port.place(~group)) await stage.unfold([...new Set([...stage.opened, ...stage.around(group).slice(1)])]);
    await this.view.choose(~group);
  }

  back() {
    const before = this.view.chosen;
    this.view.choose(null);
    const own = this.nodes.children[this.results.indexOf(before)]?.querySelector("button");
    (own ?? this.search).focus();
  }

  part(title, ...children) {
    return el("section", {}, el("h3", {}, title), ...children);
  }

  pairs(title, pairs) {
    if (!pairs?.length) return [];
    return [this.part(title, el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])))];
  }

  bodies(node) {
    return (node.bodies ?? []).map(([name, graph]) =>
      el("button", { type: "button", onclick: () => this.view.enter(graph) }, `Open ${name}`));
  }

  slots(title, slots, k) {
    if (!slots?.length) return [];
    const rows = slots.map(([name, tensor, isWeight]) => {
      const type = this.view.type(tensor);
      const head = [name ? el("b", {}, name) : null, " ", el("span", { class: "wire" }, tensor), type ? el("code", {}, type) : null];
      if (isWeight) return el("li", {}, this.weight(tensor, head));
      const others = this.view.neighbours(k, tensor, title === "Inputs");
      return el("li", {}, ...head, ...others.slice(0, 12).map((other) => this.link(other)),
        others.length > 12 ? el("p", {}, `and ${others.length - 12} more`) : null);
    });
    return [this.part(title, el("ul", { class: "slots" }, ...rows))];
  }

  weight(tensor, head) {
    const body = el("div", { class: "figures" }, "…");
    const found = el("details", {}, el("summary", {}, ...head), body);
    found.addEventListener("toggle", async () => {
      if (!found.open || body.dataset.done) return;
      body.dataset.done = "1";
      try {
        body.replaceChildren(...this.figures(await this.view.weight(tensor)));
      } catch (error) {
        delete body.dataset.done; // to be tried again
        body.textContent = error.message;
      }
    });
    return found;
  }

  figures(all) {
    if (all.error) return [all.error];
    const { bins, zeros, nan, infinite, count, ...others } = all;
    const told = [["elements", number(count)], ["size", bytes(others.bytes)]];
    for (const key of ["min", "max", "mean", "std"]) if (key in others) told.push([key, number(others[key])]);
    if (zeros !== undefined) told.push(["zeros", `${number((100 * zeros) / (count || 1))} %`]);
    if (nan) told.push(["NaN", number(nan)]);
    if (infinite) told.push(["infinite", number(infinite)]);
    const table = el("dl", {}, ...told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
    return bins ? [table, this.histogram(bins, others)] : [table];
  }

  histogram(bins, { min, max }) {
    const most = Math.max(...bins), high = 56, each = 8;
    const bars = bins.map((count, k) => {
      const height = count ? Math.max((high * count) / most, 1) : 0;
      return el("rect", { x: k * each, y: high - height, width: each - 1, height });
    });
    const says = `Histogram from ${number(min)} to ${number(max)}`;
    return el("svg", { viewBox: `0 0 ${bins.length * each} ${high}`, role: "img", "aria-label": says, class: "bars" }, el("title", {}, says), ...bars);
  }

  // The operators that a node becomes; each leads to a form with this node's own fields and sizes.
  becomes(node, { operators = [], level }, k) {
    if (!operators.length && this.view.model.kind !== "ONNX" && level) operators = [node.kind]; // it is one
    if (!operators.length) return [];
    const list = el("ul", { class: "slots" }, ...operators.map((name) => el("li", {}, name)));
    if (!this.view.model.done) this.lead(list, `${this.view.number}.${k}`);
    return [this.part("Runs as", list, level ? el("p", {}, `from ${level} on`) : null)];
  }

  async lead(list, place) {
    try {
      const found = await this.view.ask("node", { place });
      if (!found.length) return;
      list.replaceChildren(...found.slice(0, MOST_SHOWN).map(({ name, says, link }, number) =>
        el("li", {}, el("a", { class: "page", href: `#${link}&of=a/${place}/${number}`, title: "Its operator's page, with the fields and sizes of this node" }, name, el("span", {}, "picture and fields →")), el("code", {}, says))));
    } catch (error) {
      list.append(el("li", {}, error.message));
    }
  }

  passes(k, source = "own") {
    const found = this.view.passes(k, source);
    if (!found.length) return [];
    const rows = found.map((one) => {
      const told = [one.ms !== undefined ? milliseconds(one.ms) : "", one.bytes ? bytes(one.bytes) : "", one.where === "host" ? "on the host" : source === "trace" ? one.where : ""];
      if (one.calls > 1) told.push(`${one.calls} calls`);
      return el("li", {}, el("b", {}, source === "trace" ? "" : one.once ? "computed once" : `pass ${one.number + 1}`), ` ${told.filter(Boolean).join(", ")}`,
        one.does ? el("p", {}, one.does) : null,
        one.others.length && source !== "trace" ? el("p", {}, `one pass together with ${number(one.others.length)} other${one.others.length > 1 ? "s" : ""}:`) : null,
        ...one.others.slice(0, 8).map((other) => this.link(other)));
    });
    return [this.part(source === "trace" ? "ONNX Runtime's profile" : "Passes", el("ul", { class: "slots" }, ...rows))];
  }

  differences(node) {
    const found = (node.out ?? []).map(([, tensor]) => this.view.difference(tensor)).filter(Boolean);
    if (!found.length) return [];
    return [this.part("ONNX Runtime", ...found.flatMap((one) => this.sides(one)))];
  }

  // A tensor's first elements on both sides, and the element where they first differ.
  sides({ name, agrees, compared, says, samples, where, here, there }) {
    const row = (place, mine, theirs) =>
      el("tr", { class: mine === theirs ? "" : agrees ? "near" : "bad" }, el("td", {}, `[${place}]`), el("td", { class: "figure" }, mine), el("td", { class: "figure" }, theirs));
    const rows = samples.map(([place, mine, theirs]) => row(place, mine, theirs));
    if (where && !samples.some(([place]) => place === where)) rows.push(row(where, here, there));
    const told = el("p", { class: agrees || !compared ? "" : "refused state" }, says);
    return rows.length ? [told, table(name, ["element", "anydml", "ONNX Runtime"], rows)] : [told];
  }
}
