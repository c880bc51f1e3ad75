// The sections below the graph: kernels, roofline, memory, weights.
const SHOWN = 200;

// Columns are {title, value(row), text(value), name: the row's own}. A click on a title sorts.
function sortable(tableId, columns, all, makeRow, sortBy, down) {
  const body = el("tbody", {});
  let limit = SHOWN, at = sortBy, way = down;
  const compare = (a, b) => {
    const order = columns[at].name ? v => v : magnitude;
    const x = order(columns[at].value(a)), y = order(columns[at].value(b)), xn = typeof x === "number", yn = typeof y === "number";
    if (x === y) return 0;
    return (xn && yn ? x - y : xn ? 1 : yn ? -1 : String(x ?? "").localeCompare(String(y ?? ""))) * way;
  };
  const more = el("button", {type: "button", onclick: () => { limit = Infinity; fillBody(); }});
  const heads = columns.map((c, i) => el("th", {scope: "col", class: c.name ? "" : "n"}, el("button", {type: "button", class: "sort", onclick: () => {
    way = at === i ? -way : c.name ? 1 : -1;
    at = i;
    fillBody();
  }}, c.title)));
  function fillBody() {
    const sorted = all.slice().sort(compare);
    body.replaceChildren(...sorted.slice(0, limit).map(r => makeRow(r, columns.map(c => {
      const v = c.value(r), text = c.text ? c.text(v, r) : c.name ? breakable(v ?? "") : v ?? "";
      // Sizes with symbols are long, and break.
      const symbolic = !c.name && typeof v === "string" && v !== "";
      return symbolic ? el("td", {class: "n symbolic", title: v}, breakable(brief(text).replaceAll("*", "·"))) : el("td", {class: c.name ? "mono name" : "n"}, text);
    }))));
    heads.forEach((h, i) => i === at ? h.setAttribute("aria-sort", way < 0 ? "descending" : "ascending") : h.removeAttribute("aria-sort"));
    more.hidden = sorted.length <= limit;
    more.textContent = `show all ${sorted.length}`;
  }
  fillBody();
  return [el("div", {class: "wide", tabindex: 0, role: "region", "aria-label": tableId}, el("table", {id: tableId, class: "grid"}, el("thead", {}, el("tr", {}, ...heads)), body)), more];
}
// A bar behind a number.
function barred(text, part) {
  return typeof part === "number" && part > 0 ? el("span", {class: "barred"}, el("span", {class: "fill", style: `width:${(100 * part).toFixed(1)}%`}), el("span", {}, text)) : text;
}

function kernelTable() {
  const kernels = part.kernels, total = kernels.reduce((t, k) => t + (k.seconds || 0), 0), most = Math.max(...kernels.map(k => k.seconds || 0));
  const per = (a, b) => typeof a === "number" && typeof b === "number" && b ? a / b : undefined, traffic = k => both(k.bytes_read, k.bytes_written);
  const columns = [{title: "#", value: k => k.number}, {title: "kernel", name: true, value: k => k.name}, {title: "nodes", value: k => kernelUsers.get(k.number)}];
  if (total) columns.push({title: "time", value: k => k.seconds, text: (v, k) => barred(time(v), v / most)}, {title: "share", value: k => per(k.seconds, total), text: v => v === undefined ? "" : share(v, 1)});
  columns.push({title: "operations", value: k => k.flops, text: count}, {title: "multiply-adds", value: k => k.macs, text: v => v ? count(v) : ""}, {title: "cycles", value: k => k.cycles, text: count}, {title: "bytes", value: traffic, text: bytes},
    {title: "operations per byte", value: k => per(k.flops, traffic(k)), text: v => v === undefined ? "" : v.toFixed(1)});
  if (total) columns.push({title: "GFLOP/s", value: k => per(k.flops, k.seconds), text: v => v === undefined ? "" : number(1e-9 * v)});
  // What the code of each architecture takes, where kernels run on a GPU.
  const codes = (kernels.find(k => k.gpu) || {gpu: {code: []}}).gpu.code;
  codes.forEach((c, i) => columns.push({title: c.arch + " registers", value: k => k.gpu && k.gpu.code[i].registers},
    {title: c.arch + " shared", value: k => k.gpu && k.gpu.code[i].shared_bytes, text: bytes}));
  const used = columns.filter(c => kernels.some(k => { const v = c.value(k); return v !== undefined && v !== null && v !== "" && (c.title !== "multiply-adds" || v); }));
  const makeRow = (k, cells) => {
    cells[1].replaceChildren(link(k.name, () => toKernel(k)));
    return el("tr", {class: "row", "data-number": k.number}, ...cells);
  };
  const flops = kernels.reduce((t, k) => t + (typeof k.flops === "number" ? k.flops : 0), 0), macs = kernels.reduce((t, k) => t + (typeof k.macs === "number" ? k.macs : 0), 0);
  const facts = [total ? `${time(total)} measured` : "", flops ? `${count(flops)} ${flops === 1 ? "operation" : "operations"}` : "", macs ? `${count(macs)} multiply-adds` : "", data.estimate ? `${count(data.estimate.cycles)} cycles, estimated` : ""].filter(s => s);
  return el("section", {id: "kernel-section", "aria-labelledby": "kernel-title"}, el("h2", {id: "kernel-title"}, plural(kernels.length, "kernel")),
    facts.length ? el("p", {}, facts.join(", ")) : "", ...(kernels.length ? sortable("kernels", used, kernels, makeRow, total ? used.findIndex(c => c.title === "time") : 0, total ? -1 : 1) : []));
}
function toKernel(k) {
  chooseKernel(k);
  id("top").scrollIntoView({block: "start"});
}

function rooflineSection(wide) {
  const chart = roofline(wide);
  return chart ? el("section", {id: "roofline-section", "aria-labelledby": "roofline-title"}, el("h2", {id: "roofline-title"}, "Roofline"),
    el("p", {class: "dim"}, "A circle for each measured kernel; its area is the time. " + (data.peak_flops ?
      "The line is the machine's peak: of reads from memory on the left, of arithmetic on the right. Kernels that read from caches can be above it." :
      "The file of times has no peaks of the machine.")), chart) : null;
}

function memorySection(wide) {
  const m = part.memory;
  if (!m) return null;
  const facts = [`${bytes(m.unshared_bytes)}${typeof m.unshared_bytes === "string" ? " bytes" : ""} if no memory were shared`], f = data.footprint;
  if (f) facts.push(`flash: ${bytes(f.flash_bytes)}, of it ${bytes(f.code_bytes)} of code and ${bytes(f.constant_bytes)} of constants`,
    ...(f.stack_bytes ? [`stack: ${bytes(f.stack_bytes)}`] : []));
  const columns = [{title: "offset", value: p => p.offset, text: v => v.toLocaleString("en")}, {title: "bytes", value: p => p.bytes, text: v => v.toLocaleString("en")},
    {title: "first step", value: p => p.first_step}, {title: "last step", value: p => p.last_step}, {title: "holds", name: true, value: p => (p.name || p.kernel) + (p.kind === "scratch" ? " (scratch)" : "")}];
  return el("section", {id: "memory-section", "aria-labelledby": "memory-title"}, el("h2", {id: "memory-title", title: m.workspace_bytes}, `Workspace: ${bytes(m.workspace_bytes)}${typeof m.workspace_bytes === "string" ? " bytes" : ""}`),
    m.places.length || f ? el("p", {}, facts.join("; ")) : "", ...(isFixed(m) ? [memoryLegend(m), memoryChart(m, wide)] : []),
    ...(m.places.length ? sortable("places", columns, m.places, (p, cells) => el("tr", {}, ...cells), 0, 1) : []));
}

function weightSection() {
  const all = part.weights, total = all.reduce((t, w) => t + w.bytes, 0);
  if (!all.length) return null;
  const columns = [{title: "name", name: true, value: w => w.name}, {title: "type", name: true, value: w => `${w.dtype} ${w.dims.join("×") || "scalar"}`}, {title: "bits", value: w => w.bits},
    {title: "bytes", value: w => w.bytes, text: bytes}, {title: "min", value: w => w.min, text: number}, {title: "max", value: w => w.max, text: number}, {title: "mean", value: w => w.mean, text: number},
    {title: "std", value: w => w.std, text: number}];
  if (all.some(w => w.zeros)) columns.push({title: "zeros", value: w => w.zeros, text: (v, w) => v ? share(v, w.count) : ""});
  if (all.some(w => w.nans || w.infinities)) columns.push({title: "NaN, infinite", value: w => (w.nans || 0) + (w.infinities || 0), text: v => v ? v.toLocaleString("en") : ""});
  columns.push({title: "values", name: true, value: w => w.most, text: (v, w) => histogram(w, 120, 26, false) || shorten((w.elements || []).join(", "), 150, "small")});
  const readers = new Map();
  for (const n of part.nodes) for (const v of n.inputs) if (v && v.constant && !readers.has(v.name)) readers.set(v.name, n);
  const makeRow = (w, cells) => {
    if (readers.has(w.name)) cells[0].replaceChildren(link(w.name, () => { goToItem(tree.nodeItems.get(readers.get(w.name).id)); id("top").scrollIntoView({block: "start"}); }));
    return el("tr", {}, ...cells);
  };
  return el("section", {id: "weight-section", "aria-labelledby": "weight-title"}, el("h2", {id: "weight-title"}, "Weights"), el("p", {}, `${plural(all.length, "constant")}, ${bytes(total)}`),
    ...sortable("weights", columns, all, makeRow, 3, -1));
}
