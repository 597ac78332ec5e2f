// The half of an operator: a form, and what comes of it while somebody types.
import "./picture.js";
import { follow, form, stateOf, tell } from "./form.js";
import { el } from "./elements.js";
import { live } from "./live.js";
import { picker } from "./picker.js";
import { stepper } from "./stepper.js";

const PAUSE = 180; // milliseconds after the last key
const START = "slice1";

export async function show(section, ask, say) {
  const chosen = picker(await ask("operators", {}));
  const title = el("h1", {});
  const says = el("div", { class: "says" });
  const fields = el("div", { class: "fields" });
  const origin = el("p", { class: "note", hidden: true }, "As ", el("a", {}, "a node of the model"), " has it, with the strides of its tensors; the values are made up.");
  const again = el("button", { type: "button" }, "Start again from the example");
  const verdict = el("p", { id: "verdict", role: "status" });
  const result = section.querySelector("#result");
  const [others, bar, picture, answers] = ["others", "steps", "picture", "answers"].map((id) => result.querySelector(`#${id}`));
  const link = el("input", { id: "link", readonly: true });
  const command = el("input", { id: "command", readonly: true });
  const share = el("section", { id: "share", "aria-label": "Share" }, el("h2", {}, "Share"),
    copied("Link", link, say), copied("Command line", command, say));
  const gpu = live(ask, say);
  result.append(gpu.element, share);
  section.replaceChildren(chosen.whole, el("div", { id: "top" }, verdict, jump(fields, result)), el("div", { id: "edit" }, title, origin, says, fields, again), result);
  let data, controls, waiting, asking, own, of;

  async function look(name, state, strange = []) {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    let found;
    try {
      found = await ask("look", { operator: name, state, of }, signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      verdict.textContent = error.message;
      verdict.className = "bad";
      return;
    }
    if (signal.aborted) return;
    if (!found.is_own) of = undefined; // it was changed since
    own = `#${found.link}${of ? `&of=${of}` : ""}`;
    origin.hidden = !of;
    origin.firstElementChild.href = `#model/${(of ?? "").split("/")[1]?.replace(".", "/")}`;
    if (location.hash !== own) history.replaceState(null, "", own);
    link.value = location.href;
    command.value = found.command;
    const unknown = strange.map((key) => `'${key}' is no option of ${data.title}, and is left out`);
    const left = [...unknown, ...tell(controls, found.faults)];
    others.replaceChildren(...left.map((text) => el("li", {}, text)));
    const count = found.faults.length;
    const level = found.lowest ? `valid from feature level ${found.lowest} on` : "valid";
    const kept = picture.firstElementChild ? "; below, the last valid one" : "";
    const fault = `${count} fault${count === 1 ? "" : "s"}${found.lowest ? `; ${level}` : kept}`;
    verdict.textContent = count ? fault : level[0].toUpperCase() + level.slice(1);
    verdict.className = count ? "bad" : "good";
    gpu.element.hidden = !navigator.gpu || count > 0 || !found.answers.length;
    gpu.begin(name, state);
    picture.classList.toggle("stale", count > 0);
    answers.classList.toggle("stale", count > 0);
    if (found.picture === null) return;
    follow(controls, found.follows);
    draw(found);
  }

  let steps = null;
  function draw(found) {
    const before = steps ? steps.at() : -1;
    picture.innerHTML = found.picture;
    globalThis.anydmlLight();
    steps = stepper(bar, picture);
    if (before >= 0) steps.go(before);
    const blocks = found.answers.map(({ name, text }) => el("figure", {}, el("figcaption", {}, name), el("pre", { tabindex: 0 }, text)));
    const none = el("p", { class: "note" }, "There are too many elements to write them all: the picture shows some.");
    answers.replaceChildren(el("h2", {}, "Answer"), ...(blocks.length ? blocks : [none]));
  }

  async function open(name, state) {
    data = await ask("form", { operator: name });
    const made = form(data, state ?? data.example, () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => look(data.name, stateOf(controls)), PAUSE);
    });
    controls = made.controls;
    title.textContent = data.title;
    const [first, ...more] = data.says.map((text) => el("p", {}, text));
    says.replaceChildren(first, ...(more.length ? [el("details", {}, el("summary", {}, "More"), ...more)] : []));
    document.title = `${data.title} · anydml explore`;
    fields.replaceChildren(made.element);
    picture.replaceChildren();
    steps = null;
    chosen.choose(data.name);
    await look(data.name, stateOf(controls), Object.keys(state ?? {}).filter((key) => !controls.has(key)));
  }

  async function follows() {
    if (location.hash === own || !(location.hash.startsWith("#operator") || location.hash.length < 2)) return;
    const [path, query] = location.hash.slice(1).split(/\?(.*)/s);
    if (data && !path.includes("/")) {
      history.replaceState(null, "", own); // back from a model: the form is as it was left
      document.title = `${data.title} · anydml explore`;
      return;
    }
    const name = path.split("/")[1] || data?.name || START;
    try {
      const state = query === undefined ? null : read(query);
      of = state?.of;
      delete state?.of;
      await open(name, state);
    } catch (error) {
      verdict.textContent = error.message;
      verdict.className = "bad";
      if (!data) await open(START, null);
    }
  }

  again.addEventListener("click", () => ((of = undefined), open(data.name, null)));
  addEventListener("hashchange", follows);
  document.addEventListener("keydown", (event) => {
    if (event.target === document.body && !section.hidden) bar.onkeydown?.(event);
  });
  await follows();
}

// On a phone the picture is far below the form: a button goes from one to the other.
function jump(fields, result) {
  let isBelow = true;
  const button = el("button", { type: "button", id: "jump" }, "↓ Picture");
  button.addEventListener("click", () => (isBelow ? result : fields).scrollIntoView({ block: "start" }));
  new IntersectionObserver(([seen]) => {
    isBelow = !seen.isIntersecting && seen.boundingClientRect.top > 0;
    button.textContent = isBelow ? "↓ Picture" : "↑ Form";
  }, { rootMargin: "0px 0px -50% 0px" }).observe(result);
  return button;
}

// The state in a link: a key that comes several times has several lines.
function read(query) {
  const state = {};
  for (const [key, value] of new URLSearchParams(query)) {
    state[key] = key in state ? [state[key], value].flat() : value;
  }
  return state;
}

function copied(name, input, say) {
  const button = el("button", { type: "button", "aria-label": `Copy: ${name}` }, "Copy");
  button.addEventListener("click", async () => {
    input.select();
    try {
      await navigator.clipboard.writeText(input.value);
    } catch {
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    say(`${name} copied`);
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return el("div", { class: "copied" }, el("label", { for: input.id }, name), input, button);
}
