// The versions to which the policy can be rolled back, and the buttons that choose among them.
import { confirmed } from "./confirm.js";
import { byId, inUse, make, makeButton, say, setFacts, setRows, setText } from "./dom.js";
import { ago, count, known, signed, withInterval } from "./format.js";
import { roving, works } from "./roving.js";
import { now, server, state } from "./state.js";
import { ask } from "./talk.js";

let settle;  // after a change of the rows

/** Makes the buttons work. */
export function startVersions() {
  settle = roving(byId("versions"));
  byId("follow").onclick = () => ask("follow");
  byId("pin").onclick = () => ask(state.serving?.pinned ? "follow" : "pin");
  byId("back").onclick = goBack;
  byId("allow").onclick = () => ask("allow");
}

async function goBack() {
  const text = "The version before the acting one acts, and is pinned: its decisions are not used for training.";
  if (await confirmed("Go back one version?", text, "Go back")) ask("back");
}

async function rollBack(version) {
  const { reward_mean: mean, rewards } = ofVersion(version);
  const earned = rewards ? ` It earned ${signed(mean)} in ${count(rewards)} decisions.` : "";
  const acting = state.serving?.version;
  const instead = known(acting) ? ` Version ${acting} acts now.` : "";
  const text = `It acts, and is pinned: its decisions are not used for training.${earned}${instead}`;
  if (await confirmed(`Roll back to version ${version}?`, text, "Roll back")) ask("rollback", version);
}

function ofVersion(version) {
  return state.versions?.[version] ?? {};
}

/** Shows the versions, newest first. */
export function renderVersions() {
  const { serving = {}, champion = {} } = state;
  nameTable(byId("versions"));
  renderJudgement(champion);
  byId("pin").setAttribute("aria-pressed", Boolean(serving.pinned));
  byId("follow").setAttribute("aria-pressed", serving.pinned === false);
  const [body] = byId("versions").tBodies;
  // New versions come each second, but the list must not move under the pointer or the keyboard focus.
  const chosen = inUse(body);
  say("versions-note", chosen ? "the list waits while you choose" : "kept in memory");
  if (!chosen) setRows(body, "version", [...(serving.history ?? [])].reverse(), versionRow);
  for (const row of body.rows) markRow(row, serving, champion);
  settle();
}

// A spectator has no buttons to choose a version with, so the table is none to move in.
function nameTable(table) {
  if (server.readOnly) table.removeAttribute("role");
  else table.setAttribute("role", "grid");
  table.setAttribute("aria-label", server.readOnly ? "versions" : "versions: arrow keys choose one");
}

// What became of the newest version, and how many were refused.
function renderJudgement(champion) {
  const { version, state: verdict, why } = champion;
  say("judgement", known(version) ? `version ${version}: ${verdict}${why ? ` (${why})` : ""}` : "");
  byId("allow-again").hidden = !(champion.alarm || champion.measuring);
  setFacts(byId("champion"), [
    ["judged", count(champion.judged), "versions for which the data gave an interval"],
    ["not judged", count(champion.not_judged), "versions that went live because there was too little data to judge by"],
    ["refused", count(champion.refused), "versions that were shown to be worse, or are too far from the acting one"],
    ["rolled back", count(champion.rolled_back), "automatic rollbacks to the stable version"],
  ]);
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
  const { made, reward_mean: mean, rewards, ...judged } = ofVersion(row.dataset.version);
  setText(row.cells[0].lastChild, words.filter(Boolean).join(", "));
  setText(row.cells[1], known(made) ? ago(Math.max(0, now() - made)) : "–");
  setText(row.cells[2], rewards ? signed(mean) : "–");
  row.cells[2].title = rewards ? `mean of ${count(rewards)} decisions` : "no decision of it has a reward yet";
  setText(row.cells[3].firstChild, judged.state ?? "–");
  setText(row.cells[3].lastChild, gainOf(judged));
  row.cells[3].title = judged.why ?? "";
  row.querySelector("button").setAttribute("aria-disabled", acts);
}

// The estimated gain over the version that it was compared with.
function gainOf({ state: found, gain, gain_low: low, gain_high: high }) {
  return known(found) && known(gain) ? withInterval(gain, low, high) : "";
}

function versionRow(version) {
  const button = makeButton("Roll back", () => works(button) && rollBack(version));
  button.setAttribute("aria-label", `roll back to version ${version} and pin it`);
  const cell = make("td", "", "control");
  cell.append(button);
  const row = make("tr");
  const first = make("td");
  first.append(make("span", String(version)), make("small"));
  const says = make("td", "", "says");
  says.append(make("span"), make("small"));
  const described = [make("td"), make("td"), says];  // age, reward and judgement, which are heard with the button
  described.forEach((each, i) => { each.id = `version-${version}-${i}`; });
  button.setAttribute("aria-describedby", described.map(({ id }) => id).join(" "));
  row.append(first, ...described, cell);
  return row;
}
