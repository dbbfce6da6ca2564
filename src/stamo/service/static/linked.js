// Linked text with its confidence; a click on a mention tells why. The pages that have the box share it.

import { byId, call, make, percent, showFailure } from "/static/api.js";

let selected = null;

/** Link what is written in the box, by the route that `routeOf` returns. */
export function linkBox(routeOf) {
  byId("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = byId("input").value;
    byId("run").disabled = true;
    showFailure(null);
    byId("summary").textContent = "Linking…";
    try {
      const answer = await call("POST", routeOf(), { text });
      showLinked(text, answer.mentions);
      byId("summary").textContent = summary(answer);
    } catch (error) {
      byId("summary").textContent = "";
      showFailure(error);
    } finally {
      byId("run").disabled = false;
    }
  });
  byId("input").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
  });
}

function summary({ mentions, seconds }) {
  const n = mentions.filter((mention) => mention.entity !== null).length;
  return `${n} of ${mentions.length} mentions linked in ${Math.max(1, Math.round(1000 * seconds))} ms`;
}

function showLinked(text, mentions) {
  // Offsets count code points; a string of the browser counts half of some of them.
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const mention of mentions) {
    parts.push(points.slice(at, mention.start).join(""));
    parts.push(mentionButton(mention, points.slice(mention.start, mention.end).join("")));
    at = mention.end;
  }
  parts.push(points.slice(at).join(""));
  selected = null;
  byId("linked").replaceChildren(...parts);
  byId("detail").replaceChildren(make("p", { className: "soft" }, mentions.length ? "Choose a mention to see why." : "No name was found in this text."));
  byId("result").hidden = false;
}

function mentionButton(mention, surface) {
  const kind = mention.entity === null ? " nil" : mention.emerging ? " new" : "";
  const button = make("button", { type: "button", className: `mention${kind}` }, surface);
  button.style.setProperty("--sure", mention.confidence);
  // Shown behind the name; it is no part of the text, so copying gives what was pasted.
  if (mention.entity !== null) button.dataset.entity = mention.entity;
  button.title = mention.entity === null ? "not linked" : `${mention.entity} (${percent(mention.confidence)})`;
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    selected?.setAttribute("aria-pressed", "false");
    selected = button;
    button.setAttribute("aria-pressed", "true");
    showDetail(mention);
  });
  return button;
}

function showDetail(mention) {
  const heading = make("h2", {}, mention.entity ?? "Not linked");
  if (mention.emerging) heading.append(" ", make("span", { className: "badge" }, "from a pack"));
  const best = mention.best ? ` The best is ${mention.best}, ${percent(mention.probability)} probable.` : "";
  const sure = mention.entity === null
    ? `Nothing was sure enough.${best}`
    : `“${mention.surface}”, ${percent(mention.confidence)} sure`;
  const parts = [heading, make("p", { className: "soft small" }, sure)];
  if (mention.candidates.length) {
    parts.push(make("h3", {}, mention.runner_up ? "Best candidates" : "The only candidate"), candidateBars(mention));
  }
  if (mention.reasons.length) {
    parts.push(make("h3", {}, `For and against ${mention.reasons_for}`), packReasons(mention));
    parts.push(make("p", { className: "small" }, "Without the pack: ", make("strong", {}, mention.without_packs ?? "not linked"), "."));
  } else if (mention.why.length && mention.runner_up) {
    parts.push(make("h3", {}, `Why rather than ${mention.runner_up.entity}`), reasonBars(mention));
  }
  byId("detail").replaceChildren(...parts);
}

function candidateBars(mention) {
  return make("ul", { className: "bars" }, ...mention.candidates.map((c) =>
    bar(c.entity, percent(c.confidence), 0, 100 * c.confidence)));
}

const reasonBars = (mention) => signedBars(mention.why.map((w) => [w.name, w.lead]));

/** Words, neighbours and entities in the order of their weight. */
const packReasons = (mention) =>
  signedBars(mention.reasons.map((r) => [reasonName(r), r.weight]));

const reasonName = ({ name, part }) => (!name ? part : / (before|after) it$/.test(name) ? name : `${name} · ${part}`);

function signedBars(rows) {
  const largest = Math.max(...rows.map(([, weight]) => Math.abs(weight)), 1e-9);
  return make("ul", { className: "bars" }, ...rows.map(([name, weight]) => {
    const width = (50 * Math.abs(weight)) / largest;
    const size = Math.abs(weight).toFixed(2);
    const sign = size === "0.00" ? "" : weight > 0 ? "+" : "−";
    return bar(name, sign + size, weight < 0 ? 50 - width : 50, width, weight < 0, true);
  }));
}

function bar(label, value, from, width, isAgainst = false, isCentred = false) {
  const fill = make("div", { className: isAgainst ? "fill against" : "fill" });
  fill.style.setProperty("--from", `${from}%`);
  fill.style.setProperty("--width", `${width}%`);
  return make(
    "li",
    {},
    make("div", { className: "label" }, make("span", {}, label), make("span", { className: "number soft" }, value)),
    make("div", { className: isCentred ? "track centred" : "track" }, fill),
  );
}
