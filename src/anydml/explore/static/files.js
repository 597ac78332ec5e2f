// Files that somebody opens or drops: they go to the server, which keeps them as long as it runs.
import { el } from "./elements.js";

export async function send(files, told) {
  let batch = "";
  for (const [k, file] of [...files].entries()) {
    told(files.length > 1 ? `Opening ${file.name}, ${k + 1} of ${files.length} …` : `Opening ${file.name} …`);
    let answer, found = null;
    try {
      answer = await fetch(`file?${new URLSearchParams({ batch, name: file.name })}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file });
    } catch {
      throw new Error(`${file.name} could not be sent: it cannot be read, or the server does not answer.`);
    }
    const text = await answer.text();
    try {
      found = JSON.parse(text);
    } catch {}
    if (!answer.ok) throw new Error(found?.error ?? text.trim());
    ({ batch } = found);
  }
  return batch;
}

// A button that opens files.
export function opener(text, act, options = {}) {
  const input = el("input", { type: "file", hidden: true, ...options });
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = ""; // the same file may be opened again
    if (files.length) act(files);
  });
  return el("span", { class: "opener" }, el("button", { type: "button", onclick: () => input.click() }, text), input);
}

// The notice that files were refused, and what stands there still.
export function notOpened(files, error, shown) {
  const names = [...files].slice(0, 3).map((file) => file.name).join(", ") + (files.length > 3 ? ", …" : "");
  const told = error.message.startsWith(`${names}: `) ? error.message.slice(names.length + 2) : error.message;
  return `${names} ${files.length > 1 ? "were" : "was"} not opened${shown ? `; ${shown} is still shown` : ""}: ${told}`;
}

// A profile of ONNX Runtime's is a list, and a model in JSON is none.
export async function isProfile(files) {
  return files.length === 1 && /\.json$/i.test(files[0].name) && (await files[0].slice(0, 64).text()).trimStart().startsWith("[");
}

// Places that files may be dropped on, which show while some are dragged over the page.
export function dropZones(places) {
  const zones = Object.entries(places).map(([text, act]) => {
    const zone = el("div", {}, text);
    zone.addEventListener("dragover", (event) => (event.preventDefault(), zone.classList.add("over")));
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      hide();
      const files = [...event.dataTransfer.files];
      if (files.length) act(files);
    });
    return zone;
  });
  const root = el("div", { class: "drop", hidden: true }, ...zones);
  const hide = () => {
    root.hidden = true;
    zones.forEach((zone) => zone.classList.remove("over"));
  };
  const show = (event) => {
    if (!root.isConnected || !root.parentElement.checkVisibility() || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    root.hidden = false;
  };
  addEventListener("dragenter", show);
  addEventListener("dragover", show);
  addEventListener("drop", (event) => !root.hidden && (event.preventDefault(), hide()));
  root.addEventListener("dragleave", (event) => !root.contains(event.relatedTarget) && hide());
  return root;
}
