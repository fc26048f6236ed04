// Formulas and boxes that are wider than their place scroll there, and can then be reached by keyboard.
(() => {
  const boxes = ".cell_input pre, .cell_output pre, .highlight pre, .byhand-output, .pst-scrollable-table-container";

  const roomFor = (formula) => {
    let place = formula.parentElement;
    while (getComputedStyle(place).display === "inline") place = place.parentElement;
    return place.clientWidth;
  };
  const update = () => {
    for (const box of document.querySelectorAll(boxes)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
    for (const formula of document.querySelectorAll("mjx-container")) {
      const wide = formula.querySelector("svg").getBoundingClientRect().width > roomFor(formula);
      formula.classList.toggle("wide", wide);
      // MathJax puts every formula into the tab order, for its menu; a page has dozens.
      if (wide) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  };
  window.addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(update));
  window.addEventListener("resize", update);
  document.addEventListener("toggle", update, true);
})();
