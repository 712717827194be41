// The acting policy: its version and numbers, how new weights take over, and the comparison of two versions.
import { byId, say, setFacts, setOptions } from "./dom.js";
import { ago, known, percent, short } from "./format.js";
import { notice } from "./notice.js";
import { now, state } from "./state.js";
import { ask } from "./talk.js";
import { choices, renderVersionAges, renderVersions } from "./versions.js";

const CONTROLS = ["follow-policy", "pin", "back", "how", "compare"];
const SIDES = ["first", "second"];
const FEW = 20; // episodes below which a mean is marked

/** Shows the policy, or the agent if the test runs one without a policy. */
export function renderPolicy() {
  const { policy } = state;
  for (const id of CONTROLS) byId(id).disabled = !policy;
  setFacts(byId("facts"), policy ? policyFacts(policy) : agentFacts());
  if (!policy) return;
  byId("pin").classList.toggle("on", policy.pinned);
  byId("follow-policy").classList.toggle("on", !policy.pinned);
  renderTakeOver(policy);
  renderComparison(policy);
  renderVersions(policy);
}

/** Shows the current age of the weights, and the key numbers. */
export function renderAges() {
  say("weights", weightsText());
  setFacts(byId("numbers"), keyNumbers());
  renderVersionAges();
}

/** Requests that new weights take over in the chosen way. */
export function chooseTakeOver() {
  const how = byId("how").value;
  const seconds = Number(byId("blend").value);
  byId("blend-label").hidden = how !== "blend";
  if (seconds > 0) ask("take_over", { how, blend_seconds: seconds });
}

/** Starts the comparison of the two chosen versions, or ends it. */
export function compare() {
  if (state.comparing) {
    ask("end_compare");
    return;
  }
  const [first, second] = SIDES.map((id) => byId(id).value);
  if (first === second) notice("choose two versions to compare: A and B are the same");
  else ask("compare", { first: JSON.parse(first), second: JSON.parse(second) });
}

// What one wants to know first, on a phone too.
function keyNumbers() {
  const { policy, level, episodes, return_mean: mean, success_rate: success } = state;
  const about = known(mean) && episodes < FEW ? "≈ " : "";
  const all = [
    policy && ["version", state.comparing ? state.comparing.join(" | ") : policy.label],
    policy && ["age", policy.made ? ago(now() - policy.made) : "–", "of the weights that act"],
    known(level) && ["level", level.toFixed(2), "of the curriculum in this test: 1 is the full task"],
    ["return", about + short(mean), `mean of this test's episodes; ≈: of fewer than ${FEW}`],
    known(success) && ["success", about + percent(success), `of this test's episodes; ≈: of fewer than ${FEW}`],
  ];
  return all.filter(Boolean);
}

function policyFacts(policy) {
  return [
    ["epoch", policy.epoch],
    ["from", policy.source],
    ["newest", policy.newest],
    ...(state.newer_run ? [["newer run", state.newer_run]] : []),
    ["training score", short(policy.reward)],
    ...(known(policy.level) ? [["trained at", `level ${policy.level.toFixed(2)}`]] : []),
    ["episodes", state.episodes],
    ...guardFacts(state.guard),
  ];
}

// What `swapGuard` does: its judgement in progress, or its last one with the reason.
function guardFacts(guard) {
  if (!guard) return [];
  const { judging, played, expected, last } = guard;
  const progress = `tests version ${judging}: ${played} of ${expected} episodes`;
  const doing = judging === null ? "waits for a version" : progress;
  return [["guard", doing], ...(last ? [["guard's last", last]] : [])];
}

function agentFacts() {
  return [["agent", state.agent], ["episodes", state.episodes]];
}

// An input that the user is editing is left alone.
function renderTakeOver(policy) {
  const [how, blend] = [byId("how"), byId("blend")];
  if (document.activeElement !== how) how.value = policy.how;
  if (document.activeElement !== blend) blend.value = +(policy.blend_steps * state.control_dt).toFixed(2);
  byId("blend-label").hidden = how.value !== "blend";
}

function renderComparison(policy) {
  const selects = SIDES.map(byId);
  const versions = choices(policy).map(({ label }) => option(label));
  const sides = state.comparing?.map(option);
  selects.forEach((select, side) => {
    setOptions(select, sides ? [sides[side], ...versions] : versions);
    if (sides) select.value = sides[side][0];
    select.disabled = Boolean(sides);
  });
  const second = selects[1];
  if (!sides && !second.dataset.chosen && versions.length) second.value = versions.at(-1)[0];
  say("compare", sides ? "End comparison" : "Compare");
  byId("compare").classList.toggle("on", Boolean(sides));
}

// A version as an option. Its value is JSON, because a label may be a number or a string.
function option(label) {
  return [JSON.stringify(label), label];
}

function weightsText() {
  if (state.comparing) return `version ${state.comparing[0]} (even) and ${state.comparing[1]} (odd environments)`;
  return state.policy ? `version ${state.policy.label} · ${ageText(state.policy.made)}` : "";
}

function ageText(made) {
  if (!made) return "weights of unknown age";
  const age = now() - made;
  return age < 1 ? "weights just made" : `weights are ${ago(age)} old`;
}
