// What happened in the run: rollbacks, pins, restarts of the trainer, alarms. The plots mark the same times.
import { byId, make, rebuild } from "./dom.js";
import { clockTime, wordOf } from "./format.js";
import { state } from "./state.js";

/** Shows the events, newest first. */
export function renderEvents() {
  const events = state.events ?? [];
  byId("no-events").hidden = events.length > 0;
  rebuild(byId("events"), events, () => [...events].reverse().map(itemOf));
}

function itemOf({ t, kind, text }) {
  const item = make("li", "", kind);
  const time = make("time", clockTime(t, true));
  time.dateTime = new Date(1000 * t).toISOString();
  time.title = new Date(1000 * t).toLocaleString();
  const said = make("span");
  said.append(make("b", `${wordOf(kind)}:`), ` ${text}`);
  item.append(time, said);
  return item;
}
