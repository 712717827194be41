// The versions to which the policy can be rolled back, and the buttons that choose among them.
import { byId, make, makeButton, say, setText } from "./dom.js";
import { state } from "./state.js";
import { ask } from "./talk.js";

/** Makes the buttons work. */
export function startVersions() {
  byId("follow").onclick = () => ask("follow");
  byId("pin").onclick = () => ask(state.serving?.pinned ? "follow" : "pin");
  byId("back").onclick = () => ask("back");
}

/** Shows the versions, newest first. */
export function renderVersions() {
  const { serving = {} } = state;
  byId("pin").setAttribute("aria-pressed", Boolean(serving.pinned));
  byId("follow").setAttribute("aria-pressed", serving.pinned === false);
  const [body] = byId("versions").tBodies;
  // New versions come each second, but the list must not move under the pointer or the keyboard focus.
  const inUse = body.matches(":hover") || body.querySelector(":focus-visible") !== null;
  say("versions-note", inUse ? "the list waits while you choose" : "kept in memory");
  if (!inUse) setVersions(body, [...(serving.history ?? [])].reverse());
  for (const row of body.rows) markRow(row, serving);
}

// Reuses rows of versions that stay, so that a button is not replaced while it is pressed.
function setVersions(body, versions) {
  const kept = new Map([...body.rows].map((row) => [row.dataset.version, row]));
  const rows = versions.map((version) => kept.get(String(version)) ?? versionRow(version));
  const changed = rows.length !== body.rows.length || rows.some((row, index) => row !== body.rows[index]);
  if (changed) body.replaceChildren(...rows);
}

function markRow(row, serving) {
  const acts = row.dataset.version === String(serving.version);
  const isNewest = row.dataset.version === String(serving.newest);
  row.className = acts ? "acting" : "";
  setText(row.cells[1], [acts && "serving", isNewest && "newest"].filter(Boolean).join(", "));
  row.querySelector("button").disabled = acts;
}

function versionRow(version) {
  const button = makeButton("Roll back", () => ask("rollback", version));
  button.setAttribute("aria-label", `roll back to version ${version} and pin it`);
  const cell = make("td", "", "control");
  cell.append(button);
  const row = make("tr");
  row.dataset.version = String(version);
  row.append(make("td", String(version)), make("td", "", "says"), cell);
  return row;
}
