// Reads digits drawn with a few strokes; fails if one is read as another.
import { load } from "./digits.js";
import { imageOf, probabilities } from "./strokes.js";

const arc = (x, y, rx, ry, from, to) =>
  Array.from({ length: 25 }, (_, i) => ((a) => [x + rx * Math.cos(a), y + ry * Math.sin(a)])(((from + ((to - from) * i) / 24) * Math.PI) / 180));
export const DRAWN = [
  [arc(100, 100, 45, 80, 0, 360)],
  [[[75, 60], [105, 20], [105, 180]]],
  [[...arc(100, 65, 45, 45, -170, 20), [55, 180], [150, 180]]],
  [[...arc(95, 60, 45, 42, -150, 90), ...arc(95, 142, 50, 40, -90, 150)]],
  [[[110, 20], [50, 120], [150, 120]], [[118, 90], [112, 180]]],
  [[[140, 20], [70, 20], [65, 90], ...arc(95, 132, 48, 46, -120, 140)]],
  [[[115, 20], [70, 80], ...arc(97, 132, 42, 44, 200, -160)]],
  [[[50, 20], [150, 20], [85, 180]], [[70, 105], [145, 95]]], // the training data have sevens with a bar
  [[...arc(100, 60, 35, 38, 90, -270), ...arc(100, 140, 42, 42, -90, 270)]],
  [[...arc(105, 65, 42, 42, 0, -360), [147, 65], [125, 180]]],
];

const digits = await load();
let wrong = 0;
DRAWN.forEach((strokes, digit) => {
  const image = imageOf(strokes), p = probabilities(digits.run({ image }).logits.data), best = p.indexOf(Math.max(...p));
  console.log(`${digit}: read as ${best}, ${(100 * p[best]).toFixed(1)} %`);
  wrong += best !== digit;
});
console.log(`${DRAWN.length - wrong} of ${DRAWN.length} right`);
process.exitCode = wrong ? 1 : 0;
