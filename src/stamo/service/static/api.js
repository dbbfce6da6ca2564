// What all pages share: calling the service, the token, and building elements from plain text.

const TOKEN = "stamo-token";
const PATIENCE = 300; // milliseconds until a call that is under way shows
let nShown = 0;

/** Do something; where it takes long, the page says that it works. */
async function busily(work) {
  let isShown = false;
  const timer = setTimeout(() => {
    isShown = true;
    markBusy(1);
  }, PATIENCE);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
    if (isShown) markBusy(-1);
  }
}

function markBusy(change) {
  nShown += change;
  document.body.ariaBusy = String(nShown > 0);
}

/** What every request of our pages has: the header that no foreign site can send, and the token if there is one. */
export function ownHeaders() {
  const token = sessionStorage.getItem(TOKEN);
  return { "X-Stamo": "1", ...(token && { Authorization: `Bearer ${token}` }) };
}

/** Call a route; a failure becomes an Error with the service's sentence. */
export async function call(method, path, body) {
  const headers = ownHeaders();
  const token = sessionStorage.getItem(TOKEN);
  const isFile = body instanceof Blob;
  if (body !== undefined && !isFile) headers["Content-Type"] = "application/json";
  let response;
  try {
    const sent = body === undefined || isFile ? body : JSON.stringify(body);
    response = await busily(() => fetch(path, { method, headers, body: sent }));
  } catch {
    throw failure("The service cannot be reached; is it still running?", true);
  }
  // Another call may have got the token while this one was under way.
  const isNew = sessionStorage.getItem(TOKEN) !== token;
  if (response.status === 401 && (isNew || (await askToken()))) return call(method, path, body);
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    const isBusy = response.status === 429 || response.status >= 500;
    throw failure(answer.error || `The service answered ${response.status}.`, isBusy);
  }
  return answer;
}

/** An error with a sentence; `isUnreachable` where the same call may succeed later. */
function failure(sentence, isUnreachable) {
  return Object.assign(new Error(sentence), { isUnreachable });
}

let asking = null;

/** Ask for the token that the service printed when it started; once for all calls that wait. */
function askToken() {
  asking ??= showTokenDialog().finally(() => {
    asking = null;
  });
  return asking;
}

function showTokenDialog() {
  const input = make("input", { type: "password", name: "token", required: true, autocomplete: "off" });
  const dialog = make(
    "dialog",
    {},
    make(
      "form",
      { method: "dialog" },
      make("label", {}, "Token of this service (it was printed when the service started)", input),
      make("button", { className: "main", value: "ok" }, "Go on"),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const given = dialog.returnValue === "ok" && input.value.trim();
      if (given) sessionStorage.setItem(TOKEN, given);
      dialog.remove();
      resolve(Boolean(given));
    });
  });
}

/** Make an element; children are elements or texts, and texts never become markup. */
export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/** Show or clear the sentence of a failure; a new one comes into sight. */
export function showFailure(error) {
  const box = byId("failure");
  const sentence = error ? error.message : "";
  const isNew = sentence && sentence !== box.textContent;
  box.textContent = sentence;
  if (isNew) box.scrollIntoView({ block: "nearest" });
}

/** Do something; where it fails, the page says so. */
export async function attempt(action) {
  try {
    await action();
  } catch (error) {
    showFailure(error);
  }
}
