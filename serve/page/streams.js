// The most recently active streams, and the stream whose picture is shown.
import { byId, make, makeButton, rebuild, say } from "./dom.js";
import { count, percent, short } from "./format.js";
import { state } from "./state.js";

/**
 * The stream whose picture is shown.
 * @returns {string} empty if there is none
 */
export function chosenStream() {
  return byId("stream").value;
}

/**
 * Chooses the stream whose picture is shown.
 * @param {string} name
 */
export function setChosenStream(name) {
  byId("stream").value = name;
  markChosen();
}

/**
 * Shows the streams.
 * @param {?(name: string) => void} choose - called when a stream is pressed; null: streams have no pictures
 */
export function renderStreams(choose) {
  const streams = state.streams ?? [];
  const known = state.stream_count ?? streams.length; // of many, the server names the most recently active
  say("stream-count", count(known));
  const shown = [streams, known > streams.length, choose !== null];
  rebuild(byId("streams"), shown, () => {
    setChoices(streams);
    const items = streams.map((name) => streamItem(name, choose));
    if (known > streams.length) items.push(make("li", "and others", "hint"));
    return items.length ? items : [make("li", "none yet", "hint")];
  });
  streams.forEach((name, i) => setTitle(byId("streams").children[i], state.by_stream?.[name]));
  markChosen();
}

/**
 * Shows a stream's share of the replay buffer and its mean reward while the pointer is over it.
 * @param {HTMLElement} item
 * @param {?object} numbers - null if the server does not tell them
 */
function setTitle(item, numbers) {
  const reward = `mean reward ${short(numbers?.reward_mean)} of the last ${count(numbers?.rewards)}`;
  const title = numbers ? `${percent(numbers.share)} of the replay buffer; ${reward}` : "";
  if (item.title !== title) item.title = title;
}

function setChoices(streams) {
  const chosen = chosenStream();
  byId("stream").replaceChildren(...streams.map((name) => new Option(name, name)));
  byId("stream").value = streams.includes(chosen) ? chosen : (streams[0] ?? "");
}

function streamItem(name, choose) {
  if (choose === null) return make("li", name, "plain");
  const item = make("li");
  item.append(makeButton(name, () => choose(name)));
  return item;
}

function markChosen() {
  for (const button of byId("streams").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button.textContent === chosenStream());
  }
}
