// The layout of a group and of the open groups in it. Edges run in lanes of their own past the boxes of a layer, and
// change lanes between layers only: no edge crosses a box. In: a group. Out: group.layout {w, h, nets, ports}, items with
// x, y, w, h relative to their group.
const BOX = {w: 196, h: 62}, PORT = {w: 176, h: 46}, PAD = 16, HEAD = 34;

function itemOf(leaf, group) {
  for (let i = leaf; i; i = i.parent) if (i.parent === group) return i;
  return null;
}

// The values that pass between the items of a group, and between it and what is around it.
function findNets(group, tree) {
  const nets = new Map(), inside = new Map();
  const put = (value, from, to, leaf) => {
    if (!nets.has(value)) nets.set(value, {value, from, to: new Map()});
    if (to && !nets.get(value).to.has(to)) nets.get(value).to.set(to, leaf);
  };
  for (const item of childrenOf(group)) for (const leaf of leavesOf(item)) inside.set(leaf, item);
  for (const [leaf, item] of inside) {
    for (const value of leaf.reads) {
      const source = tree.producer.get(value);
      if (!source) continue;
      const from = inside.get(source);
      if (from !== item) put(value, from || "in", item, leaf);
    }
  }
  if (group.kind !== "node")
    for (const leaf of inside.keys()) for (const value of leaf.writes) if (leavesGroup(value, group, tree)) put(value, inside.get(leaf), "out", leaf);
  return bundle([...nets.values()]);
}
// Values that pass between the same closed items are one edge.
function bundle(nets) {
  const closed = i => i !== "in" && i !== "out" && i.kind !== "region" && !i.open, same = new Map(), numbers = new Map(), kept = [];
  const number = i => { if (!numbers.has(i)) numbers.set(i, numbers.size); return numbers.get(i); };
  for (const net of nets) {
    net.values = [net.value];
    const ends = [net.from, ...net.to.keys()];
    if (!ends.every(closed)) { kept.push(net); continue; }
    const key = ends.map(number).slice(1).sort((a, b) => a - b).join(" ") + "|" + number(net.from);
    if (same.has(key)) same.get(key).values.push(net.value);
    else same.set(key, net), kept.push(net);
  }
  return kept;
}
function leavesGroup(value, group, tree) {
  return (tree.readers.get(value) || []).some(r => !isInside(r, group));
}
function isInside(leaf, group) {
  for (let i = leaf; i; i = i.parent) if (i === group) return true;
  return false;
}

function itemSize(item, tree) {
  if (item.kind === "port") return PORT;
  if (item.kind !== "region" && !(item.open && canOpen(item))) return BOX;
  layoutGroup(item, tree);
  return item.layout;
}

const titleOf = item => item.kind === "node" ? item.node.op + (leafName(item.node.name) ? "  " + leafName(item.node.name) : "") : item.title;

function layoutGroup(group, tree) {
  if (group.layout) return;
  const items = childrenOf(group), g = {vertices: [], nets: []}, at = new Map(), ports = {in: new Map(), out: new Map()};
  for (const item of items) {
    const {w, h} = itemSize(item, tree);
    Object.assign(item, {w, h});
    at.set(item, g.vertices.push({kind: "item", item, w, h}) - 1);
  }
  if (group.parent)
    g.vertices.push({kind: "title", w: Math.min(340, widthOf(titleOf(group), "title") + 48), h: HEAD});
  const port = (side, value) => {
    if (!ports[side].has(value)) ports[side].set(value, g.vertices.push({kind: "port " + side, w: 4, h: 0, value}) - 1);
    return ports[side].get(value);
  };
  for (const net of findNets(group, tree)) {
    const from = net.from === "in" ? port("in", net.value) : at.get(net.from);
    const to = [...net.to].map(([t]) => t === "out" ? port("out", net.value) : at.get(t));
    g.nets.push({value: net.value, values: net.values, from, to});
  }
  if (!g.vertices.length) g.vertices.push({kind: "title", w: BOX.w, h: HEAD});
  placeLayers(g);
  addPoints(g);
  linkEdges(g);
  orderLayers(g);
  assignPositions(g);
  finish(group, g, ports);
}

// ------------------------------------------------------------ places and paths
function finish(group, g, ports) {
  const pad = group.parent ? PAD : 24, heights = g.layers.map(l => Math.max(0, ...l.map(v => g.vertices[v].h)));
  const left = Math.min(...g.vertices.map(v => v.x - v.w / 2)), right = Math.max(...g.vertices.map(v => v.x + v.w / 2));
  for (const v of g.vertices) v.x += pad - left;
  const tops = [], widest = g.layers.map(() => 0);
  for (const [u, v] of g.edges) widest[g.vertices[u].layer] = Math.max(widest[g.vertices[u].layer], Math.abs(g.vertices[u].x - g.vertices[v].x));
  let y = group.parent ? 0 : pad;
  g.layers.forEach((layer, k) => {
    tops[k] = y;
    const titled = k === 0 && group.parent, borders = layer.every(v => g.vertices[v].kind === "port out");
    y += heights[k] + (k === g.layers.length - 1 ? 0 : titled ? 12 + Math.min(20, widest[k] * 0.05) : 34 + Math.min(30, widest[k] * 0.05));
    if (borders && group.parent) tops[k] = y -= 10;
  });
  g.bottom = y + (group.parent && g.layers[g.layers.length - 1].some(v => g.vertices[v].kind === "port out") ? 0 : pad);
  for (const v of g.vertices) {
    v.y = tops[v.layer];
    if (v.item) v.item.x = v.x - v.w / 2, v.item.y = v.y;
  }
  for (const v of g.vertices) if (v.kind === "title") v.x = pad + v.w / 2;
  group.layout = {w: Math.max(right - left + 2 * pad, BOX.w), h: g.bottom, portsIn: new Map(), portsOut: new Map(), nets: []};
  for (const side of ["in", "out"])
    for (const [value, v] of ports[side]) group.layout[side === "in" ? "portsIn" : "portsOut"].set(value, g.vertices[v].x);
  spreadEnds(g);
  for (const net of g.nets) group.layout.nets.push(netPath(g, net, heights, tops));
}

// Where the edges of a vertex begin and end: at the ports of an open group, else side by side in the order of their
// other ends.
function spreadEnds(g) {
  const into = g.vertices.map(() => []);
  g.starts = new Map(), g.ends = new Map();
  for (const net of g.nets) for (const [u, v] of net.parts) if (g.vertices[v].kind === "item") into[v].push({net, u});
  const outOf = g.vertices.map(() => []);
  for (const net of g.nets) outOf[net.from].push(net);
  g.vertices.forEach((v, i) => {
    if (v.kind !== "item") return;
    const inner = v.item.layout && v.item.open ? v.item.layout : v.item.kind === "region" ? v.item.layout : null;
    into[i].sort((a, b) => g.vertices[a.u].x - g.vertices[b.u].x);
    spread(v, into[i].length, 20).forEach((x, k) => {
      const at = inner && inner.portsIn.get(into[i][k].net.value);
      g.ends.set(into[i][k].net.value + "\n" + i, at === undefined || at === null ? x : v.item.x + at);
    });
    spread(v, outOf[i].length, 14).forEach((x, k) => {
      const at = inner && inner.portsOut.get(outOf[i][k].value);
      g.starts.set(outOf[i][k], at === undefined || at === null ? x : v.item.x + at);
    });
  });
}
function spread(v, n, most) {
  const step = n > 1 ? Math.min(most, (v.w - 40) / (n - 1)) : 0;
  return Array.from({length: n}, (_, i) => v.x + (i - (n - 1) / 2) * step);
}

const round = v => Math.round(v * 10) / 10;
function netPath(g, net, heights, tops) {
  const V = g.vertices, arrows = [], box = {left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity}, segments = [];
  let d = "";
  const cover = (x, y) => {
    box.left = Math.min(box.left, x), box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y), box.bottom = Math.max(box.bottom, y);
  };
  const source = V[net.from], x0 = g.starts.has(net) ? g.starts.get(net) : source.x;
  for (const [u, v] of net.parts) {
    const a = V[u], b = V[v], x = u === net.from ? x0 : a.x, from = u === net.from ? a.y + a.h : a.y;
    const to = b.kind === "item" ? g.ends.get(net.value + "\n" + v) : b.x, low = tops[a.layer] + heights[a.layer], end = b.y;
    const mid = (low + end) / 2;
    d += `M${round(x)} ${round(from)}` + (low > from ? `V${round(low)}` : "") +
      (Math.abs(x - to) < 0.5 ? `V${round(end)}` : `C${round(x)} ${round(mid)} ${round(to)} ${round(mid)} ${round(to)} ${round(end)}`);
    segments.push([x, from, x, low], [x, low, to, end]);
    if (b.kind === "item") arrows.push([to, end]);
    cover(x, from), cover(to, end);
  }
  // What would need too many points is drawn as two ends.
  const stubs = net.cut ? [[x0, source.y + source.h, 12], ...net.ahead.map(t => [V[t].x - V[t].w / 2 + 12, V[t].y, -12])] : [];
  for (const t of net.back) stubs.push([V[t].x, V[t].y, -12]);
  for (const [x, y, long] of stubs) {
    d += `M${round(x)} ${round(y)}v${long}`;
    if (long < 0) arrows.push([x, y]);
    cover(x, y), cover(x, y + long);
  }
  const ends = [net.from, ...net.to].map(v => V[v].item).filter(i => i);
  return {value: net.value, values: net.values, d, arrows, box, segments, ends, cut: !!net.cut};
}
