// The buttons and keys of the page. The keys are also listed in docs/watching.md and in the dialog of index.html.
import { byId } from "./dom.js";
import { chooseTakeOver, compare } from "./policy.js";
import { listenInScene } from "./scene.js";
import { state } from "./state.js";
import { ask } from "./talk.js";
import { changeSpeed, chooseSpeed } from "./transport.js";
import { flip, lookFrom, startView, turn, watchedEnv } from "./view.js";

const CAMERAS = ["three-quarter", "front", "side", "top"]; // keys 1 to 4

const actions = {
  "pause": () => ask("pause", { on: !state.paused }),
  "step": () => ask("step"),
  "restart": () => ask("restart", { env_id: watchedEnv() }),
  "restart-all": () => ask("restart", { env_id: null }),
  "record": () => ask("record", { on: !state.recording }),
  "follow-policy": () => ask("follow"),
  "pin": () => ask(state.policy?.pinned ? "follow" : "pin"),
  "back": () => ask("roll_back", { label: null }),
  "compare": compare,
  "env-before": () => turn(-1),
  "env-next": () => turn(1),
  "help": () => (byId("keys").open ? byId("keys").close() : byId("keys").showModal()),
};

const keys = {
  " ": actions.pause,
  ".": actions.step,
  "r": actions.restart,
  "R": actions["restart-all"],
  "o": actions.record,
  "p": actions.pin,
  "n": actions["follow-policy"],
  "b": actions.back,
  "k": compare,
  "?": actions.help,
  "[": () => turn(-1),
  "]": () => turn(1),
  "-": () => changeSpeed(-1),
  "+": () => changeSpeed(1),
  "=": () => changeSpeed(1),
  "a": () => flip("show_all"),
  "f": () => flip("follow"),
  "c": () => flip("contacts"),
  "v": () => flip("forces"),
};

/** Makes all buttons, inputs and keys work. */
export function startControls() {
  for (const [id, action] of Object.entries(actions)) byId(id).onclick = action;
  for (const button of document.querySelectorAll("[data-push]")) button.onclick = () => push(button);
  byId("speed").onchange = chooseSpeed;
  byId("how").onchange = chooseTakeOver;
  byId("blend").onchange = chooseTakeOver;
  byId("second").onchange = () => {
    byId("second").dataset.chosen = "yes";
  };
  document.addEventListener("keydown", onKey);
  listenInScene(onKey);
  startView();
}

function push(button) {
  const size = Number(byId("force").value);
  const force = button.dataset.push.split(",").map((part) => Number(part) * size);
  ask("push", { env_id: watchedEnv(), body: byId("body").value, force, seconds: Number(byId("seconds").value) });
}

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || (byId("keys").open && key !== "?")) return;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName) && target.type !== "checkbox") return;
  const camera = CAMERAS[Number(key) - 1];
  const action = camera ? () => lookFrom(camera) : keys[key];
  if (!action || (key === " " && target.tagName === "BUTTON")) return;
  event.preventDefault();
  action();
}
