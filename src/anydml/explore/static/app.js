// The shell: which half is shown, the colours, and how a half asks the server.
import * as operator from "./operator.js";
import * as model from "./model.js";
import * as compare from "./compare.js";
import { send } from "./files.js";

const halves = { operator, model, compare };
const root = document.documentElement;
const shown = new Set();

export class Refused extends Error {}

export async function ask(name, data, signal) {
  let answer;
  try {
    answer = await fetch(`ask/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(data),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer: start `anydml explore` again.");
  }
  const text = await answer.text();
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {}
  if (!answer.ok) throw new Refused(found?.error ?? text.trim());
  return found;
}

ask.send = send;

// Words for who hears a page instead of seeing it.
export function say(text) {
  document.querySelector("#said").textContent = text;
}

function route() {
  const wanted = location.hash.slice(1).split(/[/?]/)[0];
  const page = wanted in halves ? wanted : "operator";
  for (const name of Object.keys(halves)) {
    document.querySelector(`section#${name}`).hidden = name !== page;
    const link = document.querySelector(`[data-page="${name}"]`);
    if (name === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!shown.has(page)) {
    shown.add(page);
    halves[page].show(document.querySelector(`section#${page}`), ask, say).catch(fail);
  }
}

function fail(error) {
  const told = document.createElement("p");
  told.className = "refused";
  told.setAttribute("role", "alert");
  told.textContent = error.message;
  document.querySelector("main").prepend(told);
  if (!(error instanceof Refused)) throw error;
}

function colours() {
  const button = document.querySelector("#theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  const kept = localStorage.getItem("anydml-theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("anydml-theme", root.dataset.theme);
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}

colours();
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("main").focus();
});
addEventListener("hashchange", route);
route();
