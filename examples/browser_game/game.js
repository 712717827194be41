// Catch: a ball falls, a paddle of a third of the width should be below it. 12 steps are one episode.
const STEPS = 12;
const HALF = 1 / 3; // of the paddle, if the court goes from -1 to 1
const MOVE = 0.25;

export class Catch {
  constructor() {
    this.caught = []; // true or false, the last 50 balls
    this.balls = 0;
    this.reset();
  }

  // The first observation of an episode.
  reset() {
    this.ball = 2 * Math.random() - 1;
    this.paddle = 2 * Math.random() - 1;
    this.left = STEPS;
    return this.observe();
  }

  // What the policy sees: 3 numbers.
  observe() {
    return [this.ball, this.paddle, this.left / STEPS];
  }

  // One step: 0 left, 1 stay, 2 right.
  step(action) {
    this.paddle = Math.max(-1, Math.min(1, this.paddle + MOVE * (action - 1)));
    this.left -= 1;
    const done = this.left === 0;
    const hit = Math.abs(this.ball - this.paddle) <= HALF;
    if (done) {
      this.balls += 1;
      this.caught = [...this.caught, hit].slice(-50);
    }
    return { obs: this.observe(), reward: done ? (hit ? 1 : -1) : 0, done };
  }

  get share() {
    return this.caught.filter(Boolean).length / Math.max(1, this.caught.length);
  }

  draw(canvas) {
    const g = canvas.getContext("2d");
    const x = (place) => ((place + 1) / 2) * (canvas.width - 40) + 20;
    g.clearRect(0, 0, canvas.width, canvas.height);
    g.fillStyle = getComputedStyle(canvas).color;
    g.beginPath();
    g.arc(x(this.ball), 20 + (1 - this.left / STEPS) * (canvas.height - 60), 10, 0, 7);
    g.fill();
    const half = HALF * (canvas.width - 40) * 0.5;
    g.fillRect(x(this.paddle) - half, canvas.height - 24, 2 * half, 10);
  }
}
