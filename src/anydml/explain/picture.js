// Lights what belongs together in every picture of the page that is not live yet; safe to run once for each picture.
// A page that changes its pictures calls it again.
(globalThis.anydmlLight = () => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  for (const root of document.querySelectorAll(".anydml-picture:not([data-live])")) {
    root.dataset.live = "";
    const cells = [...root.querySelectorAll("td[data-k]")];
    const says = root.querySelector(".says");
    if (!cells.length || !says) continue;
    const byKey = new Map(cells.map((cell) => [cell.dataset.k, cell]));
    // By cell what belongs to it, and what was compared for it, or for which it was.
    const belongs = new Map(cells.map((cell) => [cell, []]));
    const compared = new Map(cells.map((cell) => [cell, []]));
    for (const cell of cells) {
      for (const [keys, found] of [[cell.dataset.from, belongs], [cell.dataset.near, compared]]) {
        for (const key of (keys || "").split(" ")) {
          const source = byKey.get(key);
          if (!source) continue;
          found.get(cell).push(source);
          found.get(source).push(cell);
        }
      }
      cell.setAttribute("aria-label", cell.title);
      cell.removeAttribute("title");
      cell.tabIndex = -1;
    }
    const outlined = root.querySelector("[data-near]") ? "; what was compared is outlined" : "";
    const hint = `Point at an element, or move to one with the arrow keys, to see what belongs to it${outlined}.`;
    const light = (cell) => {
      for (const other of cells) other.classList.remove("lit", "near", "point");
      says.textContent = cell ? cell.getAttribute("aria-label") : hint;
      if (!cell) return;
      cell.classList.add("point");
      for (const other of compared.get(cell)) other.classList.add("near");
      for (const other of belongs.get(cell)) other.classList.add("lit");
    };
    const focused = () => cells.find((cell) => cell === root.ownerDocument.activeElement);
    for (const table of root.querySelectorAll("table")) {
      table.setAttribute("role", "grid");
      const first = table.querySelector("td[data-k]");
      if (first) first.tabIndex = 0;
    }
    light(null);
    root.addEventListener("pointerover", (event) => light(event.target.closest("td[data-k]") || focused()));
    root.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && light(focused()));
    root.addEventListener("focusin", (event) => {
      const cell = event.target.closest("td[data-k]");
      if (!cell) return;
      for (const other of cell.closest("table").querySelectorAll("td[data-k]")) other.tabIndex = -1;
      cell.tabIndex = 0;
      light(cell);
    });
    root.addEventListener("focusout", () => light(null));
    root.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      const cell = event.target.closest("td[data-k]");
      if (!step || !cell) return;
      event.preventDefault();
      const rows = [...cell.closest("table").rows]
        .map((row) => [...row.cells].filter((c) => c.dataset.k))
        .filter((row) => row.length);
      const y = rows.findIndex((row) => row.includes(cell));
      const next = rows[y + step[0]]?.[rows[y].indexOf(cell) + step[1]];
      if (next) next.focus();
    });
  }
})();
