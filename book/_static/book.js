// Wide boxes that scroll must be reachable by keyboard: give those that overflow a place in the tab order.
(() => {
  const boxes = "mjx-container, .cell_output pre, .highlight pre, .byhand-output, .pst-scrollable-table-container";
  const update = () => document.querySelectorAll(boxes).forEach((box) => {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else if (box.matches("mjx-container")) box.removeAttribute("tabindex");
  });
  const whenReady = () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(update);
  window.addEventListener("load", whenReady);
  window.addEventListener("resize", update);
  document.addEventListener("toggle", update, true);
})();
