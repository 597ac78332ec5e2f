// An operator on the reader's own GPU: runner.js carries out what the server has recorded, and its answer is held against it.
import { el, milliseconds } from "./elements.js";

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

export function live(ask, say) {
  const button = el("button", { type: "button", id: "run-live" }, "Run on this GPU");
  const told = el("p", { id: "live-said", class: "note", role: "status" });
  const figures = el("div", {});
  const element = el("section", { id: "live", "aria-label": "On this GPU", hidden: !navigator.gpu }, button, told, figures);
  let asked = {};
  button.addEventListener("click", async () => {
    const mine = asked;
    button.disabled = true;
    told.textContent = "Running";
    try {
      const found = await run(await ask("record", mine));
      if (mine === asked) {
        figures.replaceChildren(...found.figures);
        told.textContent = found.says;
        say(found.says);
      }
    } catch (error) {
      if (mine === asked) told.textContent = error.message;
    }
    button.disabled = false;
  });
  // What is shown is of the form as it was: another form begins anew.
  const begin = (operator, state) => {
    asked = { operator, state };
    told.textContent = "";
    figures.replaceChildren();
  };
  return { element, begin };
}

async function run({ recording, weights, answers }) {
  const model = await anydml.load(recording, bytesOf(weights));
  try {
    await model.run({}); // the first one has the driver compile
    const { outputs, milliseconds: time } = await model.run({});
    const figures = model.outputs.map(({ name, type, sizes }, k) => {
      const found = numbers(outputs[name], type);
      const wanted = numbers(new anydml.arrays[type](bytesOf(answers[k]).buffer), type);
      const head = el("figcaption", {}, `${name}: ${compared(found, wanted)}`);
      return el("figure", {}, head, el("pre", { tabindex: 0 }, written(found.map((one) => shown(one, type)), sizes)));
    });
    const { vendor, architecture, description } = model.device.adapterInfo ?? {};
    const name = description || [vendor, architecture].filter(Boolean).join(" ");
    return { figures, says: `${milliseconds(time)}${name ? ` on ${name}` : ""}, to the results and back` };
  } finally {
    model.device.destroy();
  }
}

const numbers = (array, type) => Array.from(array, (one) => (type === "FLOAT16" ? anydml.half(one) : one));

function compared(found, wanted) {
  const count = found.length;
  const off = found.map((one, k) => (Object.is(one, wanted[k]) ? 0 : Math.abs(Number(one) - Number(wanted[k]))));
  const differ = found.filter((one, k) => !Object.is(one, wanted[k])).length;
  if (!differ) return count === 1 ? "the server's answer" : `all ${count} elements are the server's`;
  const most = off.reduce((a, b) => Math.max(a, b), 0);
  return `${differ} of ${count} elements differ from the server's, by ${Number(most.toPrecision(3))} at most`;
}

// The shortest text that is read as the same FLOAT32, and any other number as it is.
function shown(value, type) {
  if (type !== "FLOAT32" || !Number.isFinite(value)) return String(value);
  let digits = 1;
  while (Math.fround(Number(value.toPrecision(digits))) !== value) digits++;
  return String(Number(value.toPrecision(digits)));
}

function written(texts, sizes) {
  const width = Math.max(...texts.map((text) => text.length));
  let rows = texts.map((text) => text.padStart(width));
  for (let k = sizes.length - 1; k >= 0; k--) {
    const joint = k === sizes.length - 1 ? ", " : ",\n" + " ".repeat(k + 1);
    const made = [];
    for (let i = 0; i < rows.length; i += sizes[k]) made.push(`[${rows.slice(i, i + sizes[k]).join(joint)}]`);
    rows = made;
  }
  return rows.join("\n");
}
