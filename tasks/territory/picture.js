// A territory as a picture: its map, how long each chunk was unused, and the last decision.
// picture.py makes `data`; docs/new-stream.md describes each export.
import { known, short } from "./format.js";

export const title = "Territory";

// Colours in addition to the page's, with a contrast of at least 3:1 on a card.
const LIGHT = { mineral: "#0a7f86", worker: "#4a5a70", queen: "#d99400" };
const DARK = { mineral: "#3fc3cb", worker: "#aebccd", queen: "#f0b840" };

// Each mark is drawn in a square of `s` pixels whose centre is (x, y), in the colours `c`.
const marks = {
  mineral(g, c, x, y, s) {
    g.fillStyle = c.mineral;
    polygon(g, [[x, y - s * 0.42], [x + s * 0.3, y], [x, y + s * 0.42], [x - s * 0.3, y]]);
    g.fill();
  },
  worker(g, c, x, y, s, count = 1) {
    g.fillStyle = c.worker;
    disc(g, x, y, s * 0.34);
    g.fill();
    if (count > 1) write(g, c.card, x, y, s, count);
  },
  protector(g, c, x, y, s, count = 1) {
    g.fillStyle = c.bad;
    polygon(g, [[x, y - s * 0.45], [x + s * 0.45, y + s * 0.38], [x - s * 0.45, y + s * 0.38]]);
    g.fill();
    if (count > 1) write(g, c.card, x, y + s * 0.12, s, count);
  },
  queen(g, c, x, y, s) {
    g.fillStyle = c.queen;
    g.strokeStyle = c.text;
    g.lineWidth = Math.max(1, s * 0.06);
    polygon(g, star(x, y, s));
    g.fill();
    g.stroke();
  },
  SEND(g, c, x, y, s) {
    g.strokeStyle = c.good;
    g.lineWidth = Math.max(2, s * 0.16);
    disc(g, x, y, s * 0.5);
    g.stroke();
  },
  WAIT(g, c, x, y, s) {
    const r = s * 0.42;
    g.strokeStyle = c.bad;
    g.lineWidth = Math.max(2, s * 0.16);
    g.beginPath();
    g.moveTo(x - r, y - r);
    g.lineTo(x + r, y + r);
    g.moveTo(x + r, y - r);
    g.lineTo(x - r, y + r);
    g.stroke();
  },
  OFF(g, c, x, y, s) {
    g.strokeStyle = c.text;
    g.lineWidth = Math.max(2, s * 0.12);
    g.strokeRect(x - s * 0.45, y - s * 0.45, s * 0.9, s * 0.9);
  },
  certain(g, c, x, y, s) {
    g.strokeStyle = c.bad;
    disc(g, x, y, s * 0.4);
    g.stroke();
  },
  fading(g, c, x, y, s) {
    g.setLineDash([2, 2]);
    marks.certain(g, c, x, y, s);
    g.setLineDash([]);
  },
  unused(g, c, x, y, s) {
    shade(g, c, 1);
    g.fillRect(x - s / 2, y - s / 2, s, s);
    g.globalAlpha = 1;
  },
};

export const legend = [
  ["queen", marks.queen],
  ["worker", marks.worker],
  ["mineral", marks.mineral],
  ["protector", marks.protector],
  ["certain death", marks.certain],
  ["danger fades", marks.fading],
  ["long unused", marks.unused],
  ["last: SEND", marks.SEND],
  ["last: WAIT", marks.WAIT],
  ["last: no gate", marks.OFF],
].map(([label, mark]) => [label, (canvas, theme) => {
  const middle = canvas.width / 2;
  mark(canvas.getContext("2d"), colours(theme), middle, middle, canvas.width * 0.9);
}]);

/**
 * Draws a territory.
 * @param {HTMLCanvasElement} canvas - empty
 * @param {object} data
 * @param {object} theme
 */
export function draw(canvas, data, theme) {
  const g = canvas.getContext("2d");
  const c = colours(theme);
  const columns = data.size[1];
  const s = canvas.width / columns;
  const at = (row, column) => [(column + 0.5) * s, (row + 0.5) * s];
  g.fillStyle = c.card;
  g.fillRect(0, 0, canvas.width, canvas.height);
  drawAges(g, c, data.age, s);
  drawGrid(g, c, data.size, s);
  each(data.minerals, (row, column) => marks.mineral(g, c, ...at(row, column), s));
  each(data.protectors, (row, column) => drawReach(g, c, ...at(row, column), s, data.danger));
  each(data.workers, (row, column, count) => marks.worker(g, c, ...at(row, column), s, count));
  each(data.protectors, (row, column, count) => marks.protector(g, c, ...at(row, column), s, count));
  marks.queen(g, c, ...at(...data.queen), s);
  const { chunk, verdict } = data.last;
  const mark = marks[verdict] ?? marks.OFF;
  mark(g, c, ...at(Math.floor(chunk / columns), chunk % columns), s);
}

/**
 * The picture as text, for people who cannot see it.
 * @param {object} data
 * @returns {string}
 */
export function describe(data) {
  const sum = (grid) => grid.flat().reduce((all, count) => all + count, 0);
  const fields = data.minerals.flat().filter((count) => count > 0).length;
  const place = (row, column) => `row ${row}, column ${column}`;
  const there = `${sum(data.workers)} workers, ${sum(data.protectors)} protectors, ${fields} mineral fields`;
  const queen = `queen at ${place(...data.queen)} with energy ${short(data.energy)}`;
  const { chunk, expected, type, verdict } = data.last;
  const columns = data.size[1];
  const where = place(Math.floor(chunk / columns), chunk % columns);
  const worth = known(expected) ? `, expected reward ${short(expected)}` : "";
  return `${there}; ${queen}. Last decision: ${verdict}, ${type} at ${where}${worth}.`;
}

function colours(theme) {
  return { ...theme, ...(theme.dark ? DARK : LIGHT) };
}

function each(grid, visit) {
  grid.forEach((line, row) => line.forEach((count, column) => {
    if (count > 0) visit(row, column, count);
  }));
}

function drawAges(g, c, ages, s) {
  ages.forEach((line, row) => line.forEach((age, column) => {
    shade(g, c, age);
    g.fillRect(column * s, row * s, s, s);
  }));
  g.globalAlpha = 1;
}

function drawGrid(g, c, [rows, columns], s) {
  g.strokeStyle = c.line;
  g.lineWidth = 1;
  g.beginPath();
  for (let i = 1; i < columns; i++) {
    g.moveTo(i * s, 0);
    g.lineTo(i * s, rows * s);
  }
  for (let i = 1; i < rows; i++) {
    g.moveTo(0, i * s);
    g.lineTo(columns * s, i * s);
  }
  g.stroke();
}

// Circles within which a spawn certainly dies, and within which it may die.
function drawReach(g, c, x, y, s, [certain, fades]) {
  g.strokeStyle = c.bad;
  g.lineWidth = 1.2;
  disc(g, x, y, certain * s);
  g.stroke();
  g.setLineDash([4, 4]);
  disc(g, x, y, fades * s);
  g.stroke();
  g.setLineDash([]);
}

function shade(g, c, age) {
  g.fillStyle = c.accent;
  g.globalAlpha = 0.05 + 0.4 * Math.min(1, Math.max(0, age));
}

function disc(g, x, y, r) {
  g.beginPath();
  g.arc(x, y, r, 0, 2 * Math.PI);
}

function polygon(g, corners) {
  g.beginPath();
  for (const corner of corners) g.lineTo(...corner);
  g.closePath();
}

function star(x, y, s) {
  return Array.from({ length: 10 }, (_, i) => {
    const r = s * (i % 2 ? 0.22 : 0.5);
    const angle = (i * Math.PI) / 5 - Math.PI / 2;
    return [x + r * Math.cos(angle), y + r * Math.sin(angle)];
  });
}

function write(g, colour, x, y, s, count) {
  g.fillStyle = colour;
  g.font = `600 ${Math.round(s * (count > 9 ? 0.42 : 0.55))}px system-ui, sans-serif`;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText(count > 99 ? "…" : String(count), x, y);
}
