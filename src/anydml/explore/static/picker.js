// The list of operators: by family, narrowed by a search box.
import { el } from "./elements.js";

export function picker(operators) {
  const search = el("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false", placeholder: "slice, softmax, pool …",
    "aria-controls": "families",
  });
  const count = el("p", { class: "count", role: "status" });
  const list = el("div", { id: "families" });
  const families = Map.groupBy
    ? Map.groupBy(operators, (one) => one.family)
    : operators.reduce((found, one) => found.set(one.family, [...(found.get(one.family) ?? []), one]), new Map());
  const links = new Map();
  for (const [family, members] of families) {
    const items = members.map((one) => {
      const link = el("a", { href: `#operator/${one.name}`, title: one.says }, one.name.replaceAll("_", "_\u200b"));
      const item = el("li", {}, link);
      item.dataset.words = `${one.name} ${one.name.replaceAll("_", "")} ${family} ${one.words} ${one.words.replaceAll("_", "")} ${one.says}`.toLowerCase();
      links.set(one.name, link);
      return item;
    });
    const title = family[0].toUpperCase() + family.slice(1);
    list.append(el("div", { class: "family" }, el("h3", {}, title), el("ul", {}, ...items)));
  }
  const keep = (fits) => {
    let left = 0;
    for (const family of list.children) {
      let own = 0;
      for (const item of family.querySelectorAll("li")) {
        item.hidden = !fits(item.dataset.words);
        own += !item.hidden;
      }
      family.hidden = own === 0;
      left += own;
    }
    return left;
  };
  const narrow = () => {
    const words = search.value.toLowerCase().split(/[\s_-]+/).filter(Boolean);
    let left = keep((text) => words.every((word) => text.includes(word)));
    if (!left) { // a name with letters left out: softmx
      const letters = [...words.join("")].map((letter) => letter.replace(/\W/, "\\$&")).join("\\w{0,2}");
      left = keep((text) => new RegExp(`\\b\\w*${letters}`).test(text.split(" ", 2)[1]));
    }
    count.textContent = words.length ? `${left} of ${operators.length} operators` : `${operators.length} operators`;
  };
  search.addEventListener("input", narrow);
  search.addEventListener("keydown", (event) => {
    const first = list.querySelector(".family:not([hidden]) li:not([hidden]) a");
    if (event.key === "Enter" && first) first.click();
    else if (event.key === "ArrowDown" && first) first.focus();
    else if (event.key === "Escape" && search.value) search.value = "";
    else return;
    event.preventDefault();
    narrow();
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const seen = [...list.querySelectorAll(".family:not([hidden]) li:not([hidden]) a")];
    const next = seen.indexOf(document.activeElement) + step;
    event.preventDefault();
    if (next < 0) search.focus();
    else seen[next]?.focus();
  });
  narrow();
  const summary = el("summary", {}, "Choose an operator");
  const label = el("label", { for: "search" }, "Find an operator");
  const whole = el("details", { id: "picker", open: true }, summary, label, search, count, list);
  const wide = matchMedia("(min-width: 1000px)");
  const fold = () => (whole.open = wide.matches);
  wide.addEventListener("change", fold);
  fold();
  return {
    whole,
    choose(name) {
      for (const [own, link] of links) {
        if (own === name) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      if (wide.matches) {
        const place = links.get(name).offsetTop - list.clientHeight / 2;
        if (Math.abs(place - list.scrollTop) > list.clientHeight / 2) list.scrollTop = place;
      } else whole.open = false;
    },
  };
}
