// What was discovered: proposals with examples, to accept or reject.

import { attempt, byId, call, make, percent, showFailure } from "/static/api.js";

const WHO = "stamo-who";
const PAGE = 20;
const N_EXAMPLES = 3;
const SIDE = 110;

let underWay = {};
let nLoads = 0;

/** The text around a place, cut to about a line on each side. */
function example({ document: id, text, at, start, end }) {
  const stop = at + end - start;
  const characters = Array.from(text); // offsets count code points
  const before = characters.slice(Math.max(0, at - SIDE), at).join("");
  const after = characters.slice(stop, stop + SIDE).join("");
  const name = make("mark", {}, characters.slice(at, stop).join(""));
  const more = characters.length > stop + SIDE ? "…" : "";
  return make("li", {}, at > SIDE ? `…${before}` : before, name, after + more, make("span", { className: "soft small" }, ` ${id}`));
}

function facts(found) {
  const often = `${found.n_mentions} mentions in ${found.n_documents} documents`;
  const since = found.since ? `since ${found.since.slice(0, 10)}` : "";
  return [often, since, `${percent(found.newness)} sure that it is new`].filter(Boolean).join(" · ");
}

/** A folder name made of a name's letters and digits. */
function folderName(found) {
  const plain = found.name.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  return plain.toLowerCase().slice(0, 60) || `entity-${found.id}`;
}

function line(title, values) {
  return values.length ? [make("p", { className: "small" }, make("span", { className: "soft" }, `${title} `), values.join(", "))] : [];
}

function card(found) {
  const kind = make("span", { className: "badge" }, found.kind === "name" ? "new name" : "new meaning");
  const item = make(
    "li",
    { className: "card" },
    make("h2", {}, found.name, " ", kind),
    make("p", { className: "soft small number" }, facts(found)),
    ...(found.about ? [make("p", {}, found.about)] : []),
    ...line("Type", found.types),
    ...line("Also called", found.aliases.slice(1)),
    ...line("Comes with", found.words),
    ...line("And with", found.entities),
    ...line("Not to be taken for", found.confused_with ? [found.confused_with] : []),
    make("ul", { className: "examples" }, ...found.occurrences.filter((o) => o.text).slice(0, N_EXAMPLES).map(example)),
  );
  item.dataset.id = found.id;
  item.append(found.id in underWay ? making(underWay[found.id]) : buttons(found, item));
  return item;
}

function making(workspace) {
  return make("p", { className: "small" }, `The workspace ${workspace} is being made; `, make("a", { href: "/" }, "the overview"), " tells how far it is.");
}

function buttons(found, item) {
  const folder = make("input", { type: "text", value: folderName(found), maxLength: 60, required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_\\-]*" });
  const labels = make("input", { type: "checkbox" });
  const accept = make("button", { className: "main" }, "Accept");
  const reject = make("button", { type: "button" }, "Reject");
  const form = make(
    "form",
    { className: "decide" },
    make("label", { className: "small soft" }, "Folder of the workspace ", folder),
    make("label", { className: "small" }, labels, ` All ${found.occurrences.length} places are it: keep them as my labels`),
    make("div", { className: "actions" }, accept, reject),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decide(form, async (who) => {
      const job = await call("POST", `/api/found/${found.id}/accept`, { who, workspace: folder.value, labels: labels.checked });
      form.replaceWith(making(job.workspace));
    });
  });
  reject.addEventListener("click", () =>
    decide(form, async (who) => {
      await call("POST", `/api/found/${found.id}/reject`, { who });
      item.remove();
      await load(byId("proposals").children.length);
    }),
  );
  return form;
}

/** Do something in the name of a person; while it is under way nothing else can be pressed. */
async function decide(form, action) {
  const who = byId("who").value.trim();
  if (!who) {
    showFailure(new Error("Give your name first; it is kept with your decisions."));
    byId("who").focus();
    return;
  }
  localStorage.setItem(WHO, who);
  showFailure(null);
  const pressed = form.querySelectorAll("button");
  for (const button of pressed) button.disabled = true;
  try {
    await action(who);
  } catch (error) {
    showFailure(error);
    byId("failure").scrollIntoView({ block: "center" });
  } finally {
    for (const button of pressed) button.disabled = false;
  }
}

/** Load the proposals behind the first `start`. */
function load(start) {
  const number = ++nLoads;
  return attempt(async () => {
    const kind = byId("kind").value;
    const asked = new URLSearchParams({ start, most: PAGE, ...(kind && { kind }) });
    for (const type of byId("type").value.split(/[\s,;]+/).filter(Boolean)) asked.append("type", type);
    const answer = await call("GET", `/api/found?${asked}`);
    if (number !== nLoads) return; // another list was asked for meanwhile
    underWay = answer.under_way;
    const list = byId("proposals");
    if (start === 0) list.replaceChildren();
    const shown = new Set(Array.from(list.children, (item) => item.dataset.id));
    list.append(...answer.proposals.filter((found) => !shown.has(found.id)).map(card));
    byId("filters").hidden = !answer.is_served;
    byId("more").hidden = list.children.length >= answer.n;
    byId("status").replaceChildren(...(answer.is_served
      ? [`${answer.n} open ${answer.n === 1 ? "proposal" : "proposals"}, the best first. Nothing is linked to them before you accept and learn them.`]
      : ["This service shows no proposals. Find some with ", make("code", {}, "stamo discover"), ", then start it with ", make("code", {}, "--found FOLDER"), "."]));
  });
}

byId("who").value = localStorage.getItem(WHO) || "";
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("kind").addEventListener("change", () => load(0));
byId("type").addEventListener("change", () => load(0));
byId("more").addEventListener("click", () => load(byId("proposals").children.length));

load(0);
