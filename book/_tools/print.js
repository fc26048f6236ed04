// Makes the one-page build a book: what is left out, the contents, answers gathered at the end, a pointer where something is folded.
// Called by print_pdf.py with {pages, without}: the pages to print (all if none), and the beginnings of names of those to leave out.
({ pages, without }) => {
  const article = document.querySelector("article.bd-article");
  const starts = [...article.querySelectorAll('span[id^="document-"]')];
  const element = (tag, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };
  const name = (start) => start.id.replace("document-", "");
  const title = (section) => {
    const heading = section.querySelector("h1, h2, h3, h4, h5, h6").cloneNode(true);
    heading.querySelectorAll(".headerlink").forEach((link) => link.remove());
    return heading.textContent.trim();
  };

  // ---- The pages, in order; what is left out. ----
  const root = article.querySelector("section");
  const chapters = starts.map((start) => ({ name: name(start), start, section: start.nextElementSibling }));
  const chosen = (chapter) => (pages.length ? pages.includes(chapter.name) : !without.some((beginning) => chapter.name.startsWith(beginning)));
  for (const chapter of chapters) {
    if (chosen(chapter)) continue;
    // A page above others holds them in the one-page build.
    const inside = chapters.filter((other) => other !== chapter && chosen(other) && chapter.section.contains(other.section));
    if (!inside.length) chapter.section.remove(), chapter.start.remove();
    else for (const child of [...chapter.section.children]) if (!inside.some(({ section }) => child.contains(section))) child.remove();
  }
  const printed = chapters.filter((chapter) => chosen(chapter) && chapter.section.isConnected);
  if (pages.length) printed[0]?.section.classList.add("print-first");
  if (pages.length) for (const child of [...root.children]) if (!printed.some(({ section }) => child.contains(section))) child.remove();

  // ---- Folds: answers go to the end, what is only shown elsewhere is pointed to, and code that a picture stands for is left out. ----
  const answers = element("section", { id: "print-answers", className: "print-answers" }, element("h2", {}, "Answers"));
  let count = 0;
  for (const { section } of [...printed, { section: root }]) {
    const own = element("section", {}, element("h3", {}, title(section)));
    for (const fold of section.querySelectorAll("details.hide")) {
      if (fold.open) continue;
      const cell = fold.closest("div.cell");
      if (title(fold.closest("section")) === "Your turn" && cell?.classList.contains("tag_hide-cell")) {
        if (!cell.isConnected) continue;
        count += 1;
        const link = element("a", { href: `#print-answer-${count}` }, `Answer ${count}`);
        cell.replaceWith(element("p", { className: "print-pointer" }, "→ ", link));
        cell.id = `print-answer-${count}`;
        own.append(element("p", {}, element("b", {}, `Answer ${count}`)), cell);
        cell.querySelectorAll("details").forEach((inner) => unfold(inner));
      } else if (cell?.classList.contains("tag_hide-input")) fold.remove();
      else {
        const summary = fold.querySelector("summary");
        const label = (summary.querySelector(".collapsed") ?? summary).textContent.trim().replace(/^Show code cell content$/, "Code and its output").replace(/^Show /, "");
        fold.replaceWith(element("p", { className: "print-pointer" }, `→ On the site and in the notebook: ${label.replace(/^code cell (\w+)$/, "the code's $1")}`));
      }
    }
    if (own.children.length > 1) answers.append(own);
  }
  function unfold(fold) {
    fold.querySelector("summary")?.remove();
    fold.replaceWith(...fold.childNodes);
  }
  // Each coloured piece of code is a part of the tagged PDF; only keywords, strings and comments keep their colour.
  for (const piece of article.querySelectorAll("pre span:is(.n, .p, .o, .w, .mi, .mf, .si, .ow, .nb, .nn, .nf, .sa)")) piece.replaceWith(...piece.childNodes);
  article.normalize();
  for (const section of article.querySelectorAll("section")) if (/^Proof$/.test(title(section))) section.classList.add("print-small");
  if (count) {
    answers.id = "document-print-answers";
    article.append(answers);
    printed.push({ name: "print-answers", section: answers, start: answers });
  }

  // ---- Contents, whose page numbers print_pdf.py fills in. ----
  if (!pages.length) {
    const contents = element("nav", { className: "print-contents" }, element("h2", {}, "Contents"));
    let part = null;
    let list = null;
    for (const { section, start } of printed) {
      const caption = section.closest(".toctree-wrapper")?.querySelector(":scope > p.caption")?.textContent.trim() ?? "";
      if (!list || caption !== part) contents.append(...(caption ? [element("h3", {}, caption)] : []), (list = element("ol")));
      part = caption;
      list.append(element("li", {}, element("a", { href: `#${start.id}` }, title(section)), element("i")));
    }
    root.querySelector("h1").after(contents);
  }
  return printed.map(({ name }) => name);
}
