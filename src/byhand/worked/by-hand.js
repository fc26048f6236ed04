start("by-hand", (root, { answer, digits, slips }) => {
  const controls = root.querySelector(".controls"), said = root.querySelector(".result");
  const number = window.byhandFields = (window.byhandFields ?? 0) + 1, id = `byhand-field-${number}`;
  const unit = 10 ** -digits, shown = (x) => (Math.round(x / unit) * unit + 0).toFixed(digits).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
  const near = (x, y) => Math.abs(x - y) < 1.5 * unit;
  controls.innerHTML = `<form class="control"><label for="${id}">Your answer</label><input id="${id}" type="text" inputmode="decimal" autocomplete="off" spellcheck="false" maxlength="40"><button type="submit">Check</button></form>`;
  const input = controls.querySelector("input");

  // A decimal comma, a real minus sign, a percent sign and a fraction are ways to write a number; null is none.
  const read = (typed) => {
    const text = typed.trim().replaceAll("−", "-").replace(/\s+/g, "").replace(",", ".");
    const parts = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:\/(\d+\.?\d*))?(%?)$/i.exec(text);
    if (!parts) return null;
    const value = Number(parts[1]) / (parts[2] === undefined ? 1 : Number(parts[2])) / (parts[3] ? 100 : 1);
    return Number.isFinite(value) ? value : null;
  };
  const decimals = (typed) => (/[.,](\d*)/.exec(typed) ?? ["", ""])[1].length;
  const verdict = (typed) => {
    const value = read(typed);
    if (!typed.trim()) return [false, "Type a number first."];
    if (value === null) return [false, `“${typed.trim().slice(0, 20)}” is not a number: write it like ${(0.25).toFixed(Math.max(digits, 1))}.`];
    if (near(value, answer)) return [true, `Right: ${shown(answer)}.`];
    for (const [name, slip] of Object.entries(slips)) if (near(value, slip)) return [false, `Not yet: this is what comes out when ${name}.`];
    if (near(value, -answer)) return [false, "Not yet: the number is right, its sign is the other one."];
    const given = decimals(typed);
    if (given < digits && Math.abs(value - answer) <= 0.5 * 10 ** -given) return [false, `So far so good: give ${digits} decimals.`];
    if (value && answer && [-3, -2, -1, 1, 2, 3].some((n) => near(value * 10 ** n, answer))) return [false, "Not yet: the digits are right, the point stands elsewhere."];
    if (answer && Math.abs(value / answer - 1) < 0.02) return [false, "Nearly: carry more digits on the way, and round at the end."];
    return [false, "Not yet. The line above has been worked in the same way; set yours beside it."];
  };
  controls.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [right, words] = verdict(input.value);
    said.textContent = words;
    root.dataset.right = right;
    input.setAttribute("aria-invalid", !right);
  });
});
