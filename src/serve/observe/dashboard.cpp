// The page requests data once a second and draws the differences of the last two minutes as SVG. Model names enter the
// page only as text nodes. Where the server asks for keys, the page asks its reader for one.
#include "serve/observe/pages.hpp"

namespace peri::serve {

const char* const kDashboard = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>peri serve</title>
<link rel="icon" href="data:,">
<style>
:root{--ink:#1b1f24;--paper:#fff;--soft:#5b6570;--line:#d8dee4;--a:#2f6f9f;--b:#d9822b;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#14181d;--soft:#9aa7b3;--line:#2c343c;--a:#6cb2e8;--b:#f0a35e;--bad:#ff8a80}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0 auto;max-width:82em;padding:1em}
header{display:flex;flex-wrap:wrap;gap:.3em 1.5em;align-items:baseline;border-bottom:1px solid var(--line);padding-bottom:.6em}
h1{font-size:1.25em;margin:0}h2{font-size:1.1em;margin:0 0 .4em}h3{font-size:.8em;font-weight:600;color:var(--soft);margin:0}
section{border:1px solid var(--line);border-radius:6px;padding:.8em 1em;margin-top:1em}
.row{display:grid;grid-template-columns:repeat(auto-fit,minmax(15em,1fr));gap:1em 1.6em}
.n{font-variant-numeric:tabular-nums}.soft{color:var(--soft)}.bad{color:var(--bad)}
svg{width:100%;height:64px;display:block;border-bottom:1px solid var(--line)}
polyline{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke}
.pa{stroke:var(--a)}.pb{stroke:var(--b)}.ka{color:var(--a)}.kb{color:var(--b)}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:.1em .6em;font-size:.85em;align-items:center}
form{margin-top:1em}input,button{font:inherit;color:inherit;background:none;border:1px solid var(--line);border-radius:4px;padding:.2em .5em}
.bars i{background:var(--a);height:.7em;min-width:1px;display:block}
</style></head><body>
<header><h1>peri serve</h1><span id="state" role="status">asking…</span><span id="figures" class="n soft"></span></header>
<form id="login" hidden><label>the key, as in the server's file of --api-keys: <input id="key" type="password" autocomplete="off" size="40"></label> <button>show</button></form>
<section><div class="row"><div><h3>memory of its processes, MiB</h3><svg id="memory" preserveAspectRatio="none"></svg><div id="memoryNow" class="n soft"></div></div>
<div><h3>processors in use</h3><svg id="cpu" preserveAspectRatio="none"></svg><div id="cpuNow" class="n soft"></div></div></div></section>
<main id="models"></main>
<script>
"use strict";
const kept = 120, mib = 1024 * 1024, cards = new Map(), past = {memory: [], cpu: []};
let before = null, asked = 0, key = "";
const $ = id => document.getElementById(id);
function make(tag, parent, text, cls) {
  const e = document.createElementNS(tag === "svg" || tag === "polyline" ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.setAttribute("class", cls);
  if (parent) parent.append(e);
  return e;
}
function push(list, v) { list.push(v); if (list.length > kept) list.shift(); }
function short(v) { return v === null ? "–" : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v >= 0.1 ? v.toFixed(2) : v.toFixed(3); }
// Lines over one scale, from zero; a gap where there was nothing.
function draw(svg, lists) {
  const most = Math.max(1e-9, ...lists.flat().filter(v => v !== null));
  svg.setAttribute("viewBox", `0 0 ${kept - 1} 100`);
  svg.replaceChildren();
  lists.forEach((list, k) => {
    let run = [];
    const flush = () => { if (run.length) make("polyline", svg, undefined, k ? "pb" : "pa").setAttribute("points", run.join(" ")); run = []; };
    list.forEach((v, i) => v === null ? flush() : run.push(`${kept - list.length + i},${98 - 94 * v / most}`));
    flush();
  });
}
function bars(box, counts) {
  const all = Object.entries(counts).filter(([, n]) => n > 0), sum = all.reduce((s, [, n]) => s + n, 0);
  box.replaceChildren();
  if (!sum) { make("span", box, "none lately", "soft"); return; }
  for (const [name, n] of all.slice(0, 16)) {
    make("span", box, name, "n");
    make("i", box).style.width = 100 * n / Math.max(...all.map(e => e[1])) + "%";
    make("span", box, (100 * n / sum).toFixed(0) + " %", "n soft");
  }
}
function since(now, then) {
  const out = {};
  for (const k in now) out[k] = now[k] - (then && then[k] || 0);
  return out;
}
// Quantiles of what came since, in ms; null: nothing did.
function quantiles(now, then, wanted) {
  const old = new Map(then || []), list = now.map(([us, n]) => [us, n - (old.get(us) || 0)]);
  const all = list.reduce((s, e) => s + e[1], 0);
  return wanted.map(q => {
    let seen = 0;
    for (const [us, n] of list) if ((seen += n) >= q * all && n > 0) return us / 1000;
    return null;
  });
}
function card(key) {
  const c = {past: {queue: [], rate: [], p50: [], p99: []}, box: make("section", $("models"))};
  c.title = make("h2", c.box);
  const row = make("div", c.box, undefined, "row");
  const chart = (name, cls) => { const d = make("div", row); const h = make("h3", d, name); const s = make("svg", d); s.setAttribute("preserveAspectRatio", "none"); return {svg: s, now: make("div", d, "", "n soft"), h}; };
  c.rate = chart("requests a second"); c.queue = chart("waiting in the queue"); c.latency = chart("latency, ms");
  for (const [key, name] of [["batches", "batches by rows"], ["cuts", "batches by why they were cut"]]) {
    const d = make("div", row); make("h3", d, name); c[key] = make("div", d, undefined, "bars");
  }
  c.failed = make("div", c.box, "", "n bad");
  c.note = make("div", c.box, "", "soft");
  cards.set(key, c);
  return c;
}
function show(m, old, seconds) {
  const key = m.name + "/" + m.version, c = cards.get(key) || card(key), p = c.past;
  const [p50, p99] = quantiles(m.request_us, old && old.request_us, [0.5, 0.99]);
  const done = m.success - (old ? old.success : 0), rate = old ? done / seconds : 0;
  push(p.rate, rate); push(p.queue, m.pending); push(p.p50, old && done ? p50 : null); push(p.p99, old && done ? p99 : null);
  c.title.textContent = `${m.name} version ${m.version}`;
  draw(c.rate.svg, [p.rate]); c.rate.now.textContent = short(rate);
  draw(c.queue.svg, [p.queue]); c.queue.now.textContent = `${m.pending} waiting, ${m.open - m.pending} running, most ${m.slots}; ${(m.memory_bytes / mib).toFixed(1)} MiB`;
  draw(c.latency.svg, [p.p50, p.p99]);
  c.latency.now.replaceChildren();
  make("span", c.latency.now, "p50 " + short(p.p50[p.p50.length - 1]), "ka"); c.latency.now.append("   ");
  make("span", c.latency.now, "p99 " + short(p.p99[p.p99.length - 1]), "kb");
  bars(c.batches, since(m.batches, old && old.batches)); bars(c.cuts, since(m.cuts, old && old.cuts));
  const failures = Object.entries(m.failures).filter(e => e[1] > 0).map(e => `${e[1]} ${e[0]}`).join(", ");
  c.failed.textContent = failures ? "failed since it was loaded: " + failures : "";
  c.note.textContent = m.note;
  return key;
}
function tell(now) {
  const seconds = before ? now.seconds - before.seconds : 0;
  $("state").textContent = now.draining ? "draining" : now.ready ? "ready" : "not ready";
  $("state").className = now.ready ? "" : "bad";
  $("figures").textContent = `version ${now.server_version}, up ${Math.floor(now.seconds)} s, ${now.open_requests} requests open, ${now.threads} threads, ${now.descriptors} descriptors`;
  push(past.memory, now.memory.resident_bytes / mib);
  draw($("memory"), [past.memory]);
  $("memoryNow").textContent = `${(now.memory.resident_bytes / mib).toFixed(1)} now, ${(now.memory.peak_bytes / mib).toFixed(1)} at most; used by all ${(now.memory.machine_used_bytes / mib).toFixed(0)} of ${(now.memory.machine_bytes / mib).toFixed(0)} that it may use; ${now.processes.map(p => p.name + " " + (p.resident_bytes / mib).toFixed(1)).join(", ")}`;
  const cpu = seconds > 0 ? Math.max(0, now.cpu_seconds - before.cpu_seconds) / seconds : null;
  push(past.cpu, cpu);
  draw($("cpu"), [past.cpu]);
  $("cpuNow").textContent = cpu === null ? "" : short(cpu);
  const old = new Map(before ? before.models.map(m => [m.name + "/" + m.version, m]) : []), here = new Set();
  for (const m of now.models) { const o = old.get(m.name + "/" + m.version); here.add(show(m, o && o.success <= m.success ? o : undefined, seconds)); }
  for (const m of now.not_served) {
    const key = m.name + "/" + m.version + "/" + m.state;
    here.add(key);
    let c = cards.get(key);
    if (!c) { c = {box: make("section", $("models"))}; c.title = make("h2", c.box); c.text = make("div", c.box, "", "soft"); cards.set(key, c); }
    c.title.textContent = `${m.name} ${m.version ? "version " + m.version : ""} ${m.state.toLowerCase()}`;
    c.text.textContent = m.reason;
  }
  for (const [key, c] of cards) if (!here.has(key)) { c.box.remove(); cards.delete(key); }
  before = now;
}
function complain(text) { $("state").textContent = text; $("state").className = "bad"; }
// The key is held by this page alone, and sent as a header, never in an address.
function askForKey() {
  complain(key ? "the server does not know this key" : "the server asks for a key");
  key = "";
  $("login").hidden = false;
  $("key").focus();
}
$("login").addEventListener("submit", event => {
  event.preventDefault();
  key = $("key").value.trim();
  $("key").value = "";
  $("login").hidden = true;
  ask();
});
async function ask() {
  let now = null;
  try {
    // As the bytes of its UTF-8, which the server's file holds: a header of fetch() is made of letters below 256.
    const headers = key ? {Authorization: "Bearer " + String.fromCharCode(...new TextEncoder().encode(key))} : {};
    const reply = await fetch("/dashboard/data", {cache: "no-store", headers, signal: AbortSignal.timeout(5000)});
    if (reply.status === 401) return askForKey();
    if (!reply.ok) throw new Error("status " + reply.status);
    now = await reply.json();
  } catch (e) { complain("the server does not answer: " + e.message); }
  setTimeout(ask, 1000);
  if (now === null) return;
  try {
    tell(now);
    document.body.dataset.asked = ++asked;
  } catch (e) { complain("the page cannot show what the server says: " + e.message); throw e; }
}
ask();
</script></body></html>
)page";

}  // namespace peri::serve
