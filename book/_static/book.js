// Formulas and boxes that are wider than their place scroll there, and can then be reached by keyboard.
(() => {
  const boxes = ".byhand-output, .pst-scrollable-table-container, .cell_input pre, .cell_output pre, .highlight pre";

  const roomFor = (formula) => {
    if (formula.hasAttribute("display")) return formula.clientWidth;
    let place = formula.parentElement;
    while (getComputedStyle(place).display === "inline") place = place.parentElement;
    return place.clientWidth;
  };
  const update = () => {
    for (const box of document.querySelectorAll(boxes)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
    for (const formula of document.querySelectorAll("mjx-container:has(> svg)")) {
      const wide = formula.querySelector("svg").getBoundingClientRect().width > roomFor(formula);
      formula.classList.toggle("wide", wide);
      // MathJax puts every formula into the tab order, for its menu; a page has dozens.
      if (wide) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  };
  window.addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(update));
  // The article also changes its width when a sidebar does, after the window. What scrolls changes its height, which is no reason to look again.
  const article = document.querySelector("article") ?? document.body;
  let width = article.clientWidth;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (article.clientWidth === width) return;
    width = article.clientWidth;
    update();
  })).observe(article);
  document.addEventListener("toggle", update, true);
})();

// A link into a closed block opens it; not every browser does so by itself.
(() => {
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const closed = [];
    for (let block = target.closest("details"); block; block = block.parentElement.closest("details")) if (!block.open) closed.push(block);
    for (const block of closed) block.open = true;
    const own = target.querySelector(":scope > details.proof");
    if (own) own.open = true;
    if (closed.length || own) target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  window.addEventListener("load", open);
})();
