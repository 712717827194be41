// The header and the footer: the task, the run, and badges for unusual states.
import { byId, say, setBadges } from "./dom.js";
import { count } from "./format.js";
import { server, state } from "./state.js";
import { by, showName } from "./visitor.js";

const TRAINER = {
  "training": "good",
  "waiting": "",
  "starting": "warn",
  "hung": "bad",
  "dead": "bad",
  "given up": "bad",
  "stopped": "",
};
const SIMULATORS = { builtin: "built-in simulator", external: "observations from clients" };
const INTERFERED =
  "decisions with human intervention, or in which the gate or the policy failed; they are never used for training";

/** Shows names, states and badges. */
export function renderHeader() {
  const { serving = {}, trainer = {} } = state;
  say("task", state.title ?? state.task ?? "livegym");
  say("run", state.run ?? "");
  document.title = `${state.title ?? state.task ?? "livegym"} · version ${serving.version ?? "–"}`;
  say("phase", state.phase ?? "");
  byId("phase").className = `badge numbers ${state.phase === "serving" ? "good" : "warn"}`;
  say("trainer-state", trainer.state ? `trainer: ${trainer.state}` : "");
  byId("trainer-state").className = `badge numbers ${TRAINER[trainer.state] ?? "warn"}`;
  byId("trainer-state").title = trainer.why ?? "";
  setBadges(badges());
  say("foot", footText());
  showName(state.you);
}

function badges() {
  const { serving = {}, decisions = {} } = state;
  const pinned = "new versions wait; decisions of a pinned version are not used for training";
  const all = [
    serving.pinned && { text: `pinned${by(serving.pinned_by, state.you)}`, title: pinned },
    serving.swapping && { text: "swapping", title: "both versions act while the new one takes over" },
    decisions.interfered > 0 && { text: `${count(decisions.interfered)} interfered`, title: INTERFERED },
    server.readOnly && { text: "read only", title: "you may watch, but not control" },
  ];
  return all.filter(Boolean);
}

function footText() {
  const { simulator, playSpeed, gate = "–", pages = 1 } = state;
  const pace = playSpeed > 0 ? `speed ${playSpeed}×` : "as fast as possible";
  const parts = [SIMULATORS[simulator] ?? simulator, simulator === "builtin" && pace, `gate: ${gate}`];
  return [...parts, `${pages} watching`].filter(Boolean).join(" · ");
}
