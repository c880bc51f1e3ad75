// Elements, units and names. Text from the model is only ever set as text.
window.addEventListener("error", e => { document.getElementById("error").textContent = "error: " + e.message; });
const data = JSON.parse(document.getElementById("data").textContent);
const parts = data.versions || [data];
const id = name => document.getElementById(name);

function fill(e, attributes, children) {
  for (const key in attributes || {}) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), attributes[key]);
    else if (attributes[key] !== undefined) e.setAttribute(key, attributes[key]);
  }
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// ------------------------------------------------------------ numbers
// Sizes with symbols: of a long one only what it depends on, "f(h, w)".
const FUNCTIONS = ["let", "in", "floordiv", "mod", "min", "max", "lt", "eq", "select", "sum", "product", "overflow"];
function brief(s) {
  if (typeof s !== "string" || s.length <= 60) return s;
  const names = (s.match(/"(\\.|[^"\\])*"|[?$]?[A-Za-z_][\w.]*|\$\d+/g) || []).filter(w => !w.startsWith("$") && !FUNCTIONS.includes(w));
  return `f(${[...new Set(names)].join(", ")})`;
}
// The factors of each product of symbols in a sum, "256*N + 64"; null: another form.
function factors(s) {
  const all = new Map();
  for (const term of s.split(" + ")) {
    const [, factor, symbols] = /^(\d*)\*?((?:[A-Za-z_][\w.]*(?:\*(?=[A-Za-z_])|$))*)$/.exec(term) || [];
    if (!factor && !symbols) return null;
    all.set(symbols, (all.get(symbols) || 0) + (factor ? Number(factor) : 1));
  }
  return all;
}
// Orders sizes with and without symbols: as if all symbols were large and equal.
function magnitude(v) {
  if (typeof v !== "string") return v;
  const all = factors(v);
  return all ? [...all].reduce((sum, [symbols, k]) => sum + k * Math.pow(1009, symbols ? symbols.split("*").length : 0), 0) : Infinity;
}
function units(v, names, step) {
  if (v === null || v === undefined) return "";
  if (typeof v !== "number") return brief(v).replaceAll("*", "·");
  let u = 0;
  for (; Math.abs(v) >= step * 10 && u < names.length - 1; u++) v /= step;
  const digits = !Number.isInteger(v) && Math.abs(v) < 100 ? v.toFixed(1) : Math.round(v).toLocaleString("en");
  return digits + (names[u] ? " " + names[u] : "");
}
const bytes = v => units(v, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const count = v => units(v, ["", "k", "M", "G", "T"], 1000);
const plural = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many || one + "s"}`;
const number = v => typeof v !== "number" ? "" : v === 0 ? "0" :
  Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4)));

function time(s) {
  if (typeof s !== "number") return "";
  const [v, unit] = s < 1e-3 ? [s * 1e6, "µs"] : s < 1 ? [s * 1e3, "ms"] : [s, "s"];
  return `${v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : Math.round(v)} ${unit}`;
}

// A sum of numbers, or of sizes that are texts.
function both(a, b) {
  if (typeof a === "number" && typeof b === "number") return a + b;
  if (a === null || b === null) return null;
  if (!a || !b) return a || b;
  const sum = a + " + " + b, all = factors(sum);
  return all ? [...all].map(([symbols, k]) => [k, symbols].filter(f => f && (f !== 1 || !symbols)).join("*")).join(" + ") : sum;
}
const share = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(1) + " %" : "";

// Round values from 0 to most, at most n + 1 of them: multiples of 1, 2 or 5, of bytes powers of 2.
function ticks(most, n, binary) {
  if (!(most > 0)) return [0];
  const least = most / n, base = binary ? 2 : 10, power = Math.pow(base, Math.floor(Math.log(least) / Math.log(base)));
  const step = (binary ? [1, 2] : [1, 2, 5, 10]).map(f => f * power).find(s => s >= least * 0.9999) || power * base;
  return Array.from({length: Math.floor(most / step * 1.0001) + 1}, (_, i) => i * step);
}

// ------------------------------------------------------------ names
const ruler = document.createElement("canvas").getContext("2d");
const FONTS = {title: "600 13px system-ui, sans-serif", small: "11.5px system-ui, sans-serif"};
const widths = new Map();
function widthOf(s, font) {
  const key = font + s;
  if (!widths.has(key)) {
    if (widths.size > 50000) widths.clear();
    ruler.font = FONTS[font];
    widths.set(key, ruler.measureText(s).width);
  }
  return widths.get(key);
}

// Names differ at their ends: they are shortened in the middle.
function shorten(s, room, font) {
  if (widthOf(s.length > 400 ? s.slice(0, 400) : s, font) <= room) return s;
  const letters = Array.from(s);
  const cut = n => {
    const head = Math.ceil(n * 0.4);
    return letters.slice(0, head).join("") + "…" + letters.slice(letters.length - (n - head)).join("");
  };
  let low = 2, high = Math.min(letters.length - 1, 200);
  while (low < high) {
    const half = (low + high + 1) >> 1;
    if (widthOf(cut(half), font) <= room) low = half;
    else high = half - 1;
  }
  return cut(low);
}

// Lists keep their first items.
function shortenList(s, room, font) {
  const all = s.split(", ");
  for (let n = all.length; n > 0; n--) {
    const some = all.slice(0, n).join(", ") + (n < all.length ? ", …" : "");
    if (widthOf(some, font) <= room) return some;
  }
  return shorten(s, room, font);
}

// Text that may break after the separators of names, not within words.
function breakable(s) {
  const span = document.createElement("span");
  for (const piece of String(s).split(/(?<=[_/.:,·+])/)) span.append(piece, document.createElement("wbr"));
  return span;
}

// A type as in "float 1×64×56×56". Sizes may be expressions with commas of their own.
function typeText(type) {
  const m = /^([a-z0-9]+)\[(.*)\]$/.exec(type || "");
  if (!m || m[2].includes("[")) return type || "";
  let depth = 0, dims = "";
  for (const c of m[2]) {
    depth += (c === "(") - (c === ")");
    if (c === "," && !depth) dims += "×";
    else if (c !== " " || !dims.endsWith("×")) dims += c;
  }
  return `${m[1]} ${dims || "scalar"}`;
}

// ------------------------------------------------------------ colours
// The palette is that of style.css, so that the graph follows the theme and exported drawings need no style.
let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of ["box", "line", "edge", "text", "dim", "page", "soft", "hit", "hot", "cool", "group", "accent"])
    palette[name] = style.getPropertyValue("--" + name).trim();
  palette.dark = style.getPropertyValue("--dark").trim() === "1";
}
const channels = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
function mix(from, to, t) {
  const a = channels(from), b = channels(to);
  return "#" + a.map((v, i) => Math.round(v + (b[i] - v) * t).toString(16).padStart(2, "0")).join("");
}
// Of two colours, as WCAG defines it.
function contrastOf(a, b) {
  const light = hex => channels(hex).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((t, v, i) => t + v * [0.2126, 0.7152, 0.0722][i], 0);
  const p = light(a), q = light(b);
  return (Math.max(p, q) + 0.05) / (Math.min(p, q) + 0.05);
}
// A fill of that hue on which text can be read.
function hueColour(hue, strong) {
  const s = palette.dark ? 0.35 : 0.6, step = palette.dark ? -0.02 : 0.02;
  const hex = l => "#" + [0, 8, 4].map(n => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1)))).toString(16).padStart(2, "0");
  }).join("");
  let l = palette.dark ? (strong ? 0.42 : 0.24) : strong ? 0.68 : 0.88;
  while (contrastOf(hex(l), palette.text) < 4.6 && l > 0.1 && l < 0.95) l += step;
  return hex(l);
}
const readable = (colour, fill) => contrastOf(colour, fill) >= 4.5 ? colour : palette.text;
function hueOf(s) {
  let h = 7;
  for (const c of String(s)) h = (h * 31 + c.codePointAt(0)) % 9973;
  return h * 137 % 360;
}
