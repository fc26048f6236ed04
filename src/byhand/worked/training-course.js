start("training-course", (root, { steps, p, loss, w, g }) => {
  const rows = [...root.querySelectorAll(".bars tr")], result = root.querySelector(".result");
  const signed = (x, plus = "") => (x < 0 ? "−" : plus) + Math.abs(x).toFixed(3);
  let input;
  const draw = () => {
    const i = +input.value;
    rows.forEach((row, k) => {
      row.querySelector("i").style.width = `${(100 * p[i][k]).toFixed(1)}%`;
      row.querySelector(".share").textContent = `${(100 * p[i][k]).toFixed(1)}\u00a0%`;
    });
    result.textContent = `Step ${steps[i]}: loss ${loss[i].toFixed(3)}. One of the weights is ${signed(w[i])}, its gradient ${signed(g[i], "+")}.`;
  };
  input = slider(root, { label: "training steps", min: 0, max: steps.length - 1, step: 1, value: 0, write: (i) => String(steps[i]), draw });
  draw();
});
