// Small live figures (byhand.worked.live_figure): one thing to move, a few numbers of the step, from the stored formulas. The formulas are
// loaded when a figure comes near the screen; without them, or without scripts, its table stands there.
(() => {
"use strict";
const here = document.currentScript.src.replace(/[^/]*$/, ""), SVG = "http://www.w3.org/2000/svg";
let loading;
const load = () => (loading ??= ["step.data.js", "step.js"].reduce((before, name) => before.then(() => new Promise((done, failed) => {
  document.head.append(Object.assign(document.createElement("script"), { src: here + name, onload: done, onerror: failed }));
})), Promise.resolve()));

const el = (tag, props = {}, ...kids) => { const e = Object.assign(document.createElement(tag), props); e.append(...kids); return e; };
const svg = (tag, attributes, text) => { const e = document.createElementNS(SVG, tag); for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value); if (text !== undefined) e.textContent = text; return e; };
const short = (x) => (Math.abs(x) < 1e-13 ? "0" : Number.isFinite(x) ? (Math.abs(x) >= 0.001 && Math.abs(x) < 1e5 ? String(+x.toPrecision(4)) : String(+x.toExponential(3)).replace("e+", "e")) : "no number").replace(/-/g, "−");

// what the meters say at a place of the slider: {read, values, graph}
function reader({ toy, control, change: [leaf, entry, how], meters }) {
  const F = window.byhandFormulas, step = window.byhandStep, graph = F.load(step, step.toys[toy]), printed = step.toys[toy].leaves;
  const value = (place) => (control.log ? 10 ** place : place);
  const given = F.evaluate(graph, printed);
  return (place) => {
    const x = value(place);
    if (how === "gradient") {
      const V = { ...given, [leaf]: Float64Array.of(0), ["d:" + leaf]: Float64Array.of(x) }, stage = graph.stage["new:" + leaf];
      return { x, read: [-stage.run(F.envOf(graph, stage, [0, 0]), V) / printed.lr[0]] };
    }
    const changed = printed[leaf].map((old, i) => (how === "times" ? old * x : i === entry ? (how === "set" ? x : 1 - x) : old));
    const values = F.evaluate(graph, { ...printed, [leaf]: changed });
    return { x, values, graph, read: meters.map((m) => F.meter(graph, values, NaN, m)) };
  };
}

const H = 250, LEFT = 56, BOTTOM = 30;
let W = 640; // as wide as its place, so that its words keep their size
function axes(plot, xs, ys, labels) {
  const [x0, x1] = xs, [y0, y1] = ys, at = { x: (x) => LEFT + ((x - x0) / (x1 - x0)) * (W - LEFT - 10), y: (y) => 8 + ((y1 - y) / (y1 - y0)) * (H - BOTTOM - 8) };
  for (let i = 0; i <= 4; i++) {
    const y = y0 + ((y1 - y0) * i) / 4, x = x0 + ((x1 - x0) * i) / 4;
    plot.append(svg("path", { class: "grid", d: `M${LEFT} ${at.y(y)}H${W - 10}` }), svg("text", { x: LEFT - 6, y: at.y(y) + 4, "text-anchor": "end" }, short(y)), svg("text", { x: at.x(x), y: H - 10, "text-anchor": "middle" }, labels(x)));
  }
  return at;
}
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

const DRAW = {
  bars(plot, now, { meters }) {
    plot.setAttribute("viewBox", `0 0 ${W} ${meters.length * 26 + 4}`);
    meters.forEach((m, i) => {
      const y = i * 26, width = Math.max(0, now.read[i]) * (W - 205);
      plot.append(svg("text", { x: 140, y: y + 18, "text-anchor": "end" }, m.label), svg("rect", { class: "bar", x: 150, y: y + 5, height: 17, width }), svg("text", { x: 158 + width, y: y + 18 }, now.read[i].toFixed(3)));
    });
  },
  curve(plot, now, settings, read, tangent) {
    plot.setAttribute("viewBox", `0 0 ${W} ${H}`);
    const { low, high, log } = settings.control, places = [...Array(81).keys()].map((i) => low + ((high - low) * i) / 80);
    settings.curve ??= places.map((place) => read(place).read[0]);
    const top = Math.max(...settings.curve), bottom = Math.min(...settings.curve, 0), at = axes(plot, [low, high], [bottom, top * 1.05], (x) => (log ? short(10 ** Math.round(x)) : short(x)));
    plot.append(svg("path", { class: "residual", d: path(settings.curve.map((y, i) => [at.x(places[i]), at.y(y)])) }));
    const place = log ? Math.log10(now.x) : now.x;
    if (tangent) { const y = (x) => now.read[0] + now.read[1] * (x - place), span = [Math.max(low, place - 1), Math.min(high, place + 1)]; plot.append(svg("path", { class: "direct", d: path(span.map((x) => [at.x(x), at.y(y(x))])) })); }
    plot.append(svg("circle", { class: "dot", cx: at.x(place), cy: at.y(now.read[0]), r: 6 }));
  },
  tangent(plot, now, settings, read) { DRAW.curve(plot, now, settings, read, true); },
  // the terms of one row of a stage's formula, as the formula itself says them
  terms(plot, now, { row: [name, row] }, read, box) {
    const F = window.byhandFormulas, columns = now.graph.stage[name].shape[1], each = [...Array(columns).keys()].map((c) => F.explain(now.graph, now.values, name, [row, c]));
    const lines = each[0].parts.filter((p) => p.term !== undefined).map((p, i) => [p.way, each.map((e) => e.parts.filter((q) => q.term !== undefined)[i].term)]);
    lines.push(["what is passed on", each.map((e) => e.value)]);
    const sum = (list) => list.reduce((a, b) => a + b, 0), hat = [...now.values[name.replace("d:", "").replace("residual", "norm") + ".normalised"]].slice(row * columns, (row + 1) * columns);
    const rows = lines.map(([way, terms]) => el("tr", {}, el("th", { scope: "row", textContent: way }), ...terms.map((x) => el("td", { textContent: short(x) })), el("td", { textContent: short(sum(terms)) }), el("td", { textContent: short(sum(terms.map((x, c) => x * hat[c]))) })));
    box.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("td"), ...each.map((_, c) => el("th", { scope: "col", textContent: `column ${c}` })), el("th", { scope: "col", textContent: "sum" }), el("th", { scope: "col", textContent: "along x̂" }))), el("tbody", {}, ...rows)));
  },
};

function start(root) {
  const settings = JSON.parse(root.dataset.settings), { control, meters, drawing } = settings, read = reader(settings), id = `live-figure-${(window.byhandFigures = (window.byhandFigures ?? 0) + 1)}`;
  const input = control.check ? el("input", { type: "checkbox", id, checked: control.start === 1 }) : el("input", { type: "range", id, min: control.low, max: control.high, step: control.by, value: control.start });
  const shown = el("span", { className: "value" }), plot = root.querySelector(".plot"), result = root.querySelector(".result");
  shown.setAttribute("aria-hidden", "true");
  const draw = () => {
    const now = read(control.check ? +input.checked : +input.value), picture = svg("svg", { "aria-hidden": "true" });
    W = Math.max(280, Math.min(640, root.clientWidth));
    shown.textContent = control.check ? (input.checked ? "on" : "off") : short(now.x);
    if (!control.check) input.setAttribute("aria-valuetext", short(now.x));
    const box = el("div", { className: "scroll byhand-output" });
    DRAW[drawing](picture, now, settings, read, drawing === "terms" ? box : false);
    plot.replaceChildren(drawing === "terms" ? box : picture);
    result.textContent = `${control.label} ${control.check ? (input.checked ? "on" : "off") : short(now.x)}: ${meters.map((m, i) => `${m.label} ${short(now.read[i])}`).join(", ")}.`;
    root.dataset.read = JSON.stringify(now.read);
  };
  input.addEventListener("input", draw);
  root.querySelector(".controls").append(el("div", { className: "control" }, el("label", { htmlFor: id, textContent: control.label }), input, shown));
  root.querySelector(".controls").hidden = plot.hidden = false;
  root.prepend(el("p", { className: "caption", textContent: root.querySelector("caption").textContent + ":" }));
  root.dataset.on = "yes"; // the table of some places of the slider goes, but comes back on paper
  draw();
}
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) { near.unobserve(target); load().then(() => start(target)); }
}, { rootMargin: "600px" });
window.byhandLiveFigures = (place) => place.querySelectorAll(".byhand-live:not([data-on])").forEach((root) => near.observe(root));
window.byhandLiveFigures(document);
})();
