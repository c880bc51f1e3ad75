// What is wrong with a drawing or a page. In: the globals of a report. Out: lists of texts, empty where all is well.
// test/page.py evaluates it in the browser.
function layoutFaults() {
  const faults = [], apart = 0.6;
  const inside = (x, y, r) => x > r.x + apart && x < r.x + r.w - apart && y > r.y + apart && y < r.y + r.h - apart;
  const overlap = (a, b) => a.x < b.x + b.w - apart && b.x < a.x + a.w - apart && a.y < b.y + b.h - apart && b.y < a.y + a.h - apart;
  const groups = [tree.root, ...scene.frames.map(f => f.item)];
  for (const g of groups) {
    const items = childrenOf(g).slice().sort((a, b) => a.y - b.y), name = titleOf(g) || "the graph";
    for (let i = 0; i < items.length; i++) {
      for (let k = i + 1; k < items.length && items[k].y < items[i].y + items[i].h; k++)
        if (overlap(items[i], items[k])) faults.push(`in ${name}: ${describe(items[i]).first} overlaps ${describe(items[k]).first}`);
      if (g !== tree.root && (items[i].x < 0 || items[i].x + items[i].w > g.layout.w || items[i].y < HEAD || items[i].y + items[i].h > g.layout.h))
        faults.push(`in ${name}: ${describe(items[i]).first} is outside`);
    }
    const boxes = items.map(i => ({item: i, x: i.x, y: i.y, w: i.w, h: i.h}));
    if (g !== tree.root) boxes.push({x: 10, y: 8, w: Math.min(300, widthOf(titleOf(g), "title")) + 24, h: 18});
    for (const net of g.layout.nets) for (const [x, y] of points(net.d))
      for (const b of boxes) if (b.y < y && b.y + b.h > y && inside(x, y, b)) faults.push(`in ${name}: ${net.value} crosses ${b.item ? describe(b.item).first : "the title"}`);
  }
  return faults.slice(0, 10);
}

// Points along the drawn path: M, V, v and C as the layout writes them.
function points(d) {
  const all = [];
  let x = 0, y = 0;
  const line = (u, v) => { for (let i = 0; i <= 8; i++) all.push([x + (u - x) * i / 8, y + (v - y) * i / 8]); x = u; y = v; };
  for (const [, command, rest] of d.matchAll(/([MVvC])([^MVvC]*)/g)) {
    const n = rest.trim().split(/[ ,]+/).map(Number);
    if (command === "M") [x, y] = n;
    else if (command === "V") line(x, n[0]);
    else if (command === "v") line(x, y + n[0]);
    else {
      const [a, b, c, e, u, v] = n;
      for (let i = 0; i <= 16; i++) {
        const t = i / 16, s = 1 - t;
        all.push([s * s * s * x + 3 * s * s * t * a + 3 * s * t * t * c + t * t * t * u, s * s * s * y + 3 * s * s * t * b + 3 * s * t * t * e + t * t * t * v]);
      }
      x = u; y = v;
    }
  }
  return all;
}

const colourOfText = s => { const m = s.match(/[\d.]+/g).map(Number); return {rgb: m.slice(0, 3), alpha: m.length > 3 ? m[3] : 1}; };
const hexColour = s => s.startsWith("#") ? channels(s) : colourOfText(s).rgb;
function contrast(a, b) {
  const light = c => c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((t, v, i) => t + v * [0.2126, 0.7152, 0.0722][i], 0);
  const [p, q] = [light(a), light(b)];
  return (Math.max(p, q) + 0.05) / (Math.min(p, q) + 0.05);
}
function backgroundOf(e) {
  for (; e; e = e.parentElement) {
    const c = colourOfText(getComputedStyle(e).backgroundColor);
    if (c.alpha > 0.99) return c.rgb;
  }
  return [255, 255, 255];
}

// Text that is too small or too faint, cards with text outside or on other text, controls without a name.
function readingFaults() {
  const faults = [], scale = typeof view === "undefined" ? 1 : view.k;
  for (const e of document.querySelectorAll("#view .item")) {
    const card = e.querySelector("rect.card"), texts = [...e.querySelectorAll("text")], b = card.getBBox();
    const fill = hexColour(card.getAttribute("fill")), boxes = texts.map(t => t.getBBox());
    texts.forEach((t, i) => {
      const size = Number(t.getAttribute("font-size")) * scale, c = contrast(hexColour(t.getAttribute("fill")), fill), box = boxes[i];
      if (scale >= 1 && size < 11) faults.push(`${t.textContent}: text of ${size} px`);
      if (c < 4.5) faults.push(`${t.textContent}: contrast ${c.toFixed(2)}`);
      if (box.x < b.x || box.x + box.width > b.x + b.width + 1) faults.push(`${t.textContent}: outside its box`);
      for (let k = i + 1; k < boxes.length; k++) {
        const o = boxes[k];
        if (box.x < o.x + o.width - 1 && o.x < box.x + box.width - 1 && box.y < o.y + o.height - 4 && o.y < box.y + box.height - 4) faults.push(`${t.textContent} is on ${texts[k].textContent}`);
      }
    });
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest("script, style, noscript, option, #view, title") || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), inSvg = e.closest("svg"), colour = colourOfText(inSvg ? style.fill : style.color).rgb;
    if (parseFloat(style.fontSize) < 11) faults.push(`${n.data.slice(0, 40)}: text of ${style.fontSize}`);
    if (!e.classList.contains("on") && contrast(colour, backgroundOf(inSvg ? inSvg.parentElement : e)) < 4.5) faults.push(`${n.data.slice(0, 40)}: too faint`);
  }
  for (const e of document.querySelectorAll("button, input, select, a, [tabindex='0'], [role=button], [role=img]"))
    if (!(e.getAttribute("aria-label") || e.textContent.trim() || e.labels && e.labels.length)) faults.push(`${e.tagName} ${e.id} has no name`);
  // Labels on the plan lie on places of any colour.
  for (const t of document.querySelectorAll("#memory text.on")) {
    const fills = [...document.querySelectorAll("#memory rect.place.temporary, #memory rect.step")].map(r => r.getAttribute("fill")).filter(f => f.startsWith("#"));
    const least = Math.min(...fills.map(f => contrast(colourOfText(getComputedStyle(t).fill).rgb, channels(f))));
    if (least < 4.5) faults.push(`${t.textContent} on the memory plan: contrast ${least.toFixed(2)}`);
    break;
  }
  for (const chart of document.querySelectorAll("#memory, #roofline")) {
    const boxes = [...chart.querySelectorAll("text:not(.on)")].map(t => ({t, r: t.getBoundingClientRect()}));
    for (let i = 0; i < boxes.length; i++) for (let k = i + 1; k < boxes.length; k++) {
      const a = boxes[i].r, b = boxes[k].r;
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) faults.push(`${chart.id}: ${boxes[i].t.textContent} is on ${boxes[k].t.textContent}`);
    }
  }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  return [...new Set(faults)].slice(0, 12);
}
