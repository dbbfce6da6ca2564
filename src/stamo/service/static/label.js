// Labelling: one mention at a time, keyboard first. The model's guess arrives after the choice only.

import { byId, call, clientId, make, percent, showFailure } from "/static/api.js";

const WHO = "stamo-who";
const N_KEYS = 9;
const NONE = ["@none", "none of these"];
const SKIP = ["@skip", ""];
const name = new URLSearchParams(location.search).get("workspace");
const route = `/api/workspaces/${encodeURIComponent(name ?? "")}`;
const client = clientId();

let who = localStorage.getItem(WHO) ?? "";
let question = null;
let isBusy = false;
let isExpanded = false;

/** Run one step at a time; keys and clicks meanwhile are ignored. */
async function step(action) {
  if (isBusy) return;
  isBusy = true;
  showFailure(null);
  try {
    await action();
  } catch (error) {
    showFailure(error);
  } finally {
    isBusy = false;
  }
}

async function loadNext() {
  const answer = await call("POST", `${route}/next`, { client });
  showProgress(answer.progress);
  showQuestion(answer.question);
}

const decide = (choice, title) =>
  step(async () => {
    if (!question) return;
    const { document: id, mention } = question;
    const answer = await call("POST", `${route}/labels`, { document: id, mention, who, client, choice });
    showAfter(choice, title, answer.guess);
    await loadNext();
  });

const undo = () =>
  step(async () => {
    const answer = await call("POST", `${route}/undo`, { who, client });
    showProgress(answer.progress);
    showQuestion(answer.question);
    byId("after").textContent = "Taken back; choose again.";
  });

function showQuestion(next) {
  question = next;
  isExpanded = false;
  byId("question").hidden = !next;
  byId("finished").hidden = Boolean(next);
  byId("dock").hidden = false;
  for (const id of ["none", "skip"]) byId(id).disabled = !next;
  if (!next) {
    byId("more").hidden = true;
    return;
  }
  const mark = make("mark", {}, next.surface);
  byId("text").replaceChildren(next.before, mark, next.after);
  byId("document").textContent = next.title || next.document;
  byId("ask").textContent = `What does “${next.surface}” mean here?`;
  showChoices();
  const box = byId("text");
  box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 2;
  byId("ask").focus({ preventScroll: true });
}

function showChoices() {
  const shown = isExpanded ? question.choices : question.choices.slice(0, N_KEYS);
  byId("choices").replaceChildren(...shown.map(choiceItem));
  byId("more").hidden = shown.length === question.choices.length;
}

function choiceItem(choice, i) {
  const title = make("span", { className: "title" }, choice.entity);
  const text = make("span", { className: "text" }, title);
  if (choice.emerging) text.append(" ", make("span", { className: "badge" }, "new"));
  if (choice.line) text.append(make("span", { className: "line" }, choice.line));
  const button = make("button", { type: "button" });
  if (i < N_KEYS) {
    button.append(make("kbd", {}, String(i + 1)));
    button.setAttribute("aria-keyshortcuts", String(i + 1));
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
    byId("enough-text").textContent = progress.advice || `${done} labels: enough to learn from. More may still help.`;
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

const learn = () =>
  step(async () => {
    const job = await call("POST", `${route}/learn`);
    byId("learn").disabled = true;
    await follow(job);
  });

/** Show how far a job is until it ends; labelling goes on meanwhile. */
async function follow(job) {
  const text = byId("enough-text");
  byId("job").hidden = false;
  byId("job").value = job.progress;
  text.textContent = `Learning: ${job.message}`;
  if (job.state === "queued" || job.state === "running") {
    setTimeout(async () => {
      try {
        await follow(await call("GET", `/api/jobs/${job.id}`));
      } catch (error) {
        showFailure(error);
      }
    }, 700);
    return;
  }
  byId("learn").disabled = false;
  byId("job").hidden = true;
  text.textContent = job.state === "done" ? `Learned: ${job.message}` : job.message;
  const info = await call("GET", route);
  if (info.has_report) text.append(" ", make("a", { href: `${route}/report`, target: "_blank", rel: "noopener" }, "Report"));
}

const expand = () => {
  isExpanded = true;
  showChoices();
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("input, textarea, dialog") || !who) return;
  const key = event.key.toLowerCase();
  const choice = /^[1-9]$/.test(key) ? question?.choices[Number(key) - 1] : null;
  if (choice) decide(choice.choice, choice.entity);
  else if (key === "n" && question) decide(...NONE);
  else if (key === "s" && question) decide(...SKIP);
  else if (key === "u") undo();
  else if (key === "m" && question) expand();
  else return;
  event.preventDefault();
});

byId("none").addEventListener("click", () => decide(...NONE));
byId("skip").addEventListener("click", () => decide(...SKIP));
byId("undo").addEventListener("click", undo);
byId("more").addEventListener("click", expand);
byId("learn").addEventListener("click", learn);
byId("change").addEventListener("click", () => askWho());
byId("who-form").addEventListener("submit", (event) => {
  event.preventDefault();
  who = byId("who").value.trim();
  if (!who) return;
  localStorage.setItem(WHO, who);
  start();
});

function askWho() {
  byId("who-form").hidden = false;
  for (const id of ["question", "dock", "as"]) byId(id).hidden = true;
  byId("who").value = who;
  byId("who").focus();
  who = "";
}

function start() {
  byId("who-form").hidden = true;
  byId("as").hidden = false;
  byId("as-name").textContent = who;
  step(loadNext);
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

open().catch(showFailure);
