// In: strokes, each a list of points [x, y] as a pointer drew them. Out: the 8 x 8 image that the network was trained with:
// the digit fills a bitmap of 32 x 32, and each number counts the dark pixels in a block of 4 x 4.
const SIZE = 32, BLOCK = 4, RADIUS = 2.6;

// The squared distance of a point to a segment.
function distance(x, y, [ax, ay], [bx, by]) {
  const dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy;
  const t = length ? Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;
  return (x - ax - t * dx) ** 2 + (y - ay - t * dy) ** 2;
}

function fit(strokes) {
  const points = strokes.flat(), side = SIZE - 2 * RADIUS;
  const [left, right] = [Math.min, Math.max].map((f) => f(...points.map((p) => p[0])));
  const [top, bottom] = [Math.min, Math.max].map((f) => f(...points.map((p) => p[1])));
  const scale = side / Math.max(right - left, bottom - top, 1);
  return strokes.map((s) => s.map(([x, y]) => [SIZE / 2 + scale * (x - (left + right) / 2), SIZE / 2 + scale * (y - (top + bottom) / 2)]));
}

export function imageOf(strokes) {
  const image = new Float32Array((SIZE / BLOCK) ** 2);
  if (!strokes.length) return image;
  const segments = fit(strokes).flatMap((s) => s.map((p, i) => [s[Math.max(i - 1, 0)], p]));
  for (let y = 0; y < SIZE; y++)
    for (let x = 0; x < SIZE; x++)
      if (segments.some(([a, b]) => distance(x + 0.5, y + 0.5, a, b) <= RADIUS * RADIUS))
        image[Math.floor(y / BLOCK) * (SIZE / BLOCK) + Math.floor(x / BLOCK)]++;
  return image;
}

/** The probability of each digit. */
export function probabilities(logits) {
  const top = Math.max(...logits), e = Array.from(logits, (v) => Math.exp(v - top)), sum = e.reduce((a, b) => a + b);
  return e.map((v) => v / sum);
}
