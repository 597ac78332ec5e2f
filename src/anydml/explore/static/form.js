// The form of an operator, made of what the server says of its controls; each has a line for its faults.
import { el } from "./elements.js";

const AUTO = "auto";

export function form(data, state, changed) {
  const controls = new Map();
  const element = el("form", { id: "form", autocomplete: "off", novalidate: true });
  element.addEventListener("submit", (event) => event.preventDefault());
  element.addEventListener("input", () => changed());

  const level = {
    key: data.level_key, field: "FeatureLevel", label: "Feature level", kind: "choice",
    choices: data.levels, help: "The level to check at.", hint: "", first: "the highest",
  };
  element.append(control(level, controls));
  for (const group of data.groups) {
    const own = group.controls.map((one) => control(one, controls));
    const mayGo = group.is_optional || group.role === "output";
    const word = { input: "input", output: "output", attribute: "" }[group.role];
    const note = [word, group.is_optional ? "optional" : ""].filter(Boolean).join(", ");
    const title = [group.name, " ", el("small", {}, note)];
    const body = el("div", { class: group.role === "attribute" ? "controls" : "controls tensor" }, ...own);
    const [outer, head] = mayGo ? ["details", "summary"] : ["fieldset", "legend"];
    element.append(el(outer, { class: "group" }, el(head, {}, ...title), body));
  }
  for (const [key, { input, kind }] of controls) {
    const value = state[key];
    if (value === undefined) continue;
    if (kind === "flag") input.checked = value === "true";
    else input.value = Array.isArray(value) ? value.join("\n") : kind === "choice" ? value.toLowerCase() : value;
    fit(input);
  }
  unfold(controls);
  return { element, controls };
}

function control(one, controls) {
  const id = `field-${one.key}`;
  const told = el("p", { class: "fault", id: `fault-${one.key}`, "aria-live": "polite" });
  const common = { id, name: one.key, title: one.help, "aria-describedby": told.id };
  let input;
  if (one.kind === "flag") {
    input = el("input", { ...common, type: "checkbox", checked: one.default });
  } else if (one.kind === "choice") {
    const first = el("option", { value: "" }, one.first ?? AUTO);
    const others = one.choices.map(([value, label]) => el("option", { value }, label));
    input = el("select", common, first, ...others);
  } else if (one.kind === "lines" || one.label === "Data") {
    input = el("textarea", { ...common, rows: one.kind === "lines" ? 2 : 1, spellcheck: "false" });
    input.addEventListener("input", () => fit(input));
  } else {
    input = el("input", { ...common, type: "text", spellcheck: "false", autocapitalize: "off" });
  }
  if (input.placeholder !== undefined) input.placeholder = one.hint;
  const again = one.kind === "lines" ? el("small", {}, " one a line") : "";
  const label = el("label", { for: id }, one.label, again);
  if (one.is_required) input.setAttribute("aria-required", "true");
  controls.set(one.key, { input, told, kind: one.kind, field: one.field, byDefault: one.default, hint: one.hint });
  return el("div", { class: `control ${one.kind} ${one.label.toLowerCase()}` }, label, input, told);
}

// A box of several lines is as high as its text, up to a bound.
function fit(input) {
  if (input.tagName !== "TEXTAREA") return;
  const lines = input.value.split("\n").reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 34)), 0);
  input.rows = Math.min(8, Math.max(lines, input.closest(".lines") ? 2 : 1));
}

export function unfold(controls) {
  for (const { input } of controls.values()) {
    const is_said = input.type === "checkbox" ? false : input.value !== "";
    const folded = input.closest("details");
    if (folded && (is_said || input.getAttribute("aria-invalid") === "true")) folded.open = true;
  }
}

// What the form says, as links and questions have it.
export function stateOf(controls) {
  const state = {};
  for (const [key, { input, kind, byDefault }] of controls) {
    if (kind === "flag") {
      if (input.checked !== byDefault) state[key] = String(input.checked);
    } else if (input.value.trim()) {
      state[key] = kind === "lines" ? input.value.split("\n").map((line) => line.trim()).filter(Boolean) : input.value.trim();
    }
  }
  return state;
}

// Faults stand at their fields; the others are given back.
export function tell(controls, faults) {
  const others = [];
  const byKey = new Map();
  for (const fault of faults) {
    if (controls.has(fault.key)) byKey.set(fault.key, [...(byKey.get(fault.key) ?? []), fault.text]);
    else others.push(fault.text);
  }
  for (const [key, { input, told }] of controls) {
    const texts = byKey.get(key) ?? [];
    const text = texts.join("\n");
    if (told.textContent !== text) told.textContent = text;
    if (texts.length) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
  unfold(controls);
  return others;
}

// What follows where nothing is said, in the place of what could be said.
export function follow(controls, follows) {
  for (const [key, { input, kind, hint }] of controls) {
    if (kind === "choice" && input.id !== "field-feature-level") {
      input.options[0].textContent = follows[key] ? `${AUTO}: ${follows[key]}` : AUTO;
    } else if (input.placeholder !== undefined) input.placeholder = follows[key] ?? hint;
  }
}
