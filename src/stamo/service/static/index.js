// The overview: workspaces, packs and jobs.

import { attempt, byId, call, make, percent, showFailure } from "/static/api.js";
import { useOf } from "/static/use.js";

function row(title, line, ...links) {
  const what = make("div", { className: "what" }, make("strong", {}, title), make("span", { className: "soft small" }, line));
  return make("li", {}, what, make("div", { className: "links small" }, ...links));
}

function fill(id, rows, nothing) {
  byId(id).replaceChildren(...(rows.length ? rows : [make("li", { className: "empty" }, nothing)]));
}

function workspaceRow(space, packs) {
  const { n_labelled: done, target } = space.progress;
  const label = `/label?workspace=${encodeURIComponent(space.name)}`;
  const links = [make("span", { className: "soft number" }, `${done} of ${target}`), make("a", { href: label }, "Label")];
  if (space.has_report) {
    links.push(make("a", { href: `/api/workspaces/${encodeURIComponent(space.name)}/report` }, "Report"));
  }
  links.push(...useOf(space, packs, run));
  const line = space.problem ? space.next_step : `Next: ${space.next_step}`;
  return row(space.entity, line, ...links);
}

function packRow(pack) {
  const line = pack.problem || `${pack.aliases.join(", ")} · ${Math.ceil(pack.size / 1024)} KB`;
  const remove = make("button", { type: "button", className: "plain" }, "Remove");
  remove.addEventListener("click", () => {
    if (!confirm(`Remove the pack of ${pack.entity ?? pack.key}?`)) return;
    run(() => call("DELETE", `/api/packs/${encodeURIComponent(pack.key)}`));
  });
  const file = make("a", { href: `/api/packs/${encodeURIComponent(pack.key)}/file` }, "Download");
  return row(pack.entity ?? pack.key, line, ...(pack.problem ? [] : [file]), remove);
}

function jobRow(job) {
  return row(job.workspace, job.message, make("span", { className: "soft" }, job.state === "running" ? percent(job.progress) : job.state));
}

const PAUSE = 1000; // milliseconds between two questions how far the jobs are
let nLoads = 0;

const isUnfinished = (job) => job.state === "queued" || job.state === "running";

function showJobs(jobs) {
  fill("jobs", jobs.slice(0, 10).map(jobRow), "Nothing was learned here yet.");
}

/** Show how far the jobs are until one of `n` ends; then all is read again. */
async function follow(n, turn, isLost = false) {
  if (turn !== nLoads) return;
  try {
    const jobs = await call("GET", "/api/jobs");
    if (turn !== nLoads) return;
    if (isLost) showFailure(null);
    showJobs(jobs);
    if (jobs.filter(isUnfinished).length < n) run(() => {});
    else setTimeout(() => follow(n, turn), PAUSE);
  } catch (error) {
    showFailure(error);
    if (error.isUnreachable) setTimeout(() => follow(n, turn, true), 3 * PAUSE);
  }
}

async function load() {
  const turn = ++nLoads;
  const [status, spaces, packs, jobs] = await Promise.all(
    ["status", "workspaces", "packs", "jobs"].map((name) => call("GET", `/api/${name}`)),
  );
  byId("status").textContent = `stamo ${status.version}${status.knowledge_base ? ` on ${status.knowledge_base}` : ""}`;
  fill("workspaces", spaces.map((space) => workspaceRow(space, packs)), "No workspace yet; make one with “stamo new”.");
  fill("packs", packs.map(packRow), "No pack yet.");
  showJobs(jobs);
  const n = jobs.filter(isUnfinished).length;
  if (n) setTimeout(() => follow(n, turn), PAUSE);
}

function run(action) {
  showFailure(null);
  return attempt(async () => {
    await action();
    await load();
  });
}

byId("file").addEventListener("change", (event) => {
  const file = event.target.files[0];
  event.target.value = "";
  if (file) run(() => call("POST", "/api/packs", file));
});

run(() => {});
