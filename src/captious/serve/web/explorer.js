"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const tip = (text, x, y) => { const t = $("tip"); t.textContent = text; t.hidden = false; t.style.left = Math.min(x + 12, innerWidth - 240) + "px"; t.style.top = y + 16 + "px"; };
const untip = () => { $("tip").hidden = true; };
const save = (svg) => { const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })); a.download = "explanation.svg"; a.click(); };
const { esc, el, overlay, draw } = captiousParts({ tip, untip, save });
let saying;
const say = (text) => { $("said").textContent = text; $("said").classList.add("on"); clearTimeout(saying); saying = setTimeout(() => $("said").classList.remove("on"), 3500); };
async function ask(path, options) {
  const answer = await fetch(path, options), text = await answer.text();
  let data = null; try { data = JSON.parse(text); } catch { /* no JSON: the status tells */ }
  if (!answer.ok) throw new Error(data && data.error ? data.error : `the service answered ${answer.status}`);
  return data;
}

// -- runs -----------------------------------------------------------------------------------------
const watched = new Map(), chosen = new Set();
let opening = null;
const OVER = new Set(["done", "failed", "cancelled"]);
function state(run) {
  if (run.state === "running") {
    const share = run.total ? Math.min(100, 100 * run.done / run.total) : null;
    const count = run.total ? ` ${run.done.toLocaleString("en")} of ${run.total.toLocaleString("en")}` : "";
    return `<span>${esc(run.what || "running")}${count}</span><div class="meter${share === null ? " open" : ""}" role="progressbar" aria-label="${esc(run.title)}"${share === null ? "" : ` aria-valuenow="${share.toFixed(0)}"`}><i${share === null ? "" : ` style="width:${share}%"`}></i></div>`;
  }
  return run.state === "failed" ? `failed<div class="failed">${esc(run.error)}</div>` : esc(run.state);
}
function row(run) {
  const when = new Date(run.created * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const buttons = OVER.has(run.state) ? `${run.state === "done" ? "" : `<button type="button" data-do="again">Try again</button>`}<button type="button" data-do="delete">Delete</button>` : `<button type="button" data-do="cancel">Cancel</button>`;
  return `<tr data-run="${run.id}" data-state="${run.state}"><td><input type="checkbox" aria-label="Choose ${esc(run.title)}" ${run.state === "done" ? "" : "disabled"} ${chosen.has(run.id) ? "checked" : ""}></td><td>${run.state === "done" ? `<a href="/run/${run.id}/">${esc(run.title)}</a>` : `<b>${esc(run.title)}</b>`}<span class="sub">${esc(when)}${run.systems.length > 1 ? ", " + run.systems.map(esc).join(", ") : ""}</span></td><td>${state(run)}</td><td class="n">${run.captions === null ? "" : run.captions.toLocaleString("en")}</td><td><span class="quietly">${run.metrics.map(esc).join(", ")}</span></td><td>${buttons}</td></tr>`;
}
function watch(run) {
  if (OVER.has(run.state) || watched.has(run.id)) return;
  const source = new EventSource(`/runs/${run.id}/events`);
  watched.set(run.id, source);
  source.onmessage = (e) => {
    const now = JSON.parse(e.data), old = document.querySelector(`tr[data-run="${run.id}"]`);
    if (old) { const t = document.createElement("tbody"); t.innerHTML = row(now); old.replaceWith(t.firstElementChild); }
    if (now.state === "done" && now.id === opening) location.href = `/run/${now.id}/`; // a comparison opens by itself
    if (OVER.has(now.state)) { source.close(); watched.delete(run.id); say(`${now.title}: ${now.state}`); }
  };
  // The service may be starting again: the browser asks again by itself until the run is over.
}
async function list() {
  const runs = await ask("/runs");
  document.querySelector("#list tbody").innerHTML = runs.map(row).join("");
  $("norun").hidden = runs.length > 0; document.querySelector("#runs .scroll").hidden = !runs.length;
  runs.forEach(watch);
}
$("list").addEventListener("click", async (e) => {
  const b = e.target.closest("[data-do]"); if (!b) return;
  const id = b.closest("tr").dataset.run, what = b.dataset.do;
  if (what === "delete" && !confirm("Delete this run and its files?")) return;
  b.disabled = true;
  try { await ask(what === "delete" ? `/runs/${id}` : `/runs/${id}/${what}`, { method: what === "delete" ? "DELETE" : "POST" }); chosen.delete(id); } catch (err) { say(err.message); }
  await list();
});
$("list").addEventListener("change", (e) => { const id = e.target.closest("tr").dataset.run; if (e.target.checked) chosen.add(id); else chosen.delete(id); $("compare").disabled = chosen.size < 2; });
$("compare").addEventListener("click", async () => {
  const order = [...document.querySelectorAll("tr[data-run]")].map((r) => r.dataset.run).reverse().filter((r) => chosen.has(r)); // oldest first
  try { const run = await ask("/runs/compare", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ runs: order }) }); chosen.clear(); $("compare").disabled = true; opening = run.id; } catch (err) { say(err.message); }
  await list();
});

// -- forms ----------------------------------------------------------------------------------------
const USUAL = new Set(["bleu", "meteor", "rouge_l", "cider_d", "spice"]);
let columns = new Map(); // name of a column -> what the service says of it
function checks(box, metrics, first) {
  const ready = metrics.filter((m) => !m.missing.length), sees = (m) => m.needs.some((n) => n !== "references");
  const groups = [["Usual", ready.filter((m) => USUAL.has(m.name))], ["With the photograph", ready.filter(sees)], ["Words and meaning", ready.filter((m) => !USUAL.has(m.name) && !sees(m))], ["Not installed here", metrics.filter((m) => m.missing.length)]];
  box.innerHTML = groups.filter(([, some]) => some.length).map(([title, some]) => `<h4>${title}</h4><div class="checks">${boxes(some, first)}</div>`).join("");
}
function boxes(metrics, first) {
  return metrics.map((m) => `<label class="${m.missing.length ? "off" : ""}" title="${esc([m.summary, ...m.missing].join("\n"))}"><input type="checkbox" name="metric" value="${esc(m.name)}" ${m.missing.length ? "disabled" : ""} ${first.has(m.name) && !m.missing.length ? "checked" : ""}> ${esc(m.name)}</label>`).join("");
}
const picked = (form) => [...form.querySelectorAll("input[name=metric]:checked")].map((i) => i.value);
document.querySelectorAll(".drop").forEach((box) => {
  const input = box.querySelector("input");
  box.addEventListener("dragover", (e) => { e.preventDefault(); box.classList.add("over"); });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (e) => { e.preventDefault(); box.classList.remove("over"); input.files = e.dataTransfer.files; });
});
$("upload").addEventListener("submit", async (e) => {
  e.preventDefault();
  const form = e.target, metrics = picked(form), send = form.querySelector("[type=submit]");
  if (!metrics.length) { $("uploadsaid").textContent = "Choose at least one metric."; return; }
  const body = new FormData();
  for (const name of ["captions", "references", "photos"]) for (const file of form.elements[name].files) body.append(name, file);
  body.append("metrics", metrics.join(",")); body.append("title", form.elements.title.value.trim());
  send.disabled = true; $("uploadsaid").textContent = "Uploading …";
  try { await ask("/runs", { method: "POST", body }); $("uploadsaid").textContent = ""; await list(); $("runs").scrollIntoView(); } catch (err) { $("uploadsaid").textContent = err.message; }
  send.disabled = false;
});

// -- one caption ----------------------------------------------------------------------------------
const encoded = (file) => new Promise((done, failed) => { const r = new FileReader(); r.onload = () => done(r.result.slice(r.result.indexOf(",") + 1)); r.onerror = () => failed(r.error); r.readAsDataURL(file); });
let told = [], address = null;
$("trial").addEventListener("submit", async (e) => {
  e.preventDefault();
  const form = e.target, metrics = picked(form), send = form.querySelector("[type=submit]"), file = form.elements.photo.files[0];
  if (!metrics.length) { $("trialsaid").textContent = "Choose at least one metric."; return; }
  const request = { caption: form.elements.caption.value, references: form.elements.references.value.split("\n").map((t) => t.trim()).filter(Boolean), metrics };
  send.disabled = true; $("trialsaid").textContent = "Computing the explanation …";
  try {
    if (file) request.image = await encoded(file);
    const answer = await ask("/explain", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request) });
    $("trialsaid").textContent = ""; show(answer, request.caption, file);
  } catch (err) { $("trialsaid").textContent = err.message; }
  send.disabled = false;
});
function show(answer, caption, file) {
  if (address) URL.revokeObjectURL(address);
  address = file ? URL.createObjectURL(file) : null;
  $("told").hidden = false; $("toldcaption").textContent = caption;
  $("frame").innerHTML = (address ? '<img alt="the photograph">' : '<div class="blank">no photograph</div>') + '<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"></svg>';
  if (address) $("frame").querySelector("img").src = address;
  const why = Object.fromEntries(answer.unscored.map((u) => [u.column, u.reason])), known = (name) => columns.get(name) || { label: name, times: 1, low: 0, high: null, main: true, meaning: "" };
  const most = Math.max(...Object.values(answer.scores).filter((v) => v !== null), 1);
  $("scores").innerHTML = Object.entries(answer.scores).filter(([name]) => known(name).main).map(([name, v]) => { const c = known(name); return `<span title="${esc(c.meaning)}">${esc(c.label)}</span><span class="track"><i style="width:${v === null ? 0 : Math.max(1, 100 * Math.max(0, v) / (c.high !== null && c.high <= 1 ? c.high : most)).toFixed(0)}%;background:#0072B2"></i></span><b title="${esc(why[name] || (v === null ? "" : String(v)))}">${v === null ? "–" : (v * c.times).toFixed(c.times === 100 ? 1 : 2).replace("-", "−")}</b>`; }).join("");
  told = answer.explanations;
  $("tabs").innerHTML = told.map((t, k) => `<button type="button" role="tab" data-tab="${k}">${esc(t.metric)}</button>`).join("");
  const looking = told.findIndex((t) => t.parts.some((p) => p.kind === "RegionAttention"));
  pick(Math.max(0, looking)); $("told").scrollIntoView({ block: "nearest" });
}
function pick(k) {
  document.querySelectorAll("#tabs button").forEach((b) => b.setAttribute("aria-selected", +b.dataset.tab === k));
  const box = $("why"); box.textContent = ""; overlay([]);
  for (const part of told[k].parts) box.append(draw(part));
  box.append(el(`<pre>${esc(told[k].text)}</pre>`));
  $("lookat").textContent = told[k].parts.some((p) => p.kind === "RegionAttention") ? "Point at a word to see the regions that it looks at." : "";
}
$("tabs").addEventListener("click", (e) => { const b = e.target.closest("button"); if (b) pick(+b.dataset.tab); });

(async () => {
  try {
    const metrics = await ask("/metrics-list");
    for (const m of metrics) for (const c of m.columns) columns.set(c.name, c);
    checks($("metrics"), metrics, USUAL); checks($("trialmetrics"), metrics, new Set(["bleu", "meteor"]));
    await list();
  } catch (err) { say(err.message); }
  document.documentElement.dataset.ready = "yes";
})();
})();
