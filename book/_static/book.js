// Formulas are set as they come near the screen; all of them before the page is printed. window.byhandTypeset.all() sets all at once.
window.byhandTypeset = (() => {
  const waiting = new Set();
  const near = new Set();
  const BATCH = 12;

  const typeset = (formulas) => {
    for (const formula of formulas) {
      waiting.delete(formula);
      near.delete(formula);
      observer.unobserve(formula);
      // What a reader copies (below); Sphinx writes \(...\) in a line and \[...\] on lines of its own.
      formula.dataset.tex = formula.textContent.trim().replace(/^\\[([]\s*|\s*\\[)\]]$/g, "");
    }
    const top = reading();
    MathJax.typeset(formulas);
    measure(formulas);
    top.keep();
  };
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) near.add(target);
      else near.delete(target);
    }
    if (near.size) setTimeout(some);
  }, { rootMargin: "100% 0px" });
  const some = () => {
    if (!near.size || !ready) return;
    const seen = [...near].filter(onScreen);
    typeset(seen.length ? seen : [...near].slice(0, BATCH));
    if (near.size) setTimeout(some);
    else follow();
  };
  const onScreen = (formula) => {
    const box = formula.getBoundingClientRect();
    return box.width > 0 && box.bottom > 0 && box.top < innerHeight && formula.checkVisibility(); // what is folded has a place, too
  };

  // Formulas change their height when they are set. Where the browser does not keep the text in place by itself, this does.
  const reading = () => {
    if (CSS.supports("overflow-anchor", "auto")) return { keep() {} };
    const x = document.documentElement.clientWidth / 2;
    const place = document.elementFromPoint(x, innerHeight / 3);
    const before = place?.getBoundingClientRect().top;
    return { keep: () => place?.isConnected && scrollBy({ top: place.getBoundingClientRect().top - before, behavior: "instant" }) };
  };
  // A link into the page leads to its target also after the formulas around it are set, unless the reader has moved on.
  let following = location.hash.length > 1;
  const follow = () => {
    if (following) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView({ behavior: "instant" });
  };
  for (const moved of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(moved, () => (following = false), { passive: true });
  addEventListener("hashchange", () => {
    following = true;
    follow();
  });

  // ---- Formulas and boxes that are wider than their place scroll there, and can then be reached by keyboard. ----
  const boxes = ".byhand-output, .byhand-sheet figure, .pst-scrollable-table-container, .cell_input pre, .cell_output pre, .highlight pre";
  const roomFor = (container) => {
    // The theme lays a formula in a line out as a box of its own, whose width is the formula's, rounded.
    let place = container.parentElement;
    while (/^(inline|contents)/.test(getComputedStyle(place).display)) place = place.parentElement;
    const style = getComputedStyle(place);
    return place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  const SMALLEST = 0.7;
  const measure = (formulas) => {
    const containers = formulas.map((formula) => formula.querySelector("mjx-container")).filter((found) => found?.firstElementChild);
    // On a wide screen what is a little too wide is drawn smaller, rather than cut.
    for (const found of containers) found.classList.remove("fitted");
    const ratios = containers.map((found) => found.firstElementChild.getBoundingClientRect().width / (roomFor(found) + 1));
    const fitted = containers.map((found, i) => innerWidth >= 900 && found.hasAttribute("display") && ratios[i] > 1 && ratios[i] * SMALLEST <= 1);
    const wide = ratios.map((ratio, i) => ratio > 1 && !fitted[i]);
    containers.forEach((found, i) => {
      found.classList.toggle("wide", wide[i]);
      found.classList.toggle("fitted", fitted[i]);
      if (wide[i]) found.tabIndex = 0;
      else found.removeAttribute("tabindex");
      if (wide[i]) edge(found);
      else found.classList.remove("goes-on"); // a letter's slant may reach beyond its box
    });
  };
  // What goes on to the right fades there, until it is scrolled to its end.
  const edge = (box) => box.classList.toggle("goes-on", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  document.addEventListener("scroll", ({ target }) => target.tabIndex === 0 && edge(target), { capture: true, passive: true });
  const measureBoxes = () => {
    for (const box of document.querySelectorAll(boxes)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      edge(box);
    }
  };
  const measureAll = () => {
    measureBoxes();
    measure([...document.querySelectorAll(".math[data-tex]")]);
  };
  // The article also changes its width when a sidebar does, after the window. What scrolls changes its height, which is no reason to look again.
  const article = document.querySelector("article") ?? document.body;
  let width = article.clientWidth;
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (article.clientWidth === width) return;
    width = article.clientWidth;
    measureAll();
  })).observe(article);
  document.addEventListener("toggle", measureAll, true);
  addEventListener("load", measureBoxes);

  // ---- Start: what is on the screen first, then what is near it. ----
  let ready = false;
  const all = () => ready && waiting.size && typeset([...waiting]);
  addEventListener("beforeprint", all);
  matchMedia("print").addEventListener("change", (print) => print.matches && all());
  if (window.MathJax?.startup) {
    for (const formula of document.querySelectorAll(".math")) {
      if (formula.parentElement.closest(".math")) continue;
      waiting.add(formula);
      observer.observe(formula);
    }
    MathJax.startup.promise = MathJax.startup.promise.then(() => {
      ready = true;
      const seen = [...waiting].filter(onScreen);
      if (seen.length) typeset(seen);
      setTimeout(some);
    });
  }
  return { all, measure: measureAll, waiting: () => waiting.size, idle: () => ready && !near.size };
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

// A formula is a drawing, which cannot be selected word by word: a double click selects the whole of it.
document.addEventListener("dblclick", ({ target }) => {
  const formula = target.closest?.(".math");
  if (!formula) return;
  const range = document.createRange();
  range.selectNode(formula);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
});
// A selected formula copies as its TeX, also where it is one among words.
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  if (selection.isCollapsed || !event.clipboardData) return;
  const range = selection.getRangeAt(0).cloneRange();
  // A selection that begins or ends inside a formula takes the whole of it.
  const formulaAt = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement)?.closest(".math");
  const [first, last] = [formulaAt(range.startContainer), formulaAt(range.endContainer)];
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  const copy = document.createElement("div");
  copy.append(range.cloneContents());
  const formulas = copy.querySelectorAll(".math");
  if (!formulas.length) return;
  for (const formula of formulas) {
    const tex = formula.dataset.tex ?? formula.textContent.trim().replace(/^\\[([]\s*|\s*\\[)\]]$/g, "");
    formula.textContent = formula.matches("span") ? `$${tex}$` : `$$${tex}$$`;
  }
  // Laid out out of sight, so that its lines break where the page's do.
  copy.style.cssText = "position: absolute; left: -9999px; white-space: normal";
  document.body.append(copy);
  event.clipboardData.setData("text/plain", copy.innerText);
  event.clipboardData.setData("text/html", copy.innerHTML);
  event.preventDefault();
  copy.remove();
});
