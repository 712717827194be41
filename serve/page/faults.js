// Everything that is wrong, as text: a list on the screen, and a short version for screen readers.
import { byId, make, say, setText } from "./dom.js";
import { ago, known } from "./format.js";
import { idleTime, isStale, staleness, state } from "./state.js";
import { grownAge } from "./tiles.js";

/** Shows the current faults. */
export function renderFaults() {
  const found = faults();
  say("spoken", found.map(({ brief }) => brief).join(". ")); // changes only if a fault appears or ends, not each second
  const list = byId("faults");
  list.hidden = !found.length;
  while (list.children.length < found.length) list.append(make("li"));
  while (list.children.length > found.length) list.lastChild.remove();
  found.forEach(({ kind, text }, index) => {
    list.children[index].className = kind;
    setText(list.children[index], text);
  });
}

// {kind: severity, text: for the screen, brief: for screen readers} of each fault
function faults() {
  const unknown = connectionFault();
  if (unknown !== null) return [unknown]; // everything else that is known is old
  return [trainerFault(), championFault(), servingFault()].filter((fault) => fault !== null);
}

function connectionFault() {
  const { link } = document.body.dataset;
  const since = Number.isFinite(staleness()) ? ago(staleness()).replace("just now", "0 s") : null;
  const old = since === null ? "" : `The numbers below are ${since} old. `;
  if (link === "closed") {
    return bad(`No connection to the server. ${old}Trying again.`, "no connection to the server");
  }
  if (link === "silent") {
    return bad(`The server is connected but sends nothing. ${old}`, "the server sends nothing");
  }
  if (isStale()) {
    const brief = "the decision loop is not responding";
    return bad(`The server is up, but the decision loop is not responding. ${old}`, brief);
  }
  return null;
}

function trainerFault() {
  const { trainer = {}, serving = {} } = state;
  if (!["hung", "dead", "given up"].includes(trainer.state)) return null;
  const brief = trainer.state === "given up" ? "The trainer was given up" : `The trainer is ${trainer.state}`;
  const why = trainer.why ? `: ${trainer.why}` : "";
  const beat = `Its last heartbeat was ${grownAge(trainer.beat_age_s)} ago.`.replace("just now ago", "just now");
  const sentences = [
    `${brief}${why}.`.replace("..", "."),
    known(trainer.beat_age_s) && beat,
    known(serving.version) && `Version ${serving.version} continues to decide, but nothing is learned.`,
  ];
  return bad(sentences.filter(Boolean).join(" "), brief);
}

function championFault() {
  const { champion = {}, serving = {} } = state;
  if (!champion.alarm) return null;
  const brief = "No new version goes live";
  return bad(`${brief}: ${champion.alarm_why}. Version ${serving.version} continues to decide.`, brief);
}

function servingFault() {
  if (state.phase === "stopping") return warning("The run is ending.", "the run is ending");
  if (idleTime() < (state.decisions?.idle_limit_s ?? Infinity)) return null;
  const text = `No observation has come for ${ago(idleTime())}, so there are no decisions.`;
  return warning(text, "no observations arrive");
}

function bad(text, brief) {
  return { kind: "bad", text, brief };
}

function warning(text, brief) {
  return { kind: "warn", text, brief };
}
