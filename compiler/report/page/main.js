// The page: versions, themes, what the address asks for.
let part, byKernel, kernelUsers, weights, values;

function openPart(i) {
  part = parts[i];
  byKernel = new Map(part.kernels.map(k => [k.number, k]));
  kernelUsers = new Map(part.kernels.map(k => [k.number, 0]));
  for (const n of part.nodes) for (const k of n.kernels) kernelUsers.set(k, kernelUsers.get(k) + 1);
  weights = new Map(part.weights.map(w => [w.name, w]));
  values = new Map();
  for (const g of part.graphs) for (const p of g.inputs) values.set(p.value, p);
  for (const n of part.nodes) for (const v of n.outputs) if (v) values.set(v.name, v);
  chosen = null, marks.hit = new Set(), marks.mate = new Set();
  const measured = part.kernels.some(k => typeof k.seconds === "number");
  id("colour").querySelector("[value=time]").disabled = !measured;
  id("colour").value = measured ? "time" : "kernel";
  tree = buildTree(part);
  buildScene();
  prepareColours();
  id("counts").textContent = `${plural(part.nodes.length, "node")}, ${plural(part.kernels.length, "kernel")}`;
  shown = null;
  showModel();
  showBelow();
  home();
  render();
}

let belowWidth = 0;
function showBelow() {
  belowWidth = Math.max(300, Math.min(1100, document.documentElement.clientWidth - 32));
  const sections = [kernelTable(), rooflineSection(belowWidth), memorySection(belowWidth), weightSection()].filter(s => s);
  id("below").replaceChildren(...sections);
  id("sections").replaceChildren(...sections.map(s => el("a", {href: "#" + s.id, onclick: e => { e.preventDefault(); s.scrollIntoView({block: "start"}); s.querySelector("h2").focus(); }},
    {"kernel-section": "Kernels", "roofline-section": "Roofline", "memory-section": "Memory", "weight-section": "Weights"}[s.id])));
  for (const h of id("below").querySelectorAll("h2")) h.tabIndex = -1;
}

// ------------------------------------------------------------ themes
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  readPalette();
  id("theme").textContent = palette.dark ? "light" : "dark";
  if (!scene) return;
  prepareColours();
  showBelow();
  redraw();
}

function listen() {
  id("find").addEventListener("input", search);
  id("find").addEventListener("keydown", e => {
    if (e.key === "Enter") goTo(hit < 0 ? 0 : hit + (e.shiftKey ? -1 : 1));
    else if (e.key === "Escape") { id("find").value = ""; search(); }
  });
  id("colour").addEventListener("change", () => { prepareColours(); redraw(); });
  id("in").addEventListener("click", () => zoomMiddle(1.4));
  id("out").addEventListener("click", () => zoomMiddle(1 / 1.4));
  id("fit").addEventListener("click", fit);
  id("home").addEventListener("click", home);
  id("open").addEventListener("click", () => openAll(true));
  id("close").addEventListener("click", () => openAll(false));
  id("svg").addEventListener("click", saveSvg);
  id("png").addEventListener("click", savePng);
  id("theme").addEventListener("click", () => setTheme(palette.dark ? "light" : "dark"));
  darkScheme.addEventListener("change", () => setTheme());
  id("graph").addEventListener("keydown", onKey);
  listenToPointers(id("graph"));
  document.addEventListener("keydown", e => {
    if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) { e.preventDefault(); id("find").focus(); }
  });
  new ResizeObserver(() => {
    redraw();
    if (Math.abs(Math.max(300, Math.min(1100, document.documentElement.clientWidth - 32)) - belowWidth) > 20) showBelow();
  }).observe(id("graph"));
  window.addEventListener("beforeprint", () => showOnPaper(true));
  window.addEventListener("afterprint", () => showOnPaper(false));
}

// The whole graph, as wide as a page and some pages long.
const PAPER = {w: 680, h: 5400};
function showOnPaper(on) {
  const drawing = id("drawing");
  onPaper = on;
  if (!on) {
    drawing.removeAttribute("viewBox");
    drawing.removeAttribute("style");
    return redraw();
  }
  const k = Math.min(1, PAPER.w / scene.w, PAPER.h / scene.h);
  drawInto(id("view"), {x0: -Infinity, y0: -Infinity, x1: Infinity, y1: Infinity}, scene.boxes.length > 1500);
  id("view").removeAttribute("transform");
  drawing.setAttribute("viewBox", `0 0 ${scene.w} ${scene.h}`);
  drawing.style.width = scene.w * k + "px", drawing.style.height = scene.h * k + "px";
}

// #find=NAME opens the page with a search, #kernel=N with a kernel.
function follow(asked) {
  if (asked.has("colour")) { id("colour").value = asked.get("colour"); prepareColours(); redraw(); }
  if (asked.has("find")) { id("find").value = asked.get("find"); search(); goTo(0); }
  if (asked.has("kernel") && byKernel.has(Number(asked.get("kernel")))) chooseKernel(byKernel.get(Number(asked.get("kernel"))));
}

document.querySelector("h1").append(breakable(data.file && data.file !== data.name ? `${data.file}  (${data.name})` : data.name || "model"));
readPalette();
if (parts.length > 1)
  id("version").append("sizes ", el("select", {id: "part", "aria-label": "version of the model", onchange: e => openPart(Number(e.target.value))},
    ...parts.map((p, i) => el("option", {value: i}, p.sizes))));
setTheme();
openPart(parts.length - 1);
if (parts.length > 1) id("part").value = parts.length - 1;
listen();
follow(new URLSearchParams(location.hash.slice(1)));
document.body.dataset.ready = "yes";
