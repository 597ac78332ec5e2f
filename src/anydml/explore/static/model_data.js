// A page of one file: what a server would answer is in the page.
const data = JSON.parse(document.querySelector("#data").textContent);
const kept = {
  model: () => data,
  graph: ({ graph }) => data.drawn[graph],
  scene: ({ graph, open }) => structuredClone(data.drawn[graph].others[open.length ? 1 : 0]),
  weight: ({ name }) => data.weights[name] ?? { error: "Not computed for this file: `anydml explore MODEL` has it." },
  job: ({ name }) => data.done[name],
};
const told = document.querySelector("#said");
show(document.querySelector("#model"), async (name, asked) => kept[name](asked), (text) => (told.textContent = text));
