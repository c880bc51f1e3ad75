// The first half of a layered drawing (Sugiyama et al.): layers, points of long edges, and orders with few crossings.
// In: vertices {w, h} and nets {value, from, to: [...]} of indices. Out: vertices with layer and pos, layers, edges
// between neighbouring layers.
const POINTS_MOST = 20000, LONG_NET = 12;

// Longest paths from the sources. Cycles, which groups of convex sets do not have, are entered at their first vertex.
function assignLayers(g) {
  const n = g.vertices.length, out = Array.from({length: n}, () => []), waiting = new Array(n).fill(0);
  const isItem = v => g.vertices[v].kind === "item";
  for (const net of g.nets) for (const t of net.to) if (isItem(net.from) && isItem(t)) out[net.from].push(t), waiting[t]++;
  const layer = new Array(n).fill(0), order = [], ready = [], done = new Array(n).fill(false);
  for (let v = n - 1; v >= 0; v--) if (!waiting[v]) ready.push(v);
  for (let next = 0; order.length < n;) {
    if (!ready.length) {
      while (done[next]) next++;
      ready.push(next);
    }
    const v = ready.pop();
    if (done[v]) continue;
    done[v] = true;
    order.push(v);
    for (const t of out[v]) {
      if (done[t]) continue;
      layer[t] = Math.max(layer[t], layer[v] + 1);
      if (--waiting[t] === 0) ready.push(t);
    }
  }
  // What reads less than is read from it moves down to its readers: shorter edges.
  const reads = new Array(n).fill(0), feeds = new Array(n).fill(0);
  for (const net of g.nets) feeds[net.from]++, net.to.forEach(t => reads[t]++);
  for (const v of order.slice().reverse()) {
    if (!out[v].length || reads[v] >= feeds[v]) continue;
    const least = Math.min(...out[v].map(t => layer[t]));
    if (least - 1 > layer[v]) layer[v] = least - 1;
  }
  return layer;
}

// The title of a group and its ports on top are the first layer, the ports below the last.
function placeLayers(g) {
  const layer = assignLayers(g), items = g.vertices.map((_, i) => i).filter(i => g.vertices[i].kind === "item");
  const first = items.length < g.vertices.length ? 1 : 0, least = items.reduce((m, i) => Math.min(m, layer[i]), Infinity);
  let last = first;
  for (const i of items) last = Math.max(last, g.vertices[i].layer = layer[i] - least + first);
  for (const v of g.vertices) if (v.kind !== "item") v.layer = v.kind === "port out" ? last + 1 : 0;
}

// One chain of points for each net, from its source to its last reader.
function addPoints(g) {
  for (const net of g.nets) {
    const from = g.vertices[net.from].layer;
    net.back = net.to.filter(t => g.vertices[t].layer <= from);
    net.ahead = net.to.filter(t => g.vertices[t].layer > from);
    net.span = Math.max(0, ...net.ahead.map(t => g.vertices[t].layer - from));
  }
  let total = g.nets.reduce((t, n) => t + Math.max(0, n.span - 1), 0);
  for (const net of g.nets.filter(n => n.span > LONG_NET).sort((a, b) => b.span - a.span)) {
    if (total <= POINTS_MOST) break;
    total -= net.span - 1;
    net.cut = true;
  }
  g.edges = [];
  for (const net of g.nets) {
    net.parts = [];
    if (net.cut) continue;
    const from = g.vertices[net.from].layer, chain = [net.from], join = (u, v) => {
      g.edges.push([u, v]);
      net.parts.push([u, v]);
    };
    for (const t of net.ahead.slice().sort((a, b) => g.vertices[a].layer - g.vertices[b].layer)) {
      const layer = g.vertices[t].layer;
      while (from + chain.length < layer) {
        const point = g.vertices.push({kind: "point", w: 2, h: 0, layer: from + chain.length}) - 1;
        join(chain[chain.length - 1], point);
        chain.push(point);
      }
      join(chain[layer - 1 - from], t);
    }
  }
}

function linkEdges(g) {
  g.above = g.vertices.map(() => []);
  g.below = g.vertices.map(() => []);
  for (const [u, v] of g.edges) g.below[u].push(v), g.above[v].push(u);
}

// ------------------------------------------------------------ orders
function firstOrder(g) {
  const seen = new Array(g.vertices.length).fill(false), todo = [];
  g.layers = Array.from({length: Math.max(...g.vertices.map(v => v.layer)) + 1}, () => []);
  const roots = g.vertices.map((_, i) => i).filter(i => !g.above[i].length);
  roots.sort((a, b) => g.vertices[a].layer - g.vertices[b].layer || a - b);
  for (const r of roots) {
    todo.push(r);
    while (todo.length) {
      const v = todo.pop();
      if (seen[v]) continue;
      seen[v] = true;
      g.layers[g.vertices[v].layer].push(v);
      for (let i = g.below[v].length - 1; i >= 0; i--) todo.push(g.below[v][i]);
    }
  }
  numberLayers(g);
}
function numberLayers(g) {
  for (const layer of g.layers) {
    const title = layer.findIndex(v => g.vertices[v].kind === "title");
    if (title > 0) layer.unshift(...layer.splice(title, 1));
    layer.forEach((v, i) => { g.vertices[v].pos = i; });
  }
}

// Pairs of edges between two layers that cross (Barth, Jünger and Mutzel).
function crossingsOf(g) {
  let sum = 0;
  for (let k = 0; k + 1 < g.layers.length; k++) {
    const width = g.layers[k + 1].length, ends = [];
    for (const u of g.layers[k]) ends.push(...g.below[u].map(v => g.vertices[v].pos).sort((a, b) => a - b));
    let first = 1;
    while (first < width) first *= 2;
    const tree = new Array(2 * first).fill(0);
    for (const end of ends) {
      let i = end + first;
      for (tree[i]++; i > 1; i >>= 1) {
        if (i % 2 === 0) sum += tree[i + 1];
        tree[(i >> 1)]++;
      }
    }
  }
  return sum;
}

function sweep(g, down) {
  for (let k = 0; k < g.layers.length; k++) {
    const layer = g.layers[down ? k : g.layers.length - 1 - k], next = down ? g.above : g.below, want = new Map();
    for (const v of layer) {
      const places = next[v].map(u => g.vertices[u].pos);
      want.set(v, places.length ? places.reduce((a, b) => a + b) / places.length : -1);
    }
    // Vertices without neighbours keep their places.
    const moving = layer.filter(v => want.get(v) >= 0).sort((a, b) => want.get(a) - want.get(b) || g.vertices[a].pos - g.vertices[b].pos);
    let i = 0;
    layer.forEach((v, at) => { if (want.get(v) >= 0) layer[at] = moving[i++]; });
    layer.forEach((v, at) => { g.vertices[v].pos = at; });
  }
  numberLayers(g);
}

function orderLayers(g) {
  firstOrder(g);
  let best = g.layers.map(l => l.slice()), least = crossingsOf(g);
  const rounds = g.edges.length > 20000 ? 4 : 12;
  for (let i = 0, worse = 0; i < rounds && least > 0 && worse < 5; i++) {
    sweep(g, i % 2 === 0);
    const now = crossingsOf(g);
    if (now < least) best = g.layers.map(l => l.slice()), least = now, worse = 0;
    else worse++;
  }
  g.layers = best;
  numberLayers(g);
}
