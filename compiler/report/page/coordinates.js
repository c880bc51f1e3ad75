// The second half of a layered drawing: horizontal positions (Brandes and Köpf, "Fast and Simple Horizontal Coordinate
// Assignment", with widths of vertices). In: a graph with ordered layers. Out: x, the middle of each vertex.
const GAP = 28, LANE = 14;

const isPoint = v => v.kind === "point" || v.kind === "port in" || v.kind === "port out";
const between = (u, v) => (u.w + v.w) / 2 + (isPoint(u) && isPoint(v) ? LANE : isPoint(u) || isPoint(v) ? 18 : GAP);

// Edges that cross a part of a long edge are not made straight.
function findConflicts(g) {
  const conflicts = new Set(), n = g.vertices.length, V = g.vertices;
  for (let k = 1; k < g.layers.length; k++) {
    const upper = g.layers[k - 1], lower = g.layers[k];
    let from = 0, scan = 0;
    lower.forEach((v, i) => {
      const inner = V[v].kind === "point" ? g.above[v].find(u => V[u].kind === "point") : undefined;
      if (inner === undefined && i < lower.length - 1) return;
      const to = inner === undefined ? upper.length - 1 : V[inner].pos;
      for (; scan <= i; scan++) {
        const w = lower[scan];
        for (const u of g.above[w])
          if ((V[u].pos < from || V[u].pos > to) && !(V[u].kind === "point" && V[w].kind === "point")) conflicts.add(u * n + w);
      }
      from = to;
    });
  }
  return conflicts;
}

// Vertices that get the same position, as cyclic lists: `align` is the next one, `root` the first.
function alignVertices(g, conflicts, down, left) {
  const n = g.vertices.length, V = g.vertices, root = [], align = [], next = down ? g.above : g.below;
  for (let v = 0; v < n; v++) root.push(v), align.push(v);
  const place = v => left ? V[v].pos : -V[v].pos;
  for (let k = 0; k < g.layers.length; k++) {
    const layer = g.layers[down ? k : g.layers.length - 1 - k];
    let last = -Infinity;
    for (const v of left ? layer : layer.slice().reverse()) {
      const near = next[v].slice().sort((a, b) => place(a) - place(b)), m = (near.length - 1) / 2;
      for (const i of near.length ? [Math.floor(m), Math.ceil(m)] : []) {
        const u = near[i];
        if (align[v] !== v || place(u) <= last || conflicts.has(down ? u * n + v : v * n + u)) continue;
        align[u] = v;
        align[v] = root[v] = root[u];
        last = place(u);
      }
    }
  }
  return root;
}

// The least positions of blocks from the left, then as far right as their neighbours allow.
function compactBlocks(g, root, left) {
  const n = g.vertices.length, after = Array.from({length: n}, () => []), before = Array.from({length: n}, () => []);
  const waiting = new Array(n).fill(0), x = new Array(n).fill(0), order = [];
  for (const layer of g.layers) for (let i = 1; i < layer.length; i++) {
    const u = layer[i - 1], v = layer[i], gap = between(g.vertices[u], g.vertices[v]);
    const [a, b] = left ? [root[u], root[v]] : [root[v], root[u]];
    after[a].push([b, gap]), before[b].push([a, gap]), waiting[b]++;
  }
  for (let v = 0; v < n; v++) if (root[v] === v && !waiting[v]) order.push(v);
  for (let i = 0; i < order.length; i++)
    for (const [w] of after[order[i]]) if (--waiting[w] === 0) order.push(w);
  for (const v of order) for (const [u, gap] of before[v]) x[v] = Math.max(x[v], x[u] + gap);
  for (const v of order.reverse()) {
    let most = Infinity;
    for (const [w, gap] of after[v]) most = Math.min(most, x[w] - gap);
    if (most < Infinity && before[v].length) x[v] = Math.max(x[v], most);
  }
  return root.map(r => left ? x[r] : -x[r]);
}

function assignPositions(g) {
  const conflicts = findConflicts(g), tries = [];
  for (const down of [true, false]) for (const left of [true, false])
    tries.push({left, x: compactBlocks(g, alignVertices(g, conflicts, down, left), left)});
  let best = null;
  for (const t of tries) {
    t.low = Infinity, t.high = -Infinity;
    t.x.forEach((x, i) => {
      t.low = Math.min(t.low, x - g.vertices[i].w / 2);
      t.high = Math.max(t.high, x + g.vertices[i].w / 2);
    });
    if (!best || t.high - t.low < best.high - best.low) best = t;
  }
  g.vertices.forEach((v, i) => {
    const all = tries.map(t => t.x[i] + (t.left ? best.low - t.low : best.high - t.high)).sort((a, b) => a - b);
    v.x = (all[1] + all[2]) / 2;
  });
}
