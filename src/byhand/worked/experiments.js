// What the experiments share: finding those that are not started yet, and a labelled slider.
const start = (name, run) => document.querySelectorAll(`.byhand-experiment.${name}:not([data-on])`).forEach((root) => {
  root.dataset.on = "yes";
  root.querySelector(".controls").hidden = false;
  run(root, JSON.parse(root.dataset.settings));
});
const slider = (root, { label, min, max, step, value, write, draw }) => {
  const number = window.byhandSliders = (window.byhandSliders ?? 0) + 1, id = `byhand-slider-${number}`;
  root.querySelector(".controls").insertAdjacentHTML("beforeend",
    `<div class="control"><label for="${id}">${label}</label><input type="range" id="${id}" min="${min}" max="${max}" step="${step}"><span class="value" aria-hidden="true"></span></div>`);
  const input = root.querySelector(`#${id}`);
  const show = () => {
    input.nextElementSibling.textContent = write(+input.value);
    input.setAttribute("aria-valuetext", write(+input.value)); // what a screen reader says instead of the slider's own number
  };
  input.value = value;
  input.addEventListener("input", () => { show(); draw(); });
  show();
  return input;
};
