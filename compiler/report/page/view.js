// Moving about in the graph: pan, zoom, the map, keys, opening and closing of groups.
let view = {k: 1, x: 0, y: 0}, onPaper = false;
const LEAST = 0.02, MOST = 3, FAR = 0.3;
const size = () => ({w: id("graph").clientWidth || 900, h: id("graph").clientHeight || 500});

function render() {
  if (onPaper) return;
  const s = size(), r = {x0: -view.x / view.k, y0: -view.y / view.k};
  r.x1 = r.x0 + s.w / view.k, r.y1 = r.y0 + s.h / view.k;
  id("view").setAttribute("transform", `translate(${round(view.x)},${round(view.y)}) scale(${view.k.toPrecision(6)})`);
  const far = view.k < FAR;
  if (!shown || shown.far !== far || !(r.x0 >= shown.x0 && r.y0 >= shown.y0 && r.x1 <= shown.x1 && r.y1 <= shown.y1)) {
    // More than is visible, so that small moves draw nothing.
    const mx = (r.x1 - r.x0) * 0.6, my = (r.y1 - r.y0) * 0.6;
    shown = {x0: r.x0 - mx, y0: r.y0 - my, x1: r.x1 + mx, y1: r.y1 + my, far};
    drawInto(id("view"), shown, far);
  }
  drawMap(r);
}
function redraw() { shown = null; render(); }

let pending = false;
function later() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; render(); });
}

// ------------------------------------------------------------ zoom and pan
function zoom(f, x, y) {
  const k = Math.min(MOST, Math.max(LEAST, view.k * f));
  view = {k, x: x - (x - view.x) * k / view.k, y: y - (y - view.y) * k / view.k};
  later();
}
function zoomMiddle(f) { const s = size(); zoom(f, s.w / 2, s.h / 2); }
function pan(dx, dy) { view.x += dx, view.y += dy, later(); }
// Beside the map.
const roomSize = () => { const s = size(); return {w: s.w - (scene.h * 0.9 > s.h || scene.w > s.w ? mapWidth(s) + 24 : 0), h: s.h}; };
const mapWidth = s => s.w < 700 ? 48 : 96;
function fit() {
  const s = roomSize(), k = Math.max(LEAST, Math.min(1, s.w / scene.w, s.h / scene.h));
  view = {k, x: (s.w - k * scene.w) / 2, y: (s.h - k * scene.h) / 2};
  later();
}
// The first operators, at a size that can be read.
function home() {
  const s = roomSize(), first = scene.boxes.reduce((a, b) => a.y <= b.y ? a : b, {y: Infinity, x: 0, w: 0});
  view = {k: 1, y: 0, x: scene.w <= s.w ? (s.w - scene.w) / 2 : Math.min(0, Math.max(s.w - scene.w, s.w / 2 - first.x - first.w / 2))};
  later();
}
function show(item) {
  const b = scene.at.get(item), s = roomSize();
  if (!b) return;
  view.k = Math.max(view.k, 0.8);
  view.x = s.w / 2 - view.k * (b.x + Math.min(b.w, s.w) / 2);
  view.y = b.h * view.k > s.h ? 20 - view.k * b.y : s.h / 2 - view.k * (b.y + b.h / 2);
  later();
}

// ------------------------------------------------------------ the map
// Both directions have a scale of their own: graphs are much longer than wide.
function drawMap(r) {
  const canvas = id("map"), s = size(), ratio = window.devicePixelRatio || 1, wide = mapWidth(s), high = s.h - 20;
  const kx = Math.min(0.25, wide / scene.w), ky = Math.min(0.25, high / scene.h), w = Math.max(24, Math.ceil(scene.w * kx)), h = Math.max(24, Math.ceil(scene.h * ky));
  canvas.hidden = r.x0 <= 0 && r.y0 <= 0 && r.x1 >= scene.w && r.y1 >= scene.h;
  canvas.style.width = w + "px", canvas.style.height = h + "px";
  canvas.width = w * ratio, canvas.height = h * ratio;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = palette.page, c.fillRect(0, 0, w, h);
  for (const b of scene.frames) c.fillStyle = b.depth % 2 ? palette.soft : palette.group, c.fillRect(b.x * kx, b.y * ky, b.w * kx, b.h * ky);
  for (const b of scene.boxes) {
    c.fillStyle = marks.hit.has(b.item) || b.item === chosen ? palette.hit : b.fill === palette.page || b.fill === palette.box ? palette.line : mix(b.fill, palette.line, 0.35);
    c.fillRect(b.x * kx, b.y * ky, Math.max(1.5, b.w * kx), Math.max(1, b.h * ky - 0.5));
  }
  c.strokeStyle = palette.hit, c.lineWidth = 1.5;
  const x = Math.max(1, r.x0 * kx), y = Math.max(1, r.y0 * ky);
  c.strokeRect(x, y, Math.max(4, Math.min(w - 1, r.x1 * kx) - x), Math.max(4, Math.min(h - 1, r.y1 * ky) - y));
  canvas.onpointerdown = e => {
    canvas.setPointerCapture(e.pointerId);
    const go = m => {
      const at = canvas.getBoundingClientRect();
      view.x = s.w / 2 - view.k * (m.clientX - at.left) / kx, view.y = s.h / 2 - view.k * (m.clientY - at.top) / ky;
      later();
    };
    go(e);
    canvas.onpointermove = go;
    canvas.onpointerup = canvas.onpointercancel = () => { canvas.onpointermove = null; };
    e.stopPropagation();
  };
}

// ------------------------------------------------------------ groups
function forget(item) { for (let i = item; i; i = i.parent) i.layout = null; }

// The item stays where it is on the screen.
function setOpen(item, open) {
  const before = scene.at.get(item);
  item.open = open;
  forget(item);
  buildScene();
  prepareColours();
  const after = scene.at.get(item);
  if (before && after) view.x += view.k * (before.x + before.w / 2 - after.x - after.w / 2), view.y += view.k * (before.y - after.y);
  // Its title stays in view.
  if (after) view.x = Math.max(Math.min(view.x, 10 - view.k * after.x + Math.max(0, size().w - view.k * after.w) * 0.9), 10 - view.k * after.x);
  redraw();
  say(`${titleOf(item)} ${open ? "opened" : "closed"}`);
}
// Opens what is around the item.
function reveal(item) {
  let changed = false;
  for (let i = item.parent; i && i.parent; i = i.parent) if (!i.open) i.open = changed = true;
  if (!changed) return;
  eachItem(tree.root, i => { i.layout = null; });
  buildScene();
  prepareColours();
  shown = null;
}
function openAll(open) {
  let n = scene.boxes.length;
  const todo = [tree.root];
  while (todo.length) {
    const item = todo.shift();
    if (item !== tree.root && canOpen(item)) {
      if (open && !item.open && n + childrenOf(item).length > 3000) { say("Large groups stay closed."); break; }
      n += open && !item.open ? childrenOf(item).length : 0;
      item.open = open;
    }
    todo.push(...childrenOf(item));
  }
  eachItem(tree.root, i => { i.layout = null; });
  buildScene();
  prepareColours();
  shown = null;
  home();
}
const say = text => { id("status").textContent = text; };

// ------------------------------------------------------------ mouse, touch and keys
let dragged = false;
function clickBox(e, b) {
  if (dragged) return;
  if (canOpen(b.item) && (b.item.kind === "group" || e.detail === 2 || e.target.classList.contains("opener"))) {
    setOpen(b.item, true);
    choose(b.item);
  } else {
    choose(b.item);
  }
}
function clickFrame(e, b) {
  if (dragged || !e.target.closest(".head")) return;
  if (b.item.kind === "region") choose(b.item.parent);
  else setOpen(b.item, false), choose(b.item);
}

function listenToPointers(graph) {
  const pointers = new Map();
  const spread = () => { const [a, b] = [...pointers.values()]; return {d: Math.hypot(a.x - b.x, a.y - b.y) || 1, x: (a.x + b.x) / 2, y: (a.y + b.y) / 2}; };
  graph.addEventListener("pointerdown", e => {
    if (e.target.id === "map") return;
    if (!pointers.size) dragged = false;
    pointers.set(e.pointerId, {x: e.clientX, y: e.clientY});
  });
  window.addEventListener("pointermove", e => {
    const p = pointers.get(e.pointerId);
    if (!p) return;
    if (pointers.size === 2) {
      const before = spread();
      Object.assign(p, {x: e.clientX, y: e.clientY});
      const after = spread(), r = graph.getBoundingClientRect();
      view.x += after.x - before.x, view.y += after.y - before.y;
      dragged = true;
      return zoom(after.d / before.d, after.x - r.left, after.y - r.top);
    }
    const dx = e.clientX - p.x, dy = e.clientY - p.y;
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    dragged = true;
    Object.assign(p, {x: e.clientX, y: e.clientY});
    pan(dx, dy);
  });
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, e => pointers.delete(e.pointerId));
  graph.addEventListener("wheel", e => {
    e.preventDefault();
    const r = graph.getBoundingClientRect(), unit = e.deltaMode === 1 ? 16 : 1;
    if (e.shiftKey && !e.ctrlKey) pan(-(e.deltaX + e.deltaY) * unit, 0);
    else zoom(Math.exp(-e.deltaY * unit / (e.ctrlKey ? 120 : 500)), e.clientX - r.left, e.clientY - r.top);
  }, {passive: false});
}

// What is drawn for a leaf: the outermost closed group around it, or itself.
function drawnFor(leaf) {
  let drawn = leaf;
  for (let i = leaf; i; i = i.parent) if (canOpen(i) && !i.open) drawn = i;
  return drawn;
}
function connected(item, down) {
  const found = new Set();
  for (const leaf of leavesOf(item)) for (const v of down ? leaf.writes : leaf.reads) {
    const others = down ? tree.readers.get(v) || [] : [tree.producer.get(v)];
    for (const o of others) if (o && !isInside(o, item)) found.add(drawnFor(o));
  }
  return found;
}
// Up and down follow edges, left and right go along a layer.
function neighbour(item, key) {
  const b = scene.at.get(item);
  if (!b) return null;
  const all = key === "ArrowUp" || key === "ArrowDown" ? [...connected(item, key === "ArrowDown")].map(i => scene.at.get(i)).filter(o => o) :
    scene.boxes.filter(o => o.item !== item && Math.abs(o.y - b.y) < 40 && (key === "ArrowLeft" ? o.x < b.x : o.x > b.x));
  const distance = o => Math.abs(o.x + o.w / 2 - b.x - b.w / 2) + Math.abs(o.y - b.y);
  return all.reduce((best, o) => !best || distance(o) < distance(best) ? o : best, null);
}
function onKey(e) {
  const key = e.key, step = 80;
  const moves = {ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0]};
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (key in moves) {
    const to = chosen && !e.shiftKey ? neighbour(chosen, key) : null;
    if (to) choose(to.item), show(to.item);
    else pan(...moves[key]);
  } else if (key === "+" || key === "=") zoomMiddle(1.3);
  else if (key === "-") zoomMiddle(1 / 1.3);
  else if (key === "0" || key === "f") fit();
  else if (key === "Home" || key === "1") home();
  else if (key === "PageDown" || key === "PageUp") pan(0, (key === "PageDown" ? -0.8 : 0.8) * size().h);
  else if (key === "Enter" && chosen && canOpen(chosen)) setOpen(chosen, !chosen.open), choose(chosen);
  else if (key === "Enter" && !chosen) { const b = scene.boxes.reduce((a, o) => a.y <= o.y ? a : o); choose(b.item); show(b.item); }
  else if (key === "Backspace" && chosen && chosen.parent && chosen.parent.parent) { const p = chosen.parent; choose(p); if (p.open && p.kind !== "region") setOpen(p, false); }
  else if (key === "Escape" && chosen) choose(null);
  else return;
  e.preventDefault();
}
