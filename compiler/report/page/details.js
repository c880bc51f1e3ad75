// What is chosen: nodes, groups, kernels, weights; and the search.
let hits = [], hit = -1;

const row = (name, ...value) => el("tr", {}, el("th", {scope: "row"}, typeof name === "string" ? breakable(name) : name), el("td", {class: "mono"}, ...value.map(v => typeof v === "string" ? breakable(v) : v)));
const rows = list => list.filter(([, v]) => v !== undefined && v !== null && v !== "").map(([name, v]) => row(name, v));
const table = (...all) => el("table", {class: "facts"}, ...all);
function section(title, list) { return list.length ? [el("h3", {}, title), table(...list)] : []; }
const three = ([head, facts]) => { facts.classList.add("three"); return [head, facts]; };
const link = (text, go) => el("button", {class: "link", type: "button", onclick: go}, breakable(text));

function kernelLink(k) {
  const kernel = byKernel.get(k), parts = [`k${k} ${kernel.name}`];
  if (typeof kernel.seconds === "number") parts.push(time(kernel.seconds));
  return el("div", {}, link(parts.join(", "), () => chooseKernel(kernel)));
}
function tensorRows(all) {
  return all.map(v => {
    if (v === "") return row("(none)", "");
    const weight = v.constant && weights.get(v.name), from = tree.producer.get(v.name);
    return row(from && from !== chosen ? link(v.name, () => goToItem(from)) : v.name, typeText(v.type) + (v.constant ? ", constant" : ""),
               weight ? weightSummary(weight) : null);
  });
}

function choose(item) {
  const before = chosen;
  chosen = item;
  marks.mate = new Set();
  if (item && item.kind === "node" && item.node.kernels.length)
    for (const b of scene.boxes) if (b.item.kind === "node" && b.item.node.kernels.some(k => item.node.kernels.includes(k))) marks.mate.add(b.item);
  markRows(item ? kernelsOf(item) : []);
  if (before !== item || !item) redraw();
  if (!item) return showModel();
  say(ariaLabel(item));
  if (item.kind === "port") return showPort(item);
  if (item.kind === "group") return showGroup(item);
  showNode(item);
}
function goToItem(item) { reveal(item); choose(item); show(item); }

function put(title, sub, ...all) {
  id("side").replaceChildren(el("h2", {}, breakable(title)), sub ? el("p", {class: "mono sub"}, breakable(sub)) : "", ...all.flat());
  id("side").scrollTop = 0;
}

function showNode(item) {
  const n = item.node, version = n.version ? `${n.from ? n.from + " " : ""}version ${n.version}` : "";
  const inner = item.regions.map(r => [r.title, plural(r.nodes.length, "node")]);
  put(n.op + (n.domain ? ` (${n.domain})` : ""), n.name,
    el("p", {}, n.from ? `Replaces ${n.from}, version ${n.version} in the model` : version ? `Operator ${version}` : ""),
    item.regions.length ? el("p", {}, link(item.open ? "Close its graphs" : "Open its graphs", () => { setOpen(item, !item.open); choose(item); })) : "",
    section("Graphs", rows(inner)),
    el("h3", {}, n.kernels.length ? "Computed by" : "Kernels"),
    n.kernels.length ? n.kernels.map(kernelLink) : el("p", {class: "dim"}, "None: the node only renames memory, or is a step of the host code."),
    section("Inputs", tensorRows(n.inputs)), section("Outputs", tensorRows(n.outputs)),
    section("Attributes", rows(Object.entries(n.attributes))));
}
function showPort(item) {
  const p = item.port;
  put(p.name, item.side === "in" ? "input" : "output", table(...rows([["type", typeText(p.type)], ["value", p.value === p.name ? "" : p.value]])));
}
function showGroup(item) {
  const k = kernelsOf(item), seconds = secondsOf(item);
  put(item.title, plural(nodesOf(item).length, "node"),
    el("p", {}, link(item.open ? "Close" : "Open", () => { setOpen(item, !item.open); choose(item); })),
    table(...rows([["kernels", k.length ? k.length : ""], ["operations", flopsOf(item) ? count(flopsOf(item)) : ""], ["time", seconds === undefined ? "" : time(seconds)],
                   ["weights", bytes(weightBytes(item)) ]])),
    section("Operators", operatorList(item).split(", ").map(s => s.split(" ")).map(([n, op]) => op ? row(op, n) : row(n, "1"))));
}
function weightBytes(item) {
  const names = new Set(nodesOf(item).flatMap(n => n.node.inputs.filter(v => v && v.constant).map(v => v.name)));
  return [...names].reduce((t, n) => t + (weights.get(n) ? weights.get(n).bytes : 0), 0) || undefined;
}

function gpuRows(g) {
  return !g ? [] : rows([["function", g.function], ["launch", `${plural(g.blocks, "block")} of ${plural(g.threads, "thread")}`],
    ["scratch", g.scratch_bytes ? bytes(g.scratch_bytes) : ""],
    ...g.code.map(c => [c.arch, `${plural(c.registers, "register")}, ${bytes(c.shared_bytes)} shared, ${bytes(c.stack_bytes)} of stack, ${bytes(c.spilled_bytes)} spilled`])]);
}
function chooseKernel(k) {
  const items = part.nodes.filter(n => n.kernels.includes(k.number)).map(n => tree.nodeItems.get(n.id));
  chosen = null;
  if (items.length) reveal(items[0]);
  marks.mate = new Set(items);
  redraw();
  if (items.length) show(items[0]);
  markRows([k.number]);
  const traffic = both(k.bytes_read, k.bytes_written), rate = typeof k.seconds === "number" && k.seconds > 0;
  put("Kernel " + k.number, k.name,
    table(...rows([["time", time(k.seconds)], ["operations", count(k.flops)], ["multiply-adds", k.macs ? count(k.macs) : ""], ["cycles, estimated", k.cycles ? count(k.cycles) : ""],
       ["bytes read", bytes(k.bytes_read)], ["bytes written", bytes(k.bytes_written)],
       ["operations per byte", typeof k.flops === "number" && typeof traffic === "number" && traffic ? (k.flops / traffic).toFixed(1) : ""],
       ["rate", rate && typeof k.flops === "number" ? `${number(1e-9 * k.flops / k.seconds)} GFLOP/s` : ""], ["algorithm", k.algorithm]]), ...gpuRows(k.gpu)),
    el("h3", {}, plural(items.length, "node")),
    items.map(i => el("div", {}, link([i.node.op, i.node.name].join(" "), () => goToItem(i)))),
    el("h3", {}, "Loops"), el("pre", {tabindex: 0, "aria-label": "loops of the kernel"}, k.text));
  say(`kernel ${k.number}, ${plural(items.length, "node")}`);
}
function markRows(kernels) {
  for (const r of document.querySelectorAll("#kernels tr.row")) r.classList.toggle("on", kernels.includes(Number(r.dataset.number)));
}

// ------------------------------------------------------------ the model
function showModel() {
  const type = v => v.dims ? `${v.dtype} ${v.dims.map(brief).join("×") || "scalar"}` : v.kind;
  const tensors = list => list.map(v => row(v.name, type(v), v.has_default ? ", may be left out" : "", v.doc ? el("div", {class: "dim"}, v.doc) : null));
  const operators = new Map();
  for (const n of part.nodes) {
    const key = (n.domain ? n.domain + "." : "") + n.op;
    if (!operators.has(key)) operators.set(key, {n: 0, versions: new Set()});
    operators.get(key).n++;
    if (n.version && !n.from) operators.get(key).versions.add(n.version);
  }
  const listed = [...operators].sort((a, b) => b[1].n - a[1].n || (a[0] < b[0] ? -1 : 1));
  id("side").replaceChildren(el("h2", {}, "Model"),
    ...section("Inputs", tensors(data.inputs)), ...section("Outputs", tensors(data.outputs)),
    ...section("File", rows([["producer", data.producer], ["IR version", data.ir_version],
      ["opset", Object.entries(data.opsets).map(([domain, version]) => domain + " " + version).join(", ")], ["target", data.target],
      ["constants", data.constants.bytes ? bytes(data.constants.bytes) : ""], ["doc", data.doc], ...Object.entries(data.metadata)])),
    ...three(section("Operators", listed.map(([op, o]) => el("tr", {}, el("th", {scope: "row"}, op), el("td", {class: "n"}, String(o.n)),
      el("td", {class: "dim"}, o.versions.size ? "v" + [...o.versions].sort((a, b) => a - b).join(", v") : ""))))));
}

// ------------------------------------------------------------ search
function search() {
  const s = id("find").value.trim().toLowerCase(), has = t => t && t.toLowerCase().includes(s);
  marks.hit = new Set();
  const ports = [...tree.root.inputs, ...tree.root.outputs];
  hits = !s ? [] : [...ports.filter(p => has(p.port.name)).map(item => ({item, title: item.port.name})),
    ...part.nodes.filter(n => has(n.name) || has(n.op) || n.outputs.some(v => has(v.name)) || n.inputs.some(v => v.constant && has(v.name)))
      .map(n => ({item: tree.nodeItems.get(n.id), title: [n.op, n.name].join(" ")})),
    ...part.kernels.filter(k => has(k.name)).map(kernel => ({kernel, title: `k${kernel.number} ${kernel.name}`}))];
  hit = -1;
  // Of nodes in closed groups, the group is marked.
  for (const h of hits) for (let i = h.item; i; i = i.parent) if (scene.at.has(i)) { marks.hit.add(i); break; }
  redraw();
  if (!s) { say(""); return choose(null); }
  say(hits.length ? `${hits.length} found` : "nothing found");
  id("side").replaceChildren(el("h2", {}, hits.length ? `${hits.length} found` : "Nothing found"),
    el("div", {id: "results"}, ...hits.slice(0, 200).map((h, i) => el("div", {}, link(h.title, () => goTo(i))))),
    hits.length > 200 ? el("p", {class: "dim"}, `and ${hits.length - 200} more`) : "");
  const first = hits.find(h => h.item);
  if (first) for (let i = first.item; i; i = i.parent) if (scene.at.has(i)) { show(i); break; }
}
function goTo(i) {
  if (!hits.length) return;
  hit = (i + hits.length) % hits.length;
  const h = hits[hit];
  if (h.kernel) chooseKernel(h.kernel);
  else {
    marks.hit.add(h.item);
    goToItem(h.item);
  }
  say(`${hit + 1} of ${hits.length}: ${h.title}`);
}
