start("depth-plot", (root, { a: a0, L: L0, clip: [low, high] }) => {
  const gain = (x, n) => Math.abs(x) ** n;
  const height = (g) => (g > 0 ? Math.min(Math.max(Math.log10(g), low), high) : low);
  const written = (g) => (g === 0 ? "0" : g.toExponential(3));
  const plot = root.querySelector(".plot"), result = root.querySelector(".result"), body = root.querySelector("tbody");
  const [direct, residual] = result.querySelectorAll(".direct, .residual");
  let inputs = [];
  const draw = () => {
    const a = +inputs[0].value, L = +inputs[1].value, gains = [gain(a, L), gain(1 + a, L)];
    const width = Math.max(280, Math.min(680, plot.clientWidth || 640)), tall = Math.round(170 + width * 0.2);
    const left = 42, right = 14, top = 10, bottom = 40;
    const x = (n) => left + (width - left - right) * n / L, y = (h) => top + (tall - top - bottom) * (high - h) / (high - low);
    let marks = "";
    for (let h = Math.ceil(low / 6) * 6; h <= high; h += 6) {
      marks += `<line class="grid" x1="${left}" x2="${width - right}" y1="${y(h).toFixed(1)}" y2="${y(h).toFixed(1)}"/>`
        + `<text x="${left - 8}" y="${(y(h) + 4).toFixed(1)}" text-anchor="end">${h < 0 ? "−" : ""}${Math.abs(h)}</text>`;
    }
    for (const n of new Set([0, Math.round(L / 2), L])) marks += `<text x="${x(n).toFixed(1)}" y="${tall - bottom + 18}" text-anchor="middle">${n}</text>`;
    const path = (base) => Array.from({ length: L + 1 }, (_, n) => `${n ? "L" : "M"}${x(n).toFixed(2)},${y(height(gain(base, n))).toFixed(2)}`).join("");
    const words = `direct ${written(gains[0])}, residual ${written(gains[1])}`;
    plot.innerHTML = `<svg viewBox="0 0 ${width} ${tall}" role="img" aria-label="log10 of the gain against depth, from ${low} to ${high}. After ${L} layers: ${words}.">`
      + `${marks}<text x="${(left + width - right) / 2}" y="${tall - 4}" text-anchor="middle">layers (vertical: log₁₀ of the gain)</text>`
      + `<path class="residual" d="${path(1 + a)}"/><path class="direct" d="${path(a)}"/></svg>`;
    direct.lastChild.textContent = ` = ${written(gains[0])}`;
    residual.lastChild.textContent = ` = ${written(gains[1])}`;
    result.childNodes[2].textContent = ` = ${a.toFixed(2)}, after ${L} layer${L === 1 ? "" : "s"}: `;
    const depths = [...new Set([0, 1, 2, 3, 4].map((step) => Math.round(L * step / 4)))];
    body.innerHTML = depths.map((n) => `<tr><th scope="row">${n}</th>` + [a, 1 + a].map((base) => {
      const g = gain(base, n);
      return `<td data-value="${g}" data-height="${height(g)}">${written(g)}</td>`;
    }).join("") + "</tr>").join("");
  };
  plot.hidden = false;
  root.querySelector("details").open = false;
  inputs = [
    slider(root, { label: "slope <i>a</i>", min: -2, max: 2, step: 0.01, value: a0, write: (v) => v.toFixed(2), draw }),
    slider(root, { label: "layers <i>L</i>", min: 1, max: 200, step: 1, value: L0, write: String, draw }),
  ];
  draw();
  if (window.ResizeObserver) {
    let width = plot.clientWidth;
    new ResizeObserver(() => { if (plot.clientWidth !== width) { width = plot.clientWidth; draw(); } }).observe(plot);
  }
});
