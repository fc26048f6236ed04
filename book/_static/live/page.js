// The page around step.js: an overview of all stages in colour, one stage in digits, and one card for the chosen number.
// What a reader types or an address says is checked against the data and only ever becomes text.
(() => {
"use strict";
const F = window.byhandFormulas, step = window.byhandStep, root = document.getElementById("live-step");
if (!F || !step || !root) return;

const el = (tag, props = {}, ...kids) => {
  const { data, aria, ...rest } = props, e = Object.assign(document.createElement(tag), rest);
  Object.assign(e.dataset, data);
  for (const [name, value] of Object.entries(aria ?? {})) e.setAttribute(name === "role" ? name : `aria-${name}`, value);
  e.append(...kids.flat(Infinity).filter((kid) => kid !== undefined && kid !== null && kid !== false));
  return e;
};

// ---- state ----------------------------------------------------------------------------------------

const START = ["probabilities", [1, 2]], TOKENS = { source: "source", decoder_input: "target", targets: "target" };
const FIELDS = { eps: "ε", smoothing: "smoothing", lr: "lr" };
const S = { toy: "document", question: null, variant: null, guess: null, path: [START], tab: 0, fresh: true };
let graph, leaves, printed, values, base, after, layout;

const toy = () => step.toys[S.toy];
const variant = () => (S.variant === null ? null : step.questions[S.question].variants[S.variant]);
const chosen = () => S.path.at(-1);
const settable = (name) => step.weights.includes(name) || name in FIELDS || name in TOKENS;

// what a leaf may be: the sentence that says why not, or ""
function refusal(name, x) {
  if (!Number.isFinite(x)) return "It must be a finite number.";
  if (name in TOKENS) return Number.isInteger(x) && x >= 0 && x < toy().names[TOKENS[name]].length ? "" : "There is no such word.";
  if (name === "eps") return x >= 0 && x <= 1e6 ? "" : "ε must be a number from 0 to 1,000,000.";
  if (name === "smoothing") return x >= 0 && x < 1 ? "" : "The smoothing must be at least 0 and below 1.";
  if (name === "lr") return x >= 0 && x <= 100 ? "" : "The learning rate must be a number from 0 to 100.";
  return Math.abs(x) <= 1e6 ? "" : "A weight must lie between −1,000,000 and 1,000,000.";
}
const read = (text) => (text.trim() === "" ? NaN : Number(text.trim().replace(/^[−–]/, "-")));

// computes with these leaves; keeps the last good state and says why where a number would not be finite
function compute(next) {
  const now = F.evaluate(graph, next), bad = F.firstBad(graph, now);
  if (bad) return `With it, ${F.symbol(step, bad)} (${roomOf(bad).title}) is no finite number: nothing was changed.`;
  leaves = next;
  values = now;
  after = F.lossAfter(graph, values);
  return "";
}
function set(name, at, x) {
  const no = refusal(name, x);
  if (no) return no;
  return compute({ ...leaves, [name]: leaves[name].map((old, i) => (i === at ? x : old)) });
}
// the worked example as printed, then the question's setting
function start() {
  const v = variant();
  S.toy = v?.toy ?? S.toy;
  graph = F.load(step, toy());
  printed = toy().leaves;
  compute(printed);
  base = values;
  if (v) {
    graph = F.load(step, { sizes: v.sizes ?? toy().sizes }, v.switch);
    printed = { ...printed, ...v.leaves };
    compute(printed);
  }
  const [name, index] = chosen();
  if (!inside(name, index)) S.path = [[name, graph.stage[name].shape.map(() => 0)]];
}
const inside = (name, index) => graph.stage[name] && index.length === graph.stage[name].shape.length && index.every((i, a) => Number.isInteger(i) && i >= 0 && i < graph.stage[name].shape[a]);

// ---- words ------------------------------------------------------------------------------------------

const num = (x) => {
  if (!Number.isFinite(x)) return "no number";
  if (F.isZero(graph, x)) return "0";
  const a = Math.abs(x), text = Number.isInteger(x) && a < 1e5 ? String(x) : a >= 0.001 && a < 1e5 ? x.toFixed(3) : x.toExponential(1).replace("e+", "e").replace(".0e", "e");
  return text.replace(/-/g, "−");
};
const exact = (x) => { const text = +x.toPrecision(10); return String(Number.isInteger(text) ? x : text).replace(/-/g, "−"); };
const roomOf = (name) => { const home = F.homeOf(step, name); return step.rooms.find((room) => ["stages", "weights", "given"].some((kind) => room[kind].includes(home))); };
function word(letters, i) {
  const l = letters.at(-1), names = toy().names;
  if (letters.length > 1) return String(i);
  if (l === "s" || l === "r") return `${names.source[leaves.source[i]]}·${i}`;
  if (l === "t" || l === "p") return `${names.target[leaves.decoder_input[i]]}·${i}`;
  return l === "v" ? names.target[i] : l === "u" ? names.source[i] : l === "h" ? String(i + 1) : String(i);
}
const short = (name, index) => F.symbol(step, name) + (index.length ? `[${index.map((i, a) => word(graph.stage[name].axes[a], i)).join(", ")}]` : "");
function sentence(name, index) {
  const home = F.homeOf(step, name), [, text] = step.labels[home], axes = graph.stage[home].axes;
  const said = text.replace(/\{(\w+)\}/g, (_, letters) => { const a = axes.findIndex((axis) => axis.join("") === letters); return word(axes[a], index[a]); });
  const way = name.match(/\.(via_\w+)$/);
  if (name.startsWith("d:")) return `how fast the loss rises with ${said}${way ? `; the part that comes ${step.via[way[1]]}` : ""}`;
  return name.startsWith("new:") ? `${said}, after the step` : said;
}
// the page of the book that explains a stage: one that names it, or the one about its room in this direction
function pageLink(name) {
  const back = name.startsWith("d:"), after = name.startsWith("new:"), pages = step.pages ?? {};
  const page = (pages[name] ?? pages[after ? "update" : roomOf(name).stop])?.[back ? 1 : 0];
  return page ? el("a", { href: page[0], textContent: page[1] }) : "no page of its own";
}

// ---- the bar ----------------------------------------------------------------------------------------

const parts = {};
const field = (name, label, input, ...more) => {
  const error = el("span", { className: "error", id: `live-${name}-error` });
  input.setAttribute("aria-describedby", error.id);
  parts[name] = { input, error };
  return el("span", { className: "more" }, el("label", {}, label, " ", input), ...more, error);
};
function complain(name, text) {
  const { input, error } = parts[name];
  error.textContent = text;
  input.setAttribute("aria-invalid", text !== "");
}
function buildBar() {
  const choose = el("select", { aria: { label: "Worked example" }, onchange: () => { Object.assign(S, { toy: choose.value, question: null, variant: null, guess: null }); restart(); } },
    Object.keys(step.toys).map((name) => el("option", { value: name, textContent: name })));
  const ask = el("select", { aria: { label: "Questions" }, onchange: () => openQuestion(ask.value === "" ? null : +ask.value) }, el("option", { value: "", textContent: "Questions …" }),
    [[0, 10, "Ten questions"], [10, step.questions.length, "More"]].map(([from, to, label]) => el("optgroup", { label }, step.questions.slice(from, to).map((q, i) => el("option", { value: from + i, textContent: `${from + i + 1}  ${q.title}` })))));
  const lr = el("input", { inputMode: "decimal", size: 7, autocomplete: "off" }), slide = el("input", { type: "range", min: -7, max: 0, step: 0.05, aria: { label: "learning rate, logarithmic" } });
  slide.oninput = () => { complain("lr", set("lr", 0, +(10 ** +slide.value).toPrecision(3))); redraw(); };
  parts.slide = slide;
  const number = (name) => {
    const input = name === "lr" ? lr : el("input", { inputMode: "decimal", size: 6, autocomplete: "off" });
    input.onchange = () => { const x = read(input.value); complain(name, Number.isNaN(x) ? "A number, please." : set(name, 0, x)); redraw(name); };
    return input;
  };
  const more = el("button", { type: "button", className: "dots", textContent: "⋯", aria: { label: "words, ε, smoothing, learning rate", expanded: false }, onclick: () => more.setAttribute("aria-expanded", parts.bar.classList.toggle("open")) });
  parts.choose = choose; parts.ask = ask;
  parts.words = el("span", { className: "more words" });
  parts.loss = el("output", { className: "loss" });
  parts.promise = el("span", { className: "promise dim" });
  parts.note = el("p", { className: "note", aria: { role: "status" } });
  parts.bar = el("div", { className: "bar" }, choose, ask, more, parts.words, field("eps", "ε", number("eps")), field("smoothing", "smoothing", number("smoothing")), field("lr", "lr", number("lr"), slide),
    el("button", { type: "button", className: "more", textContent: "as printed", onclick: () => { for (const name in FIELDS) complain(name, ""); start(); rebuild(); } }),
    el("span", { className: "losses" }, parts.loss, " ", parts.promise), el("button", { type: "button", className: "more", textContent: "?", aria: { label: "Keys" }, onclick: help }));
  return parts.bar;
}
function buildWords() {
  const select = (name, at) => {
    const names = toy().names[TOKENS[name]];
    const s = el("select", { aria: { label: sentence(name, [at]).replace(/^the number of /, "") }, onchange: () => { complain("eps", ""); parts.note.textContent = set(name, at, +s.value); redraw(); } }, names.map((w, i) => el("option", { value: i, textContent: w })));
    s.dataset.leaf = `${name}:${at}`;
    return s;
  };
  const group = (label, name) => el("span", {}, label, " ", leaves[name].map((_, i) => select(name, i)));
  parts.words.replaceChildren(group("reads", "source"), group(" has written", "decoder_input"), group(" should write", "targets"));
}
function drawBar(keep) {
  parts.choose.value = S.toy;
  parts.ask.value = S.question ?? "";
  for (const s of parts.words.querySelectorAll("select")) { const [name, at] = s.dataset.leaf.split(":"); s.value = leaves[name][at]; }
  for (const name in FIELDS) if (name !== keep || !parts[name].error.textContent) parts[name].input.value = leaves[name][0];
  if (document.activeElement !== parts.slide) parts.slide.value = Math.log10(Math.max(leaves.lr[0], 1e-7));
  parts.slide.setAttribute("aria-valuetext", String(leaves.lr[0]));
  parts.loss.textContent = `loss ${values.loss[0].toFixed(4)} → ${Number.isFinite(after) ? after.toFixed(4) : "no number"}`;
  const t = leaves.scored.findLastIndex((w) => w), p = values.probabilities[F.flat(graph.stage.probabilities, [t, leaves.targets[t]])];
  const own = leaves.smoothing[0] === toy().leaves.smoothing[0] ? "" : ` · −ln p(${toy().names.target[leaves.targets[t]]}) ${(-Math.log(p)).toFixed(4)}`;
  parts.promise.textContent = `after the step · promised ${F.promise(step, values).toFixed(4)}${own}`;
}

// ---- the overview -------------------------------------------------------------------------------------

function buildOverview() {
  const stage = (name, weight) => el("button", { type: "button", className: "stage", data: { name, weight: weight ? "1" : "" }, tabIndex: -1, aria: { label: `${F.symbol(step, name)}, ${roomOf(name).line} ${roomOf(name).title}` }, onclick: () => go(name, graph.stage[name].shape.map(() => 0), true) },
    el("span", { textContent: F.symbol(step, name) }), el("canvas", { aria: { hidden: true } }));
  const room = (r) => el("div", { className: "room" }, el("h3", { textContent: r.title }), el("div", {}, r.stages.map((name) => stage(name)), r.weights.map((name) => stage(name, true)), r.given.filter((name) => name.endsWith(".positions")).map((name) => stage(name))));
  const key = el("p", { className: "key dim" }, "Above: the number. Below: its gradient. Weights: number and gradient side by side. ", el("span", { className: "pos", textContent: "■ above 0" }), " ", el("span", { className: "neg", textContent: "■ below 0" }), " ", el("span", { className: "nil", textContent: "■ 0" }));
  const line = (name) => el("div", { className: `line ${name}` }, el("h2", { textContent: name }), step.rooms.filter((r) => r.line === name).map(room));
  const encoder = line("encoder");
  encoder.prepend(key);
  parts.over.replaceChildren(encoder, line("decoder"));
}
const colours = () => { const css = getComputedStyle(root); return ["--live-pos", "--live-neg", "--live-nil"].map((name) => css.getPropertyValue(name).trim()); };
function paint() {
  const [pos, neg, nil] = colours();
  for (const b of parts.over.querySelectorAll("button.stage")) {
    const { name, weight } = b.dataset, canvas = b.querySelector("canvas"), st = graph.stage[name], z = weight ? 3 : 4;
    const cols = st.shape.at(-1) ?? 1, rows = st.shape.at(-2) ?? 1, heads = st.count / cols / rows, W = heads * cols * z + (heads - 1) * 2, H = rows * z;
    const pair = ["", "d:"].map((mark) => values[mark + name]);
    canvas.width = weight ? 2 * W + 3 : W;
    canvas.height = weight ? H : pair[1] ? 2 * H + 2 : H;
    const g = canvas.getContext("2d");
    pair.forEach((numbers, which) => {
      if (!numbers) return;
      const top = Math.max(...numbers.map(Math.abs), 1e-30), dx = weight && which ? W + 3 : 0, dy = !weight && which ? H + 2 : 0;
      numbers.forEach((x, i) => {
        const [h, r, c] = [Math.floor(i / (rows * cols)), Math.floor(i / cols) % rows, i % cols], zero = F.isZero(graph, x);
        g.fillStyle = zero ? nil : x > 0 ? pos : neg;
        g.globalAlpha = zero ? 1 : 0.2 + (0.8 * Math.abs(x)) / top;
        g.fillRect(dx + h * (cols * z + 2) + c * z, dy + r * z, z - 1, z - 1);
      });
    });
  }
}
function frame() {
  const here = F.homeOf(step, chosen()[0]), all = [...parts.over.querySelectorAll("button.stage")], current = all.find((b) => b.dataset.name === here) ?? all[0];
  for (const b of all) { b.tabIndex = b === current ? 0 : -1; b.dataset.name === here ? b.setAttribute("aria-current", "true") : b.removeAttribute("aria-current"); }
  if (layout.matches && current.dataset.name === here) parts.over.scrollLeft = current.offsetLeft - (parts.over.clientWidth - current.offsetWidth) / 2;
}

// ---- the stage in digits -----------------------------------------------------------------------------

function table(name, title, marks) {
  const st = graph.stage[name], [cn, ci] = chosen(), cols = st.shape.at(-1) ?? 1, rows = st.shape.at(-2) ?? 1, out = [];
  for (let part = 0; part < st.count / (cols * rows); part++) {
    const head = st.shape.length ? [el("thead", {}, el("tr", {}, st.shape.length > 1 ? el("td") : [], [...Array(cols).keys()].map((c) => el("th", { scope: "col", textContent: word(st.axes.at(-1), c) }))))] : [];
    const body = el("tbody", {}, [...Array(rows).keys()].map((r) => el("tr", {}, st.shape.length > 1 ? el("th", { scope: "row", textContent: word(st.axes.at(-2), r) }) : [],
      [...Array(cols).keys()].map((c) => cell(st, (part * rows + r) * cols + c, marks, cn, ci)))));
    out.push(el("table", { className: cols > 4 ? "wide" : "" }, el("caption", { textContent: title + (st.shape.length > 2 ? `, head ${part + 1}` : "") + (layout.matches && cols > 4 ? `, ${cols} columns in rows of 4` : "") }), head, body));
  }
  return out;
}
function cell(st, i, { operands, users }, cn, ci) {
  const index = F.unflat(st, i), key = st.name + "|" + index, x = values[st.name][i], old = base[st.name].length === st.count ? base[st.name][i] : x;
  const moved = Math.abs(x - old) > 1e-12 * Math.max(1, Math.abs(old)), sel = cn === st.name && String(ci) === String(index);
  const said = `${short(st.name, index)} ${num(x)}${moved ? `, was ${num(old)}` : ""}${operands.has(key) ? ", is read by the chosen number" : users.has(key) ? ", reads the chosen number" : ""}`;
  const b = el("button", { type: "button", tabIndex: sel ? 0 : -1, data: { name: st.name, i }, aria: { label: said }, onclick: () => go(st.name, index) }, moved ? el("s", { textContent: num(old) }) : [], moved ? " " : [], num(x), moved ? el("span", { className: "arrow", textContent: x > old ? " ↑" : " ↓" }) : []);
  return el("td", { className: [sel && "sel", operands.has(key) && "op", users.has(key) && "use", moved && "moved"].filter(Boolean).join(" ") }, b);
}
function drawDigits(marks, e) {
  const [name] = chosen(), home = F.homeOf(step, name), sym = F.symbol(step, home), r = roomOf(name);
  const ways = graph.order.map((s) => s.name).filter((n) => n.startsWith("d:") && n !== "d:" + home && F.homeOf(step, n) === home);
  const own = [[home, sym], ["d:" + home, "d" + sym], ["new:" + home, sym + " after the step"], ...ways.map((n) => [n, `d${sym}, ${step.via[(n.match(/via_\w+$/) ?? [])[0]] ?? "handed on"}`])].filter(([n]) => values[n]);
  const reads = [...new Set(operandsOf(e).filter((o) => o.index.length && F.homeOf(step, o.stage) !== home).map((o) => o.stage))].slice(0, 4);
  parts.digits.replaceChildren(el("h2", {}, `${r.line === "encoder" ? "Encoder" : "Decoder"}: ${r.title}, ${sym}`),
    el("div", { className: "sets" }, own.map(([n, title]) => table(n, title, marks))), reads.length ? el("div", { className: "sets reads" }, reads.map((n) => table(n, `reads ${F.symbol(step, n)}`, marks))) : "");
}
const flatParts = (list) => list.flatMap((p) => (p.parts ? [p, ...flatParts(p.parts)] : [p]));
const operandsOf = (e) => flatParts(e.parts).filter((p) => p.stage);

// ---- the card --------------------------------------------------------------------------------------------

const link = (name, index, x, text) => el("button", { type: "button", className: "n", textContent: text ?? num(x), title: `${short(name, index)}: ${sentence(name, index)}`, aria: { label: `${short(name, index)} ${num(x)}` }, onclick: () => go(name, index) });
// more than four terms stand one a line, and those that are 0 are folded
function formula(e) {
  const box = el("div", { className: "formula" }), total = e.parts.length && F.isZero(graph, e.value) ? "0" : num(e.value);
  write(box, e.parts, true);
  box.append(el("span", { className: "result" }, " = ", el("b", { textContent: total })));
  return box;
}
function write(box, list, top, previous) {
  const terms = list.filter((p) => p.term !== undefined), long = top && (terms.length > 4 || terms.some((p) => p.way)), folded = {};
  let last = previous;
  for (const p of list) {
    if (p.condition) { if (!p.quiet) continue; }
    if (p.term !== undefined) {
      const cause = p.zero && rootCause(p.zero);
      if (long && terms.length > 4 && p.zero) { (folded[cause] ??= []).push(p); last = null; continue; }
      const span = el("span", { className: [long && "line", p.zero && "zero"].filter(Boolean).join(" ") });
      if (long && box.querySelector(".line")) span.append("+ ");
      write(span, p.parts, false);
      if (top && p.zero) span.append(el("span", { className: "way", textContent: ` (${cause})` }));
      if (p.way) span.append(el("span", { className: "way dim", textContent: ` ${p.way}` }));
      box.append(span);
      last = long ? "line" : null;
    } else if (p.parts) {
      const inner = el("span", { className: flatParts(p.parts).length < 4 ? "whole" : "" }, p.open);
      write(inner, p.parts, false, "open");
      inner.append(p.close);
      box.append(inner);
      last = null;
    }
    else if (p.stage) { const negative = p.value < 0 && last === "sign" && !F.isZero(graph, p.value); box.append(negative ? "(" : "", link(p.stage, p.index, p.value), negative ? ")" : ""); last = null; }
    else if (p.value !== undefined) { box.append(p.why ? `0 (${p.why})` : p.value === 1e-9 ? "1e−9" : num(p.value)); last = null; }
    else { if (!(long && p.text === " + ")) box.append(p.text); last = /[·/+−]/.test(p.text) ? "sign" : null; }
  }
  for (const [cause, those] of Object.entries(folded)) box.append(el("span", { className: "line zero" }, `and ${those.length} ${those.length === 1 ? "term that is" : "terms that are"} 0: ${cause}`));
}
// through the factors that are 0, to what made the first of them 0
function rootCause(zero) {
  for (let hops = 0; hops < 9 && zero.cause === "a factor is 0" && zero.links.length; hops++) {
    const next = F.zeroCause(graph, values, ...zero.links[0]);
    if (!next) break;
    zero = next;
  }
  return zero.cause;
}
function zeroSentence(name, index) {
  const zero = F.zeroCause(graph, values, name, index);
  if (!zero || !/^(d|new):/.test(name) && graph.stage[name].leaf) return [];
  const x = values[name][F.flat(graph.stage[name], index)];
  const links = zero.links.slice(0, 4).flatMap(([of, at]) => [" ", link(of, at, values[of][F.flat(graph.stage[of], at)], short(of, at))]);
  return [el("p", { className: "cause" }, "It is 0: ", el("b", { textContent: zero.cause }), links.length ? [". Because of", links, zero.links.length > 4 ? ` and ${zero.links.length - 4} more` : ""] : "", ".", x !== 0 ? ` (What is left, ${x.toExponential(0).replace("-", "−")}, is rounding.)` : "")];
}
function comesFrom(name, index, e) {
  if (!e.leaf) return [el("p", { textContent: `${e.words[0].toUpperCase()}${e.words.slice(1)}.` }), el("p", { className: "letters dim", textContent: `${F.symbol(step, name)}${graph.stage[name].axes.length ? `[${graph.stage[name].axes.map((a) => a.join("")).join(",")}]` : ""} = ${e.letters}` }), formula(e), ...zeroSentence(name, index), ...changeable(name, e)];
  if (settable(name)) return [el("p", { textContent: step.weights.includes(name) ? "It is a weight: given, and changed by the step." : "It is given." })];
  return [el("p", { textContent: "It is given: part of how the model is made." }), ...zeroSentence(name, index)];
}
// a computed number says which weights it is made of
function changeable(name, e) {
  const weights = operandsOf(e).filter((o) => settable(o.stage));
  if (name.startsWith("d:") || name.startsWith("new:") || !weights.length) return [];
  return [el("p", { className: "dim" }, "Computed, so it cannot be set. Change one of:", weights.slice(0, 8).flatMap((o) => [" ", link(o.stage, o.index, o.value, short(o.stage, o.index))]))];
}
function doesToLoss(name, index) {
  const home = F.homeOf(step, name);
  if (name !== home) {
    const at = index.length === graph.stage[home]?.shape.length ? index : null;
    return [el("p", {}, name.startsWith("new:") ? "It is a result of the step, made from " : "It is itself that answer, for ", at ? link(home, at, values[home][F.flat(graph.stage[home], at)], short(home, at)) : F.symbol(step, home), ".")];
  }
  if (home === "loss") return [el("p", { textContent: "It is the loss. Every gradient on this page says how fast it rises with some number." })];
  let target = home, intro = [];
  if (home === "probabilities") { target = "logits"; intro = [el("p", {}, "Softmax and loss are differentiated in one piece, so the gradient is kept at its logit, ", link("logits", index, values.logits[F.flat(graph.stage.logits, index)], short("logits", index)), ".")]; }
  let d = "d:" + target;
  // what is only handed on under another name of the same number stands for it: there are the ways
  while (graph.stage[d]?.ruleName === "copy" && F.homeOf(step, graph.stage[d].read.a.of) === home) d = graph.stage[d].read.a.of;
  if (!values[d]) return [el("p", { textContent: "The step keeps no gradient of it: it is not learnt." })];
  const e = F.explain(graph, values, d, index), at = F.flat(graph.stage[target], index), up = F.evaluate(graph, leaves, [target, at, 0.01]).loss[0], slope = e.value;
  const nudge = `Raise ${short(target, index)} by 0.01: its gradient promises ${signed(slope * 0.01)}; the loss goes from ${values.loss[0].toFixed(6)} to ${Number.isFinite(up) ? up.toFixed(6) : "no number"}.`;
  return [...intro, el("p", {}, link(d, index, slope, short(d, index)), ` = ${num(slope)}. ${e.words[0].toUpperCase()}${e.words.slice(1)}.`), formula(e), ...zeroSentence(d, index), el("p", { className: "dim", textContent: nudge })];
}
const signed = (x) => (x > 0 ? "+" : "") + num(x);
function usersOf(name, index, users) {
  const groups = new Map();
  for (const [of, at] of users) groups.set(of, [...(groups.get(of) ?? []), at]);
  const buttons = [...groups].map(([of, all]) => [" ", el("button", { type: "button", className: "u", title: sentence(of, all[0]), textContent: short(of, all[0]) + (all.length > 1 ? ` +${all.length - 1}` : ""), onclick: () => go(of, all[0]) })]);
  return [el("p", {}, el("span", { className: "dim", textContent: "Used by" }), buttons.length ? buttons : el("span", { className: "dim", textContent: " nobody: here it ends" }))];
}
let editing = "";
function drawEdit(name, index) {
  const key = `${S.toy}|${S.question}|${S.variant}|${name}|${index}`, at = F.flat(graph.stage[name], index);
  if (key !== editing) {
    editing = key;
    delete parts.edit.range;
    parts.edit.replaceChildren();
    if (!step.weights.includes(name)) return;
    const error = el("span", { className: "error", id: "live-weight-error", aria: { role: "alert" } }), now = leaves[name][at];
    const input = el("input", { inputMode: "decimal", size: 9, autocomplete: "off", aria: { label: `new value of ${short(name, index)}`, describedby: error.id } });
    const range = el("input", { type: "range", min: now - 3, max: now + 3, step: 0.05, aria: { label: `slide ${short(name, index)}` } });
    const apply = (x, from) => { const no = Number.isNaN(x) ? "A number, please." : set(name, at, x); error.textContent = no; input.setAttribute("aria-invalid", no !== ""); redraw(no ? from : undefined); };
    input.onchange = () => apply(read(input.value), "weight");
    range.oninput = () => apply(+(+range.value).toFixed(2));
    parts.edit.append(el("label", {}, "Change it: ", input), range, el("button", { type: "button", textContent: "as printed", onclick: () => apply(printed[name][at]) }), error);
    parts.weight = { input, range };
  }
  if (!step.weights.includes(name)) return;
  if (!parts.edit.querySelector(".error").textContent) parts.weight.input.value = leaves[name][at];
  if (document.activeElement !== parts.weight.range) parts.weight.range.value = leaves[name][at];
}
function changes() {
  if (!S.question && leaves === toy().leaves) return "";
  const { total, count, stages } = F.changed(graph, values, base);
  if (!count) return "";
  const same = (test) => Object.keys(stages).every((n) => !test(n) || !stages[n]), forward = (n) => graph.stage[n] && !graph.stage[n].leaf && !/^(d|new):/.test(n);
  const kept = same((n) => forward(n) && n !== "loss" && n !== "q") ? "; before the loss nothing did" : same((n) => forward(n) && n.startsWith("encoder")) ? "; the whole encoder did not" : same((n) => forward(n) && n.startsWith("decoder.0.self")) ? "; the decoder's self-attention did not" : "";
  return `Changed: ${count.toLocaleString("en")} of ${total.toLocaleString("en")} numbers${kept}.`;
}
function drawCard(name, index, e, users) {
  const x = values[name][F.flat(graph.stage[name], index)];
  parts.say.replaceChildren(el("b", { textContent: num(x) }), ` is ${short(name, index)}: ${sentence(name, index)}.`, num(x) === exact(x) || F.isZero(graph, x) ? "" : el("span", { className: "dim", textContent: ` (${exact(x)})` }));
  parts.hint.hidden = !S.fresh;
  parts.changed.textContent = changes();
  drawEdit(name, index);
  parts.from.replaceChildren(...comesFrom(name, index, e));
  parts.does.replaceChildren(...doesToLoss(name, index));
  [parts.from, parts.does].forEach((panel, i) => panel.parentElement.classList.toggle("chosen", S.tab === i));
  parts.tabs.forEach((tab, i) => { tab.setAttribute("aria-selected", S.tab === i); tab.tabIndex = S.tab === i ? 0 : -1; });
  parts.users.replaceChildren(...usersOf(name, index, users), el("p", {}, el("span", { className: "dim", textContent: "Explained in " }), pageLink(name)));
  parts.back.disabled = S.path.length < 2;
  parts.trail.textContent = "Path: " + S.path.slice(-5).map(([n, i]) => short(n, i)).join(" ‹ ");
}
function buildCard() {
  parts.say = el("p", { className: "say", aria: { live: "polite" } });
  parts.hint = el("p", { className: "hint dim", textContent: "Click any number to ask where it comes from." });
  parts.changed = el("p", { className: "changed", aria: { live: "polite" } });
  parts.edit = el("div", { className: "edit" });
  parts.from = el("div"); parts.does = el("div"); parts.users = el("div", { className: "users" });
  const titles = ["Where does it come from?", "What does it do to the loss?"];
  parts.tabs = titles.map((text, i) => el("button", { type: "button", textContent: text, id: `live-tab-${i}`, aria: { role: "tab", controls: `live-panel-${i}` }, onclick: () => { S.tab = i; S.fresh = false; redraw(); },
    onkeydown: (ev) => { if (/^Arrow(Left|Right)$/.test(ev.key)) { S.tab = 1 - i; redraw(); parts.tabs[S.tab].focus(); ev.stopPropagation(); ev.preventDefault(); } } }));
  const panels = [parts.from, parts.does].map((panel, i) => el("div", { className: "panel", id: `live-panel-${i}`, aria: { role: "tabpanel", labelledby: `live-tab-${i}` } }, el("h3", { textContent: titles[i] }), panel));
  parts.back = el("button", { type: "button", textContent: "← back", onclick: back });
  parts.trail = el("span", { className: "dim" });
  return el("section", { className: "number", tabIndex: 0, aria: { label: "The chosen number" } }, parts.say, parts.hint, parts.changed, parts.edit, el("div", { className: "tabs", aria: { role: "tablist", label: "Two questions" } }, parts.tabs), el("div", { className: "panels" }, panels), parts.users, el("p", { className: "trail" }, parts.back, " ", parts.trail));
}

// ---- questions: predict, then look ---------------------------------------------------------------------------

function openQuestion(which) {
  Object.assign(S, { question: which, guess: null, variant: null });
  if (which !== null) { const q = step.questions[which]; S.toy = q.variants[0].toy; S.path = [q.look]; S.tab = 0; }
  restart();
  (which === null ? parts.ask : parts.question.querySelector("button"))?.focus();
}
function drawQuestion() {
  const q = step.questions[S.question], box = parts.question;
  box.hidden = !q;
  root.classList.toggle("asking", Boolean(q));
  root.classList.toggle("unanswered", Boolean(q) && S.variant === null);
  if (!q) return box.replaceChildren();
  const close = el("button", { type: "button", className: "close", textContent: "×", aria: { label: "Close the question" }, onclick: () => openQuestion(null) });
  const head = [close, el("h2", { textContent: q.title }), el("p", { textContent: q.ask })];
  if (S.variant === null) {
    box.replaceChildren(...head, el("div", { className: "choices", aria: { role: "group", label: "Your prediction" } }, q.choices.map((text, i) => el("button", { type: "button", textContent: text, onclick: () => { S.guess = i; S.variant = Math.min(1, q.variants.length - 1); restart(); parts.verdict?.focus(); } }))));
    return;
  }
  const right = q.choices[q.answer];
  parts.verdict = el("p", { className: "verdict", tabIndex: -1 }, S.guess === null ? ["The answer: ", el("b", { textContent: right }), "."] : S.guess === q.answer ? ["Yes: ", el("b", { textContent: right }), "."] : [`You said “${q.choices[S.guess]}”. It is: `, el("b", { textContent: right }), "."]);
  const figure = (x) => (F.isZero(graph, x) ? "0" : (Math.abs(x) >= 0.001 && Math.abs(x) < 1e5 ? +x.toPrecision(4) : x.toExponential(1)).toString().replace("e+", "e").replace(/-/g, "−"));
  const rows = q.variants.map((v, i) => el("tr", { className: i === S.variant ? "chosen" : "" }, el("th", { scope: "row" }, el("button", { type: "button", textContent: v.name, aria: { pressed: i === S.variant }, onclick: () => { S.variant = i; restart(); parts.question.querySelector("tr.chosen button").focus(); } })), v.read.map((x) => el("td", { textContent: figure(x) }))));
  const by = [...new Set(q.variants.map((v) => v.by))].map((b) => (b === "package" ? "by the package" : "by the stored formulas, whose gradients are held against central differences")).join(", or ");
  box.replaceChildren(...head, parts.verdict, el("div", { className: "scroll", tabIndex: 0, aria: { role: "region", label: "What is read off" } }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col", textContent: "setting" }), q.meters.map((m) => el("th", { scope: "col", textContent: m.label })))), el("tbody", {}, rows))), el("p", { textContent: q.lesson }), el("p", { className: "dim small", textContent: `Stored figures, computed ${by}.` }));
}

// ---- drawing all ------------------------------------------------------------------------------------------------

function redraw(keep) {
  const [name, index] = chosen(), e = F.explain(graph, values, name, index), users = F.uses(graph, values, name, index);
  const marks = { operands: new Set(operandsOf(e).map((o) => `${o.stage}|${o.index}`)), users: new Set(users.map(([n, i]) => `${n}|${i}`)) };
  drawBar(keep);
  if (parts.painted !== values) { paint(); parts.painted = values; }
  frame();
  drawDigits(marks, e);
  drawCard(name, index, e, users);
  remember();
}
function rebuild() { buildWords(); drawQuestion(); redraw(); }
function restart() { for (const name in FIELDS) complain(name, ""); parts.note.textContent = ""; start(); rebuild(); }
function go(name, index, fresh) {
  S.path = fresh ? [[name, index]] : [...S.path, [name, index]].slice(-50);
  S.fresh = false;
  redraw();
  if (!fresh) focusChosen();
}
function back() { if (S.path.length > 1) { S.path.pop(); redraw(); focusChosen(); } }
const focusChosen = () => parts.digits.querySelector("td.sel button")?.focus({ preventScroll: layout.matches });

function keys(ev) {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(ev.target.tagName)) return;
  if (ev.key === "?") { help(); ev.preventDefault(); return; }
  const stage = ev.target.closest?.("button.stage"), b = ev.target.closest?.("td button");
  if (stage && /^Arrow/.test(ev.key)) {
    const all = [...parts.over.querySelectorAll("button.stage")], next = all[all.indexOf(stage) + (/Right|Down/.test(ev.key) ? 1 : -1)];
    next?.focus();
    ev.preventDefault();
  }
  if (!b?.dataset.name) return;
  const st = graph.stage[b.dataset.name], cols = st.shape.at(-1) ?? 1, move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -cols, ArrowDown: cols }[ev.key];
  if (move) {
    const n = +b.dataset.i + move;
    if (n >= 0 && n < st.count) { S.path = [...S.path.slice(0, -1), [st.name, F.unflat(st, n)]]; S.fresh = false; redraw(); focusChosen(); }
  } else if (ev.key === "Enter") {
    const [name, index] = chosen();
    if (b.dataset.name !== name || +b.dataset.i !== F.flat(graph.stage[name], index)) return; // a click: it is chosen first
    const first = operandsOf(F.explain(graph, values, name, index)).find((o) => !o.condition);
    if (first) go(first.stage, first.index);
  } else if (ev.key === "Backspace") back();
  else return;
  ev.preventDefault();
}
function help() {
  parts.help ??= root.appendChild(el("dialog", { aria: { label: "Keys" } }, el("h2", { textContent: "Keys" }), el("dl", {}, [["arrows", "move within a matrix, or among the stages of the overview"], ["Enter", "go to the first number that the chosen one is made of"], ["Backspace", "go back"], ["Tab", "overview, digits, card"], ["?", "this list"]].flatMap(([key, text]) => [el("dt", { textContent: key }), el("dd", { textContent: text })])), el("form", { method: "dialog" }, el("button", { textContent: "Close" }))));
  parts.help.showModal();
}

// ---- the address ---------------------------------------------------------------------------------------------------

function remember() {
  const query = new URLSearchParams(), [name, index] = chosen();
  query.set("toy", S.toy);
  if (S.question !== null) query.set("question", step.questions[S.question].key);
  if (S.variant !== null) query.set("setting", S.variant);
  for (const leaf of Object.keys(step.leaves)) leaves[leaf].forEach((x, i) => { if (x !== printed[leaf][i]) query.append("set", [leaf, i, x].join(",")); });
  query.set("at", [name, ...index].join(","));
  if (S.tab) query.set("tab", S.tab);
  parts.address = "#" + query;
  if (parts.address !== location.hash) history.replaceState(null, "", parts.address);
}
// takes what it knows, and says how much it left out
function recall() {
  const known = ["toy", "question", "setting", "set", "at", "tab"], whole = (text) => (/^\d{1,6}$/.test(text ?? "") ? +text : -1);
  const query = new URLSearchParams(location.hash.length > 20000 ? "" : location.hash.slice(1)), wrong = new Set(location.hash.length > 20000 ? ["all of it"] : []);
  for (const key of query.keys()) if (!known.includes(key)) wrong.add("an unknown part");
  Object.assign(S, { toy: "document", question: null, variant: null, guess: null, path: [START], tab: 0 });
  if (query.has("toy")) Object.hasOwn(step.toys, query.get("toy")) ? (S.toy = query.get("toy")) : wrong.add("the worked example");
  if (query.has("question")) { const q = step.questions.findIndex((x) => x.key === query.get("question")); q < 0 ? wrong.add("the question") : (S.question = q); }
  if (S.question !== null) { S.toy = step.questions[S.question].variants[0].toy; S.path = [step.questions[S.question].look]; }
  if (query.has("setting")) { const v = whole(query.get("setting")); S.question !== null && v >= 0 && v < step.questions[S.question].variants.length ? (S.variant = v) : wrong.add("the setting"); }
  start();
  let next = leaves;
  for (const text of query.getAll("set")) {
    const [name, at, x, ...rest] = text.split(","), i = whole(at), number = read(x ?? "");
    if (rest.length || !Object.hasOwn(leaves, name) || !settable(name) || i < 0 || i >= leaves[name].length || refusal(name, number)) { wrong.add("a change"); continue; }
    next = { ...next, [name]: next[name].map((old, j) => (j === i ? number : old)) };
  }
  if (next !== leaves && compute(next)) wrong.add("the changes, with which a number would not be finite");
  if (query.has("at")) {
    const [name, ...at] = query.get("at").split(","), index = at.length ? at.map(whole) : graph.stage[name]?.shape.map(() => 0) ?? [];
    Object.hasOwn(graph.stage, name) && inside(name, index) ? (S.path = [[name, index]]) : wrong.add("the number");
  }
  if (query.has("tab")) query.get("tab") === "1" ? (S.tab = 1) : query.get("tab") !== "0" && wrong.add("the tab");
  S.fresh = !query.has("at");
  parts.note.textContent = wrong.size ? `Not everything in this address could be understood; left out: ${[...wrong].join(", ")}.` : "";
}

// ---- paper: every number once, then the path as a list ------------------------------------------------------------------

function sheet() {
  const block = (name) => {
    const st = graph.stage[name], cols = st.shape.at(-1) ?? 1, lines = [];
    for (let i = 0; i < st.count; i += cols) lines.push(el("tr", {}, [...values[name].slice(i, i + cols)].map((x) => el("td", { textContent: num(x) }))));
    return el("table", {}, el("caption", { textContent: F.symbol(step, name) }), el("tbody", {}, lines));
  };
  const room = (r) => el("div", { className: "room" }, el("h3", { textContent: `${r.line}: ${r.title}` }), [...r.stages, ...r.weights].flatMap((name) => [name, "d:" + name].filter((n) => values[n]).map(block)));
  const text = (list) => list.filter((p) => !p.condition).map((p) => (p.fn ? p.open + text(p.parts) + p.close : p.parts ? text(p.parts) : p.text ?? num(p.value))).join("");
  const line = ([name, index]) => { const e = F.explain(graph, values, name, index); return el("li", { textContent: `${short(name, index)} = ${e.leaf ? "" : text(e.parts) + " = "}${num(e.value)}: ${sentence(name, index)}` }); };
  parts.sheet?.remove();
  parts.sheet = root.appendChild(el("div", { className: "sheet", aria: { hidden: true } }, el("p", { textContent: `${S.toy}${variant() ? `, ${variant().name}` : ""}: ${parts.loss.textContent}, lr ${leaves.lr[0]}. ${changes()}` }), el("div", { className: "rooms" }, step.rooms.map(room)), el("h3", { textContent: "The path" }), el("ol", {}, S.path.map(line))));
}

// ---- on with it -----------------------------------------------------------------------------------------------------------

layout = matchMedia("(max-width: 959px)");
// folded away where it stands beside the page: the theme's own button brings it back
if (matchMedia("(min-width: 992px)").matches) document.getElementById("pst-primary-sidebar")?.classList.add("pst-sidebar-hidden");
parts.over = el("nav", { className: "overview", aria: { label: "All stages" } });
parts.question = el("section", { className: "question", hidden: true, aria: { label: "Question" } });
parts.digits = el("section", { className: "digits", aria: { label: "One stage in digits" } });
root.replaceChildren(buildBar(), parts.note, parts.over, el("div", { className: "right" }, parts.question, parts.digits, buildCard()));
root.classList.add("on");
buildOverview();
recall();
rebuild();
root.addEventListener("keydown", keys);
layout.addEventListener("change", () => redraw());
addEventListener("hashchange", () => { if (location.hash !== parts.address) { recall(); rebuild(); } });
addEventListener("beforeprint", sheet);
addEventListener("afterprint", () => parts.sheet?.remove());
new MutationObserver(paint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
})();
