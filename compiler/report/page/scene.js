// The drawing of the graph. In: the laid out tree. Out: a flat list of boxes and edges, of which the visible ones are
// elements of the page; a map; SVG and PNG files.
let tree, scene, shown = null, chosen = null;
const marks = {hit: new Set(), mate: new Set()};

function buildScene() {
  layoutGroup(tree.root, tree);
  scene = {boxes: [], frames: [], nets: [], w: tree.root.layout.w, h: tree.root.layout.h, at: new Map()};
  const add = (group, x, y, depth) => {
    for (const net of group.layout.nets) scene.nets.push({net, x, y, depth});
    for (const item of childrenOf(group)) {
      const b = {item, x: x + item.x, y: y + item.y, w: item.w, h: item.h, depth};
      scene.at.set(item, b);
      if (item.kind === "region" || item.open && canOpen(item)) {
        scene.frames.push(b);
        add(item, b.x, b.y, depth + 1);
      } else {
        scene.boxes.push(b);
      }
    }
  };
  add(tree.root, 0, 0, 0);
}

// ------------------------------------------------------------ what a box says and how it looks
const kernelsOf = item => item.kernels || (item.kernels = [...new Set(nodesOf(item).flatMap(n => n.node.kernels))].sort((a, b) => a - b));
// The time of a node's kernels; of a group's kernels as far as their nodes are in the group.
const timesOf = key => item => {
  const known = kernelsOf(item).map(k => byKernel.get(k)).filter(k => k && typeof k[key] === "number");
  if (!known.length) return undefined;
  if (!canOpen(item)) return known.reduce((t, k) => t + k[key], 0);
  const nodes = nodesOf(item);
  return known.reduce((t, k) => t + k[key] * nodes.filter(n => n.node.kernels.includes(k.number)).length / kernelUsers.get(k.number), 0);
};
const secondsOf = timesOf("seconds"), knownFlopsOf = timesOf("flops"), flopsOf = item => knownFlopsOf(item) || 0;

function operatorList(item) {
  const counts = new Map();
  for (const n of nodesOf(item)) counts.set(n.node.op, (counts.get(n.node.op) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).map(([op, n]) => n > 1 ? `${n} ${op}` : op).join(", ");
}

// Three lines, and what stands at the right of the first one.
function describe(item) {
  if (item.words) return item.words;
  const by = id("colour").value, w = item.words = {first: "", note: "", second: "", third: ""};
  const cost = () => {
    const seconds = secondsOf(item), flops = flopsOf(item), k = kernelsOf(item);
    if (by === "time" && seconds !== undefined) return time(seconds);
    if (by === "flops") return flops ? count(flops) : "";
    return !k.length || item.kind === "group" ? "" : k.length > 1 ? plural(k.length, "kernel") : "k" + k[0];
  };
  if (item.kind === "port") {
    w.first = item.port.name, w.second = typeText(item.port.type);
  } else if (item.kind === "node") {
    const n = item.node, result = n.outputs.filter(v => v);
    w.first = n.op, w.version = n.version && !n.from ? "v" + n.version : "", w.note = cost();
    w.second = relativeName(item);
    w.third = result.length === 1 ? typeText(result[0].type) : plural(result.length, "output");
  } else {
    w.first = item.title, w.note = cost();
    w.second = [plural(nodesOf(item).length, "node"), kernelsOf(item).length ? plural(kernelsOf(item).length, "kernel") : ""].filter(s => s).join(", ");
    w.third = operatorList(item);
  }
  return w;
}
// Without the scopes that the groups around it say.
function relativeName(item) {
  const name = item.node.name || "";
  for (let g = item.parent; g; g = g.parent) if (g.kind === "group" && g.parent && !g.repeat && !g.part) return leafName(name);
  return name;
}
function ariaLabel(item) {
  const w = describe(item);
  const kind = item.kind === "port" ? (item.side === "in" ? "input " : "output ") : item.kind === "group" ? "group " : "";
  return kind + [w.first, w.second, w.third, w.note].filter(s => s).join(", ") + (canOpen(item) ? ", Enter opens it" : "");
}

function heatOf(value, most) {
  return value > 0 ? mix(palette.cool, palette.hot, Math.sqrt(value / most)) : palette.box;
}
function colourOf(item) {
  const by = id("colour").value;
  if (item.kind === "port") return palette.page;
  if (by === "time") return heatOf(secondsOf(item), scene.mostSeconds);
  if (by === "flops") return heatOf(flopsOf(item), scene.mostFlops);
  if (by === "op") return item.kind === "node" ? hueColour(hueOf(item.node.op)) : palette.group;
  const k = kernelsOf(item);
  return item.kind === "group" && k.length > 1 ? palette.group : k.length ? hueColour(k[0] * 137 % 360) : palette.box;
}
function prepareColours() {
  for (const b of [...scene.boxes, ...scene.frames]) b.item.words = null;
  scene.mostSeconds = Math.max(1e-12, ...scene.boxes.map(b => b.item.kind === "port" ? 0 : secondsOf(b.item) || 0));
  scene.mostFlops = Math.max(1, ...scene.boxes.map(b => b.item.kind === "port" ? 0 : flopsOf(b.item)));
  for (const b of scene.boxes) b.fill = colourOf(b.item);
}

// ------------------------------------------------------------ elements
const FONT = "system-ui, sans-serif";
function line(x, y, s, size, colour, more) {
  return svg("text", {x, y, "font-size": size, "font-family": FONT, fill: colour, ...more}, s);
}

function drawBox(b) {
  const {item, w, h} = b, words = describe(item), port = item.kind === "port", group = canOpen(item);
  const state = item === chosen ? "chosen" : marks.hit.has(item) ? "hit" : marks.mate.has(item) ? "mate" : "";
  const g = svg("g", {class: `item ${item.kind} ${state}`, transform: `translate(${round(b.x)},${round(b.y)})`, role: "button",
                      "aria-label": ariaLabel(item), "aria-expanded": group ? "false" : undefined});
  const stroke = state === "chosen" || state === "hit" ? palette.hit : state === "mate" ? palette.accent : palette.line;
  const border = {stroke, "stroke-width": state ? 2.5 : 1};
  // A second border tells a group from a node.
  if (group) g.append(svg("rect", {x: 4, y: 4, width: w, height: h - 4, rx: 6, fill: palette.group, ...border}));
  g.append(svg("rect", {class: "card", width: w, height: h - (group ? 4 : 0), rx: port ? 20 : 6, fill: b.fill, ...border,
                        "stroke-dasharray": port ? "5 3" : undefined}));
  const left = port ? 16 : 10, noteWidth = words.note ? widthOf(words.note, "small") + 10 : 0, openWidth = group ? 18 : 0;
  const room = w - left - 10 - noteWidth - openWidth, version = words.version ? widthOf(words.version, "small") + 6 : 0;
  const first = shorten(words.first, room - version, "title");
  g.append(line(left, 19, first, 13, palette.text, {"font-weight": 600}));
  if (version) g.append(line(left + widthOf(first, "title") + 6, 19, words.version, 11.5, readable(palette.dim, b.fill)));
  if (words.note) g.append(line(w - 8 - openWidth, 19, words.note, 11.5, palette.text, {"text-anchor": "end"}));
  if (group) g.append(svg("path", {d: `M${w - 20} 15h9m-4.5 -4.5v9`, stroke: palette.text, "stroke-width": 1.6, fill: "none", class: "opener"}));
  if (words.second) g.append(line(left, group ? 35 : 36, shorten(words.second, w - left - 10, "small"), 11.5, palette.text));
  if (words.third) g.append(line(left, group ? 49 : 52, (item.kind === "group" ? shortenList : shorten)(words.third, w - left - 10, "small"), 11.5, readable(palette.dim, b.fill)));
  // The share of the time or the operations as a bar: not by colour alone.
  const by = id("colour").value, value = by === "time" ? secondsOf(item) : by === "flops" ? flopsOf(item) : 0;
  const most = by === "time" ? scene.mostSeconds : scene.mostFlops;
  if (!port && value > 0)
    g.append(svg("rect", {class: "bar", x: 2, y: h - (group ? 9 : 5), width: Math.max(2, (w - 4) * value / most), height: 4, rx: 2, fill: palette.hit}));
  g.append(svg("title", {}, tooltip(item)));
  return g;
}
function tooltip(item) {
  if (item.kind === "port") return `${item.port.name}: ${item.port.type}`;
  if (item.kind === "node") return `${item.node.op} ${item.node.name}\n${item.node.outputs.filter(v => v).map(v => v.name + ": " + v.type).join("\n")}`;
  return `${item.title}: ${plural(nodesOf(item).length, "node")}\n${operatorList(item)}`;
}

function drawFrame(b) {
  const title = titleOf(b.item), state = b.item === chosen ? "chosen" : marks.hit.has(b.item) ? "hit" : "";
  const g = svg("g", {class: `item frame ${b.item.kind} ${state}`, transform: `translate(${round(b.x)},${round(b.y)})`});
  g.append(svg("rect", {class: "card", width: b.w, height: b.h, rx: 10, fill: b.depth % 2 ? palette.soft : palette.group,
                        stroke: state ? palette.hit : palette.line, "stroke-width": state ? 2.5 : 1}));
  const head = svg("g", {class: "head", role: "button", "aria-label": `${b.item.kind} ${title}, Enter closes it`, "aria-expanded": "true"});
  const closes = b.item.kind !== "region", left = closes ? 34 : 14;
  if (closes) head.append(svg("rect", {x: 10, y: 8, width: 18, height: 18, rx: 4, fill: palette.box, stroke: palette.line}),
                          svg("path", {d: "M14 17h10", stroke: palette.text, "stroke-width": 1.6}));
  head.append(line(left, 22, shorten(title, Math.min(300, b.w - left - 12), "title"), 13, palette.text, {"font-weight": 600}), svg("title", {}, title));
  g.append(head);
  return g;
}

function drawNet(n) {
  const near = chosen && n.net.ends.some(i => i === chosen);
  const colour = near ? palette.hit : palette.edge, many = n.net.values.length > 1 ? 0.9 : 0;
  const titles = n.net.values.slice(0, 12).map(v => v + (values.get(v) ? ": " + typeText(values.get(v).type) : ""));
  if (n.net.values.length > 12) titles.push(`and ${n.net.values.length - 12} more`);
  const g = svg("g", {class: near ? "net near" : "net", transform: `translate(${round(n.x)},${round(n.y)})`},
    svg("path", {class: "edge", d: n.net.d, fill: "none", stroke: colour, "stroke-width": (near ? 2.2 : 1.3) + many, "stroke-dasharray": n.net.cut ? "2 2" : undefined}),
    svg("title", {}, titles.join("\n")));
  if (n.net.arrows.length)
    g.append(svg("path", {fill: colour, d: n.net.arrows.map(([x, y]) => `M${round(x)} ${round(y)}l-3.5 -7h7z`).join("")}));
  return g;
}

// ------------------------------------------------------------ the visible part
const meets = (x0, y0, x1, y1, r) => x0 <= r.x1 && x1 >= r.x0 && y0 <= r.y1 && y1 >= r.y0;
function drawInto(g, region, plain) {
  const {boxes, frames, nets} = scene, boxMeets = b => meets(b.x, b.y, b.x + b.w, b.y + b.h, region);
  const seenFrames = frames.filter(boxMeets), seenBoxes = boxes.filter(boxMeets);
  const seenNets = nets.filter(n => meets(n.x + n.net.box.left, n.y + n.net.box.top - 12, n.x + n.net.box.right, n.y + n.net.box.bottom + 12, region));
  g.replaceChildren();
  if (plain || seenBoxes.length > 1500) return drawPlain(g, seenFrames, seenBoxes, seenNets);
  const byDepth = [];
  const layer = d => byDepth[d] || (byDepth[d] = svg("g", {}));
  for (const b of seenFrames) b.element = drawFrame(b), b.element.onclick = e => clickFrame(e, b), layer(2 * b.depth).append(b.element);
  for (const n of seenNets) layer(2 * n.depth).append(drawNet(n));
  for (const b of seenBoxes) b.element = drawBox(b), b.element.onclick = e => clickBox(e, b), layer(2 * b.depth + 1).append(b.element);
  for (const l of byDepth) if (l) g.append(l);
}

// From far away, and for thousands of boxes: one path for each colour.
function drawPlain(g, frames, boxes, nets) {
  for (const b of frames) g.append(svg("rect", {x: b.x, y: b.y, width: b.w, height: b.h, rx: 10, stroke: palette.line, fill: b.depth % 2 ? palette.soft : palette.group}));
  g.append(svg("path", {class: "edge", fill: "none", stroke: palette.edge, "stroke-width": 2,
    d: nets.flatMap(n => n.net.segments.map(([a, b, c, d]) => `M${round(n.x + a)} ${round(n.y + b)}L${round(n.x + c)} ${round(n.y + d)}`)).join("")}));
  const fills = new Map();
  for (const b of boxes) {
    const key = marks.hit.has(b.item) || b.item === chosen ? palette.hit : b.fill;
    fills.set(key, (fills.get(key) || "") + `M${round(b.x)} ${round(b.y)}h${b.w}v${b.h}h${-b.w}z`);
  }
  for (const [fill, d] of fills) g.append(svg("path", {d, fill, stroke: palette.line, "stroke-width": 2}));
}

// ------------------------------------------------------------ files
function exportSvg() {
  const g = svg("g", {});
  drawInto(g, {x0: -Infinity, y0: -Infinity, x1: Infinity, y1: Infinity}, scene.boxes.length > 1500);
  const s = svg("svg", {xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${Math.ceil(scene.w)} ${Math.ceil(scene.h)}`, width: Math.ceil(scene.w), height: Math.ceil(scene.h)},
    svg("rect", {width: "100%", height: "100%", fill: palette.page}), g);
  for (const e of s.querySelectorAll("[class]")) e.removeAttribute("class");
  shown = null;
  return new XMLSerializer().serializeToString(s);
}
function save(blob, ending) {
  const a = el("a", {href: URL.createObjectURL(blob), download: (data.name || "model").replace(/[^\w.-]+/g, "_").slice(0, 80) + ending});
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
const saveSvg = () => { save(new Blob([exportSvg()], {type: "image/svg+xml"}), ".svg"); render(); };
// Canvases have limits: large drawings become smaller pictures.
function exportPng(then) {
  const image = new Image(), url = URL.createObjectURL(new Blob([exportSvg()], {type: "image/svg+xml"}));
  render();
  image.onload = () => {
    const k = Math.min(2, 16000 / Math.max(scene.w, scene.h), Math.sqrt(1.2e8 / (scene.w * scene.h)));
    const canvas = el("canvas", {width: Math.max(1, Math.round(scene.w * k)), height: Math.max(1, Math.round(scene.h * k))});
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(then);
    URL.revokeObjectURL(url);
  };
  image.src = url;
}
const savePng = () => exportPng(blob => blob && save(blob, ".png"));
