// The most recently active streams as a table, and the stream whose picture is shown.
import { byId, inUse, make, makeButton, say, setRows, setText } from "./dom.js";
import { ago, count, known, percent, short, signed } from "./format.js";
import { openedStream, openStream, renderOneStream } from "./one_stream.js";
import { now, server, state } from "./state.js";
import { ask } from "./talk.js";

// Of each column that can be sorted: the value of a row, and whether the first press puts the largest first.
const SORTED = {
  name: [(name) => name, false],
  reward: [(name, of) => of.reward_mean, true],
  rate: [(name, of) => of.per_second, true],
  share: [(name, of) => of.share, true],
  seen: [(name, of) => of.seen, true],
};
const order = { by: "name", down: false };

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
}

/** Makes the headings of the table sort it. */
export function startStreams() {
  for (const button of byId("streams").querySelectorAll("th button")) {
    button.onclick = () => sortBy(button.dataset.by);
  }
}

function sortBy(column) {
  order.down = order.by === column ? !order.down : SORTED[column][1];
  order.by = column;
  renderStreams(choosePicture);
}

let choosePicture = null; // called with the name of a stream that is pressed; null: streams have no pictures

/**
 * Shows the streams.
 * @param {?(name: string) => void} choose - called when a stream is pressed; null: streams have no pictures
 */
export function renderStreams(choose) {
  choosePicture = choose;
  const streams = state.streams ?? [];
  const all = state.stream_count ?? streams.length; // of many, the server names the most recently active
  say("stream-count", all > streams.length ? `${count(all)}, of which the last ${streams.length} active` : count(all));
  setChoices(streams);
  const [body] = byId("streams").tBodies;
  if (!inUse(body) || body.rows.length === 0) setRows(body, "stream", sorted(streams), streamRow);
  for (const row of body.rows) markRow(row, state.by_stream?.[row.dataset.stream] ?? {});
  for (const heading of byId("streams").querySelectorAll("th[data-by]")) {
    const chosen = heading.dataset.by === order.by;
    heading.setAttribute("aria-sort", chosen ? (order.down ? "descending" : "ascending") : "none");
  }
  byId("no-streams").hidden = streams.length > 0;
  renderOneStream();
}

function sorted(streams) {
  const [value] = SORTED[order.by];
  const of = (name) => value(name, state.by_stream?.[name] ?? {});
  const sign = order.down ? -1 : 1;
  return [...streams].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (!known(x) || !known(y)) return known(y) - known(x); // unknown ones last
    const byName = a.localeCompare(b, "en", { numeric: true });
    return order.by === "name" ? sign * byName : sign * (x < y ? -1 : Number(x > y)) || byName;
  });
}

function streamRow(name) {
  const row = make("tr");
  const first = make("td", "", "name");
  const open = makeButton(name, () => press(name));
  open.title = name; // a long one is cut
  first.append(open);
  const learning = make("td", "", "control");
  learning.append(makeButton("", () => switchLearning(name)));
  row.append(first, make("td"), make("td"), make("td"), make("td"), make("td", "", "learns"), learning);
  return row;
}

function press(name) {
  openStream(openedStream() === name ? null : name);
  choosePicture?.(name);
  renderStreams(choosePicture);
}

function switchLearning(stream) {
  ask("learn", null, { stream, on: state.by_stream?.[stream]?.learned === false });
}

function markRow(row, numbers) {
  const { stream } = row.dataset;
  const learns = numbers.learned !== false;
  setText(row.cells[1], signed(numbers.reward_mean));
  row.cells[1].title = `mean of its last ${count(numbers.rewards)} rewards`;
  setText(row.cells[2], rate(numbers.per_second));
  setText(row.cells[3], percent(numbers.share));
  setText(row.cells[4], known(numbers.seen) ? ago(Math.max(0, now() - numbers.seen)) : "–");
  setText(row.cells[5], learns ? "on" : "off");
  row.cells[5].hidden = !server.readOnly;
  const name = row.cells[0].firstChild;
  name.setAttribute("aria-pressed", openedStream() === stream || (choosePicture !== null && chosenStream() === stream));
  const button = row.cells[6].firstChild;
  setText(button, learns ? "on" : "off");
  button.setAttribute("aria-pressed", learns);
  button.setAttribute("aria-label", `learn from ${stream}`);
  button.title = learns ? "press to stop learning from this stream" : "press to learn from this stream again";
}

// Decisions a second, or for slow streams the time from one to the next.
function rate(perSecond) {
  if (!known(perSecond)) return "–";
  return perSecond >= 0.5 ? `${short(perSecond)} /s` : `every ${ago(1 / perSecond)}`;
}

function setChoices(streams) {
  const select = byId("stream");
  const made = JSON.stringify(streams);
  if (select.dataset.made === made) return;
  select.dataset.made = made;
  const chosen = chosenStream();
  select.replaceChildren(...streams.map((name) => new Option(name, name)));
  select.value = streams.includes(chosen) ? chosen : (streams[0] ?? "");
}
