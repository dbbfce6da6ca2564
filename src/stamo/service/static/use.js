// From a learned pack to one that texts are linked with.

import { call, make } from "/static/api.js";

/** A button that puts the pack of a workspace into use, a link where it is, nothing without one. */
export function useOf(space, packs, run) {
  if (!space.pack) return [];
  if (packs.some((pack) => pack.fingerprint === space.pack.fingerprint)) return [make("a", { href: "/try" }, "In use")];
  const button = make("button", { type: "button", className: "plain" }, "Use pack");
  button.addEventListener("click", () => {
    const { is_fit: isFit, verdict } = space.pack;
    if (!isFit && !confirm(`${verdict}\n\nUse it all the same?`)) return;
    run(() => call("POST", `/api/packs/of/${encodeURIComponent(space.name)}?anyway=${!isFit}`));
  });
  return [button];
}
