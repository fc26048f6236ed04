start("attention-table", (root, { tokens, q, k, v, temperature }) => {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const attend = (i, t) => {
    const scores = k.slice(0, i + 1).map((key) => dot(q[i], key) / Math.sqrt(q[i].length) / t);
    const peak = Math.max(...scores), e = scores.map((s) => Math.exp(s - peak)), total = e.reduce((a, b) => a + b, 0);
    const weights = e.map((x) => x / total);
    return [weights, v[0].map((_, c) => weights.reduce((sum, w, j) => sum + w * v[j][c], 0))];
  };
  const percent = (w) => `${(100 * w).toFixed(1)}\u00a0%`, vector = (y) => `[${y.map((x) => x.toFixed(6)).join(", ")}]`;
  const rows = [...root.querySelectorAll("table")[0].tBodies[0].rows], result = root.querySelector(".result");
  let input;
  // The slider moves the logarithm, so that halving and doubling are equally far. Where it was not moved, the temperature is the exact one.
  const low = Math.min(-1, Math.floor(Math.log10(temperature))), high = Math.max(1, Math.ceil(Math.log10(temperature)));
  const first = Math.round(Math.log10(temperature) * 20) / 20;
  const read = (x) => (Math.abs(x - first) < 1e-9 ? temperature : 10 ** x), written = (x) => read(x).toPrecision(3);
  const draw = () => {
    const t = read(+input.value);
    rows.forEach((row, i) => {
      const [weights, mixed] = attend(i, t), cells = row.querySelectorAll("td");
      weights.forEach((w, j) => {
        cells[j].textContent = percent(w);
        cells[j].dataset.value = w;
        cells[j].style.setProperty("--w", w.toFixed(3));
      });
      cells[tokens.length].textContent = vector(mixed);
      cells[tokens.length].dataset.value = JSON.stringify(mixed);
      if (i === tokens.length - 1) {
        const shares = weights.map((w, j) => `${percent(w)} from ${tokens[j]}`).join(", ");
        result.textContent = `At temperature ${written(+input.value)}, ${tokens[i]} takes ${shares}: mixed value ${vector(mixed)}.`;
      }
    });
  };
  input = slider(root, { label: "temperature", min: low, max: high, step: 0.05, value: first, write: written, draw });
  draw();
});
