// Playback: pause, speed, recording, and the badges for unusual states.
import { byId, say, setBadges, setOptions } from "./dom.js";
import { short } from "./format.js";
import { server, state } from "./state.js";
import { ask } from "./talk.js";
import { by } from "./visitor.js";

const ANSWER_MS = 1000; // time for the server to apply a requested speed
const pace = (speed) => speed ?? Infinity; // null: as fast as possible
let wanted = { speed: 1, at: 0 }; // the last requested speed

/** Shows whether the test plays, and how fast. */
export function renderTransport() {
  say("pause", state.paused ? "Resume" : "Pause");
  byId("pause").classList.toggle("on", state.paused);
  const offered = server.speeds.includes(state.speed) ? server.speeds : [state.speed, ...server.speeds]; // may be any
  setOptions(byId("speed"), offered.map((speed) => [speed, speedText(speed)]));
  byId("speed").value = String(state.speed);
  say("rate", rateText());
  say("record", state.recording ? "Stop recording" : "Record");
  byId("record").classList.toggle("on", state.recording);
  setBadges(badges());
}

/**
 * Requests the next speed.
 * @param {number} by - 1: faster, -1: slower
 */
export function changeSpeed(by) {
  const answered = Date.now() - wanted.at >= ANSWER_MS; // presses may come faster than answers
  const from = pace(answered ? state.speed : wanted.speed);
  const { speeds } = server;
  const next = by > 0 ? speeds.find((speed) => pace(speed) > from) : speeds.findLast((speed) => pace(speed) < from);
  if (next === undefined) return;
  wanted = { speed: next, at: Date.now() };
  ask("speed", { factor: next });
}

/** Requests the speed that was chosen from the list. */
export function chooseSpeed() {
  const chosen = byId("speed").value;
  ask("speed", { factor: chosen === "null" ? null : Number(chosen) });
}

function speedText(speed) {
  if (speed === null) return "max";
  return speed < 1 ? `1/${+(1 / speed).toFixed(1)}×` : `${speed}×`;
}

function rateText() {
  if (state.paused) return "paused";
  return state.real_time === null ? "" : `${short(state.real_time)}× real`;
}

function badges() {
  const doer = (what) => by(state.by?.[what], state.you);
  const sides = state.comparing;
  const all = [
    state.paused && { text: `paused${doer("paused")}` },
    state.policy?.pinned && { text: `pinned${doer("pinned")}` },
    state.policy?.swapping && { text: "swapping" },
    sides && { text: `A ${sides[0]} | B ${sides[1]}${doer("comparing")}` },
    state.recording && { text: `rec${doer("recording")}`, className: "rec" },
    server.readOnly && { text: "read only", title: "you may watch, but not control" },
    state.phase === "ended" && { text: "ended" },
  ];
  return all.filter(Boolean);
}
