// A form for the open sizes of a model, and for inputs of few elements: what is left empty is assumed, and stands there in grey.
import { el } from "./elements.js";

const MOST = 2 ** 32 - 1; // a size of DirectML has 32 bits

export function sizesForm(sizes, apply) {
  const summary = el("span", {}), told = el("p", { class: "fault", role: "status" });
  const inputs = sizes.map(({ name, where, value, is_value: isValue }) => {
    const input = el("input", { type: "text", inputmode: isValue ? "text" : "numeric", name, value: value ?? "", placeholder: isValue ? "made up" : "assumed", autocomplete: "off", spellcheck: "false" });
    if (isValue) where = ["its value"];
    return { name, input, isValue, label: el("label", {}, el("b", {}, name), where.join() === name ? null : el("small", {}, ` ${where.slice(0, 3).join(", ")}${where.length > 3 ? " …" : ""}`), input) };
  });
  const button = el("button", { type: "submit" }, "Apply");
  const form = el("form", { autocomplete: "off", novalidate: true }, ...inputs.map((one) => one.label), told, button);
  const root = el("details", { class: "report sizes" }, el("summary", {}, el("b", {}, inputs.some((one) => one.isValue) ? "Sizes and values" : "Sizes"), " ", summary), el("div", { class: "body" }, form));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isSize = (text) => /^\d{1,15}$/.test(text) && Number(text) <= MOST;
    const isWrong = ({ input, isValue }) => !isValue && input.value.trim() && !isSize(input.value.trim());
    for (const one of inputs) one.input.setAttribute("aria-invalid", String(Boolean(isWrong(one))));
    const wrong = inputs.find(isWrong);
    told.textContent = wrong ? `${wrong.name} must be a whole number from 0 to ${MOST}; got ${wrong.input.value.trim().slice(0, 30)}` : "";
    if (wrong) return wrong.input.focus();
    button.disabled = true;
    try {
      const given = (wanted) => inputs.filter(({ input, isValue }) => Boolean(isValue) === wanted && input.value.trim()).map(({ name, input }) => `${name}=${input.value.trim()}`);
      await apply({ sizes: given(false), values: given(true) });
    } catch (error) {
      told.textContent = error.message;
    }
    button.disabled = false;
  });
  // What was assumed, once the model was checked.
  const tell = (assumed = {}) => {
    for (const { name, input } of inputs) if (assumed[name] !== undefined) input.placeholder = `${assumed[name]}, assumed`;
    summary.textContent = inputs.filter(({ input, isValue }) => !isValue || input.value.trim()).map(({ name, input }) => `${name}=${input.value.trim() || assumed[name] || "?"}`).join(", ");
  };
  tell();
  return { root, tell };
}
