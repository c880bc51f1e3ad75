// From the nodes of a model to a tree of groups. Scopes of names, calls of functions, operators that were replaced by
// others, and repeated sequences become groups; regions of If, Loop and Scan become groups of their node.
// Items are {kind: "node" | "port" | "group" | "region", parent, first, ...}. Every group is convex: no path leaves it and
// returns, so that the graph of closed groups has no cycle.
const AUTO_OPEN = 30, LEVEL_MOST = 150, PART = 50;

// ------------------------------------------------------------ scopes
const WEIGHT_NAME = /^[A-Za-z_]\w*(\.\w+)+$/;

function nameScopes(name) {
  const s = name.replace(/^\/+/, "");
  if (s.includes("/")) return s.split("/").slice(0, -1).filter(x => x);
  return WEIGHT_NAME.test(s) ? s.split(".").slice(0, -1) : [];
}

// Where names have no scopes, those of weights do: "encoder.layer.0.output.dense.weight".
function scopesOfWeights(nodes) {
  const own = nodes.map(n => {
    const w = n.inputs.find(v => v && v.constant && WEIGHT_NAME.test(v.name));
    return w ? w.name.split(".").slice(0, -1) : null;
  });
  const known = own.filter(s => s);
  if (known.length < 4 || known.length * 20 < nodes.length) return nodes.map(() => []);
  // A node between two known ones is in the scopes that these have in common.
  const next = new Array(nodes.length);
  for (let i = nodes.length - 1, last = null; i >= 0; i--) next[i] = last = own[i] || last;
  let before = [];
  return own.map((s, i) => {
    if (s) return before = s;
    const after = next[i] || [];
    let n = 0;
    while (n < before.length && n < after.length && before[n] === after[n]) n++;
    return before.slice(0, n);
  });
}

function scopePaths(nodes) {
  const named = nodes.map(n => nameScopes(n.name)), places = new Map();
  const scoped = named.filter(s => s.length).length * 4 >= nodes.length ? named : scopesOfWeights(nodes);
  for (const n of nodes) places.set(n.place, (places.get(n.place) || 0) + 1);
  return nodes.map((n, i) => {
    const path = (n.via || []).slice().reverse().map(title => ({key: "call " + title, title}));
    for (const s of n.via ? named[i] : scoped[i]) path.push({key: s, title: s});
    if (places.get(n.place) > 1 && n.from) path.push({key: "place " + n.place, title: n.from + " " + leafName(n.name), expands: n.from});
    return path;
  });
}
const leafName = name => name.slice(name.lastIndexOf("/") + 1);

// ------------------------------------------------------------ groups of scopes
// Whether a path leads from one item to another in the graph of items. Searches a bounded part: a wrong "yes" only
// splits a group.
function reaches(from, to, after) {
  const seen = new Set([from]), todo = [from];
  for (let steps = 0; todo.length; steps++) {
    if (steps > 400) return true;
    for (const next of after.get(todo.pop()) || []) {
      if (next === to) return true;
      if (!seen.has(next)) seen.add(next), todo.push(next);
    }
  }
  return false;
}

// nodes of one graph in order, each with its path below `depth`.
function nest(entries, depth, producer) {
  const items = [], open = new Map(), itemOf = new Map(), after = new Map();
  for (const e of entries) {
    const s = e.path[depth], before = new Set();
    for (const v of e.reads) {
      const x = itemOf.get(producer.get(v));
      if (x) before.add(x);
    }
    let at = s && open.get(s.key);
    if (at && [...before].some(p => p !== at && reaches(at, p, after))) at = null;
    if (!at) {
      at = {scope: s, entries: []};
      items.push(at);
      if (s) open.set(s.key, at);
    }
    at.entries.push(e);
    itemOf.set(e.item, at);
    for (const p of before) {
      if (p === at) continue;
      if (!after.has(p)) after.set(p, new Set());
      after.get(p).add(at);
    }
  }
  return items.flatMap(x => {
    if (!x.scope) return x.entries.map(e => e.item);
    const inner = nest(x.entries, depth + 1, producer);
    if (inner.length === 1) return [withScope(inner[0], x.scope)];
    return [makeGroup(x.scope.title, inner, {expands: x.scope.expands})];
  });
}
function withScope(item, scope) {
  if (item.kind === "group" && !scope.expands) item.title = scope.title + "/" + item.title;
  return item;
}

function makeGroup(title, items, more) {
  const group = {kind: "group", title, items, open: false, first: items[0].first, ...more};
  for (const i of items) i.parent = group;
  return group;
}

// ------------------------------------------------------------ the tree
function leavesOf(item) {
  if (item.leaves) return item.leaves;
  const inner = item.kind === "node" ? item.regions : item.items || [];
  item.leaves = item.kind === "node" || item.kind === "port" ? [item] : [];
  for (const i of inner) item.leaves = item.leaves.concat(leavesOf(i));
  return item.leaves;
}
const nodesOf = item => leavesOf(item).filter(l => l.kind === "node");
const childrenOf = item => item.kind === "node" ? item.regions : item.items || [];
const canOpen = item => item.kind === "group" || item.kind === "node" && item.regions.length > 0;
function eachItem(item, f) {
  f(item);
  for (const i of childrenOf(item)) eachItem(i, f);
}

// Levels that are still too long: repeated sequences, then parts of equal length.
function tidy(group, producer) {
  if (group.items.length > 24) group.items = groupRepeats(group.items, producer);
  if (group.items.length > LEVEL_MOST) group.items = groupParts(group.items, producer);
  for (const i of group.items) i.parent = group;
  for (const i of group.items) {
    if (i.kind === "group") tidy(i, producer);
    else if (i.kind === "node") for (const r of i.regions) tidy(r, producer);
  }
}
// Items in an order in which each comes after those that it reads; of several the first in the model.
function inOrder(items, producer) {
  const at = new Map(), waiting = new Map(), readers = new Map(items.map(i => [i, new Set()]));
  for (const i of items) for (const l of leavesOf(i)) at.set(l, i);
  for (const i of items) {
    const before = new Set(leavesOf(i).flatMap(l => l.reads).map(v => at.get(producer.get(v))).filter(x => x && x !== i));
    waiting.set(i, before.size);
    for (const b of before) readers.get(b).add(i);
  }
  const done = [], ready = items.filter(i => !waiting.get(i));
  ready.sort((a, b) => b.first - a.first);
  while (ready.length) {
    const i = ready.pop();
    done.push(i);
    for (const r of readers.get(i)) {
      waiting.set(r, waiting.get(r) - 1);
      if (waiting.get(r)) continue;
      let k = ready.length;
      while (k > 0 && ready[k - 1].first < r.first) k--;
      ready.splice(k, 0, r);
    }
  }
  return done.length === items.length ? done : items;
}
// The first and the last scope, without what both end with: "layer.0 to layer.49".
function rangeTitle(first, last) {
  const a = first.split("/"), b = last.split("/");
  while (a.length > 1 && b.length > 1 && a.at(-1) === b.at(-1)) a.pop(), b.pop();
  return `${a.join("/")} to ${b.join("/")}`;
}
function groupParts(items, producer) {
  const inner = inOrder(items.filter(i => i.kind !== "port"), producer), ports = items.filter(i => i.kind === "port");
  const size = Math.max(PART, Math.ceil(inner.length / PART)), n = Math.ceil(inner.length / size);
  if (n < 2) return items;
  return ports.concat(Array.from({length: n}, (_, i) => {
    const some = inner.slice(i * size, (i + 1) * size), first = some[0], last = some[some.length - 1];
    const named = first.kind === "group" && last.kind === "group" && !first.repeat && some.length > 1;
    return makeGroup(named ? rangeTitle(first.title, last.title) : `part ${i + 1} of ${n}`, some, {part: true});
  }));
}

function buildTree(part) {
  const byGraph = new Map(part.graphs.map(g => [g.id, []])), nodeItems = new Map(), producer = new Map();
  part.nodes.forEach((n, i) => {
    const item = {kind: "node", node: n, first: i, regions: [], reads: n.inputs.filter(v => v).map(v => v.name),
                  writes: n.outputs.filter(v => v).map(v => v.name)};
    nodeItems.set(n.id, item);
    byGraph.get(n.graph).push(item);
    for (const v of item.writes) producer.set(v, item);
  });
  const roots = part.graphs.map(g => {
    const port = (p, side, i) => ({kind: "port", side, port: p, first: side === "in" ? i - g.inputs.length : 1e9 + i,
                                   reads: side === "out" ? [p.value] : [], writes: side === "in" ? [p.value] : []});
    const inputs = g.inputs.map((p, i) => port(p, "in", i)), outputs = g.outputs.map((p, i) => port(p, "out", i));
    for (const p of inputs) producer.set(p.port.value, p);
    const nodes = byGraph.get(g.id), paths = scopePaths(nodes.map(n => n.node));
    return {kind: g.owner === undefined ? "group" : "region", title: g.name || "", graph: g, open: true, inputs, outputs, nodes, paths};
  });
  for (const r of roots) if (r.graph.owner !== undefined) {
    const owner = nodeItems.get(r.graph.owner);
    r.parent = owner;
    owner.regions.push(r);
  }
  // A node reads what its regions read.
  const allReads = item => item.reads.concat(...item.regions.flatMap(r => r.nodes.map(allReads)));
  for (const r of roots) {
    const entries = r.nodes.map((item, i) => ({item, path: r.paths[i], reads: allReads(item)}));
    r.items = [...r.inputs, ...nest(entries, 0, producer), ...r.outputs];
    while (r.items.filter(i => i.kind !== "port").length === 1 && r.items.some(i => i.kind === "group"))
      r.items = r.items.flatMap(i => i.kind === "group" ? i.items : [i]);
    for (const i of r.items) i.parent = r;
  }
  const root = roots.find(r => r.graph.owner === undefined);
  for (const r of roots) if (!r.parent) tidy(r, producer);
  openFirst(root);
  const readers = new Map();
  for (const leaf of leavesOf(root)) for (const v of leaf.reads) {
    if (!readers.has(v)) readers.set(v, []);
    readers.get(v).push(leaf);
  }
  return {root, producer, readers, nodeItems};
}

// The groups that are open at first: all of a small graph, else those that contain most of it.
function openFirst(root) {
  const all = nodesOf(root).length;
  eachItem(root, i => {
    if (canOpen(i) && i !== root) i.open = all <= AUTO_OPEN ? !i.expands : i.kind === "group" && nodesOf(i).length * 2 > all;
  });
}
