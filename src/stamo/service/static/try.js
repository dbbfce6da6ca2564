// Trying it out: a text is linked with the packs in use, or with the pack that a workspace learned.

import { attempt, byId, call } from "/static/api.js";
import { linkBox } from "/static/linked.js";

const asked = new URLSearchParams(location.search);
const workspace = asked.get("workspace");
const route = `/api/workspaces/${encodeURIComponent(workspace ?? "")}`;

linkBox(() => (workspace ? `${route}/try` : "/api/link"));

/** Say what links the text. */
async function introduce() {
  const status = await call("GET", "/api/status");
  let packs = status.n_packs === 1 ? " and 1 pack" : status.n_packs ? ` and ${status.n_packs} packs` : "";
  if (workspace) packs = ` and the pack of ${(await call("GET", route)).entity}`;
  byId("intro").textContent = `Paste a text and see what its names mean, by ${status.knowledge_base || "the knowledge base"}${packs}.`;
}

attempt(introduce);
if (asked.get("text")) {
  byId("input").value = asked.get("text");
  byId("form").requestSubmit();
}
