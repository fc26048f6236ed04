// Evaluates and explains a step that is stored as data (window.byhandStep, written by `python -m byhand.live`). There is no transformer in
// here: every rule is a formula of the data, in the language that src/byhand/live/formulas.py describes, and one tree of it gives the number,
// the letters, the links, the users and the cause of a zero.
(() => {
"use strict";

// ---- formulas ------------------------------------------------------------------------------------

const TOKEN = /\s*(?:(\d+(?:\.\d+)?(?:e-?\d+)?)|"([^"]*)"|([A-Za-z_]+)|(#\d)|(.))/y;
const REDUCTIONS = ["sum", "mean", "top"];

function parse(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const m = TOKEN.exec(text);
    tokens.push(m[1] ? { num: +m[1] } : m[2] !== undefined ? { text: m[2] } : m[3] ? { word: m[3] } : m[4] ? { axis: +m[4][1] } : { sign: m[5] });
  }
  let at = 0;
  const sees = (sign) => tokens[at]?.sign === sign;
  const take = (sign) => { if (!sees(sign)) throw Error(`${sign} expected in ${text}`); at++; };
  const chain = (next, signs) => () => {
    let left = next();
    while (signs.some(sees)) left = { op: tokens[at++].sign, args: [left, next()] };
    return left;
  };
  function atom() {
    const t = tokens[at++];
    if (t.num !== undefined) return { op: "num", value: t.num };
    if (t.axis !== undefined) return { op: "axis", axis: t.axis };
    if (t.sign === "-") return { op: "neg", args: [atom()] };
    if (t.sign === "(") { const inner = sum(); take(")"); return inner; }
    if (!sees("(")) return { op: "operand", name: t.word };
    take("(");
    const node = { op: t.word, args: [] };
    if (REDUCTIONS.includes(t.word)) { node.over = tokens[at].word || "@"; at++; take(":"); }
    if (t.word === "size") { node.letter = tokens[at++].word; take(")"); return node; }
    if (t.word === "when") { node.reason = tokens[at++].text; take(","); }
    node.args.push(sum());
    if (sees("=") || sees(">")) { node.test = tokens[at++].sign; node.args.push(sum()); }
    if (t.word === "when") { take(","); node.body = sum(); }
    take(")");
    return node;
  }
  const product = chain(atom, ["*", "/"]), sum = chain(product, ["+", "-"]);
  const tree = sum();
  if (at < tokens.length) throw Error(`left over in ${text}`);
  return tree;
}

// ---- a graph: the stages with their patterns resolved to letters and strides ------------------------

const axesOf = (pattern) => (pattern ? pattern.split(",").map((axis) => [...axis]) : []);

// toy: {sizes}; a switch replaces the definitions of some stages
function load(step, toy, switched) {
  const graph = { step, size: toy.sizes, stage: {}, order: [] };
  const other = Object.fromEntries((step.switches[switched] ?? []).map((row) => [row[0], row]));
  for (const [name, pattern] of Object.entries(step.leaves)) graph.stage[name] = { name, leaf: true, axes: axesOf(pattern) };
  for (const plain of step.stages) {
    const [name, pattern, ruleName, over, operands] = other[plain[0]] ?? plain;
    graph.order.push((graph.stage[name] = { name, ruleName, over, operands, rule: step.rules[ruleName], axes: axesOf(pattern) }));
  }
  graph.names = Object.keys(graph.stage);
  for (const stage of Object.values(graph.stage)) {
    stage.shape = stage.axes.map((axis) => axis.reduce((n, letter) => n * graph.size[letter], 1));
    stage.count = stage.shape.reduce((n, m) => n * m, 1);
    stage.letters = stage.axes.flat();
  }
  for (const stage of graph.order) {
    stage.read = {};
    for (const [key, [of, pattern]] of Object.entries(stage.operands)) stage.read[key] = reader(graph, of, pattern);
    const formula = (text) => parse(text === "+" ? Object.keys(stage.operands).join(" + ") : text);
    stage.tree = formula(stage.rule.formula);
    stage.shown = stage.rule.show ? formula(stage.rule.show) : stage.tree;
    stage.run = compile(graph, stage, stage.tree);
  }
  return graph;
}

// where an operand reads: a sum of letter * stride; "word@t" reads the index itself from a leaf
function reader(graph, of, pattern) {
  const shape = graph.stage[of].shape, axes = pattern ? pattern.split(",") : [], plain = [], picked = [];
  for (let a = axes.length - 1, stride = 1; a >= 0; stride *= shape[a--]) {
    const [leaf, letter] = axes[a].split("@");
    if (letter) picked.push({ leaf, letter, stride });
    else for (let i = axes[a].length - 1, s = stride; i >= 0; s *= graph.size[axes[a][i--]]) plain.push({ letter: axes[a][i], stride: s });
  }
  return {
    of, pattern,
    at(env, values) {
      let o = 0;
      for (const p of plain) o += env[p.letter] * p.stride;
      for (const p of picked) o += values[p.leaf][env[p.letter]] * p.stride;
      return o;
    },
  };
}

const OP = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };
const FN = { exp: Math.exp, log: Math.log, sqrt: Math.sqrt, abs: Math.abs, sq: (x) => x * x };
const lettersOf = (stage, node) => [...(node.over === "@" ? stage.over : node.over)];
const holds = (test, a, b) => (test === "=" ? a === b : test === ">" ? a > b : a !== 0);

// calls f once for every setting of the letters, and puts the outer values back
function run(graph, letters, env, f, i = 0) {
  if (i === letters.length) return f();
  const letter = letters[i], outer = env[letter];
  for (env[letter] = 0; env[letter] < graph.size[letter]; env[letter]++) run(graph, letters, env, f, i + 1);
  env[letter] = outer;
}

const axisValue = (graph, stage, axis, env) => stage.axes[axis].reduce((n, letter) => n * graph.size[letter] + env[letter], 0);

// a node as a function of the letters and the values; compiled once, since each stage has a tree of its own
const compile = (graph, stage, node) => (node.run ??= build(graph, stage, node));
function build(graph, stage, node) {
  const [f, g] = (node.args || []).map((arg) => compile(graph, stage, arg));
  const truth = (e, V) => holds(node.test, f(e, V), g?.(e, V));
  switch (node.op) {
    case "num": return () => node.value;
    case "size": return () => graph.size[node.letter];
    case "axis": return (e) => axisValue(graph, stage, node.axis, e);
    case "operand": { const r = stage.read[node.name]; return (e, V) => V[r.of][r.at(e, V)]; }
    case "neg": return (e, V) => -f(e, V);
    case "is": return (e, V) => (truth(e, V) ? 1 : 0);
    case "when": { const body = compile(graph, stage, node.body); return (e, V) => (truth(e, V) ? body(e, V) : 0); }
    case "sum": case "mean": { const letters = lettersOf(stage, node); return (e, V) => {
      let sum = 0, n = 0;
      run(graph, letters, e, () => { sum += f(e, V); n++; });
      return node.op === "sum" ? sum : sum / n;
    }; }
    case "top": { // what a `when` leaves out is no candidate
      const letters = lettersOf(stage, node), inner = node.args[0], out = inner.op === "when";
      const body = out ? compile(graph, stage, inner.body) : f, test = out && inner.args.map((arg) => compile(graph, stage, arg));
      return (e, V) => {
        let top = -Infinity;
        run(graph, letters, e, () => { if (!out || holds(inner.test, test[0](e, V), test[1]?.(e, V))) top = Math.max(top, body(e, V)); });
        return top;
      };
    }
  }
  const op = OP[node.op], fn = FN[node.op];
  if (op) return (e, V) => op(f(e, V), g(e, V));
  if (!fn) throw Error(`no function ${node.op}`);
  return (e, V) => fn(f(e, V));
}

// every number; nudge = [stage, place, amount] raises one computed number on the way
function evaluate(graph, leaves, nudge) {
  const values = {};
  for (const name of Object.keys(graph.step.leaves)) values[name] = Float64Array.from(leaves[name]);
  if (nudge && values[nudge[0]]) values[nudge[0]][nudge[1]] += nudge[2];
  for (const stage of graph.order) {
    const out = (values[stage.name] = new Float64Array(stage.count)), env = {};
    let i = 0;
    run(graph, stage.letters, env, () => { out[i++] = stage.run(env, values); });
    if (nudge && stage.name === nudge[0]) out[nudge[1]] += nudge[2];
    if (nudge && stage.name === "loss") break; // a nudge asks for the loss alone
  }
  return values;
}
const firstBad = (graph, values) => graph.names.find((name) => values[name].some((x) => !Number.isFinite(x)));

// ---- one number: index has one entry for each axis --------------------------------------------------

const flat = (stage, index) => index.reduce((n, i, a) => n * stage.shape[a] + i, 0);
function unflat(stage, n) {
  const index = [];
  for (let a = stage.shape.length - 1; a >= 0; a--) { index[a] = n % stage.shape[a]; n = Math.floor(n / stage.shape[a]); }
  return index;
}
function envOf(graph, stage, index) {
  const env = {};
  stage.axes.forEach((axis, a) => {
    let rest = index[a];
    for (const letter of [...axis].reverse()) { env[letter] = rest % graph.size[letter]; rest = Math.floor(rest / graph.size[letter]); }
  });
  return env;
}

const LEVEL = { "+": 1, "-": 1, sum: 1, "*": 2, "/": 2, neg: 2 };
const SYMBOL = { "*": " · ", "/": " / ", "+": " + ", "-": " − " };
const BRACKET = { exp: ["e^(", ")"], log: ["ln(", ")"], sqrt: ["√(", ")"], abs: ["|", "|"], sq: ["(", ")²"] };

// {name, index, value, words, letters, parts}; a part is
//   {text} · {value} a constant · {value, stage, index, key} an operand · {fn, parts} · {term, zero, parts} one term of a sum ·
//   {value, stage, index, condition} read by a test: no arithmetic
function explain(graph, values, name, index) {
  const stage = graph.stage[name], value = values[name][flat(stage, index)];
  if (stage.leaf) return { name, index, value, leaf: true, words: "given", letters: "", parts: [] };
  const env = envOf(graph, stage, index);
  const number = (node) => compile(graph, stage, node)(env, values);
  const look = (node) => ({ ...operand(graph, stage, node, env, values), key: node.name });
  const conditions = (node) => node.args.filter((arg) => arg.op === "operand").map((arg) => ({ ...look(arg), condition: true }));
  function show(node, level) {
    const inner = shown(node, level);
    return (LEVEL[node.op] || 3) < level ? [{ text: "(" }, ...inner, { text: ")" }] : inner;
  }
  function shown(node, level) {
    switch (node.op) {
      case "num": case "size": case "axis": return [{ value: number(node) }];
      case "is": return [...conditions(node), { value: number(node) }];
      case "operand": return [look(node)];
      case "neg": return [{ text: "−" }, ...show(node.args[0], 3)];
      case "when":
        return [...conditions(node), ...(holds(node.test, ...node.args.map(number)) ? show(node.body, level) : [{ value: 0, why: node.reason }])];
      case "sum": case "mean": {
        const terms = [];
        run(graph, lettersOf(stage, node), env, () => terms.push({ term: number(node.args[0]), zero: why(graph, stage, node.args[0], env, values), parts: show(node.args[0], 2) }));
        const sum = terms.flatMap((term, i) => (i ? [{ text: " + " }, term] : [term]));
        return node.op === "sum" ? sum : [{ text: "(" }, ...sum, { text: ") / " }, { value: terms.length }];
      }
    }
    if (FN[node.op]) return [{ fn: node.op, open: BRACKET[node.op][0], close: BRACKET[node.op][1], parts: show(node.args[0], 0) }];
    const [left, right] = node.args, own = LEVEL[node.op];
    if (node.op === "+" && level === 0 && stage.tree === node) return ways(node);
    return [...show(left, own), { text: SYMBOL[node.op] }, ...show(right, own + (node.op === "-" || node.op === "/" ? 1 : 0))];
  }
  // a sum that is the whole formula: each of its terms is one, and is called by its way where it has one
  function ways(node) {
    const terms = [];
    for (; node.op === "+"; node = node.args[0]) terms.unshift(node.args[1]);
    return [node, ...terms].flatMap((n, i) => {
      const key = first(n), way = graph.step.via[key] ?? graph.step.via[(stage.read[key]?.of.match(/\.(via_\w+)$/) ?? [])[1]];
      const term = { term: number(n), zero: why(graph, stage, n, env, values), parts: show(n, 2), way };
      return i ? [{ text: " + " }, term] : [term];
    });
  }
  const first = (node) => (node.op === "operand" ? node.name : node.args?.length ? first(node.args[0]) : undefined);
  // where the formula as readers know it overflows, the one that is computed is shown
  const tree = stage.shown === stage.tree || Number.isFinite(compile(graph, stage, stage.shown)(env, values)) ? stage.shown : stage.tree;
  return { name, index, value, words: stage.rule.words, letters: letters(graph, stage, tree), parts: show(tree, 0) };
}
function operand(graph, stage, node, env, values) {
  const r = stage.read[node.name], at = r.at(env, values);
  return { value: values[r.of][at], stage: r.of, index: unflat(graph.stage[r.of], at) };
}

// the rule in letters
function letters(graph, stage, node, level = 0) {
  const own = LEVEL[node.op] || 3, arg = (i, l) => letters(graph, stage, node.args[i], l);
  const text = {
    num: () => node.value, size: () => (node.letter === "v" ? "V" : "d"), axis: () => stage.axes[node.axis].join(""),
    operand: () => { const r = stage.read[node.name]; return symbol(graph.step, r.of) + (r.pattern ? `[${r.pattern.replace(/(\w+)@(\w)/, (_, of, l) => symbol(graph.step, of).split(" ").at(-1) + "(" + l + ")")}]` : ""); },
    neg: () => "−" + arg(0, 3), is: () => `[${arg(0)} = ${arg(1)}]`, when: () => letters(graph, stage, node.body, level),
    sum: () => `Σ_${lettersOf(stage, node).join("")} ${arg(0, 2)}`, mean: () => `mean_${lettersOf(stage, node).join("")}(${arg(0)})`,
    top: () => `max_${lettersOf(stage, node).join("")}(${arg(0)})`,
  }[node.op] || (() => (SYMBOL[node.op] ? arg(0, own) + SYMBOL[node.op] + arg(1, own + (node.op === "-" || node.op === "/" ? 1 : 0)) : BRACKET[node.op][0] + arg(0) + BRACKET[node.op][1]));
  return own < level ? `(${text()})` : String(text());
}
const bare = (name) => name.replace(/^(d:|new:)/, "");
const homeOf = (step, name) => step.homes[name] ?? step.homes["d:" + bare(name)] ?? bare(name);
function symbol(step, name) {
  const own = step.labels[homeOf(step, name)]?.[0] ?? homeOf(step, name).split(".").at(-1);
  return name.startsWith("d:") ? "d" + own : name.startsWith("new:") ? own + "′" : own;
}

// every number whose formula reads this one: [[stage, index], …]
function uses(graph, values, name, index) {
  const found = [], at = flat(graph.stage[name], index);
  for (const stage of graph.order) {
    const keys = Object.keys(stage.read).filter((key) => stage.read[key].of === name);
    if (!keys.length) continue;
    const env = {};
    let i = 0;
    run(graph, stage.letters, env, () => { if (reads(graph, stage, stage.shown, env, values, keys, at)) found.push([stage.name, unflat(stage, i)]); i++; });
  }
  return found;
}
function reads(graph, stage, node, env, values, keys, at) {
  if (node.op === "operand") return keys.includes(node.name) && stage.read[node.name].at(env, values) === at;
  const deeper = (n) => reads(graph, stage, n, env, values, keys, at);
  if (node.op === "when") return node.args.some(deeper) || (holds(node.test, ...node.args.map((arg) => compile(graph, stage, arg)(env, values))) && deeper(node.body));
  if (!node.over) return (node.args ?? []).some(deeper);
  let hit = false;
  run(graph, lettersOf(stage, node), env, () => { hit ||= deeper(node.args[0]); });
  return hit;
}

// ---- why a number is 0: {cause, links: the zeros to look at next}, from the formula alone --------------

// what is smaller is rounding: the terms cancel
const isZero = (graph, x) => Math.abs(x) < graph.step.tiny;

function why(graph, stage, node, env, values) {
  const number = (n) => compile(graph, stage, n)(env, values), deeper = (n) => why(graph, stage, n, env, values);
  if (!isZero(graph, number(node))) return null;
  const all = (causes) => {
    if (!causes.every(Boolean)) return { cause: "terms cancel", links: [] };
    const kinds = [...new Set(causes.map((c) => c.cause))], zero = graph.step.zero;
    return { cause: kinds.length === 1 && causes.length > 1 ? zero[kinds[0]] ?? kinds[0] : kinds.join(", or "), links: causes.flatMap((c) => c.links) };
  };
  switch (node.op) {
    case "operand": { const o = operand(graph, stage, node, env, values); return { cause: graph.step.zero[o.stage] ?? "a factor is 0", links: [[o.stage, o.index]] }; }
    case "when": return holds(node.test, ...node.args.map(number)) ? deeper(node.body)
      : { cause: node.reason, links: node.args.filter((arg) => arg.op === "operand").slice(0, 1).map((arg) => operand(graph, stage, arg, env, values)).map((o) => [o.stage, o.index]) };
    case "*": return deeper(node.args[0]) ?? deeper(node.args[1]) ?? { cause: "the product is too small to count", links: [] };
    case "/": case "neg": case "abs": case "sq": case "sqrt": return deeper(node.args[0]) ?? { cause: "too small to count", links: [] };
    case "+": case "-": return all(node.args.map(deeper));
    case "sum": case "mean": { const causes = []; run(graph, lettersOf(stage, node), env, () => causes.push(deeper(node.args[0]))); return all(causes); }
    case "num": return { cause: "switched off", links: [] };
  }
  return { cause: "it comes to 0", links: [] };
}
function zeroCause(graph, values, name, index) {
  const stage = graph.stage[name];
  if (!isZero(graph, values[name][flat(stage, index)])) return null;
  if (stage.leaf) return { cause: graph.step.zero[name] ?? "it is given as 0", links: [] };
  const here = why(graph, stage, stage.tree, envOf(graph, stage, index), values), seen = new Set();
  return { cause: here.cause, links: here.links.filter(([of, at]) => !seen.has(of + at) && seen.add(of + at)) };
}

// how many numbers of each stage differ: {total, count, stages: {name: n}}
function changed(graph, now, before) {
  const stages = {};
  let total = 0, count = 0;
  for (const name of graph.names) {
    const a = now[name], b = before[name];
    stages[name] = a.length === b.length ? a.reduce((n, x, i) => n + (Math.abs(x - b[i]) > 1e-12 * Math.max(1, Math.abs(x))), 0) : a.length;
    total += a.length;
    count += stages[name];
  }
  return { total, count, stages };
}

// what a question's meter reads; after: the loss after the step
function meter(graph, values, after, { kind, stages, index, label }) {
  const all = () => stages.flatMap((name) => [...values[name]]).map(Math.abs);
  if (kind === "after") return after;
  if (kind === "promise") return promise(graph.step, values);
  if (kind === "length") return Math.hypot(...all());
  if (kind === "largest") return Math.max(...all());
  if (kind === "zeros") return all().filter((x) => x < graph.step.tiny).length;
  const x = values[stages[0]][flat(graph.stage[stages[0]], index)];
  return label.startsWith("−ln") ? -Math.log(x) : x;
}
const promise = (step, values) => values.loss[0] - values.lr[0] * step.weights.reduce((sum, name) => sum + values["d:" + name].reduce((s, g) => s + Math.abs(g), 0), 0);
function lossAfter(graph, values) {
  const leaves = {};
  for (const name of Object.keys(graph.step.leaves)) leaves[name] = values["new:" + name] ?? values[name];
  return evaluate(graph, leaves, ["loss", 0, 0]).loss[0];
}

window.byhandFormulas = { parse, load, evaluate, explain, uses, zeroCause, isZero, changed, firstBad, flat, unflat, envOf, symbol, homeOf, bare, meter, promise, lossAfter };
})();
