// The labels so far: search and filters, who changed what, and a way to change any answer.

import { attempt, byId, call, make, percent } from "/static/api.js";

let entries = [];
let lastTurn = 0;

/** Read all labels of a workspace; `onChange` is called with the document and mention to change. */
export async function showHistory(route, onChange) {
  byId("entries").replaceChildren(make("li", { className: "empty" }, "Reading the labels…"));
  const answer = await call("GET", `${route}/labels`);
  entries = answer.labels;
  fillSelect("filter-answer", "any answer", entries.map((entry) => entry.answer));
  fillSelect("filter-who", "anybody", entries.map((entry) => entry.labeller));
  byId("agreement").textContent = answer.agreement.map(agreementLine).join(" ");
  const filter = () => attempt(async () => {
    const turn = ++lastTurn;
    const found = await call("GET", `${route}/labels?${query()}`);
    if (turn === lastTurn) showEntries(found, onChange); // an older answer may come later
  });
  byId("filters").oninput = filter;
  byId("filters").onsubmit = (event) => event.preventDefault();
  await filter();
}

function query() {
  return new URLSearchParams({
    search: byId("filter-search").value,
    answer: byId("filter-answer").value,
    who: byId("filter-who").value,
    differs: byId("filter-differs").checked,
  });
}

function fillSelect(id, everything, values) {
  const before = byId(id).value;
  const options = [...new Set(values)].sort().map((value) => make("option", { value }, value));
  byId(id).replaceChildren(make("option", { value: "" }, everything), ...options);
  byId(id).value = options.some((option) => option.value === before) ? before : "";
}

function agreementLine({ first, second, n, n_same: same, kappa }) {
  const measure = kappa === null ? "" : ` (kappa ${kappa.toFixed(2)})`;
  return `${first} and ${second} give the same answer to ${same} of the ${n} mentions that both labelled${measure}.`;
}

function showEntries(answer, onChange) {
  byId("history-count").textContent = `${answer.n} of ${entries.length} ${entries.length === 1 ? "label" : "labels"}`;
  const rows = answer.labels.map((entry) => entryRow(entry, onChange));
  byId("entries").replaceChildren(...(rows.length ? rows : [make("li", { className: "empty" }, "No label fits.")]));
}

function entryRow(entry, onChange) {
  const [before, surface, after] = entry.shown;
  const line = make("div", {}, make("strong", {}, entry.answer), entry.only ? " only here" : "", make("span", { className: "soft small" }, ` · ${entry.title} · ${entry.labeller}, ${entry.at}`));
  const parts = [line, make("div", { className: "shown" }, before, make("mark", {}, surface), after)];
  if (entry.differs) {
    parts.push(make("div", { className: "differs small" }, `The other labels say otherwise: ${percent(entry.check.probability)} that it is the new entity.`));
  }
  if (entry.said.length > 1) {
    const said = make("ul", {}, ...entry.said.map((text) => make("li", {}, text)));
    parts.push(make("details", { className: "small" }, make("summary", {}, `${entry.said.length} answers in the log`), said));
  }
  const what = make("div", { className: "what" }, ...parts);
  if (entry.mention === null) return make("li", {}, what);
  const change = make("button", { type: "button" }, "Change");
  change.setAttribute("aria-label", `Change the answer ${entry.answer} in ${entry.title}`);
  change.addEventListener("click", () => onChange(entry.document, entry.mention));
  return make("li", {}, what, change);
}
