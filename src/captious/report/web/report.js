"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const D = window.CAPTIOUS_DATA || JSON.parse($("data").textContent);
const PHOTOS = () => window.CAPTIOUS_PHOTOS !== undefined ? window.CAPTIOUS_PHOTOS : $("photos").textContent;
const KINDS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7a5195", "#777777"];
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const CUT = new Set("a an the of in on at by with to from and or is are his their its while near".split(" "));
const M = D.columns.length; // behind the metrics' columns stand the user's own, as axes of the scatter
const C = [...D.columns, ...D.axes.map((name) => ({ name, label: name, times: 1, low: null, high: null, better: true, meaning: name, signature: "", main: false }))], S = D.systems, REMOTE = D.remote || null; // the explorer: address of the run
const { SMALL, esc, el, mix, overlay, draw } = captiousParts({ tip: (...a) => tip(...a), untip: () => untip(), save: (svg) => download(`${state.caption}-${tab}.svg`, svg, "image/svg+xml") });
const main = C.map((c, i) => i).filter((i) => C[i].main);
const TELLING = ["cider_d", "meteor", "spice", "tiger", "vilbertscore_f", "captious_ref", "bertscore_f", "vifidel", "rouge_l", "bleu_4"];
const telling = [...TELLING.map((n) => C.findIndex((c) => c.name === n)).filter((i) => i >= 0), ...main.filter((i) => !TELLING.includes(C[i].name))];
if (!telling.length) telling.push(0);
const looking = ["tiger", "captious_ref", "vilbertscore_f", "vifidel", "spice", "meteor", "rouge_l"].map((n) => C.findIndex((c) => c.name === n)).find((i) => i >= 0 && i !== telling[0]);
const state = { base: 0, vs: S.length > 1 ? 1 : 0, metric: telling[0], x: telling[0], y: looking === undefined ? telling[1] || telling[0] : looking, mode: "all", sort: "file", find: "", brush: null, all: false, caption: null, system: null };
let brushed = null, order = [], drawn = 0, at = -1;

// -- small things ---------------------------------------------------------------------------
const colour = (s) => KINDS[s % KINDS.length];
const digits = (c) => C[c].times === 100 ? 1 : 2;
const fmt = (v, c) => v === null || v === undefined ? "–" : (v * C[c].times).toFixed(digits(c)).replace("-", "−");
const sign = (v, c) => v === null ? "–" : (v > 0 ? "+" : "") + fmt(v, c);
const sys = (s, more = "") => `<span class="sys"><i style="background:${colour(s)}"></i>${esc(S[s])}${more}</span>`;
const brief = (n, most) => n.length <= most ? n : n.slice(0, Math.ceil(most / 2)) + "…" + n.slice(-Math.floor(most / 2) + 1);
let saying;
const say = (text) => { $("said").textContent = text; $("said").classList.add("on"); clearTimeout(saying); saying = setTimeout(() => $("said").classList.remove("on"), 2200); };
// Round numbers along an axis, each with its label.
function ticks(low, high, c, about = 5) {
  const t = C[c].times, raw = ((high - low) * t || 1) / about, p = 10 ** Math.floor(Math.log10(raw)), by = [1, 2, 2.5, 5, 10].find((k) => k * p >= raw * 0.999), s = by * p, out = [];
  const places = Math.max(0, -Math.floor(Math.log10(s) + 1e-9)) + (by === 2.5 && p <= 1 ? 1 : 0);
  for (let k = Math.ceil(low * t / s - 1e-9); k * s <= high * t + 1e-9 * s; k++) out.push([k * s / t, (k * s).toFixed(places).replace(/^-(?=0(\.0*)?$)/, "").replace("-", "−")]);
  return out;
}
const letter = (s) => String.fromCharCode(97 + (s % 26));
const test = (c, a, b) => { for (const t of D.tests) if (t[0] === c) { if (t[1] === a && t[2] === b) return { d: t[3], l: t[4], h: t[5], p: t[6], s: t[7] }; if (t[1] === b && t[2] === a) return { d: -t[3], l: -t[5], h: -t[4], p: t[6], s: t[7] }; } return null; };
const beaten = (c, s) => S.map((_, o) => o).filter((o) => { if (o === s) return false; const t = test(c, o, s); return t && t.s && (C[c].better ? t.d > 0 : t.d < 0); });
const range = (c) => { const h = D.distributions[c]; const low = C[c].low !== null && C[c].low >= 0 && C[c].high !== null ? Math.min(C[c].low, h.low) : h.low; return [low, h.high]; };
const share = (v, c) => { const [l, h] = range(c); return v === null ? 0 : Math.min(1, Math.max(0.01, (v - l) / (h - l || 1))); };
const urls = new Map();
function photo(item, width = 480) {
  if (REMOTE) return item.image && item.rows ? `${REMOTE}/photo/${item.rows.find((r) => r !== null)}?width=${width}` : null;
  if (!item.photo) return null;
  if (!urls.has(item.image)) {
    const [from, length] = item.photo, raw = atob(PHOTOS().slice(from, from + length)), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    urls.set(item.image, URL.createObjectURL(new Blob([bytes], { type: D.photographs.kind })));
  }
  return urls.get(item.image);
}
function download(name, text, kind) {
  const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob([text], { type: kind })); a.download = name;
  document.body.append(a); a.click(); a.remove(); setTimeout(() => URL.revokeObjectURL(a.href), 4000);
}
async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); } catch {
    const t = document.createElement("textarea"); t.value = text; document.body.append(t); t.select(); document.execCommand("copy"); t.remove();
  }
  say(`Copied as ${what}`);
}

// -- words --------------------------------------------------------------------------------
const words = (t) => t.toLowerCase().match(/[\p{L}\p{N}]+(?:[-'’][\p{L}\p{N}]+)*/gu) || [];
const stem = (w) => w.length > 3 && w.endsWith("s") && !w.endsWith("ss") ? w.slice(0, -1) : w;
function marked(text, refs) {
  if (!refs.length) return esc(text);
  const held = new Set(refs.flatMap(words).map(stem));
  return esc(text).replace(/[\p{L}\p{N}]+(?:(?:[-'’]|&#39;)[\p{L}\p{N}]+)*/gu, (w) => {
    const low = w.toLowerCase().replace("&#39;", "'");
    if (SMALL.has(low) || /^(amp|lt|gt|quot)$/.test(low)) return w;
    return held.has(stem(low)) ? `<mark class="confirmed" title="in the references">${w}</mark>` : `<mark class="extra" title="in no reference">${w}</mark>`;
  });
}
function missing(text, refs) {
  const mine = new Set(words(text).map(stem)), count = new Map();
  for (const r of refs) for (const w of new Set(words(r).filter((w) => !SMALL.has(w)).map(stem))) count.set(w, (count.get(w) || 0) + 1);
  const least = Math.max(Math.min(2, refs.length), refs.length * 0.4); // two of five
  return [...count].filter(([w, n]) => n >= least && !mine.has(w)).sort((a, b) => b[1] - a[1]);
}

// -- overview -----------------------------------------------------------------------------
const real = C.map((_, i) => i).filter((i) => i < M);
const shownColumns = () => state.all || !main.length ? real : main;
function overview() {
  const cols = shownColumns();
  let html = `<caption class="hidden">Corpus values of every system</caption><thead><tr><th scope="col">System</th>`;
  for (const c of cols) html += `<th scope="col"><button type="button" data-metric="${c}" data-tip="${esc(C[c].meaning)}. Signature: ${esc(C[c].signature)}">${esc(C[c].label)}</button></th>`;
  html += "</tr></thead><tbody>";
  S.forEach((_, s) => {
    const base = s === state.base && S.length > 1;
    html += `<tr><th scope="row">${sys(s, S.length > 1 ? ` <sup>${letter(s)}</sup>` : "")}${base ? '<span class="sub">baseline</span>' : ""}</th>`;
    for (const c of cols) {
      const [v, l, h] = D.corpus[s][c], t = base || S.length < 2 ? null : test(c, state.base, s);
      const known = D.corpus.map((r) => r[c][0]).filter((x) => x !== null), best = S.length > 1 && v !== null && v === (C[c].better ? Math.max(...known) : Math.min(...known));
      const sup = beaten(c, s).map(letter).join("");
      html += `<td class="${best ? "best" : ""}" title="${v === null ? "no value" : v}"><span class="num">${fmt(v, c)}</span>${sup ? `<sup>${sup}</sup>` : ""}`;
      if (l !== null && v !== null) html += `<span class="sub">${fmt(l, c)} to ${fmt(h, c)}</span>`;
      if (t) html += `<span class="sub" data-tip="difference ${sign(t.d, c)}, 95 % interval ${sign(t.l, c)} to ${sign(t.h, c)}, p ${t.p === null ? "–" : t.p < 0.001 ? "< 0.001" : t.p.toFixed(3)} after correction">${sign(t.d, c)}${t.s ? "*" : ""}</span>`;
      html += "</td>";
    }
    html += "</tr>";
  });
  $("table").innerHTML = html + "</tbody>";
  const T = D.testing;
  $("legend").textContent = "Values ×100, as papers print them (unbounded scores as they are); below each value its 95 % bootstrap interval" + (T ? `, then the difference from the baseline. * and raised letters: significantly different from the baseline, significantly better than that system (paired randomisation by image, ${T.trials.toLocaleString("en")} trials, p < ${T.level} after ${T.correction === "none" ? "no" : T.correction[0].toUpperCase() + T.correction.slice(1)} correction for ${T.count} comparisons).` : ".") + " Point at a metric for its signature; click it to see its captions.";
  $("columns").hidden = main.length === M;
  $("columns").setAttribute("aria-pressed", state.all);
}
function short() { // which system is better, where, and why: the answer before the numbers
  $("short").hidden = S.length < 2; if (S.length < 2) return;
  const cols = (main.length ? main : real).filter((c) => D.corpus.some((r) => r[c][0] !== null)), name = (s) => `<b>${esc(S[s])}</b>`, count = cols.length;
  const tops = S.map((_, s) => cols.filter((c) => { const known = D.corpus.map((r) => r[c][0]).filter((x) => x !== null); return D.corpus[s][c][0] === (C[c].better ? Math.max(...known) : Math.min(...known)); }).length), leader = tops.indexOf(Math.max(...tops));
  let which = `<p>${name(leader)} has the best value in ${tops[leader]} of ${count} metric${count > 1 ? "s" : ""}.</p>`;
  if (!D.tests.length) which += "<p>There is no paired test: the systems were not scored on the same samples.</p>";
  else S.map((_, s) => s).filter((s) => s !== state.base).slice(0, 4).forEach((s) => {
    const told = cols.map((c) => [c, test(c, state.base, s)]).filter(([, t]) => t && t.s), up = told.filter(([c, t]) => (t.d > 0) === C[c].better).map(([c]) => C[c].label), down = told.filter(([c, t]) => (t.d > 0) !== C[c].better).map(([c]) => C[c].label);
    const said = [[down, "worse"], [up, "better"]].filter(([l]) => l.length).map(([l, word]) => `<span title="${esc(l.join(", "))}">significantly ${word} in ${l.length}</span>`).join(", ");
    which += `<p>${name(s)} against ${name(state.base)}: ${said ? `${said} of ${count} metrics` : "no significant difference"}.</p>`;
  });
  if (D.tests.length && S.length > 5) which += `<p>${S.length - 5} more in the table.</p>`;
  const c = state.metric, gaps = D.buckets.flatMap((b) => b.parts.map((p) => [b.title, p, p.values[state.base][c][0], p.values[state.vs][c][0]])).filter(([, , a, b]) => a !== null && b !== null).map((g) => [...g, (g[3] - g[2]) * better(c)]).sort((a, b) => a[4] - b[4]);
  const behind = gaps.length && gaps[0][4] < 0, most = behind ? gaps[0] : gaps[gaps.length - 1];
  const where = most && most[4] !== 0 ? `<p>In ${esc(C[c].label)}, ${name(state.vs)} is furthest ${behind ? "behind" : "ahead of"} ${name(state.base)} in this part of the captions:</p><p>${esc(most[0])}: <b>${esc(most[1].label)}</b>${most[1].range ? `, ${esc(most[1].range)}` : ""} (${fmt(most[3], c)} against ${fmt(most[2], c)}).</p>` : "<p>There are too few captions to cut into parts.</p>";
  $("short").innerHTML = `<div class="card"><h3>Which is better?</h3>${which}</div><div class="card"><h3>Where?</h3>${where}<p><a href="#buckets">All parts</a></p></div><div class="card"><h3>Why?</h3><p>Open a caption to see what each metric saw in it.</p><p><button type="button" data-sorted="${behind ? "difference" : "gain"}">Where ${esc(brief(S[state.vs], 18))} is furthest ${behind ? "behind" : "ahead"}</button></p>${state.x === state.y ? "" : `<p><button type="button" data-sorted="disagree">Where ${esc(C[state.x].label)} and ${esc(C[state.y].label)} disagree</button></p>`}</div>`;
}
function copied(kind) {
  const cols = shownColumns(), cell = (s, c) => [fmt(D.corpus[s][c][0], c).replace("−", "-"), beaten(c, s).map(letter).join("")];
  if (kind === "csv") {
    const q = (x) => /[",\n]/.test(x) ? `"${x.replace(/"/g, '""')}"` : x;
    let out = ["system", ...cols.flatMap((c) => [C[c].name, C[c].name + "_low", C[c].name + "_high"])].map(q).join(",") + "\n";
    S.forEach((n, s) => { out += [q(n), ...cols.flatMap((c) => D.corpus[s][c].map((v) => v === null ? "" : v))].join(",") + "\n"; });
    return out;
  }
  if (kind === "markdown") {
    let out = `| System | ${cols.map((c) => C[c].label.replace(/\|/g, "\\|")).join(" | ")} |\n|---|${cols.map(() => "---:|").join("")}\n`;
    S.forEach((n, s) => { out += `| ${letter(s)} ${n.replace(/\|/g, "\\|")} | ${cols.map((c) => { const [v, b] = cell(s, c); return v + (b && `<sup>${b}</sup>`); }).join(" | ")} |\n`; });
    return out + "\n" + cols.map((c) => `- ${C[c].label}: \`${C[c].signature}\``).join("\n") + "\n";
  }
  const tex = (t) => t.replace(/[\\&%$#_{}~^]/g, (c) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" })[c] || "\\" + c);
  let out = `\\begin{tabular}{l${"r".repeat(cols.length)}}\n\\toprule\nSystem & ${cols.map((c) => tex(C[c].label)).join(" & ")} \\\\\n\\midrule\n`;
  S.forEach((n, s) => { out += `$^{${letter(s)}}$ ${tex(n)} & ${cols.map((c) => { const [v, b] = cell(s, c); return v === "–" ? "--" : `$${v}${b && `^{${b}}`}$`; }).join(" & ")} \\\\\n`; });
  return out + "\\bottomrule\n\\end{tabular}\n" + cols.map((c) => `% ${C[c].label}: ${C[c].signature}`).join("\n") + "\n";
}

// -- compare -------------------------------------------------------------------------------
function ridges() {
  const c = state.metric, h = D.distributions[c], w = room("ridges"), left = Math.min(170, 24 + 8 * Math.max(...S.map((n) => n.length))), step = S.length > 6 ? 46 : 74, high = S.length * step + 34, plot = w - left - 14;

  let out = `<svg viewBox="0 0 ${w} ${high}" role="img" aria-label="Distribution of ${esc(C[c].label)} over single captions, per system" font-size="13">`;
  S.forEach((n, s) => {
    const base = (s + 1) * step, counts = h.counts[s], bin = plot / counts.length, most = Math.max(1, ...counts);
    let path = `M${left},${base}`;
    counts.forEach((k, i) => { const y = base - (k / most) * (step - 12); path += `L${(left + i * bin).toFixed(1)},${y.toFixed(1)}L${(left + (i + 1) * bin).toFixed(1)},${y.toFixed(1)}`; });
    out += `<path d="${path}L${left + plot},${base}Z" fill="${colour(s)}" fill-opacity=".3" stroke="${colour(s)}" stroke-width="1.5"/><text x="${left - 10}" y="${base - 8}" text-anchor="end" font-weight="600">${esc(brief(n, 18))}<title>${esc(n)}</title></text>`;
    out += `<line class="axis" x1="${left}" x2="${left + plot}" y1="${base}" y2="${base}"/>`;
  });
  for (const [v, text] of ticks(h.low, h.high, c)) out += `<text class="q" x="${(left + plot * (v - h.low) / (h.high - h.low || 1)).toFixed(1)}" y="${high - 12}" text-anchor="middle" font-size="12">${text}</text>`;
  $("ridges").innerHTML = out + "</svg>"; $("ridgetitle").textContent = `${C[c].label} of single captions`;
}
function gap() {
  $("gapbox").hidden = S.length < 2;
  if (S.length < 2) return;
  if (state.vs === state.base) state.vs = S.findIndex((_, i) => i !== state.base);
  $("versus").innerHTML = S.map((n, i) => i === state.base ? "" : `<option value="${i}" ${i === state.vs ? "selected" : ""}>${esc(n)}</option>`).join("");
  const c = state.metric, t = test(c, state.base, state.vs);
  const found = D.differences.find((d) => d.c === c && ((d.a === state.base && d.b === state.vs) || (d.b === state.base && d.a === state.vs)));
  if (!found) { $("gap").innerHTML = '<p class="remark">No resampled differences: there are too few images or too many systems.</p>'; return; }
  const turn = found.b === state.base, low = turn ? -found.high : found.low, high = turn ? -found.low : found.high, counts = turn ? [...found.counts].reverse() : found.counts;
  const w = room("gap"), tall = 120, left = 14, plot = w - 28, bin = plot / counts.length, most = Math.max(...counts), x = (v) => left + (v - low) / (high - low || 1) * plot;
  let out = `<svg viewBox="0 0 ${w} ${tall + 34}" role="img" aria-label="Resampled difference of ${esc(S[state.vs])} and ${esc(S[state.base])}" font-size="12">`;
  counts.forEach((k, i) => { if (k) out += `<rect x="${(left + i * bin).toFixed(1)}" y="${(tall - k / most * (tall - 14)).toFixed(1)}" width="${(bin - 1).toFixed(1)}" height="${(k / most * (tall - 14)).toFixed(1)}" fill="${colour(state.vs)}" fill-opacity=".75"/>`; });
  out += `<line class="axis" x1="${left}" x2="${w - left}" y1="${tall}" y2="${tall}"/><line x1="${x(0)}" x2="${x(0)}" y1="6" y2="${tall + 4}" stroke="currentColor" stroke-dasharray="4 3"/>`;
  const near = x(0) < 60 ? "start" : x(0) > w - 60 ? "end" : "middle";
  out += `<text class="q" x="${x(0)}" y="${tall + 18}" text-anchor="${near}">no difference</text>`;
  if (t && t.d !== null) { const px = Math.min(Math.max(x(t.d), 40), w - 40); out += `<text x="${px}" y="${tall + 18}" text-anchor="middle" font-weight="600">${Math.abs(px - x(0)) > 90 ? sign(t.d, c) : ""}</text>`; }
  out += "</svg>";
  const word = t ? (t.s ? ((t.d > 0) === C[c].better ? "significantly better" : "significantly worse") : "not significantly different") : "";
  $("gap").innerHTML = out + (t ? `<p class="remark">${esc(S[state.vs])} is ${word} than ${esc(S[state.base])} in ${esc(C[c].label)}: ${sign(t.d, c)} (${sign(t.l, c)} to ${sign(t.h, c)}), p ${t.p < 0.001 ? "< 0.001" : "= " + t.p.toFixed(3)} after correction.</p>`.replace("not significantly different than", "not significantly different from") : "");
}
// One line per system over the runs, if the names say "run: system"; else one line over the systems.
function lines() {
  const cut = S.map((n) => n.indexOf(": ")), run = S.map((n, s) => n.slice(0, cut[s])), of = S.map((n, s) => n.slice(cut[s] + 2));
  const runs = [...new Set(run)], names = [...new Set(of)];
  if (cut.some((k) => k < 1) || runs.length < 2 || runs.length * names.length !== S.length) return S.length < 3 ? null : { places: S, lines: [{ name: "", rows: S.map((_, s) => s) }] };
  return { places: runs, lines: names.map((name) => ({ name, rows: runs.map((r) => S.indexOf(`${r}: ${name}`)) })) };
}
function trend() { // runs or systems in their order, as of a model that is trained on
  const drawn = lines();
  $("trendbox").hidden = !drawn; if (!drawn) return;
  const c = state.metric, P = drawn.places, several = drawn.lines.length > 1, w = room("trend", 1200), tall = 190, left = 52, right = several ? 110 : 24, top = 12, base = tall - 40, known = D.corpus.map((r) => r[c]).flatMap(([v, l, h]) => [v, l, h]).filter((v) => v !== null);
  if (!known.length) { $("trend").textContent = ""; return; }
  const low = Math.min(...known), high = Math.max(...known), x = (k) => left + k / (P.length - 1) * (w - left - right), y = (v) => base - (v - low) / (high - low || 1) * (base - top);
  let out = `<svg viewBox="0 0 ${w} ${tall}" role="img" aria-label="${esc(C[c].label)} from ${several ? "run to run" : "system to system"}" font-size="12">`;
  for (const [v, text] of ticks(low, high, c, 4)) out += `<line class="axis" x1="${left}" x2="${w - right}" y1="${y(v)}" y2="${y(v)}"/><text class="q" x="${left - 8}" y="${y(v) + 4}" text-anchor="end">${text}</text>`;
  const ends = [];
  drawn.lines.forEach((line, n) => {
    const at = line.rows.map((s, k) => [s, k]).filter(([s]) => s >= 0 && D.corpus[s][c][0] !== null), band = at.filter(([s]) => D.corpus[s][c][1] !== null), point = ([s, k], which) => `${x(k).toFixed(1)},${y(D.corpus[s][c][which]).toFixed(1)}`;
    if (band.length > 1) out += `<path d="M${band.map((p) => point(p, 2)).join("L")}L${[...band].reverse().map((p) => point(p, 1)).join("L")}Z" fill="${colour(n)}" fill-opacity=".14"/>`;
    out += `<path class="trend" d="M${at.map((p) => point(p, 0)).join("L")}" fill="none" stroke="${several ? colour(n) : "currentColor"}" stroke-width="1.5" stroke-opacity="${several ? 1 : 0.5}"/>`;
    at.forEach(([s, k], i) => { const t = i ? test(c, at[i - 1][0], s) : null; out += `<circle cx="${x(k)}" cy="${y(D.corpus[s][c][0])}" r="${t && t.s ? 6.5 : 4.5}" fill="${colour(several ? n : s)}"><title>${esc(S[s])}: ${fmt(D.corpus[s][c][0], c)}${t ? `, ${sign(t.d, c)} to the one before${t.s ? ", significant" : ""}` : ""}</title></circle>`; });
    if (several && at.length) ends.push([y(D.corpus[at[at.length - 1][0]][c][0]) + 4, line.name]);
  });
  let free = tall; // names at the ends of their lines, the lowest first, none on another
  ends.sort((a, b) => b[0] - a[0]).forEach(([at, name]) => { const ty = Math.min(at, free - 14); free = ty; out += `<text x="${w - right + 12}" y="${ty}">${esc(brief(name, 14))}<title>${esc(name)}</title></text>`; });
  const every = Math.ceil(P.length / 8), most = Math.max(8, Math.floor((w - left - right) / 7 / Math.max(1, Math.min(P.length, 8) - 1) * 0.8));
  P.forEach((name, k) => { if (k % every === 0) out += `<text class="q" x="${x(k)}" y="${tall - 16}" text-anchor="${k === 0 ? "start" : k === P.length - 1 ? "end" : "middle"}">${esc(brief(name, most))}<title>${esc(name)}</title></text>`; });
  $("trend").innerHTML = out + `</svg><p class="remark">${esc(C[c].label)} in the order of the ${several ? "runs, a line per system" : "systems"}, with 95 % intervals. Large dots: significantly different from the ${several ? "run" : "system"} before.</p>`;
}
const points = [];
let plotBox = null;
// A drawing is as wide as its card, so that letters keep their size on a small screen.
const room = (id, most = 600) => Math.max(260, Math.min(most, $(id).clientWidth || most));
function scatter() {
  const lone = C.length < 2, box0 = $("scatter").closest(".card"); box0.hidden = lone; box0.parentElement.classList.toggle("alone", lone); if (lone) return;
  const cv = $("scatter"), wide = cv.parentElement.clientWidth, tall = Math.round(Math.min(460, Math.max(280, wide * 0.72))), dpr = window.devicePixelRatio || 1;
  cv.width = wide * dpr; cv.height = tall * dpr; cv.style.height = tall + "px";
  const g = cv.getContext("2d"), style = getComputedStyle(document.documentElement), ink = style.getPropertyValue("--ink"), quiet = style.getPropertyValue("--quiet"), line = style.getPropertyValue("--line");
  g.scale(dpr, dpr); g.clearRect(0, 0, wide, tall);
  const box = plotBox = { l: 52, r: wide - 14, t: 26, b: tall - 42 }, cx = state.x, cy = state.y, told = cx !== cy && wide > 486, edge = told ? 24 : 6, hx = D.distributions[cx], hy = D.distributions[cy];
  const px = (v) => box.l + 6 + (v - hx.low) / (hx.high - hx.low || 1) * (box.r - box.l - 12), py = (v) => box.b - edge - (v - hy.low) / (hy.high - hy.low || 1) * (box.b - box.t - 2 * edge);
  box.ux = (x) => hx.low + (x - box.l - 6) / (box.r - box.l - 12) * (hx.high - hx.low || 1); box.uy = (y) => hy.low + (box.b - edge - y) / (box.b - box.t - 2 * edge) * (hy.high - hy.low || 1);
  g.font = "12px system-ui, sans-serif"; g.strokeStyle = line; g.fillStyle = quiet; g.lineWidth = 1;
  const lineTo = (...p) => { g.beginPath(); g.moveTo(p[0], p[1]); g.lineTo(p[2], p[3]); g.stroke(); };
  g.textAlign = "center"; for (const [v, text] of ticks(hx.low, hx.high, cx)) { lineTo(px(v), box.t, px(v), box.b); g.fillText(text, px(v), box.b + 16); }
  g.textAlign = "right"; for (const [v, text] of ticks(hy.low, hy.high, cy)) { lineTo(box.l, py(v), box.r, py(v)); g.fillText(text, box.l - 6, py(v) + 4); }
  g.fillStyle = ink; g.textAlign = "center"; g.font = "600 13px system-ui, sans-serif"; g.fillText(C[cx].label, (box.l + box.r) / 2, tall - 6); g.textAlign = "left"; g.fillText(C[cy].label, 4, 15);
  if (told) { g.font = "11.5px system-ui, sans-serif"; g.fillStyle = quiet; g.textAlign = "left"; g.fillText(`${C[cy].label} likes it, ${C[cx].label} does not`, box.l + 8, box.t + 14); g.textAlign = "right"; g.fillText(`${C[cx].label} likes it, ${C[cy].label} does not`, box.r - 8, box.b - 8); }
  const crowd = D.dots.systems;
  for (let i = 0; i < crowd.length; i++) { const vx = D.dots.values[cx][i], vy = D.dots.values[cy][i]; if (vx === null || vy === null) continue; g.fillStyle = colour(crowd[i]); g.globalAlpha = 0.18; g.fillRect(px(vx) - 1.2, py(vy) - 1.2, 2.4, 2.4); }
  points.length = 0;
  D.items.forEach((item, i) => item.captions.forEach((cap, s) => {
    if (!cap || cap.v[cx] === null || cap.v[cy] === null) return;
    const p = { x: px(cap.v[cx]), y: py(cap.v[cy]), i, s }; points.push(p);
    const on = !brushed || brushed.has(i + "/" + s);
    g.globalAlpha = on ? 0.9 : 0.15; g.fillStyle = colour(s); g.beginPath(); g.arc(p.x, p.y, 4.2, 0, 7); g.fill();
  }));
  g.globalAlpha = 1;
  $("scatterkey").innerHTML = S.length > 1 ? S.map((_, s) => sys(s)).join("") : "";
  cv.setAttribute("aria-label", `Scatter of ${C[cx].label} and ${C[cy].label}, ${points.length} captions of the gallery`);
}
function select() { // the captions within the rectangle: values, not pixels, so that an address can hold it
  const b = state.brush, found = new Set();
  if (b) D.items.forEach((item, i) => item.captions.forEach((cap, s) => { if (!cap) return; const x = cap.v[state.x], y = cap.v[state.y]; if (x !== null && y !== null && x >= b[0] && x <= b[1] && y >= b[2] && y <= b[3]) found.add(i + "/" + s); }));
  brushed = found.size ? found : null; if (!brushed) state.brush = null;
}
function brushing() {
  const cv = $("scatter"), b = $("brush"); let from = null;
  const place = (e) => { const r = cv.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  const nearest = ([x, y]) => points.reduce((best, p) => { const d = (p.x - x) ** 2 + (p.y - y) ** 2; return d < best[0] ? [d, p] : best; }, [100, null])[1];
  cv.addEventListener("pointerdown", (e) => { from = place(e); cv.setPointerCapture(e.pointerId); });
  cv.addEventListener("pointermove", (e) => {
    const to = place(e);
    if (!from) { const p = nearest(to); if (p) { const it = D.items[p.i]; tip(`${S[p.s]}: ${it.captions[p.s].t}`, e.clientX, e.clientY); } else untip(); return; }
    Object.assign(b.style, { left: Math.min(from[0], to[0]) + "px", top: Math.min(from[1], to[1]) + "px", width: Math.abs(to[0] - from[0]) + "px", height: Math.abs(to[1] - from[1]) + "px" });
    b.hidden = Math.abs(to[0] - from[0]) + Math.abs(to[1] - from[1]) < 8;
  });
  cv.addEventListener("pointerleave", untip);
  cv.addEventListener("pointerup", (e) => {
    if (!from) return; const to = place(e), start = from; from = null; b.hidden = true;
    if (Math.abs(to[0] - start[0]) + Math.abs(to[1] - start[1]) < 8) { const p = nearest(to); if (p) open(p.i, p.s); else if (brushed) { state.brush = null; select(); refresh(); } return; }
    const sides = (a, b) => [Math.min(a, b), Math.max(a, b)].map((v) => +v.toPrecision(5));
    state.brush = [...sides(plotBox.ux(start[0]), plotBox.ux(to[0])), ...sides(plotBox.uy(start[1]), plotBox.uy(to[1]))];
    select(); refresh(); if (brushed) say(`${brushed.size} captions selected; see the gallery`);
  });
  cv.addEventListener("pointercancel", () => { from = null; b.hidden = true; });
}

// -- gallery -------------------------------------------------------------------------------
const MODES = { all: ["All", "every sample in this file"], different: ["Different", "systems say different things"], regressions: ["Worse than the baseline", "the chosen system scores lower than the baseline in the chosen metric"], unscored: ["Not scored", "a metric could not score a caption"], cut: ["Cut off", "a caption ends in a word such as “a” or “with”"] };
const better = (c) => C[c].better ? 1 : -1;
const value = (item, s, c) => item.captions[s] ? item.captions[s].v[c] : null;
const meanOf = (item, c) => { const v = item.captions.filter(Boolean).map((k) => k.v[c]).filter((x) => x !== null); return v.length ? v.reduce((a, b) => a + b) / v.length : null; };
const apart = (item) => Math.max(...item.captions.map((k) => !k || k.v[state.x] === null || k.v[state.y] === null ? -1 : Math.abs(place(k.v[state.x], state.x) - place(k.v[state.y], state.y))));
const sorted = {};
function place(v, c) { if (!sorted[c]) sorted[c] = D.items.flatMap((i) => i.captions.map((k) => k && k.v[c])).filter((x) => x !== null && x !== undefined).sort((a, b) => a - b); const l = sorted[c]; let a = 0, b = l.length; while (a < b) { const m = (a + b) >> 1; if (l[m] < v) a = m + 1; else b = m; } const r = a / Math.max(1, l.length - 1); return C[c].better ? r : 1 - r; }
const difference = (item) => { const a = value(item, state.base, state.metric), b = value(item, state.vs, state.metric); return a === null || b === null ? null : (b - a) * better(state.metric); };
function keep(item, i) {
  if (brushed && !item.captions.some((_, s) => brushed.has(i + "/" + s))) return false;
  if (state.mode === "different" && new Set(item.captions.filter(Boolean).map((k) => k.t)).size < 2) return false;
  if (state.mode === "regressions") { const d = difference(item); if (d === null || d >= 0) return false; }
  if (state.mode === "unscored" && !item.captions.some((k) => k && k.v.slice(0, M).some((v) => v === null))) return false;
  if (state.mode === "cut" && !item.captions.some((k) => k && (!words(k.t).length || CUT.has(words(k.t).pop())))) return false;
  if (state.find) { const all = [item.id, ...item.captions.map((k) => k ? k.t : ""), ...item.refs].join(" ").toLowerCase(); if (!state.find.toLowerCase().split(/\s+/).every((w) => all.includes(w))) return false; }
  return true;
}
function arrange() {
  order = D.items.map((_, i) => i).filter((i) => keep(D.items[i], i));
  const by = { best: (i) => { const v = meanOf(D.items[i], state.metric); return v === null ? -Infinity : v * better(state.metric); }, worst: (i) => { const v = meanOf(D.items[i], state.metric); return v === null ? -Infinity : -v * better(state.metric); }, difference: (i) => { const v = difference(D.items[i]); return v === null ? -Infinity : -v; }, gain: (i) => { const v = difference(D.items[i]); return v === null ? -Infinity : v; }, disagree: (i) => apart(D.items[i]) }[state.sort];
  if (by) { const key = new Map(order.map((i) => [i, by(i)])); order.sort((a, b) => key.get(b) - key.get(a) || a - b); }
}
function barsOf(cap, s, cols) {
  return `<div class="bars">${cols.map((c) => `<span>${esc(C[c].label)}</span><span class="track"><i style="width:${(share(cap.v[c], c) * 100).toFixed(0)}%;background:${colour(s)}"></i></span><b title="${cap.v[c] === null ? esc((cap.why || {})[c] || "not scored") : cap.v[c]}">${fmt(cap.v[c], c)}</b>`).join("")}</div>`;
}
function verdictButtons(i, s) {
  const v = verdicts[key(i, s)] || {};
  return `<span class="verdict" role="group" aria-label="Your verdict"><button type="button" data-verdict="1" data-i="${i}" data-s="${s}" aria-pressed="${v.rating === 1}">good</button><button type="button" data-verdict="0" data-i="${i}" data-s="${s}" aria-pressed="${v.rating === 0}">bad</button></span>`;
}
function card(i) {
  const item = D.items[i], cols = [...new Set([state.metric, ...telling])].slice(0, 5);
  const node = el(`<article class="item" data-i="${i}" aria-label="${esc(item.id)}"><div><button class="photo" type="button" aria-label="Open ${esc(item.id)}"></button><p class="id">${esc(item.id)}</p></div><div class="rows"></div></article>`);
  node.querySelector(".rows").innerHTML = item.captions.map((cap, s) => !cap ? "" : `<div class="row"><div><div class="who">${sys(s)}${verdictButtons(i, s)}</div><button class="open" type="button" data-s="${s}">${marked(cap.t, item.refs) || "<em>(empty)</em>"}</button></div>${barsOf(cap, s, cols)}</div>`).join("") + (item.refs.length ? `<details><summary>${item.refs.length} reference${item.refs.length > 1 ? "s" : ""}</summary><ul>${item.refs.map((r) => `<li>${esc(r)}</li>`).join("")}</ul></details>` : "");
  const p = node.querySelector(".photo"), src = photo(item);
  if (src) { const img = new Image(); img.alt = `photograph of ${item.id}`; img.src = src; p.append(img); } else p.innerHTML = `<span>${item.image ? "photograph not found" : "no photograph"}</span>`;
  return node;
}
// The explorer holds the samples: pages are asked for, and join those that the page came with.
let asking = 0, total = 0;
const known = new Map(D.items.map((item, i) => [item.id, i]));
const joined = (item) => { if (!known.has(item.id)) { known.set(item.id, D.items.length); D.items.push(item); } return known.get(item.id); };
async function fetched(path) { const a = await fetch(REMOTE + path); if (!a.ok) throw new Error((await a.json()).error); return a.json(); }
async function next() {
  const mine = asking, q = new URLSearchParams({ mode: state.mode, sort: state.sort, find: state.find, metric: C[state.metric].name, base: S[state.base], vs: S[state.vs], x: C[state.x].name, y: C[state.y].name, offset: order.length, count: 12 });
  let page; try { page = await fetched("/items?" + q); } catch (e) { say(e.message); return; }
  if (mine !== asking) return; // the filters changed meanwhile
  total = page.total; order.push(...page.items.map(joined)); tally(); more();
}
function more() {
  const to = Math.min(order.length, drawn + 12), part = document.createDocumentFragment();
  for (; drawn < to; drawn++) part.append(card(order[drawn]));
  $("cards").append(part);
}
const paged = () => REMOTE && !brushed;
function tally() {
  const left = D.samples - D.items.length, all = REMOTE ? D.samples : D.items.length, fit = paged() ? total : order.length;
  $("count").textContent = `${fit.toLocaleString("en")} of ${all.toLocaleString("en")} samples` + (left > 0 && !REMOTE ? ` (${left.toLocaleString("en")} more are not in this file)` : "");
  if (!fit) $("cards").innerHTML = '<p class="none card">No sample fits. Choose “All”, or clear the search.</p>';
}
function gallery() {
  drawn = 0; at = -1; $("cards").textContent = ""; asking++;
  if (paged()) { order = []; next(); } else { arrange(); tally(); more(); }
  $("unbrush").hidden = !brushed;
  $("modes").innerHTML = Object.entries(MODES).filter(([m]) => S.length > 1 || !["different", "regressions"].includes(m)).map(([m, [n, why]]) => `<button type="button" data-mode="${m}" aria-pressed="${m === state.mode}" title="${why}">${n}</button>`).join("");
  const label = C[state.metric].label, options = [["file", "as in the file"], ["best", `best ${label} first`], ["worst", `worst ${label} first`], ...(S.length > 1 ? [["difference", `${S[state.vs]} behind ${S[state.base]} in ${label}`], ["gain", `${S[state.vs]} ahead of ${S[state.base]} in ${label}`]] : []), ["disagree", `${C[state.x].label} and ${C[state.y].label} disagree`]];
  $("sort").innerHTML = options.map(([v, n]) => `<option value="${v}" ${v === state.sort ? "selected" : ""}>${esc(n)}</option>`).join("");
}

// -- buckets --------------------------------------------------------------------------------
function buckets() {
  const c = state.metric;
  $("bucketcharts").innerHTML = D.buckets.map((b) => {
    const all = b.parts.flatMap((p) => p.values.flatMap((v) => v[c])).filter((x) => x !== null), low = Math.min(...all, C[c].low === 0 ? 0 : Infinity), high = Math.max(...all), w = 420, left = S.length > 1 ? Math.min(110, 16 + 7 * Math.max(...S.map((n) => brief(n, 14).length))) : 4, row = 22, bars = low === 0, x = (v) => left + (v - low) / (high - low || 1) * (w - left - 64);
    let y = 4, out = "";
    for (const p of b.parts) {
      y += 20; out += `<text x="0" y="${y}" font-weight="600">${esc(p.label)}</text><text class="q" x="${w}" y="${y}" text-anchor="end" font-size="12">${p.range ? esc(p.range) + ", " : ""}${p.n.toLocaleString("en")} captions</text>`; y += 6;
      S.forEach((n, s) => { const [v, l, h] = p.values[s][c]; y += row; if (S.length > 1) out += `<text class="q" x="${left - 10}" y="${y - 4}" text-anchor="end" font-size="12">${esc(brief(n, 14))}<title>${esc(n)}</title></text>`; if (v === null) { out += `<text class="q" x="${w}" y="${y - 4}" text-anchor="end">–</text>`; return; } if (bars) { const to = Math.max(x(v), left + 1); out += `<rect x="${left}" y="${y - 13}" width="${(to - left).toFixed(1)}" height="10" fill="${colour(s)}"><title>${esc(n)}: ${fmt(v, c)}</title></rect>${l === null ? "" : `<path d="M${x(l).toFixed(1)},${y - 8}H${x(h).toFixed(1)}M${x(l).toFixed(1)},${y - 12}v8M${x(h).toFixed(1)},${y - 12}v8" stroke="var(--ink)" stroke-width="1.2" fill="none"><title>${fmt(l, c)} to ${fmt(h, c)}</title></path>`}<text x="${w}" y="${y - 4}" text-anchor="end">${fmt(v, c)}</text>`; return; } out += `<line class="axis" x1="${left}" x2="${w - 56}" y1="${y - 8}" y2="${y - 8}"/>${l !== null ? `<line x1="${x(l).toFixed(1)}" x2="${x(h).toFixed(1)}" y1="${y - 8}" y2="${y - 8}" stroke="${colour(s)}" stroke-width="5" stroke-opacity=".35" stroke-linecap="round"/>` : ""}<circle cx="${x(v).toFixed(1)}" cy="${y - 8}" r="5" fill="${colour(s)}"><title>${esc(n)}: ${fmt(v, c)}</title></circle><text x="${w}" y="${y - 4}" text-anchor="end">${fmt(v, c)}</text>`; });
      y += 8;
    }
    return `<div class="card"><h3>By ${esc(b.title)}</h3><svg viewBox="0 0 ${w} ${y}" width="${w}" font-size="13" role="img" aria-label="${esc(C[c].label)} by ${esc(b.title)}">${out}</svg></div>`;
  }).join("") || '<p class="remark">Too few captions to cut into parts.</p>';
}

// -- about ----------------------------------------------------------------------------------
function about() {
  let html = '<div class="card">';
  const out = [...D.left_out, ...D.photographs.problems];
  if (D.shown.how && !REMOTE) out.unshift(`${D.shown.samples.toLocaleString("en")} of ${D.samples.toLocaleString("en")} samples are in the gallery: ${D.shown.how}. Overview, distributions and buckets are of all captions. \`captious report SCORES --bundle FOLDER\` writes all.`);
  const list = (title, lines) => lines.length ? `<h3>${title}</h3><ul>${lines.map((l) => `<li>${esc(l)}</li>`).join("")}</ul>` : "";
  html += `<h3 style="margin-top:0">Signatures</h3><dl>${[...new Set(D.columns.map((c) => c.signature))].map((g) => `<dt>${D.columns.filter((c) => c.signature === g).map((c) => esc(c.label)).join("<br>")}</dt><dd class="sig">${esc(g).replace(/[|+]/g, "$&<wbr>")}</dd>`).join("")}</dl>`;
  html += list("Left out", out) + list("Remarks", D.notes) + list("Not scored", D.unscored.map(([c, why, n]) => `${c}: ${n.toLocaleString("en")} captions, ${why}`));
  const names = Object.entries(D.files);
  if (names.length) html += `<h3>Made from</h3><dl>${names.map(([k, v]) => `<dt>${esc(k)}</dt><dd>${esc(Array.isArray(v) ? v.join(", ") : v)}</dd>`).join("")}</dl>`;
  html += `<div id="verdicts"><h3>Your verdicts</h3><p>Mark captions as good or bad. The marks stay in this browser; “Export verdicts” writes a file that <code>captious meta cider_d meteor --set verdicts.json</code> reads as human judgements.</p></div>`;
  html += `<div id="keys"><h3>Keys</h3><p><kbd>j</kbd> <kbd>k</kbd> next and previous sample, <kbd>Enter</kbd> open, <kbd>←</kbd> <kbd>→</kbd> other system, <kbd>/</kbd> find, <kbd>Esc</kbd> close.</p></div><p class="remark">captious ${esc(D.version)}</p></div>`;
  $("aboutbody").innerHTML = html;
}

// -- one caption ------------------------------------------------------------------------------
let tab = null, current = null;
function open(i, s, quiet) {
  if (!D.items[i]) return;
  if (!D.items[i].captions[s]) s = D.items[i].captions.findIndex(Boolean);
  current = [i, s]; state.caption = D.items[i].id; state.system = S[s];
  const item = D.items[i], cap = item.captions[s], src = photo(item, 1000), lost = missing(cap.t, item.refs), told = D.explained[item.rows[s]] || [];
  if (REMOTE && !D.explained[item.rows[s]]) explainRow(item.rows[s], i, s);
  const d = $("caption");
  d.innerHTML = `<div class="bar"><h2 id="captiontitle">${esc(item.id)}</h2><span class="segments" role="group" aria-label="System">${item.captions.map((k, o) => k ? `<button type="button" data-to="${o}" aria-pressed="${o === s}">${esc(S[o])}</button>` : "").join("")}</span><button type="button" data-step="-1" aria-label="Previous sample">‹<span class="wide"> Back</span></button><button type="button" data-step="1" aria-label="Next sample"><span class="wide">Next </span>›</button><button type="button" data-close aria-label="Close">Close</button></div>
  <div class="one"><div class="look"><div class="frame"${item.photo ? ` style="--ratio:${(item.photo[2] / item.photo[3]).toFixed(4)};aspect-ratio:${item.photo[2]}/${item.photo[3]}"` : ""}>${src ? `<img alt="photograph of ${esc(item.id)}" src="${src}">` : `<div class="blank">${item.image ? "photograph not found" : "no photograph"}</div>`}<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"></svg></div><p class="remark" id="lookat"></p>${item.objects.length ? `<h4 style="margin-top:10px">Objects found in the image</h4><div class="chips">${[...new Set(item.objects)].map((o) => { const n = item.objects.filter((p) => p === o).length; return `<span class="chip">${esc(o)}${n > 1 ? `<small>×${n}</small>` : ""}</span>`; }).join("")}</div>` : ""}</div>
  <div>${sys(s)} <span style="float:right">${verdictButtons(i, s)}</span><p class="big">${marked(cap.t, item.refs) || "<em>(empty)</em>"}</p>
  ${item.refs.length ? `<p class="remark"><mark>word</mark> a reference has it &nbsp; <mark class="extra">word</mark> no reference has it</p>` : ""}
  ${lost.length ? `<h4 style="margin-top:10px">Missing: several references say</h4><div class="chips">${lost.slice(0, 12).map(([w, n]) => `<span class="chip missing">${esc(w)}<small>${n} of ${item.refs.length}</small></span>`).join("")}</div>` : ""}
  <details ${innerWidth > 760 ? "open" : ""}><summary>${item.refs.length} reference${item.refs.length === 1 ? "" : "s"}</summary><ul>${item.refs.map((r) => `<li>${esc(r)}</li>`).join("")}</ul></details>
  <div class="block"><h4>Scores</h4>${barsOf(cap, s, shownColumns())}</div>
  <div class="block why"><h4>Why?</h4>${told.length ? `<div class="tabs" role="tablist">${told.map((t, k) => `<button type="button" role="tab" data-tab="${k}">${esc(t.metric)}</button>`).join("")}</div><div id="why" role="tabpanel"></div>` : REMOTE ? '<p class="remark" role="status">Computing the explanation …</p>' : `<p class="remark">No explanation of this caption is stored in this file; see “Left out” under About.</p>`}</div>
  <div class="block"><h4><label for="remark">Remark</label></h4><textarea id="remark" placeholder="What is right or wrong with this caption?">${esc((verdicts[key(i, s)] || {}).remark || "")}</textarea></div></div></div>`;
  if (!d.open) d.showModal();
  d.scrollTop = 0; d.style.setProperty("--bar", d.querySelector(".bar").offsetHeight + "px");
  if (told.length) { const same = told.findIndex((t) => t.metric === tab), seen = told.findIndex((t) => t.parts.some((p) => p.kind === "RegionAttention")); showWhy(told, same >= 0 ? same : Math.max(0, seen)); }
  $("remark").addEventListener("input", (e) => { const v = verdictOn(...current); v.remark = e.target.value; store(); });
  if (!quiet) remember();
}
async function explainRow(row, i, s) {
  let told; try { told = await fetched("/explain?row=" + row); } catch (e) { told = [{ metric: "Error", text: e.message, parts: [] }]; }
  D.explained[row] = told;
  if (current && current[0] === i && current[1] === s) { const top = $("caption").scrollTop; open(i, s, true); $("caption").scrollTop = top; }
}
function showWhy(told, k) {
  const one = told[k]; tab = one.metric;
  document.querySelectorAll("[data-tab]").forEach((b) => b.setAttribute("aria-selected", +b.dataset.tab === k));
  const box = $("why"); box.textContent = ""; overlay([]);
  for (const part of one.parts) box.append(draw(part));
  box.append(el(`<pre>${esc(one.text)}</pre>`));
  $("lookat").textContent = one.parts.some((p) => p.kind === "RegionAttention") ? "Point at a word to see the regions that it looks at." : "";
}
function step(by) {
  if (current && $("caption").open) { const p = order.indexOf(current[0]), to = order[p + by]; if (to !== undefined) open(to, current[1]); else if (by > 0 && paged() && order.length < total) next().then(() => step(by)); return; }
  at = Math.min(Math.max(at + by, 0), order.length - 1); while (drawn <= at && drawn < order.length) more();
  document.querySelectorAll(".item.at").forEach((n) => n.classList.remove("at"));
  const node = document.querySelector(`.item[data-i="${order[at]}"]`); if (node) { node.classList.add("at"); node.scrollIntoView({ block: "start" }); }
}

// -- verdicts ---------------------------------------------------------------------------------
const KEY = "captious " + (REMOTE || D.title + " " + D.captions + " " + (D.items[0] ? D.items[0].id : ""));
let verdicts = {};
try { verdicts = JSON.parse(localStorage.getItem(KEY) || "{}"); } catch { /* no storage here: verdicts live as long as the page */ }
for (const [k, v] of Object.entries(verdicts)) if (!v.about) delete verdicts[k]; // of an older version
const key = (i, s) => [D.items[i].id, S[s], D.items[i].captions[s].t].join("\n"); // a new caption of the same system has no verdict yet
// A verdict carries what it is about: the explorer does not hold every sample at once.
const verdictOn = (i, s) => { const item = D.items[i]; return verdicts[key(i, s)] = verdicts[key(i, s)] || { about: { id: item.id, group: S[s], image: item.image, caption: item.captions[s].t, references: item.refs } }; };
const store = () => { try { localStorage.setItem(KEY, JSON.stringify(verdicts)); } catch { /* as above */ } counted(); };
const mine = () => { const here = REMOTE ? null : new Set(D.items.flatMap((item, i) => item.captions.map((cap, s) => cap && key(i, s)))); return Object.entries(verdicts).filter(([k, v]) => v.rating !== undefined && (REMOTE || here.has(k))).map(([, v]) => v); };
const counted = () => { const n = mine().length; $("export").textContent = n ? `Export ${n} verdict${n > 1 ? "s" : ""}` : "Export verdicts"; };
function exported() {
  const records = new Map();
  for (const v of mine()) {
    const same = (v.about.image || v.about.id) + "\n" + v.about.caption, old = records.get(same);
    if (old) { old.rating.push(v.rating); continue; } // two systems said the same: one record, two ratings
    records.set(same, { ...v.about, rating: [v.rating], remark: v.remark || "" });
  }
  return [...records.values()].map((r) => ({ ...r, rating: r.rating.length === 1 ? r.rating[0] : r.rating }));
}

// -- address, tips, events -----------------------------------------------------------------------
const FIRST = { ...state };
function remember() {
  const q = new URLSearchParams();
  for (const k of ["caption", "system", "mode", "sort", "find"]) if (state[k] && state[k] !== FIRST[k]) q.set(k, state[k]);
  for (const k of ["metric", "x", "y"]) if (state[k] !== FIRST[k]) q.set(k, C[state[k]].name);
  for (const k of ["base", "vs"]) if (state[k] !== FIRST[k]) q.set(k, S[state[k]]);
  if (state.brush) q.set("brush", state.brush.join(" "));
  const text = "#" + q; if (text !== location.hash && !(text === "#" && !location.hash.includes("="))) history.replaceState(null, "", text === "#" ? location.pathname + location.search : text);
}
function recall() {
  if (!location.hash.includes("=")) return;
  const q = new URLSearchParams(location.hash.slice(1)), col = (k) => C.findIndex((c) => c.name === q.get(k)), one = (k) => S.indexOf(q.get(k));
  for (const k of ["mode", "sort", "find"]) state[k] = q.get(k) || FIRST[k];
  for (const k of ["metric", "x", "y"]) state[k] = col(k) >= 0 ? col(k) : FIRST[k];
  for (const k of ["base", "vs"]) state[k] = one(k) >= 0 ? one(k) : FIRST[k];
  if (!MODES[state.mode]) state.mode = "all";
  const b = (q.get("brush") || "").split(" ").map(Number); state.brush = b.length === 4 && b.every(Number.isFinite) ? b : null; select();
  state.caption = q.get("caption"); state.system = q.get("system");
}
const tip = (text, x, y) => { const t = $("tip"); t.textContent = text; t.hidden = false; const host = $("caption").open ? $("caption") : document.body; if (t.parentElement !== host) host.append(t); const r = t.getBoundingClientRect(); t.style.left = Math.max(6, Math.min(x + 12, innerWidth - r.width - 8)) + "px"; t.style.top = (y + r.height + 24 > innerHeight ? y - r.height - 10 : y + 16) + "px"; };
const untip = () => { $("tip").hidden = true; if ($("tip").parentElement !== document.body) document.body.append($("tip")); };
function selects() {
  const cols = (chosen, all) => (all ? C : C.slice(0, M)).map((c, i) => `<option value="${i}" ${i === chosen ? "selected" : ""}>${esc(c.label)}</option>`).join("");
  for (const id of ["metric", "bucketmetric"]) $(id).innerHTML = cols(state.metric);
  $("x").innerHTML = cols(state.x, true); $("y").innerHTML = cols(state.y, true);
  $("base").innerHTML = S.map((n, i) => `<option value="${i}" ${i === state.base ? "selected" : ""}>${esc(n)}</option>`).join("");
  document.querySelector(".base").hidden = S.length < 2; $("find").value = state.find;
}
function refresh() { selects(); overview(); ridges(); gap(); short(); trend(); scatter(); gallery(); buckets(); remember(); }
function theme(to) {
  const dark = to ? to === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (to) document.documentElement.dataset.theme = to;
  $("theme").textContent = dark ? "Light" : "Dark"; $("theme").dataset.shade = dark ? "light" : "dark";
}
document.addEventListener("click", (e) => {
  const b = e.target.closest("button"); if (!b) { if (e.target === $("caption")) $("caption").close(); return; }
  if (b.dataset.copy) copy(copied(b.dataset.copy), b.textContent);
  else if (b.dataset.sorted) { Object.assign(state, { sort: b.dataset.sorted, mode: "all" }); gallery(); remember(); $("gallery").scrollIntoView(); }
  else if (b.dataset.mode) { state.mode = b.dataset.mode; gallery(); remember(); }
  else if (b.dataset.verdict !== undefined) {
    const v = verdictOn(+b.dataset.i, +b.dataset.s), r = +b.dataset.verdict;
    if (v.rating === r) delete v.rating; else v.rating = r;
    store(); document.querySelectorAll(`[data-verdict][data-i="${b.dataset.i}"][data-s="${b.dataset.s}"]`).forEach((o) => o.setAttribute("aria-pressed", v.rating === +o.dataset.verdict));
  }
  else if (b.dataset.metric) { state.metric = +b.dataset.metric; state.sort = "worst"; refresh(); $("gallery").scrollIntoView(); }
  else if (b.dataset.tab) showWhy(D.explained[D.items[current[0]].rows[current[1]]], +b.dataset.tab);
  else if (b.dataset.to) open(current[0], +b.dataset.to);
  else if (b.dataset.step) step(+b.dataset.step);
  else if (b.dataset.close !== undefined) $("caption").close();
  else if (b.classList.contains("open")) open(+b.closest(".item").dataset.i, +b.dataset.s);
  else if (b.classList.contains("photo")) open(+b.closest(".item").dataset.i, 0);
  else if (b.id === "columns") { state.all = !state.all; overview(); }
  else if (b.id === "theme") { theme(b.dataset.shade); scatter(); }
  else if (b.id === "unbrush") { state.brush = null; select(); refresh(); }
  else if (b.id === "export") { const r = exported(); if (!r.length) say("Mark a caption as good or bad first"); else download("verdicts.json", JSON.stringify(r, null, 1) + "\n", "application/json"); }
});
for (const [id, names] of [["base", ["base"]], ["metric", ["metric"]], ["bucketmetric", ["metric"]], ["versus", ["vs"]], ["x", ["x"]], ["y", ["y"]]]) $(id).addEventListener("change", (e) => { for (const n of names) state[n] = +e.target.value; if (id === "x" || id === "y") { state.brush = null; select(); } refresh(); });
$("sort").addEventListener("change", (e) => { state.sort = e.target.value; gallery(); remember(); });
let typing; $("find").addEventListener("input", (e) => { clearTimeout(typing); typing = setTimeout(() => { state.find = e.target.value.trim(); gallery(); remember(); }, 120); });
$("caption").addEventListener("close", () => { untip(); state.caption = state.system = null; const i = current && current[0]; current = null; remember(); if (i !== null && document.activeElement === document.body) { const n = document.querySelector(`.item[data-i="${i}"] .photo`); if (n) n.focus({ preventScroll: true }); } });
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|TEXTAREA|SELECT/.test(e.target.tagName)) { if (e.key === "Escape" && e.target.id === "find") e.target.blur(); return; }
  if (e.key === "j") step(1); else if (e.key === "k") step(-1);
  else if (e.key === "/") { e.preventDefault(); $("find").focus(); }
  else if (e.key === "Enter" && at >= 0 && !$("caption").open && e.target === document.body) open(order[at], 0);
  else if ((e.key === "ArrowRight" || e.key === "ArrowLeft") && current) { const to = current[1] + (e.key === "ArrowRight" ? 1 : -1); if (D.items[current[0]].captions[to]) open(current[0], to); }
});
for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (e) => { const n = e.target.closest && e.target.closest("[data-tip]"); if (n) { const r = n.getBoundingClientRect(); tip(n.dataset.tip, r.left, r.bottom - 8); } else if (kind === "pointerover" && e.target.id !== "scatter" && !e.target.dataset.region) untip(); });
addEventListener("hashchange", () => { if (!location.hash.includes("=")) return; recall(); refresh(); opened(); });
let resizing; addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { ridges(); gap(); trend(); scatter(); }, 120); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(document.documentElement.dataset.theme); scatter(); });
function opened() { if (state.caption === null) { if ($("caption").open) $("caption").close(); return; } const i = D.items.findIndex((t) => t.id === state.caption); if (i >= 0) open(i, Math.max(0, S.indexOf(state.system)), true); else if (REMOTE) fetched("/item?id=" + encodeURIComponent(state.caption)).then((item) => open(joined(item), Math.max(0, S.indexOf(state.system)), true), (e) => say(e.message)); else say("That caption is not in this file"); }
if (!document.querySelector(".brand p").textContent) document.querySelector(".brand p").textContent = `${S.length} system${S.length === 1 ? "" : "s"}, ${D.captions.toLocaleString("en")} captions`;
theme(); recall(); counted(); about(); brushing(); refresh(); opened();
let nearing = false;
new IntersectionObserver((e) => { if (!e[0].isIntersecting) return; if (drawn < order.length) more(); else if (paged() && order.length && order.length < total && !nearing) { nearing = true; next().finally(() => { nearing = false; }); } }, { rootMargin: "900px" }).observe($("more"));
document.documentElement.dataset.ready = "yes";
})();
