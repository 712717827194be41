// The ages of the numbers, which grow by themselves, and what follows from them.
import { byId, say } from "./dom.js";
import { ago, known } from "./format.js";
import { pictureAge } from "./picture_card.js";
import { age, idleTime, isFresh, state } from "./state.js";
import { grownAge, renderTrainer } from "./tiles.js";
import { renderFaults } from "./faults.js";

const IDLE_S = 3; // without a decision before the card reports it

/** Shows all current ages. */
export function renderAges() {
  const fresh = isFresh();
  document.body.dataset.fresh = fresh ? "yes" : "no";
  say("serving", servingText(state.serving ?? {}));
  if (state.trainer) renderTrainer();
  say("idle", fresh && idleTime() >= IDLE_S ? `none for ${ago(idleTime())}` : "");
  say("picture-age", pictureAge() === null ? "" : `changed ${withAgo(pictureAge())}`);
  const closed = document.body.dataset.link === "closed";
  for (const button of document.querySelectorAll(".control button")) button.classList.toggle("off", closed);
  renderFaults();
}

function servingText({ version, age_s: made }) {
  if (!known(version)) return "";
  if (!known(made)) return `version ${version}`;
  const isNew = made + age() < 0.95;
  return `version ${version} · ${isNew ? "just made" : `${grownAge(made)} old`}`;
}

function withAgo(seconds) {
  return seconds < 0.95 ? ago(seconds) : `${ago(seconds)} ago`;
}
