// Run this page, here: cells become editable and run in the page, by Python in a worker. Nothing of it loads before the reader asks, and
// nothing that the reader types leaves the page. Works by http and from a folder (book/_ext/run.py packs what is loaded).
window.byhandRun = (() => {
"use strict";
const told = JSON.parse(document.currentScript.dataset.run), here = document.currentScript.src.replace(/[^/]*$/, "");
const FIRST = ["python", "numpy", "book"], NAMES = { torch: "PyTorch", sqlite3: "SQLite", sympy: "SymPy", matplotlib: "matplotlib" };
const KEYS = "Shift and Enter run the cell. Tab indents; Escape, then Tab, leaves the field.";
const el = (tag, props = {}, ...kids) => { const e = Object.assign(document.createElement(tag), props); e.append(...kids); return e; };
const button = (textContent, onclick, props = {}) => el("button", { type: "button", textContent, onclick, ...props });
const size = (names) => +names.reduce((sum, name) => sum + told.bundles[name][1], 0).toFixed(1);
// Scripts and styles of the page as it was served: an output may bring these again, and no others.
const served = new Set([...document.querySelectorAll("article :is(script, style)")].map((e) => e.textContent.trim()));

// ---- Bundles: one script each, which hands over its files. ----
const bundles = {}, hands = {};
const bytes = (base64) => { const text = atob(base64), array = new Uint8Array(text.length); for (let i = 0; i < text.length; i++) array[i] = text.charCodeAt(i); return array; };
const unzipped = (array) => new Response(new Blob([array]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
const load = (name) => (bundles[name] ??= new Promise((done, failed) => {
  hands[name] = done;
  const script = el("script", { src: here + told.bundles[name][0], onerror: () => { delete bundles[name]; failed(new Error(`${told.bundles[name][0]} could not be loaded`)); } });
  script.onload = () => script.remove();
  document.head.append(script);
}));
const arrived = async (name, files) => hands[name](Object.fromEntries(await Promise.all(Object.entries(files).map(
  async ([file, text]) => (file.endsWith(".gz") && !file.includes(".tar.") ? [file.slice(0, -3), await unzipped(bytes(text))] : [file, bytes(text).buffer])))));

// ---- Edits survive a reload, where the browser keeps anything. ----
const key = (i) => `byhand-run ${told.version} ${told.page} ${i}`;
const storage = { refused: false };
for (const act of ["getItem", "setItem", "removeItem"]) storage[act] = (...what) => { try { return localStorage[act](...what); } catch { storage.refused = true; return null; } };
const kept = (i, printed) => { try { const found = JSON.parse(storage.getItem(key(i))); return found?.printed === printed && typeof found.edited === "string" ? found.edited : null; } catch { return null; } };

// ---- Cells ----
const cells = [...document.querySelectorAll("article div.cell")].filter((box) => box.querySelector(".cell_input pre")).map((box, i) => {
  const input = box.querySelector(".cell_input"), printed = input.querySelector("pre").textContent.replace(/\n$/, "");
  const output = [...box.querySelectorAll(".cell_output")][0] ?? null;
  const exercise = (/\battempt\(/.test(printed) && !input.closest(".tag_hide-cell, .tag_hide-input")) || box.matches(".tag_answer-here");
  return { i, box, input, printed, output, exercise, stored: output ? [...output.childNodes] : [], state: "new", source: printed };
});
const edited = (cell) => cell.source !== cell.printed;
const renew = (cell) => { if (/done|missing/.test(cell.state)) cell.state = "new"; };
const keep = (cell) => (edited(cell) ? storage.setItem(key(cell.i), JSON.stringify({ printed: cell.printed, edited: cell.source })) : storage.removeItem(key(cell.i)));

function open(cell) { // a field in place of the printed code; it knows Python's indentation, and Escape lets Tab leave it
  if (cell.field) return cell.field;
  const field = (cell.field = el("textarea", { className: "run-field", value: cell.source, spellcheck: false, autocomplete: "off", wrap: "off" }));
  field.setAttribute("aria-label", `Code of cell ${cell.i + 1}`);
  field.setAttribute("aria-describedby", "run-keys");
  field.setAttribute("autocapitalize", "off");
  field.title = KEYS;
  const fit = () => { field.rows = field.value.split("\n").length; };
  const changed = () => { cell.source = field.value; renew(cell); keep(cell); fit(); show(cell); tell(); };
  const put = (text, from = field.selectionStart, to = field.selectionEnd) => { field.setSelectionRange(from, to); if (!document.execCommand("insertText", false, text)) field.setRangeText(text, from, to, "end"); changed(); };
  let leaving = false;
  field.addEventListener("input", changed);
  field.addEventListener("keydown", (event) => {
    const { selectionStart: from, selectionEnd: to, value } = field, start = value.lastIndexOf("\n", from - 1) + 1, before = value.slice(start, from);
    const lines = value.slice(start, to), several = lines.includes("\n");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) run(cell);
    else if (event.key === "Tab" && !leaving && !event.ctrlKey && !event.altKey) {
      if (event.shiftKey || several) {
        const moved = lines.replace(/^/gm, event.shiftKey ? "" : "    ").replace(event.shiftKey ? /^ {1,4}/gm : /^ +$/gm, "");
        put(moved, start, to);
        if (several) field.setSelectionRange(start, start + moved.length);
        else field.setSelectionRange(Math.max(start, from - lines.length + moved.length), Math.max(start, from - lines.length + moved.length));
      } else put(" ".repeat(4 - (before.length % 4)));
    } else if (event.key === "Enter" && !event.isComposing) {
      const inner = /^ */.exec(before)[0].length + (/:\s*(#.*)?$/.test(before) ? 4 : /^\s*(return|pass|break|continue|raise)\b/.test(before) ? -4 : 0);
      put("\n" + " ".repeat(Math.max(0, inner)));
    } else if (event.key === "Backspace" && from === to && /^ +$/.test(before)) put("", from - ((before.length - 1) % 4) - 1, from);
    else {
      leaving = event.key === "Escape" || (leaving && /^(Tab|Shift)$/.test(event.key));
      return;
    }
    event.preventDefault();
  });
  field.addEventListener("blur", () => (leaving = false));
  cell.input.querySelector("div[class*='highlight']").hidden = true;
  cell.input.prepend(field);
  fit();
  return field;
}

function show(cell) { // buttons below the code, and what there is to say of it
  if (!cell.tools) {
    cell.said = el("span", { className: "run-said" });
    cell.back = button("As printed", () => { asPrinted(cell); cell.edit.focus(); });
    const code = cell.input.querySelector("pre");
    cell.edit = button("Edit", () => { open(cell).focus(); show(cell); });
    if (!cell.exercise) code.addEventListener("dblclick", () => cell.edit.onclick());
    cell.tools = el("div", { className: "run-tools" }, button("Run", () => run(cell)), cell.edit, cell.back, cell.said);
    for (const control of cell.tools.querySelectorAll("button")) control.setAttribute("aria-label", `${control.textContent}: cell ${cell.i + 1}`);
    cell.input.append(cell.tools);
  }
  cell.edit.hidden = Boolean(cell.field);
  cell.back.hidden = !edited(cell);
  cell.said.textContent = [{ waiting: "waits", running: "runs", done: "has run", missing: "could not run here" }[cell.state], edited(cell) && "edited"].filter(Boolean).join(", ");
  cell.box.setAttribute("aria-busy", cell.state === "running");
}

function asPrinted(cell) {
  cell.source = cell.printed;
  renew(cell);
  keep(cell);
  cell.field?.remove();
  delete cell.field;
  cell.input.querySelector("div[class*='highlight']").hidden = false;
  if (cell.output) {
    cell.output.replaceChildren(...cell.stored);
    delete cell.output.dataset.run;
    if (!cell.stored.length) { cell.output.remove(); cell.output = null; }
  }
  show(cell);
  tell();
}

// ---- Outputs: text is text; HTML is let in without scripts of its own, and without anything that loads from elsewhere. ----
function clean(html) {
  const inside = new DOMParser().parseFromString(html, "text/html").body, scripts = [];
  for (const e of inside.querySelectorAll("*")) {
    if (e.matches("script, style") && served.has(e.textContent.trim()) && !e.attributes.length) { if (e.matches("script")) { scripts.push(e.textContent); e.remove(); } continue; }
    if (e.matches("script, style, iframe, frame, object, embed, link, meta, base, form, animate, set, foreignObject")) { e.remove(); continue; }
    for (const { name, value } of [...e.attributes]) {
      const bad = /^on|^srcdoc$|^formaction$|^srcset$|^ping$|^background$|^poster$/i.test(name) || (/(^|:)href$/i.test(name) && !/^(#|https?:\/\/|[\w.\/-]+(#[\w-]*)?$)/.test(value))
        || (/^src$|(^|:)href$/i.test(name) && !e.matches("a") && !/^(data:image\/|#)/.test(value))
        || (/^(style|fill|stroke|filter|mask|clip-path|marker-.*|cursor)$/i.test(name) && /url\s*\((?!\s*["']?#)|image|\\|\/\//i.test(value));
      if (bad) e.removeAttribute(name);
    }
  }
  return [[...inside.childNodes], scripts];
}

function rendered(output) {
  const pre = (kind, text) => el("div", { className: `output ${kind} highlight-myst-ansi notranslate` }, el("div", { className: "highlight" }, el("pre", { textContent: text })));
  if (output.output_type === "error") return pre("traceback run-error", output.traceback);
  const data = output.data ?? {}, html = data["text/html"] ?? data["image/svg+xml"] ?? output.html;
  if (html !== undefined) {
    const [nodes, scripts] = clean(html), box = el("div", { className: "output text_html" }, ...nodes);
    box.onceShown = () => { for (const text of scripts) box.append(el("script", { textContent: text })); window.byhandLiveFigures?.(box); };
    return box;
  }
  if (data["text/latex"] !== undefined) return el("div", { className: "output text_latex math notranslate nohighlight", textContent: data["text/latex"].replace(/^\s*\$+([^]*?)\$+\s*$/, "\\[$1\\]") });
  return pre("text_plain", data["text/plain"] ?? "");
}

const place = (cell) => (cell.output ??= cell.box.appendChild(el("div", { className: "cell_output docutils container" })));

function add(cell, output) {
  place(cell);
  if (cell.fresh) { cell.output.replaceChildren(); cell.output.dataset.run = "yes"; cell.fresh = false; cell.outputs = []; delete cell.text; delete cell.more; if (cell.exercise) cell.output.setAttribute("aria-live", "polite"); }
  if (output.output_type === "left_out") {
    cell.more ??= cell.output.appendChild(el("p", { className: "run-note" }));
    cell.more.textContent = `… and ${output.characters.toLocaleString("en")} characters more, which are not shown.`;
    return;
  }
  cell.outputs.push(output);
  if (output.output_type === "stream") {
    if (cell.text?.dataset.stream !== output.name || cell.text !== cell.output.lastElementChild) {
      const box = rendered({ data: { "text/plain": "" } });
      box.classList.replace("text_plain", output.name === "stderr" ? "stderr" : "stream");
      box.dataset.stream = output.name;
      cell.text = cell.output.appendChild(box);
    }
    const lines = cell.text.querySelector("pre");
    if (output.text.includes("\r")) lines.textContent = (lines.textContent + output.text).replace(/[^\n]*\r(?!\n)/g, "");
    else lines.append(output.text);
    return;
  }
  const box = cell.output.appendChild(rendered(output));
  box.onceShown?.();
  const formulas = [...(box.matches(".math") ? [box] : box.querySelectorAll(".math, .tex2jax_process"))];
  if (formulas.length && window.MathJax?.typeset) { MathJax.typeset(formulas); window.byhandTypeset?.measure?.(); }
}

// ---- The worker ----
let worker = null, ready = false, running = null, bar = null;
const queue = [];
const doors = () => [...document.querySelectorAll(".dropdown-launch-buttons a[href]")].map((a) => [a.textContent.trim(), a.href]);

async function start(before = "") {
  panel();
  say(before + "Python is loaded …", 0);
  let files, got = 0;
  try {
    files = await Promise.all(FIRST.map(async (name) => { const found = await load(name); if (got >= 0) say(before + "Python is loaded …", (got += told.bundles[name][1])); return found; }));
  } catch (error) {
    got = -Infinity; // what still arrives does not hide this
    return say(`Python could not be loaded: ${error.message}. The page reads on; try again, or reload it.`);
  }
  if (worker) return;
  say(before + "Python starts …", -1);
  const { "worker.js": own, "pyodide.js": loader, "pyodide.asm.js": module, ...others } = Object.assign({}, ...files);
  const address = URL.createObjectURL(new Blob([module, "\n", loader, "\n", own], { type: "text/javascript" }));
  try { worker = new Worker(address); } catch (error) { return say(`Python could not start: ${error.message}. The page reads on.`); }
  const mine = worker;
  worker.onmessage = ({ data }) => worker === mine && heard(data); // late words of an ended worker are dropped
  worker.onerror = (event) => { event.preventDefault(); if (worker === mine) ended(`Python has stopped: ${event.message || "no reason was given"}.`); };
  worker.postMessage({ start: { files: others, root: told.root, folder: told.page.replace(/\/[^/]*$/, ""), later: told.later } });
}

async function heard(message) {
  if (message.ready) { ready = true; next(); tell(); }
  else if (message.output) { if (running?.i === message.of) add(running, message.output); }
  else if (message.load) {
    const mine = worker;
    say(`${NAMES[message.load] ?? message.load} is loaded, ${size([message.load])} MB …`, -1);
    try { mine.postMessage({ bundle: message.load, files: await load(message.load) }); } catch (error) { mine.postMessage({ bundle: message.load, failed: String(error) }); }
    if (worker === mine) tell();
  } else if (message.dead) ended(`Python has stopped: ${message.dead}.`);
  else if (message.done === running?.i) {
    const cell = running;
    running = null;
    if (message.status === "again") { // a cell above was run in part only
      queue.unshift({ cell: cells[message.cell], whole: true }, { cell, whole: cell.whole });
      cell.state = "waiting";
      show(cell);
      return next();
    }
    if (cell.fresh && message.status !== "kept") { cell.outputs = []; cell.output?.replaceChildren(); if (cell.output) cell.output.dataset.run = "yes"; cell.fresh = false; }
    cell.status = message;
    cell.state = message.status === "missing" ? "missing" : "done";
    if (message.status === "missing") {
      const places = doors().flatMap(([text, href], i) => [i ? ", " : "", el("a", { href, textContent: text })]);
      const words = `This cell needs ${NAMES[message.library] ?? message.library}, which does not run in the page${cell.stored.length ? "; its stored output stands" : ""}. `;
      if (cell.output && !cell.output.childNodes.length) cell.output.append(...cell.stored); // what was stored stays to be read
      place(cell).dataset.run = "yes";
      cell.output.append(el("p", { className: "run-note" }, words, ...(places.length ? ["It runs in JupyterLab: ", ...places, "."] : ["It runs in JupyterLab."])));
    }
    for (const pre of cell.output?.querySelectorAll("pre") ?? []) if (pre.scrollHeight > pre.clientHeight || pre.scrollWidth > pre.clientWidth) pre.tabIndex = 0;
    show(cell);
    if (message.status === "error" && queue.length) {
      for (const { cell: waits } of queue.splice(0)) { waits.state = "new"; show(waits); }
      bar.said.dataset.last = `Cell ${cell.i + 1} raised an error; the cells after it were not run.`;
    }
    if (!next()) tell();
  }
}

function next() {
  if (running || !ready || !queue.length) return false;
  const { cell, whole } = queue.shift();
  running = cell;
  Object.assign(cell, { whole, fresh: true });
  cell.state = "running"; // what it put out before is replaced by its first output, or at its end
  show(cell);
  tell();
  worker.postMessage({ run: cell.i, source: cell.source, whole });
  return true;
}

function run(...chosen) { // with the cells above that have not run: what they set is needed
  const last = Math.max(...chosen.map((cell) => cell.i)), waits = new Set(queue.map(({ cell }) => cell));
  for (const cell of cells.slice(0, last + 1)) {
    const asked = chosen.includes(cell);
    if (waits.has(cell) || (!asked && cell.state !== "new") || (cell === running && !asked)) continue;
    if (cell !== running) cell.state = "waiting";
    queue.push({ cell, whole: asked });
    show(cell);
  }
  if (!worker) start();
  next();
  tell();
}

function ended(words) {
  worker?.terminate();
  worker = running = null;
  ready = false;
  queue.length = 0;
  for (const cell of cells) { cell.state = "new"; if (cell.tools) show(cell); }
  say(words);
  bar.said.dataset.last = words;
}
function stop() {
  const words = "Stopped: the names that the cells had set are lost; code and outputs stand as they were. ";
  ended(words);
  start(words);
}

// ---- The bar at the foot of the window ----
function say(words, done) {
  if (bar.said.textContent !== words) bar.said.textContent = words; // said aloud once
  bar.progress.hidden = done === undefined;
  if (done >= 0) bar.progress.value = done;
  else bar.progress.removeAttribute("value");
  bar.stop.disabled = !worker;
}
function tell() {
  if (!bar) return;
  if (worker && !ready) return;
  const last = bar.said.dataset.last ?? "";
  const changed = cells.filter(edited).length, state = running ? `Cell ${running.i + 1} of ${cells.length} runs${queue.length ? `, ${queue.length} wait` : ""}.` : worker ? last || "Python is ready." : last;
  say([state, changed && `${changed} ${changed === 1 ? "cell is" : "cells are"} edited.`, storage.refused && "This browser keeps no edits: they last until you leave the page."].filter(Boolean).join(" "), running ? -1 : undefined);
  if (running) delete bar.said.dataset.last;
}
function panel() {
  if (bar) return;
  bar = el("section", { className: "run-bar" });
  bar.setAttribute("aria-label", "Run this page");
  bar.said = el("p", { className: "run-state" });
  bar.said.setAttribute("role", "status");
  bar.progress = el("progress", { max: size(FIRST) });
  bar.progress.setAttribute("aria-label", "Loading or running");
  bar.stop = button("Stop", stop, { disabled: true });
  bar.append(bar.progress, bar.said, button("Run all", () => run(...cells)), bar.stop, button("All as printed", () => cells.forEach(asPrinted)),
    el("p", { id: "run-keys", hidden: true, textContent: KEYS }));
  document.body.append(bar);
  document.body.classList.add("run-on");
  entry.hidden = true;
  for (const cell of cells) {
    if (edited(cell) || cell.exercise) open(cell);
    show(cell);
  }
}

// ---- The control under the page's title; nothing else happens before it is used. ----
const lacking = [[window.WebAssembly, "WebAssembly"], [window.Worker, "workers"], [window.DecompressionStream, "unpacking of what is loaded"]].filter(([has]) => !has).map(([, name]) => name);
let entry;
function offer() {
  for (const cell of cells) cell.source = kept(cell.i, cell.printed) ?? cell.printed;
  const changed = cells.filter(edited).length;
  entry = el("div", { className: "run-entry" });
  if (lacking.length) entry.append(el("span", { textContent: `This page cannot run here: the browser has no ${lacking.join(" and no ")}.` }));
  else entry.append(button("Run this page, here", () => { start(); bar.querySelector("button").focus(); }), el("span", {
    textContent: ` Python in the page: ${size(FIRST)} MB are loaded, nothing is sent.${changed ? ` ${changed === 1 ? "A cell was" : `${changed} cells were`} edited here before; nothing of it runs until you say so.` : ""}` }));
  const title = document.querySelector("article h1"), after = title?.parentElement.querySelector(":scope > .step-map") ?? title;
  after?.after(entry);
  if (lacking.length) return;
  for (const cell of cells.filter((one) => one.exercise)) {
    const answer = button(cell.printed.includes("attempt(") ? "Answer it here" : "Try it here", () => { panel(); if (!worker) start(); cell.field.focus(); }, { className: "run-answer" });
    cell.input.append(answer);
  }
}
if (cells.length) offer();
return { arrived, cells, run, stop, state: () => ({ ready, running: running?.i ?? null, waiting: queue.length }) };
})();
