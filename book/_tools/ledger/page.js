(() => {
  // JupyterLab has the pages as notebooks, and has already turned the links into addresses of files.
  const openInLab = (event) => {
    const [, base, page] = event.target.closest("a")?.href.match(/^(.*)\/files\/([^?]*)\.html/) ?? [];
    if (!page) return;
    event.preventDefault();
    window.open(`${base}/lab/tree/${page}.ipynb`);
  };
  const start = (root) => {
    root.dataset.on = "yes";
    if (document.body.dataset.jpThemeName) root.addEventListener("click", openInLab);
    const number = root.dataset.document, tools = root.querySelector(".tools");
    tools.innerHTML = `<label>Find <input type="search" id="find-${number}"></label>
      <label>Show <select id="show-${number}"><option value="">all verdicts</option><option value="right">right</option>
      <option value="misleading">right but misleading</option><option value="wrong">wrong</option></select></label>
      <button type="button">Open all</button><span role="status"></span>`;
    tools.hidden = false;
    const find = tools.querySelector("input"), show = tools.querySelector("select"), all = tools.querySelector("button");
    const status = tools.querySelector("[role=status]"), sections = [...root.querySelectorAll("details")];
    const rows = [...root.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
    const filter = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), active = Boolean(words.length || show.value);
      let left = 0;
      rows.forEach(([row, text]) => {
        row.hidden = !((!show.value || row.dataset.kind === show.value) && words.every((word) => text.includes(word)));
        left += !row.hidden;
      });
      sections.forEach((section) => {
        section.hidden = !section.querySelector("tbody tr:not([hidden])");
        section.open = active && !section.hidden;
      });
      status.textContent = active ? `${left} of ${rows.length} claims` : "";
      all.textContent = "Open all";
    };
    find.addEventListener("input", filter);
    show.addEventListener("change", filter);
    all.addEventListener("click", () => {
      const open = all.textContent === "Open all";
      sections.forEach((section) => { section.open = open; });
      all.textContent = open ? "Close all" : "Open all";
    });
    const reveal = () => {
      const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!row || !root.contains(row)) return;
      row.closest("details").open = true;
      row.scrollIntoView();
    };
    window.addEventListener("hashchange", reveal);
    window.addEventListener("beforeprint", () => sections.forEach((section) => { section.open = true; }));
    reveal();
  };
  document.querySelectorAll(".byhand-ledger:not([data-on])").forEach(start);
})();
