// Repeated sequences of items, where names have no scopes. In: items in order. Out: items, with the repetitions as groups.
const PERIOD_MOST = 400;

const signature = item => item.kind === "node" ? item.node.op + " " + item.reads.length :
  item.kind === "group" ? item.signature || (item.signature = nodesOf(item).map(n => n.node.op).join(" ")) : "port";

// How many values pass each position between items.
function cutSizes(items, producer) {
  const at = new Map(), change = new Array(items.length + 2).fill(0), last = new Map();
  items.forEach((item, i) => { for (const l of leavesOf(item)) at.set(l, i); });
  items.forEach((item, i) => { for (const l of leavesOf(item)) for (const v of l.reads) last.set(v, i); });
  for (const [v, end] of last) {
    const from = at.get(producer.get(v));
    if (from !== undefined && from < end) change[from + 1]++, change[end + 1]--;
  }
  let now = 0;
  return change.map(c => now += c);
}

function findRuns(labels) {
  const runs = [], n = labels.length;
  for (let p = 3; p <= Math.min(PERIOD_MOST, n >> 1); p++) {
    for (let i = 0, length = 0; i + p <= n; i++) {
      if (i + p < n && labels[i] === labels[i + p]) { length++; continue; }
      if (length >= p) runs.push({from: i - length, p, length: length + p});
      length = 0;
    }
  }
  return runs;
}

// The repetition of a run whose borders the fewest values pass.
function bestStart(run, cuts) {
  let best = null;
  for (let o = 0; o < run.p; o++) {
    const times = Math.floor((run.length - o) / run.p);
    if (times < 2) break;
    let passing = 0;
    for (let i = 0; i <= times; i++) passing += cuts[run.from + o + i * run.p];
    passing /= times + 1;
    if (!best || passing < best.passing - 1e-9) best = {from: run.from + o, p: run.p, times, passing};
  }
  return best;
}

function groupRepeats(items, producer) {
  const ports = items.filter(i => i.kind === "port"), rest = items.filter(i => i.kind !== "port");
  rest.sort((a, b) => a.first - b.first);
  // Items that overlap in the order of nodes are not sequences.
  const ends = rest.map(i => Math.max(...leavesOf(i).map(l => l.kind === "node" ? l.first : 0)));
  for (let i = 1; i < rest.length; i++) if (rest[i].first < ends[i - 1]) return items;
  const names = new Map(), labels = rest.map(i => {
    const s = signature(i);
    if (!names.has(s)) names.set(s, names.size);
    return names.get(s);
  });
  const cuts = cutSizes(rest, producer), taken = new Array(rest.length).fill(null);
  const runs = findRuns(labels).filter(r => new Set(labels.slice(r.from, r.from + r.p)).size > 1).map(r => bestStart(r, cuts))
    .filter(r => r && r.p * r.times >= 8);
  runs.sort((a, b) => b.p * b.times - a.p * a.times || a.p - b.p);
  const chosen = [];
  for (const r of runs) {
    const end = r.from + r.p * r.times;
    if (taken.slice(r.from, end).some(x => x)) continue;
    taken.fill(r, r.from, end);
    chosen.push(r);
  }
  const result = [];
  for (let i = 0; i < rest.length;) {
    const r = taken[i];
    if (!r) { result.push(rest[i++]); continue; }
    for (let k = 0; k < r.times; k++, i += r.p)
      result.push(makeGroup(`block ${k + 1} of ${r.times}`, rest.slice(i, i + r.p), {repeat: true}));
  }
  return [...ports, ...result];
}
