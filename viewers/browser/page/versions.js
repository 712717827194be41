// The table of versions to which the policy can be rolled back.
import { byId, make, makeButton, rebuild, setText } from "./dom.js";
import { ago, short } from "./format.js";
import { colourOfVersion, now, server } from "./state.js";
import { ask } from "./talk.js";

/**
 * Shows the versions that are kept in memory and those in the run's checkpoint files, newest first.
 * @param {object} policy - the server's state of the policy
 */
export function renderVersions(policy) {
  const versions = choices(policy).reverse();
  const [body] = byId("versions").tBodies;
  rebuild(body, [versions, policy.label, server.readOnly], () =>
    versions.map((version) => versionRow(version, version.label === policy.label)));
}

/**
 * The versions that can be rolled back to or compared, oldest first: those in memory, and those in files.
 * @param {object} policy - the server's state of the policy
 */
export function choices(policy) {
  const files = policy.files.map((file) => ({ ...file, episodes: 0, return: null, inFile: true }));
  return [...policy.history, ...files].sort((a, b) => (a.made ?? 0) - (b.made ?? 0));
}

/** Shows the current age of each version. */
export function renderVersionAges() {
  for (const cell of document.querySelectorAll("#versions .age")) {
    setText(cell, cell.dataset.since ? ago(now() - Number(cell.dataset.since)) : "–");
  }
}

function versionRow(version, acts) {
  const dot = make("i", "", "dot");
  dot.style.background = colourOfVersion(version.label);
  const name = make("td");
  name.append(dot, String(version.label));
  const age = make("td", "", "age");
  age.dataset.since = version.made ?? "";
  const row = make("tr", "", acts ? "acting" : "");
  row.append(name, make("td", version.epoch), age, make("td", version.inFile ? "file" : version.episodes));
  row.append(make("td", short(version.return)));
  row.append(buttonCell(version, acts));
  return row;
}

function buttonCell(version, acts) {
  const button = makeButton("use", () => ask("roll_back", { label: version.label }));
  button.title = `roll back to ${version.label}${version.inFile ? ", from its checkpoint," : ""} and pin it`;
  button.disabled = acts;
  const cell = make("td", "", "control");
  cell.append(button);
  return cell;
}
