// Labelling: one mention at a time, keyboard first. The model's guess arrives after the choice only.
// With each answer the service tells which mention to ask now; nothing is asked ahead of its time.

import { attempt, byId, call, make, ownHeaders, percent, showFailure } from "/static/api.js";
import { showHistory } from "/static/history.js";
import { linkBox } from "/static/linked.js";
import { useOf } from "/static/use.js";

const WHO = "stamo-who";
const KEYS = "1234567890";
const PAUSE = 700; // milliseconds between two questions how far a job is
const NONE = ["@none", "none of these"];
const SKIP = ["@skip", ""];
const asked = new URLSearchParams(location.search);
const name = asked.get("workspace");
const route = `/api/workspaces/${encodeURIComponent(name ?? "")}`;

let who = asked.get("who") || localStorage.getItem(WHO) || "";
let current = null; // the mention that is kept for this person
let changing = null; // a mention that was jumped to
let ask = ""; // which mentions are asked for
let isOnly = false; // whether the answer is for this mention alone
let isExpanded = false;
let isWaiting = false; // nothing on the page may be answered now
let chain = Promise.resolve();

const shown = () => changing ?? current;

/** Run one step after the other; a failed one shows its sentence and the next goes on. */
function enqueue(action) {
  chain = chain.then(action).catch(showFailure);
  return chain;
}

/** Do something that ends with another question; until then nothing can be answered. */
function proceed(action) {
  if (isWaiting) return;
  markWaiting(true);
  showFailure(null);
  enqueue(async () => {
    try {
      await action();
    } finally {
      markWaiting(false);
      showCurrent();
    }
  });
}

function markWaiting(isNow) {
  isWaiting = isNow;
  document.body.dataset.unsaved = Number(isNow);
}

/** Ask which mention to label now. */
async function fill() {
  take(await call("POST", `${route}/next`, { who, ask }));
}

function take({ question, progress }) {
  current = question;
  isOnly = false;
  showProgress(progress);
}

function askFor(wish) {
  if (isWaiting) return;
  ask = wish;
  changing = null;
  proceed(fill);
}

function decide(choice, title) {
  const question = shown();
  if (!question || isWaiting) return;
  byId("after").textContent = choice === SKIP[0] ? "Skipped." : `You chose ${title}.`;
  proceed(() => save(question, choice, title, changing !== null));
}

async function save(question, choice, title, isChange) {
  const { document: id, mention } = question;
  try {
    const body = { document: id, mention, who, ask, choice, only: isOnly, change: isChange };
    const answer = await call("POST", `${route}/labels`, body);
    changing = null;
    take(answer);
    showAfter(choice, title, answer.guess);
    if (isChange) byId("after").append(" The answer was changed.");
  } catch (error) {
    byId("after").textContent = "";
    // What could not be sent is asked again; what somebody else labelled meanwhile is not.
    if (!error.isUnreachable) await fill().catch(() => {});
    throw error;
  }
}

function undo() {
  proceed(async () => {
    take(await call("POST", `${route}/undo`, { who, ask }));
    changing = null;
    byId("after").textContent = "Taken back; choose again.";
  });
}

/** Tell that nobody sees the mention any more. Not by a beacon: it has no header that keeps other
sites out, and no token. */
function leave() {
  if (!who || !current) return;
  const headers = { ...ownHeaders(), "Content-Type": "application/json" };
  fetch(`${route}/leave`, { method: "POST", keepalive: true, headers, body: JSON.stringify({ who }) }).catch(() => {});
}

function showCurrent() {
  if (!who) return; // the name is asked for first
  const question = shown();
  isExpanded = false;
  byId("loading").hidden = true;
  closeSearch();
  const isListing = !byId("history").hidden;
  byId("question").hidden = !question || isListing;
  byId("finished").hidden = Boolean(question) || isWaiting || isListing;
  byId("dock").hidden = isListing;
  byId("changing").hidden = changing === null;
  byId("as").hidden = byId("asks").hidden = isListing;
  byId("attempt").classList.toggle("away", isListing);
  for (const id of ["none", "skip", "another"]) byId(id).disabled = !question;
  for (const [id, wish] of Object.entries(ASKS)) byId(id).setAttribute("aria-pressed", String(ask === wish));
  if (question) showQuestion(question);
  else byId("more").hidden = byId("only").hidden = true;
}

function showQuestion(question) {
  const mark = make("mark", {}, question.surface);
  byId("text").replaceChildren(question.before, mark, question.after);
  byId("document").textContent = question.title || question.document;
  Object.assign(byId("question").dataset, { document: question.document, mention: question.mention });
  byId("ask").textContent = `What does “${question.surface}” mean here?`;
  showSame(question);
  if (changing) {
    const label = question.label ? `Labelled ${question.label} by ${question.labelled_by}; choose to change it, or` : "Not labelled yet; choose, or";
    byId("changing-text").textContent = label;
  }
  showChoices();
  const box = byId("text");
  box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 2;
  if (!byId("question").hidden) byId("ask").focus({ preventScroll: true });
}

/** Say for how many mentions the answer speaks. */
function showSame({ n_same: n, differ, surface }) {
  let line = "; your answer speaks for all of them until one is labelled otherwise.";
  if (differ) line = ", and its labels differ: each is asked by itself.";
  else if (isOnly) line = "; your answer is for this one only.";
  byId("same").textContent = n < 2 ? "" : `“${surface}” stands here ${n} times${line}`;
  byId("only").hidden = n < 2 || differ;
  byId("only").setAttribute("aria-pressed", String(isOnly));
}

function toggleOnly() {
  isOnly = !isOnly;
  showSame(shown());
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
  byId("enough").hidden = done < target && !progress.ask;
  byId("learn").hidden = done < target;
  for (const wish of ["probable", "doubtful"]) byId(`show-${wish}`).hidden = progress.ask !== wish || ask === wish;
  if (!byId("learn").disabled) byId("enough-text").textContent = progress.advice;
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
  const info = await call("GET", route);
  showProgress(info.progress);
  text.textContent = job.message;
  showLearned(info);
}

/** Show what may be done with what was learned: read the report, put the pack into use, try it. */
async function showLearned(info) {
  const links = [];
  if (info.pack) {
    const button = make("button", { type: "button", className: "plain" }, "Try a sentence");
    button.setAttribute("aria-keyshortcuts", "t");
    button.addEventListener("click", () => byId("input").focus());
    links.push(button);
  }
  if (info.has_report) links.push(make("a", { href: `${route}/report`, target: "_blank", rel: "noopener" }, "Report"));
  const again = (action) => enqueue(async () => (await action(), showLearned(info)));
  if (info.pack) links.push(...useOf(info, await call("GET", "/api/packs"), again));
  byId("learned").replaceChildren(...links);
  byId("learned").hidden = links.length === 0;
  byId("attempt").hidden = !info.pack;
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

function goBack() {
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
  if (!button || button.disabled || !button.checkVisibility()) return;
  button.click();
  event.preventDefault();
});

const ASKS = { "ask-advised": "", "ask-probable": "probable", "ask-doubtful": "doubtful" };
const actions = {
  only: toggleOnly,
  "show-probable": () => askFor("probable"),
  "show-doubtful": () => askFor("doubtful"),
  none: () => decide(...NONE),
  skip: () => decide(...SKIP),
  open: () => attempt(openDocument),
  another: openSearch,
  more: expand,
  back: goBack,
  change: askWho,
  "show-history": openHistory,
  "hide-history": closeHistory,
  undo,
  learn,
};
for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
for (const [id, wish] of Object.entries(ASKS)) byId(id).addEventListener("click", () => askFor(wish));
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
  if (isWaiting) event.preventDefault();
});
addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => {
  if (event.persisted && who) askFor(ask); // what it showed may be asked of somebody else by now
});

function askWho() {
  leave();
  byId("who-form").hidden = false;
  for (const id of ["question", "dock", "as", "asks", "loading"]) byId(id).hidden = true;
  byId("who").value = who;
  byId("who").focus();
  who = "";
}

function start() {
  localStorage.setItem(WHO, who);
  byId("who-form").hidden = true;
  byId("as").hidden = false;
  byId("as-name").textContent = who;
  byId("loading").hidden = current !== null;
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

markWaiting(false);
linkBox(() => `${route}/try`);
forgetWho();
open().catch((error) => {
  byId("loading").hidden = true;
  showFailure(error);
});
