// A stream's territory as a picture: who is where, how long each chunk was unused, and what was decided last.
import { short } from "./plots.js";

// Each mark is drawn in a square of `s` pixels whose middle is (x, y), in the colours `c`.
const marks = {
  "mineral": (g, c, x, y, s) => {
    g.fillStyle = c.mineral;
    g.beginPath();
    g.moveTo(x, y - s * 0.42); g.lineTo(x + s * 0.3, y); g.lineTo(x, y + s * 0.42); g.lineTo(x - s * 0.3, y);
    g.fill();
  },
  "worker": (g, c, x, y, s, count = 1) => {
    g.fillStyle = c.worker;
    disc(g, x, y, s * 0.34);
    g.fill();
    if (count > 1) write(g, c.card, x, y, s, count);
  },
  "protector": (g, c, x, y, s, count = 1) => {
    g.fillStyle = c.protector;
    g.beginPath();
    g.moveTo(x, y - s * 0.45); g.lineTo(x + s * 0.45, y + s * 0.38); g.lineTo(x - s * 0.45, y + s * 0.38);
    g.fill();
    if (count > 1) write(g, c.card, x, y + s * 0.12, s, count);
  },
  "queen": (g, c, x, y, s) => {
    g.fillStyle = c.queen;
    g.strokeStyle = c.text;
    g.lineWidth = Math.max(1, s * 0.06);
    g.beginPath();
    for (let i = 0; i < 10; i++) {
      const r = s * (i % 2 ? 0.22 : 0.5), angle = (i * Math.PI) / 5 - Math.PI / 2;
      g.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
    }
    g.closePath();
    g.fill();
    g.stroke();
  },
  "SEND": (g, c, x, y, s) => {
    g.strokeStyle = c.good;
    g.lineWidth = Math.max(2, s * 0.16);
    disc(g, x, y, s * 0.5);
    g.stroke();
  },
  "WAIT": (g, c, x, y, s) => {
    g.strokeStyle = c.bad;
    g.lineWidth = Math.max(2, s * 0.16);
    g.beginPath();
    g.moveTo(x - s * 0.42, y - s * 0.42); g.lineTo(x + s * 0.42, y + s * 0.42);
    g.moveTo(x + s * 0.42, y - s * 0.42); g.lineTo(x - s * 0.42, y + s * 0.42);
    g.stroke();
  },
  "OFF": (g, c, x, y, s) => {
    g.strokeStyle = c.text;
    g.lineWidth = Math.max(2, s * 0.12);
    g.strokeRect(x - s * 0.45, y - s * 0.45, s * 0.9, s * 0.9);
  },
};
const reach = (g, c, x, y, s, [certain, fades]) => { // chunks: within which a spawn dies for certain, or perhaps
  g.strokeStyle = c.protector;
  g.lineWidth = 1.2;
  disc(g, x, y, certain * s);
  g.stroke();
  g.setLineDash([4, 4]);
  disc(g, x, y, fades * s);
  g.stroke();
  g.setLineDash([]);
};
const LEGEND = [
  ["queen", marks.queen], ["worker", marks.worker], ["mineral", marks.mineral], ["protector", marks.protector],
  ["certain death", (g, c, x, y, s) => { g.strokeStyle = c.protector; disc(g, x, y, s * 0.4); g.stroke(); }],
  ["danger fades", (g, c, x, y, s) => { g.strokeStyle = c.protector; g.setLineDash([2, 2]); disc(g, x, y, s * 0.4); g.stroke(); g.setLineDash([]); }],
  ["long unused", (g, c, x, y, s) => { shade(g, c, 1); g.fillRect(x - s / 2, y - s / 2, s, s); g.globalAlpha = 1; }],
  ["last: SEND", marks.SEND], ["last: WAIT", marks.WAIT], ["last: no gate", marks.OFF],
];

function disc(g, x, y, r) {
  g.beginPath();
  g.arc(x, y, r, 0, 2 * Math.PI);
}

function write(g, colour, x, y, s, count) {
  g.fillStyle = colour;
  g.font = `600 ${Math.round(s * (count > 9 ? 0.42 : 0.55))}px system-ui, sans-serif`;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText(count > 99 ? "…" : String(count), x, y);
}

function shade(g, c, age) {
  g.fillStyle = c.unused;
  g.globalAlpha = 0.05 + 0.4 * Math.min(1, Math.max(0, age ?? 0));
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const named = Object.fromEntries(["card", "text", "line", "good", "bad"].map((name) => [name, of(name)]));
  return { ...named, mineral: of("mineral"), worker: of("worker"), protector: of("bad"), queen: of("queen"), unused: of("accent") };
}

// The canvas gets as many pixels as the screen has for it, so that it is sharp.
function paper(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * dots), Math.round(height * dots)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const g = canvas.getContext("2d");
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}

export function draw(canvas, picture) {
  const width = Math.max(100, canvas.clientWidth);
  const [rows, columns] = picture.size;
  const { g, w, h } = paper(canvas, width, (width * rows) / columns);
  const c = colours(), s = w / columns;
  const at = (row, column) => [(column + 0.5) * s, (row + 0.5) * s];
  const each = (grid, draw) => grid?.forEach((line, row) => line.forEach((count, column) => count > 0 && draw(...at(row, column), count)));
  g.fillStyle = c.card;
  g.fillRect(0, 0, w, h);
  picture.age?.forEach((line, row) => line.forEach((age, column) => {
    shade(g, c, age);
    g.fillRect(column * s, row * s, s, s);
  }));
  g.globalAlpha = 1;
  g.strokeStyle = c.line;
  g.lineWidth = 1;
  g.beginPath();
  for (let i = 1; i < columns; i++) { g.moveTo(i * s, 0); g.lineTo(i * s, h); }
  for (let i = 1; i < rows; i++) { g.moveTo(0, i * s); g.lineTo(w, i * s); }
  g.stroke();
  each(picture.minerals, (x, y) => marks.mineral(g, c, x, y, s));
  each(picture.protectors, (x, y) => reach(g, c, x, y, s, picture.danger));
  each(picture.workers, (x, y, count) => marks.worker(g, c, x, y, s, count));
  each(picture.protectors, (x, y, count) => marks.protector(g, c, x, y, s, count));
  if (picture.queen) marks.queen(g, c, ...at(...picture.queen), s);
  if (picture.last) {
    const { chunk, verdict } = picture.last;
    (marks[verdict] ?? marks.OFF)(g, c, ...at(Math.floor(chunk / columns), chunk % columns), s);
  }
}

// The same in words, for those who cannot see it.
export function describe(picture) {
  const sum = (grid) => (grid ?? []).flat().reduce((all, count) => all + count, 0);
  const fields = (picture.minerals ?? []).flat().filter((count) => count > 0).length;
  const [, columns] = picture.size;
  const place = (row, column) => `row ${row}, column ${column}`;
  const there = `${sum(picture.workers)} workers, ${sum(picture.protectors)} protectors, ${fields} mineral fields`;
  const queen = picture.queen ? `; queen at ${place(...picture.queen)} with energy ${short(picture.energy)}` : "";
  const last = picture.last;
  if (!last) return `${there}${queen}. Nothing decided yet.`;
  const where = place(Math.floor(last.chunk / columns), last.chunk % columns);
  const expected = last.expected === null || last.expected === undefined ? "" : `, expected reward ${short(last.expected)}`;
  return `${there}${queen}. Decision ${last.decision}: ${last.verdict}, ${last.type} at ${where}${expected}.`;
}

export function drawLegend(list) {
  const c = colours();
  list.replaceChildren(...LEGEND.map(([words, draw]) => {
    const item = document.createElement("li");
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    const { g, w } = paper(canvas, 16, 16);
    draw(g, c, w / 2, w / 2, w * 0.9);
    item.append(canvas, words);
    return item;
  }));
}
