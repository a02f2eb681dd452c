"use strict";
// What the report and the explorer share: drawing the typed parts of an explanation.
// tips: { tip(text, x, y), untip(), save(svg) }, given by the page.
const captiousParts = (tips) => {
const SMALL = new Set("a an the of in on at by with to from and or is are was were it its his her their he she they this that there has have be as for into onto near next over under up down out while who which some one two".split(" "));
const esc = (s) => String(s).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
const el = (html) => { const t = document.createElement("template"); t.innerHTML = html.trim(); return t.content.firstElementChild; };
const mix = (stops, share) => { const p = Math.min(Math.max(share, 0), 1) * (stops.length - 1), k = Math.min(Math.floor(p), stops.length - 2), f = p - k;
  const rgb = (h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16)); const a = rgb(stops[k]), b = rgb(stops[k + 1]);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * f)).join(",")})`; };
function overlay(boxes, words) {
  const svg = document.querySelector(".frame svg"); if (!svg) return;
  svg.parentElement.querySelectorAll(".plate").forEach((n) => n.remove());
  svg.innerHTML = boxes.map(({ box, a, k }) => `<rect data-region="${k}" x="${box[0]}" y="${box[1]}" width="${box[2] - box[0]}" height="${box[3] - box[1]}" fill="#E69F00" fill-opacity="${(0.3 * a).toFixed(3)}" stroke="#fff" stroke-opacity="${(0.25 + 0.75 * a).toFixed(2)}" stroke-width="2.5" vector-effect="non-scaling-stroke"/><rect x="${box[0]}" y="${box[1]}" width="${box[2] - box[0]}" height="${box[3] - box[1]}" fill="none" stroke="#D55E00" stroke-opacity="${(0.25 + 0.75 * a).toFixed(2)}" stroke-width="1.5" vector-effect="non-scaling-stroke" pointer-events="none"/>`).join("");
  svg.querySelectorAll("[data-region]").forEach((r) => r.addEventListener("pointerenter", (e) => words && tips.tip(words(+r.dataset.region), e.clientX, e.clientY)));
  svg.onpointerleave = tips.untip;
}
const DARK = ["#9c2a6b", "#0072B2", "#8a5a00", "#00694d"]; // white letters can be read on them
function places(part, only) { // boxes with their labels on the photograph itself
  overlay([]); const svg = document.querySelector(".frame svg"); if (!svg) return;
  const taken = [];
  part.boxes.forEach(({ box, text }, k) => {
    if (only !== undefined && only !== k) return;
    const c = DARK[k % DARK.length], at = `x="${box[0]}" y="${box[1]}" width="${box[2] - box[0]}" height="${box[3] - box[1]}" fill="none" vector-effect="non-scaling-stroke"`;
    svg.insertAdjacentHTML("beforeend", `<rect ${at} stroke="#fff" stroke-width="5"/><rect data-region="${k}" ${at} stroke="${c}" stroke-width="2.5"/>`);
    let y = box[1]; while (taken.some(([px, py]) => Math.abs(px - box[0]) < 0.25 && Math.abs(py - y) < 0.055)) y += 0.055;
    taken.push([box[0], y]);
    svg.parentElement.append(el(`<span class="plate" style="left:${(100 * Math.min(box[0], 0.75)).toFixed(2)}%;top:${(100 * Math.min(y, 0.94)).toFixed(2)}%;background:${c}">${esc(text)}</span>`));
  });
}
const fitted = (node) => { // a wide drawing shrinks to its room, down to letters that can still be read
  const svg = node.querySelector("svg"), w = svg && parseFloat(svg.getAttribute("width")); if (w) Object.assign(svg.style, { maxWidth: "100%", minWidth: Math.round(Math.min(w, Math.max(300, 0.72 * w))) + "px", height: "auto" });
  return node;
};
function draw(part) {
  if (part.kind === "LabelledPhotograph") {
    const node = el(`<div><h4 style="margin-top:12px">${esc(part.title)}</h4><div class="chips">${part.boxes.map((b, k) => `<button type="button" class="chip" data-place="${k}">${esc(b.text)}</button>`).join("")}${part.whole.map((t) => `<span class="chip" title="in the whole photograph">${esc(t)}</span>`).join("")}</div>${part.boxes.length ? '<p class="remark">The boxes are on the photograph; point at one here to see it alone. The number is how sure the detector is.</p>' : ""}</div>`);
    node.querySelectorAll("button").forEach((b) => { b.onpointerenter = b.onfocus = b.onclick = () => places(part, +b.dataset.place); b.onpointerleave = b.onblur = () => places(part); });
    queueMicrotask(() => places(part));
    return node;
  }
  if (part.svg) { const node = el(`<div class="picture">${part.svg}<p><button type="button" data-save>Save picture</button></p></div>`); node.querySelector("[data-save]").onclick = () => tips.save(part.svg); return fitted(node); }
  if (part.kind === "WordMarks") return el(`<div><h4 style="margin-top:12px">${esc(part.title)}</h4><div class="chips">${part.words.map((w) => `<span class="chip ${esc(w.state)}" title="${esc(w.note || w.state)}">${esc(w.word)}${w.weight !== null && part.meaning ? `<small>${w.weight.toFixed(2)}</small>` : ""}</span>`).join("")}</div>${part.meaning ? `<p class="remark">${esc(part.meaning)}</p>` : ""}</div>`);
  if (part.kind === "MatchMatrix") {
    const blues = ["#f7f9fc", "#c6dbef", "#6baed6", "#2171b5", "#08407e"], low = part.threshold || 0;
    return el(`<div class="picture"><h4>${esc(part.title)}</h4><table class="matrix" style="width:min(100%,${104 + 31 * part.columns.length + (part.notes.length || part.weights.length ? 56 : 0)}px);min-width:${84 + 24 * part.columns.length + (part.notes.length || part.weights.length ? 56 : 0)}px"><thead><tr><th></th>${part.columns.map((c) => `<th scope="col">${esc(c)}</th>`).join("")}${part.notes.length || part.weights.length ? '<td class="note"></td>' : ""}</tr></thead><tbody>${part.rows.map((r, i) => { const top = part.values[i].indexOf(Math.max(...part.values[i])); return `<tr><th scope="row">${esc(r)}</th>${part.values[i].map((v, j) => { const kept = part.threshold === null || v > part.threshold, a = Math.min(1, Math.max(0, (v - low) / (1 - low || 1))); return `<td class="${kept ? "" : "cut"} ${kept && j === top ? "peak" : ""}" style="background:${mix(blues, a)};color:${a > 0.55 ? "#fff" : "#222"}" title="${esc(r)} and ${esc(part.columns[j])}: ${v.toFixed(3)}">${v.toFixed(2).replace("0.", ".")}</td>`; }).join("")}${part.notes[i] ? `<td class="note">${esc(part.notes[i])}</td>` : part.weights.length ? `<td class="note">${part.weights[i].toFixed(1)}</td>` : ""}</tr>`; }).join("")}</tbody></table><p class="remark">Rows: reference. Columns: caption. Outlined: the best match of a row.${part.threshold === null ? "" : " Grey: at or below the threshold, not counted."}${part.weights.length ? " At the right: the weight of the word." : ""}</p></div>`);
  }
  if (part.kind === "Contributions") {
    const most = Math.max(...part.items.map((k) => Math.abs(k.share)), 1e-9);
    return el(`<div><p class="remark">${part.score.toFixed(3)} = ${part.baseline.toFixed(3)} (an average caption of the training set) plus what each input adds:</p><div class="shares">${part.items.map((k) => { const w = Math.abs(k.share) / most * 100; return `<span>${esc(k.name)} = ${k.value.toFixed(3)}</span><span class="half"><span style="display:flex;justify-content:flex-end">${k.share < 0 ? `<i style="width:${w}%;background:#E69F00"></i>` : ""}</span><span>${k.share >= 0 ? `<i style="width:${w}%;background:#0072B2"></i>` : ""}</span></span><b style="text-align:right">${k.share > 0 ? "+" : k.share < 0 ? "−" : ""}${Math.abs(k.share).toFixed(3)}</b>`; }).join("")}</div></div>`);
  }
  if (part.kind === "RegionAttention") {
    const node = el(`<div><h4 style="margin-top:12px">${esc(part.title)}</h4><div class="chips">${part.words.map((w, k) => /^[\p{L}\p{N}#]/u.test(w) ? `<button type="button" class="chip" data-word="${k}">${esc(w)}</button>` : "").join("")}${part.caption.length ? `<button type="button" class="chip confirmed" data-all="caption">whole caption</button>` : ""}${part.references.length ? `<button type="button" class="chip confirmed" data-all="references">the references</button>` : ""}</div></div>`);
    const whole = new Set(part.whole);
    const show = (weights) => {
      const low = Math.min(...weights), span = Math.max(...weights) - low || 1;
      const listed = weights.map((v, k) => ({ k, a: (v - low) / span, box: part.boxes[k] })).filter((b) => !whole.has(b.k)).sort((a, b) => b.a - a.a).slice(0, 5).reverse();
      const top = Math.max(...listed.map((b) => b.a), 1e-9); listed.forEach((b) => { b.a /= top; });
      overlay(listed, (r) => { const o = part.words.map((w, k) => [w, part.shares[k][r]]).sort((a, b) => b[1] - a[1]).slice(0, 4); return `region ${r}: ` + o.map(([w, v]) => `${w} ${v.toFixed(2)}`).join(", "); });
    };
    const pick = (b) => { node.querySelectorAll(".chip").forEach((c) => c.classList.toggle("on", c === b)); show(b.dataset.all ? part[b.dataset.all] : part.shares[+b.dataset.word]); };
    node.querySelectorAll("button").forEach((b) => { b.onpointerenter = b.onfocus = b.onclick = () => pick(b); });
    queueMicrotask(() => { const strongest = part.words.map((w, k) => [SMALL.has(w.toLowerCase()) || !/^\p{L}{2}/u.test(w) ? -1 : Math.max(...part.shares[k].filter((_, r) => !whole.has(r)), 0), k]).sort((a, b) => b[0] - a[0])[0]; const b = strongest && node.querySelector(`[data-word="${strongest[1]}"]`); if (b) pick(b); });
    return node;
  }
  return el("<p></p>");
}
return { SMALL, esc, el, mix, overlay, draw };
};
