// The versions to which the policy can be rolled back, and the buttons that choose among them.
import { byId, make, makeButton, say, setFacts, setText } from "./dom.js";
import { count, known } from "./format.js";
import { state } from "./state.js";
import { ask } from "./talk.js";

/** Makes the buttons work. */
export function startVersions() {
  byId("follow").onclick = () => ask("follow");
  byId("pin").onclick = () => ask(state.serving?.pinned ? "follow" : "pin");
  byId("back").onclick = () => ask("back");
  byId("allow").onclick = () => ask("allow");
}

/** Shows the versions, newest first. */
export function renderVersions() {
  const { serving = {}, champion = {} } = state;
  renderJudgement(champion);
  byId("pin").setAttribute("aria-pressed", Boolean(serving.pinned));
  byId("follow").setAttribute("aria-pressed", serving.pinned === false);
  const [body] = byId("versions").tBodies;
  // New versions come each second, but the list must not move under the pointer or the keyboard focus.
  const inUse = body.matches(":hover") || body.querySelector(":focus-visible") !== null;
  say("versions-note", inUse ? "the list waits while you choose" : "kept in memory");
  if (!inUse) setVersions(body, [...(serving.history ?? [])].reverse());
  for (const row of body.rows) markRow(row, serving, champion);
}

// What became of the newest version, and how many were refused.
function renderJudgement(champion) {
  const { version, state: verdict, why } = champion;
  say("judgement", known(version) ? `version ${version}: ${verdict}${why ? ` (${why})` : ""}` : "");
  byId("allow-again").hidden = !champion.alarm;
  setFacts(byId("champion"), [
    ["judged", count(champion.judged), "versions for which the data gave an interval"],
    ["not judged", count(champion.not_judged), "versions that went live because there was too little data to judge by"],
    ["refused", count(champion.refused), "versions that were shown to be worse, or are too far from the acting one"],
    ["rolled back", count(champion.rolled_back), "automatic rollbacks to the stable version"],
  ]);
}

// Reuses rows of versions that stay, so that a button is not replaced while it is pressed.
function setVersions(body, versions) {
  const kept = new Map([...body.rows].map((row) => [row.dataset.version, row]));
  const rows = versions.map((version) => kept.get(String(version)) ?? versionRow(version));
  const changed = rows.length !== body.rows.length || rows.some((row, index) => row !== body.rows[index]);
  if (changed) body.replaceChildren(...rows);
}

function markRow(row, serving, champion) {
  const is = (version) => row.dataset.version === String(version);
  const acts = is(serving.version);
  row.className = acts ? "acting" : "";
  const words = [
    acts && "serving",
    is(serving.newest) && "newest",
    is(champion.stable) && "stable",
    is(champion.challenger) && "challenger",
  ];
  setText(row.cells[1], words.filter(Boolean).join(", "));
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
