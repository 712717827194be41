// The table of versions to which the policy can be rolled back.
import { byId, make, makeButton, rebuild, setText } from "./dom.js";
import { ago, short } from "./format.js";
import { colourOfVersion, now, server } from "./state.js";
import { ask } from "./talk.js";

/**
 * Shows the kept versions, newest first.
 * @param {object} policy - the server's state of the policy
 */
export function renderVersions(policy) {
  const versions = [...policy.history].reverse();
  const [body] = byId("versions").tBodies;
  rebuild(body, [versions, policy.label, server.readOnly], () =>
    versions.map((version) => versionRow(version, version.label === policy.label)));
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
  row.append(name, make("td", version.epoch), age, make("td", version.episodes), make("td", short(version.return)));
  row.append(buttonCell(version, acts));
  return row;
}

function buttonCell(version, acts) {
  const button = makeButton("use", () => ask("roll_back", { label: version.label }));
  button.title = `roll back to ${version.label} and pin it`;
  button.disabled = acts;
  const cell = make("td", "", "control");
  cell.append(button);
  return cell;
}
