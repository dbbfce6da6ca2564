// Labelling: one mention at a time, keyboard first. The model's guess arrives after the choice only.
// After each choice the service is asked which mention teaches most now.

import { attempt, byId, call, clientId, make, percent, showFailure } from "/static/api.js";
import { showHistory } from "/static/history.js";
import { useOf } from "/static/use.js";

const WHO = "stamo-who";
const KEYS = "1234567890";
const PAUSE = 700; // milliseconds between two questions how far a job is
const NONE = ["@none", "none of these"];
const SKIP = ["@skip", ""];
const asked = new URLSearchParams(location.search);
const name = asked.get("workspace");
const route = `/api/workspaces/${encodeURIComponent(name ?? "")}`;
const client = clientId();

let who = asked.get("who") || localStorage.getItem(WHO) || "";
let queue = []; // the mention that is shown and those after it
let changing = null; // a mention that was jumped to
let isExpanded = false;
let isWaiting = false; // nothing on the page may be answered now
let chain = Promise.resolve();
const unsaved = new Set();

const keyOf = (question) => `${question.mention} ${question.document}`;
const shown = () => changing ?? queue[0] ?? null;

/** Run one step after the other; a failed one shows its sentence and the next goes on. */
function enqueue(action) {
  chain = chain.then(action).catch(showFailure);
  return chain;
}

function notePending() {
  document.body.dataset.unsaved = unsaved.size;
}

/** Fill up the mentions that come next. */
async function fill() {
  const answer = await call("POST", `${route}/next`, { client });
  take(answer, [...queue]);
}

/** Take what the service keeps for this page, behind what is here already. */
function take(answer, kept) {
  const before = keyOfShown();
  const known = new Set([...kept.map(keyOf), ...unsaved]);
  const fresh = [answer.question].filter((q) => q && !known.has(keyOf(q)));
  queue = [...kept, ...fresh];
  showProgress(answer.progress);
  if (keyOfShown() !== before || !shown() || byId("dock").hidden) showCurrent();
}

const keyOfShown = () => (shown() ? keyOf(shown()) : "");

function decide(choice, title) {
  const question = shown();
  if (!question || isWaiting) return;
  const isChange = changing !== null;
  showFailure(null);
  byId("after").textContent = choice === SKIP[0] ? "Skipped." : `You chose ${title}.`;
  unsaved.add(keyOf(question));
  notePending();
  if (isChange) changing = null;
  else queue.shift();
  showCurrent();
  enqueue(() => save(question, choice, title, isChange));
}

async function save(question, choice, title, isChange) {
  const { document: id, mention } = question;
  try {
    const body = { document: id, mention, who, client, choice, change: isChange };
    const answer = await call("POST", `${route}/labels`, body);
    unsaved.delete(keyOf(question));
    showAfter(choice, title, answer.guess);
    showProgress(answer.progress);
    queue = queue.filter((other) => keyOf(other) !== keyOf(question));
    if (isChange) byId("after").append(" The answer was changed.");
    await fill();
  } catch (error) {
    unsaved.delete(keyOf(question));
    byId("after").textContent = "";
    // What could not be sent is asked again; what somebody else labelled meanwhile is not.
    if (!error.isUnreachable) await fill().catch(() => {});
    else if (isChange) changing = question;
    else queue.unshift(question);
    showCurrent();
    throw error;
  } finally {
    notePending();
  }
}

function undo() {
  if (isWaiting) return;
  isWaiting = true;
  showFailure(null);
  enqueue(async () => {
    try {
      const answer = await call("POST", `${route}/undo`, { who, client });
      changing = null;
      take(answer, []);
      byId("after").textContent = "Taken back; choose again.";
    } finally {
      isWaiting = false;
    }
  });
}

function showCurrent() {
  if (!who) return; // the name is asked for first
  const question = shown();
  isExpanded = false;
  byId("loading").hidden = true;
  closeSearch();
  const isListing = !byId("history").hidden;
  byId("question").hidden = !question || isListing;
  byId("finished").hidden = Boolean(question) || unsaved.size > 0 || isListing;
  byId("dock").hidden = isListing;
  byId("changing").hidden = changing === null;
  byId("as").hidden = isListing;
  for (const id of ["none", "skip", "another"]) byId(id).disabled = !question;
  if (question) showQuestion(question);
  else byId("more").hidden = true;
}

function showQuestion(question) {
  const mark = make("mark", {}, question.surface);
  byId("text").replaceChildren(question.before, mark, question.after);
  byId("document").textContent = question.title || question.document;
  byId("ask").textContent = `What does “${question.surface}” mean here?`;
  byId("same").textContent = sameLine(question);
  if (changing) {
    const label = question.label ? `Labelled ${question.label} by ${question.labelled_by}; choose to change it, or` : "Not labelled yet; choose, or";
    byId("changing-text").textContent = label;
  }
  showChoices();
  const box = byId("text");
  box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 2;
  if (!byId("question").hidden) byId("ask").focus({ preventScroll: true });
}

function sameLine({ n_same: n, differ, surface }) {
  if (n < 2) return "";
  if (differ) return `“${surface}” stands here ${n} times, and its labels differ: each is asked by itself.`;
  return `“${surface}” stands here ${n} times; your answer speaks for all of them until one is labelled otherwise.`;
}

function showChoices() {
  const { choices } = shown();
  const list = isExpanded ? choices : choices.slice(0, KEYS.length);
  byId("choices").replaceChildren(...list.map(choiceItem));
  byId("choices").classList.toggle("many", list.length > 5);
  byId("more").hidden = list.length === choices.length;
}

function choiceItem(choice, i) {
  const title = make("span", { className: "title" }, choice.entity);
  const text = make("span", { className: "text" }, title);
  if (choice.emerging) text.append(" ", make("span", { className: "badge" }, "new"));
  if (choice.description) text.append(make("span", { className: "line" }, choice.description));
  const button = make("button", { type: "button" });
  if (i < KEYS.length) {
    button.append(make("kbd", {}, KEYS[i]));
    button.setAttribute("aria-keyshortcuts", KEYS[i]);
  }
  button.append(text);
  button.addEventListener("click", () => decide(choice.choice, choice.entity));
  return make("li", {}, button);
}

function showProgress(progress) {
  const { n_labelled: done, target } = progress;
  byId("meter").hidden = false;
  byId("count").textContent = done > target ? `${done} labelled (goal ${target})` : `${done} of ${target} labelled`;
  const ticks = Array.from({ length: target }, (_, i) => make("i", { className: i < done ? "on" : "" }));
  byId("ticks").replaceChildren(...ticks);
  byId("enough").hidden = done < target;
  if (!byId("learn").disabled) {
    byId("enough-text").textContent = progress.advice || `${done} label${done === 1 ? "" : "s"}: enough to learn from. More may still help.`;
  }
}

function showAfter(choice, title, guess) {
  const after = byId("after");
  if (choice === SKIP[0]) {
    after.textContent = "Skipped.";
    return;
  }
  after.replaceChildren("You chose ", make("strong", {}, title), ".");
  if (!guess) return;
  const sure = guess.confidence > 0 ? ` (${percent(guess.confidence)} sure).` : ".";
  if (guess.choice === choice) after.append(` The model would have said the same${sure}`);
  else after.append(" The model would have said ", make("strong", {}, guess.entity), sure);
}

function learn() {
  showFailure(null);
  byId("learn").disabled = true;
  byId("enough-text").textContent = "Starting to learn…";
  enqueue(async () => {
    try {
      await follow(await call("POST", `${route}/learn`));
    } catch (error) {
      byId("learn").disabled = false;
      throw error;
    }
  });
}

/** Show how far a job is until it ends; labelling goes on meanwhile. */
async function follow(job) {
  const text = byId("enough-text");
  byId("job").hidden = false;
  byId("job").value = job.progress;
  text.textContent = `Learning: ${job.message}`;
  if (job.state === "queued" || job.state === "running") {
    setTimeout(() => followOn(job), PAUSE);
    return;
  }
  byId("learn").disabled = false;
  byId("job").hidden = true;
  text.textContent = job.message;
  showLearned(await call("GET", route), job.message);
}

/** Show what may be done with what was learned: the verdict where it is not said yet, report, use. */
async function showLearned(info, said = "") {
  const links = [];
  if (info.pack && !said.includes(info.pack.verdict)) links.push(make("span", { className: "soft" }, info.pack.verdict));
  if (info.has_report) links.push(make("a", { href: `${route}/report`, target: "_blank", rel: "noopener" }, "Report"));
  const again = (action) => enqueue(async () => (await action(), showLearned(info, said)));
  if (info.pack) links.push(...useOf(info, await call("GET", "/api/packs"), again));
  byId("learned").replaceChildren(...links);
  byId("learned").hidden = links.length === 0;
}

/** Ask again how far a job is; a service that is started anew goes on with it, and so do we. */
async function followOn(job, isLost = false) {
  try {
    const now = await call("GET", `/api/jobs/${job.id}`);
    if (isLost) showFailure(null);
    await follow(now);
  } catch (error) {
    showFailure(error);
    if (error.isUnreachable) setTimeout(() => followOn(job, true), 3 * PAUSE);
    else byId("learn").disabled = false;
  }
}

const expand = () => {
  isExpanded = true;
  showChoices();
};

// Another entity of the knowledge base

let lastSearch = 0;

function openSearch() {
  if (!shown() || isWaiting) return;
  byId("other").hidden = false;
  byId("choices").hidden = true;
  byId("search").value = "";
  byId("found").replaceChildren();
  byId("other").scrollIntoView({ block: "nearest" });
  byId("search").focus();
}

function closeSearch() {
  byId("other").hidden = true;
  byId("choices").hidden = false;
}

async function search() {
  const turn = ++lastSearch;
  const text = byId("search").value.trim();
  const found = text ? await call("GET", `${route}/entities?${new URLSearchParams({ search: text })}`) : [];
  if (turn !== lastSearch) return;
  const rows = found.slice(0, 8).map((choice) => choiceItem(choice, KEYS.length));
  const nothing = text ? [make("li", { className: "empty" }, "No name begins so.")] : [];
  byId("found").replaceChildren(...(rows.length ? rows : nothing));
}

// The whole document

async function openDocument() {
  const question = shown();
  if (!question) return;
  const { id, title, text } = await call("GET", `${route}/document?${new URLSearchParams({ document: question.document })}`);
  byId("whole-title").textContent = title || id;
  const isAddress = /^https?:\/\//.test(id);
  byId("whole-link").replaceChildren(isAddress ? make("a", { href: id, target: "_blank", rel: "noopener noreferrer" }, id) : id);
  const points = Array.from(text); // offsets count code points
  const mark = make("mark", {}, points.slice(question.start, question.end).join(""));
  byId("whole-text").replaceChildren(points.slice(0, question.start).join(""), mark, points.slice(question.end).join(""));
  byId("whole").showModal();
  mark.scrollIntoView({ block: "center" });
}

// The labels so far

async function openHistory() {
  showFailure(null);
  byId("history").hidden = false;
  changing = null;
  showCurrent();
  await enqueue(() => showHistory(route, jump));
  byId("history-title").focus();
}

function closeHistory() {
  byId("history").hidden = true;
  showCurrent();
}

/** Show a certain mention, to give or change its label. */
function jump(document, mention) {
  return attempt(async () => {
    changing = await call("GET", `${route}/mention?${new URLSearchParams({ document, mention })}`);
    closeHistory();
  });
}

function leave() {
  changing = null;
  showCurrent();
}

/** The key that was pressed; where a layout has other letters or digits by Shift only, the key in that place. */
function keyOfPress({ key, code, shiftKey }) {
  const place = /^(?:Key([A-Z])|Digit(\d))$/.exec(code);
  const letter = key > "\x7f" ? place?.[1] : undefined;
  const digit = shiftKey ? undefined : place?.[2];
  return (letter ?? digit ?? key).toLowerCase();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.key === "Escape" && !byId("other").hidden) {
    closeSearch();
    byId("ask").focus({ preventScroll: true });
    return;
  }
  if (event.target.closest("input, select, textarea, dialog") || !who || !byId("history").hidden) return;
  const key = keyOfPress(event);
  const button = Array.from(document.querySelectorAll("[aria-keyshortcuts]")).find((b) => b.getAttribute("aria-keyshortcuts") === key);
  if (!button || button.disabled || button.hidden) return;
  button.click();
  event.preventDefault();
});

const actions = {
  none: () => decide(...NONE),
  skip: () => decide(...SKIP),
  open: () => attempt(openDocument),
  another: openSearch,
  more: expand,
  back: leave,
  change: askWho,
  "show-history": openHistory,
  "hide-history": closeHistory,
  undo,
  learn,
};
for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
byId("search").addEventListener("input", () => attempt(search));
byId("other").addEventListener("submit", (event) => {
  event.preventDefault();
  byId("found").querySelector("button")?.click();
});
byId("who-form").addEventListener("submit", (event) => {
  event.preventDefault();
  who = byId("who").value.trim();
  if (who) start();
});
addEventListener("beforeunload", (event) => {
  if (unsaved.size) event.preventDefault();
});

function askWho() {
  byId("who-form").hidden = false;
  for (const id of ["question", "dock", "as", "loading"]) byId(id).hidden = true;
  byId("who").value = who;
  byId("who").focus();
  who = "";
}

function start() {
  localStorage.setItem(WHO, who);
  byId("who-form").hidden = true;
  byId("as").hidden = false;
  byId("as-name").textContent = who;
  byId("loading").hidden = queue.length > 0;
  const wanted = asked.get("document");
  if (wanted) enqueue(() => jump(wanted, asked.get("mention") ?? "0"));
  asked.delete("document"); // another name later does not ask for it again
  enqueue(async () => {
    await fill();
    showCurrent();
  });
}

async function open() {
  if (!name) {
    const spaces = await call("GET", "/api/workspaces");
    if (spaces.length === 1) location.replace(`/label?workspace=${encodeURIComponent(spaces[0].name)}`);
    else location.replace("/");
    return;
  }
  const info = await call("GET", route);
  document.title = `Label ${info.entity} · stamo`;
  byId("entity").textContent = info.entity;
  byId("aliases").textContent = `Names: ${info.aliases.join(", ")}`;
  showProgress(info.progress);
  await showLearned(info);
  const jobs = await call("GET", "/api/jobs");
  const running = jobs.find((job) => job.workspace === name && ["queued", "running"].includes(job.state));
  if (running) {
    byId("learn").disabled = true;
    byId("enough").hidden = false;
    follow(running);
  }
  if (who) start();
  else askWho();
}

/** Take the name out of the address: who gets a copy of it labels under their own. */
function forgetWho() {
  if (!asked.has("who")) return;
  asked.delete("who");
  history.replaceState(null, "", `?${asked}`);
}

notePending();
forgetWho();
open().catch((error) => {
  byId("loading").hidden = true;
  showFailure(error);
});
