// Charts: histograms of weights, the memory plan over the steps of a run, and the roofline of the kernels.

// ------------------------------------------------------------ weights
function histogram(w, wide, high, axis) {
  if (!w.bins) return null;
  const n = w.bins.length, step = wide / n, label = `histogram of ${w.name}: from ${number(w.min)} to ${number(w.max)}`;
  const s = svg("svg", {class: "histogram", viewBox: `0 0 ${wide} ${high + (axis ? 16 : 0)}`, width: wide, height: high + (axis ? 16 : 0), role: "img", "aria-label": label});
  s.append(svg("path", {class: "bars", d: [...w.bins].map((c, i) => {
    const h = parseInt(c, 36) / 35 * high;
    return h ? `M${round(i * step)} ${high}v${round(-h)}h${round(step - 0.5)}V${high}z` : "";
  }).join("")}));
  s.append(svg("path", {class: "axis", d: `M0 ${high}h${wide}`}));
  if (w.min < 0 && w.max > 0) {
    const zero = -w.min / (w.max - w.min) * wide;
    s.append(svg("path", {class: "zero", d: `M${round(zero)} 0V${high}`}));
  }
  if (axis) s.append(svg("text", {x: 0, y: high + 13}, number(w.min)), svg("text", {x: wide, y: high + 13, "text-anchor": "end"}, number(w.max)));
  return s;
}
const specials = w => [w.zeros ? `${share(w.zeros, w.count)} zeros` : "", w.nans ? plural(w.nans, "NaN") : "", w.infinities ? plural(w.infinities, "infinity", "infinities") : ""].filter(s => s);
function weightSummary(w) {
  if (w.elements) return el("div", {class: "dim"}, w.elements.length ? w.elements.join(", ") : "no elements");
  return el("div", {}, histogram(w, 200, 44, true),
    el("div", {class: "dim"}, [`mean ${number(w.mean)}`, `std ${number(w.std)}`, plural(w.bits, "bit"), bytes(w.bytes), ...specials(w)].join(", ")));
}

// ------------------------------------------------------------ memory
const isFixed = m => typeof m.workspace_bytes === "number" && m.workspace_bytes > 0 && m.places.every(p => typeof p.offset === "number" && typeof p.bytes === "number");

// Bytes in use at each step. Results in place share the memory of their operand.
function liveBytes(places, steps) {
  const sorted = places.slice().sort((a, b) => a.offset - b.offset), begins = Array.from({length: steps + 1}, () => []);
  sorted.forEach((p, i) => begins[p.first_step].push(i));
  let active = [];
  return Array.from({length: steps}, (_, step) => {
    active = active.filter(i => sorted[i].last_step >= step);
    if (begins[step].length) active = active.concat(begins[step]).sort((a, b) => a - b);
    let live = 0, end = 0;
    for (const i of active) {
      const to = sorted[i].offset + sorted[i].bytes;
      live += Math.max(0, to - Math.max(end, sorted[i].offset));
      end = Math.max(end, to);
    }
    return live;
  });
}

// Steps from left to right, addresses from bottom to top; the line is what is in use.
function memoryChart(m, wide) {
  const L = 66, R = 8, T = 10, H = 260, STRIP = 22, B = 40, W = wide - L - R, steps = Math.max(1, ...m.places.map(p => p.last_step), ...part.steps.map(t => t.step)) + 1;
  const x = v => L + v / steps * W, y = v => T + H - v / m.workspace_bytes * H, live = liveBytes(m.places, steps);
  const s = svg("svg", {id: "memory", viewBox: `0 0 ${wide} ${T + H + STRIP + B + 8}`, width: wide, height: T + H + STRIP + B + 8, role: "img",
                        "aria-label": `memory plan: ${bytes(m.workspace_bytes)} over ${plural(steps, "step")}`});
  for (const v of ticks(m.workspace_bytes, 5, true))
    s.append(svg("path", {class: "grid", d: `M${L} ${round(y(v))}h${W}`}), svg("text", {x: L - 6, y: round(y(v)) + 4, "text-anchor": "end"}, v ? bytes(v) : "0"));
  for (const p of m.places) {
    const name = p.name || p.kernel, w = x(p.last_step + 1) - x(p.first_step), h = p.bytes / m.workspace_bytes * H;
    s.append(svg("rect", {class: "place " + p.kind, x: round(x(p.first_step)), y: round(y(p.offset + p.bytes)), width: round(w), height: Math.max(0.5, round(h)),
      fill: p.kind === "scratch" ? "url(#hatch)" : hueColour(hueOf(name), true)},
      svg("title", {}, `${name}${p.kind === "scratch" ? " (scratch)" : ""}: ${bytes(p.bytes)} at ${p.offset.toLocaleString("en")}, steps ${p.first_step} to ${p.last_step}`)));
  }
  // Names, as far as nothing that is drawn later covers them.
  m.places.forEach((p, at) => {
    const top = y(p.offset + p.bytes), left = x(p.first_step), high = p.bytes / m.workspace_bytes * H;
    if (high < 15 || x(p.last_step + 1) - left < 60) return;
    const covers = o => o !== p && y(o.offset + o.bytes) < top + 15 && y(o.offset) > top && x(o.last_step + 1) > left;
    const right = m.places.filter(covers).reduce((r, o) => o.first_step > p.first_step ? Math.min(r, x(o.first_step)) : m.places.indexOf(o) > at ? left : r, x(p.last_step + 1));
    if (right - left > 60) s.append(svg("text", {class: "on", x: round(left) + 4, y: round(top) + 12}, shorten(p.name || p.kernel, right - left - 8, "small")));
  });
  s.prepend(svg("defs", {}, svg("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse"},
    svg("rect", {width: 6, height: 6, fill: palette.group}), svg("path", {d: "M0 6L6 0", stroke: palette.dim, "stroke-width": 1}))));
  s.append(svg("path", {class: "live", d: live.map((b, i) => `${i ? "L" : "M"}${round(x(i))} ${round(y(b))}L${round(x(i + 1))} ${round(y(b))}`).join("")}));
  if (m.peak_bytes) s.append(svg("path", {class: "peak", d: `M${L} ${round(y(m.peak_bytes))}h${W}`}));
  // The strip says which kernel runs in each step.
  const top = T + H + 6, at = new Map(part.steps.map(t => [t.step, t]));
  let free = 0;
  for (let i = 0; i < steps; i++) {
    const t = at.get(i), k = t && t.kernel !== undefined ? byKernel.get(t.kernel) : null, label = k ? "k" + k.number : t ? t.library : "";
    if (!t) continue;
    s.append(svg("rect", {class: "step", x: round(x(i)), y: top, width: round(W / steps), height: STRIP - 6, fill: k ? hueColour(k.number * 137 % 360, true) : palette.group,
      onclick: () => k && chooseKernel(k)}, svg("title", {}, `step ${i}: ${k ? "k" + k.number + " " + k.name : t.library}, ${bytes(live[i])} in use`)));
    const middle = x(i + 0.5), w = widthOf(label, "small");
    if (W / steps > w + 4) s.append(svg("text", {class: "on", x: round(middle), y: top + 12, "text-anchor": "middle"}, label));
    else if (label && middle - w / 2 > free) {
      s.append(svg("text", {x: round(middle), y: top + STRIP + 7, "text-anchor": "middle"}, label));
      free = middle + w / 2 + 14;
    }
  }
  s.append(svg("text", {x: L - 6, y: top + 12, "text-anchor": "end"}, "runs"));
  for (const v of ticks(steps - 1, Math.max(2, Math.floor(W / 90)), false)) if (Number.isInteger(v))
    s.append(svg("text", {x: round(x(v + 0.5)), y: top + STRIP + 24, "text-anchor": "middle"}, String(v)));
  s.append(svg("text", {x: L - 6, y: top + STRIP + 24, "text-anchor": "end"}, "step"));
  return s;
}
function memoryLegend(m) {
  const key = (shape, text) => el("span", {class: "key"}, svg("svg", {width: 22, height: 12, "aria-hidden": "true"}, shape), text);
  return el("p", {class: "legend"}, key(svg("rect", {width: 22, height: 12, fill: hueColour(210, true)}), "temporary"),
    m.places.some(p => p.kind === "scratch") ? key(svg("rect", {width: 22, height: 12, fill: "url(#hatch)", stroke: palette.dim}), "scratch of a kernel") : "",
    key(svg("path", {class: "live", d: "M0 6h22"}), "in use"), m.peak_bytes ? key(svg("path", {class: "peak", d: "M0 6h22"}), `most in use, ${bytes(m.peak_bytes)} at step ${m.peak_step}`) : "");
}

// ------------------------------------------------------------ roofline
// Operations per second over operations per byte, both logarithmic. The roof: the peaks of the machine, where known.
function roofline(wide) {
  const points = part.kernels.map(k => ({k, traffic: both(k.bytes_read, k.bytes_written)}))
    .filter(p => typeof p.traffic === "number" && p.traffic > 0 && p.k.flops > 0 && p.k.seconds > 0)
    .map(p => ({k: p.k, x: p.k.flops / p.traffic, y: p.k.flops / p.k.seconds}));
  if (!points.length) return null;
  const peak = data.peak_flops, bandwidth = data.peak_bytes_per_second, L = 70, R = 16, T = 12, B = 40, H = 300, W = wide - L - R;
  const xs = points.map(p => p.x).concat(peak && bandwidth ? [peak / bandwidth] : []), ys = points.map(p => p.y).concat(peak ? [peak] : []);
  const range = all => [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)) + 0.05)];
  const [x0, x1] = range(xs), [y0, y1] = range(ys), x = v => L + (Math.log10(v) - x0) / Math.max(1, x1 - x0) * W, y = v => T + H - (Math.log10(v) - y0) / Math.max(1, y1 - y0) * H;
  const s = svg("svg", {id: "roofline", viewBox: `0 0 ${wide} ${T + H + B}`, width: wide, height: T + H + B, role: "img",
                        "aria-label": `roofline of ${plural(points.length, "kernel")}`});
  for (let e = x0; e <= x1; e++)
    s.append(svg("path", {class: "grid", d: `M${round(x(10 ** e))} ${T}v${H}`}), svg("text", {x: round(x(10 ** e)), y: T + H + 16, "text-anchor": "middle"}, number(10 ** e)));
  for (let e = y0; e <= y1; e++)
    s.append(svg("path", {class: "grid", d: `M${L} ${round(y(10 ** e))}h${W}`}), svg("text", {x: L - 6, y: round(y(10 ** e)) + 4, "text-anchor": "end"}, number(10 ** (e - 9))));
  s.append(svg("text", {x: L + W / 2, y: T + H + 34, "text-anchor": "middle"}, "operations per byte"),
    svg("text", {transform: `translate(14,${T + H / 2}) rotate(-90)`, "text-anchor": "middle"}, "GFLOP/s"));
  if (peak) {
    const ridge = bandwidth ? peak / bandwidth : 10 ** x0, from = Math.max(10 ** x0, bandwidth ? 10 ** y0 / bandwidth : 0);
    s.append(svg("path", {class: "roof", d: (bandwidth && ridge > from ? `M${round(x(from))} ${round(y(from * bandwidth))}L${round(x(ridge))} ${round(y(peak))}` :
      `M${round(x(10 ** x0))} ${round(y(peak))}`) + `H${L + W}`}),
      svg("text", {x: L + W - 4, y: round(y(peak)) - 5, "text-anchor": "end"}, `peak ${number(1e-9 * peak)} GFLOP/s` + (bandwidth ? `, ${number(1e-9 * bandwidth)} GB/s` : "")));
  }
  const total = points.reduce((t, p) => t + p.k.seconds, 0), placed = [];
  points.sort((a, b) => b.k.seconds - a.k.seconds);
  for (const p of points) {
    const r = 3 + 14 * Math.sqrt(p.k.seconds / total), cx = x(p.x), cy = y(p.y);
    s.append(svg("circle", {class: "kernel", cx: round(cx), cy: round(cy), r: round(r), fill: hueColour(p.k.number * 137 % 360, true), onclick: () => chooseKernel(p.k)},
      svg("title", {}, `k${p.k.number} ${p.k.name}\n${time(p.k.seconds)} (${share(p.k.seconds, total)}), ${number(p.x)} operations per byte, ${number(1e-9 * p.y)} GFLOP/s`)));
  }
  // Names of those that take most time, where there is room.
  for (const p of points.slice(0, 40)) {
    const label = "k" + p.k.number, w = widthOf(label, "small"), r = 3 + 14 * Math.sqrt(p.k.seconds / total), bx = Math.min(x(p.x) + r + 3, L + W - w), by = y(p.y) + 4;
    if (placed.some(o => bx < o.x + o.w + 2 && o.x < bx + w + 2 && Math.abs(o.y - by) < 13)) continue;
    placed.push({x: bx, y: by, w});
    s.append(svg("text", {x: round(bx), y: round(by)}, label));
  }
  return s;
}
