// Steps through the elements of the outputs of a picture, one at a time, by buttons or by the arrow keys.
// It imports nothing, so that a page of one file can have it.
export function stepper(bar, picture) {
  const cells = [...picture.querySelectorAll("figure.output td[data-k]")];
  const [first, back, on, last] = bar.querySelectorAll("button");
  const place = bar.querySelector("output");
  let at = -1;
  const show = () => {
    place.textContent = at < 0 ? `${cells.length} elements` : `${at + 1} of ${cells.length}`;
    first.disabled = back.disabled = at <= 0;
    on.disabled = last.disabled = at >= cells.length - 1;
  };
  const go = (wanted) => {
    at = Math.max(0, Math.min(cells.length - 1, wanted));
    show();
    const cell = cells[at];
    if (!cell) return;
    cell.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  first.onclick = () => go(0);
  back.onclick = () => go(at - 1);
  on.onclick = () => go(at + 1);
  last.onclick = () => go(cells.length - 1);
  const steps = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(cells.length - 1) };
  bar.onkeydown = (event) => {
    if (!(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    steps[event.key]();
  };
  picture.addEventListener("focusin", (event) => {
    const chosen = cells.indexOf(event.target.closest("td[data-k]"));
    if (chosen < 0) return;
    at = chosen;
    show();
  });
  bar.hidden = cells.length === 0;
  show();
  return { at: () => at, go };
}

// A page without a server has its picture from the start.
const ready = document.querySelector("#picture .anydml-picture");
if (ready) {
  const bar = document.querySelector("#steps");
  stepper(bar, ready);
  document.addEventListener("keydown", (event) => event.target === document.body && bar.onkeydown(event));
}
