// The search page: titles of pages before headings before text, the reference and the bibliography last. The index is _ext/search.py's.
(() => {
  const KIND = { page: 1, glossary: 0.8, ledger: 0.3, reference: 0.1, bibliography: 0.1 };
  // What a match is worth beside the scores of the words, which lie around 10: of a page's title, or a part of it between commas and
  // colons, of a heading, of an entry of the glossary, and of the page that the entry points to.
  const EXACT = { page: 1000, part: 600, heading: 500, entry: 400, taught: 350, phrase: 60, words: 50 };
  const MOST = 40;

  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
  const split = (text) => text.split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
  const words = (text) => split(plain(text));
  // 'warm-up' is found as 'warmup' too.
  const tokens = (text) => [...words(text), ...(plain(text).match(/[\p{L}\p{N}]+(?:-[\p{L}\p{N}]+)+/gu) ?? []).map((word) => word.replaceAll("-", ""))];
  // Words of one root are one word: norms and norm, trained and training.
  const root = (word) => (word.length < 5 ? word.replace(/(?<=..[^s])s$/, "") : word.replace(/ies$/, "y").replace(/(?<=....)(ings?|ed|es|s|e)$/, ""));
  const key = (text) => words(text).map(root).join(" ");
  const closed = (text) => key(text).replaceAll(" ", "");
  const COMMON = new Set(words("a an and are as at be by do does for from how i in is it its my not of on or that the this to was what when where which why with you"));

  const entries = [];
  const names = []; // of the glossary's entries, the longest first: 'RMS norm' is not also 'norm'
  for (const page of window.bookIndex) {
    for (const found of page.entries) {
      const entry = { ...found, page, id: entries.length, key: key(found.title), parts: found.title.split(/[:,;]/).map(closed) };
      entry.words = new Set(entry.key.split(" "));
      entries.push(entry);
      for (const name of entry.names ?? []) names.push({ name: key(name), closed: closed(name), entry });
    }
  }
  names.sort((a, b) => b.name.length - a.name.length);
  const top = new Map(entries.filter(({ anchor }) => !anchor).map((entry) => [entry.page.page, entry]));
  const index = new MiniSearch({
    fields: ["title", "names", "text", "code"],
    extractField: (entry, field) => (field === "names" ? (entry.names ?? []).join(" ") : entry[field]),
    tokenize: tokens,
    processTerm: (word) => (COMMON.has(word) ? null : root(word)),
    searchOptions: {
      boost: { title: 5, names: 5, text: 1, code: 0.3 },
      prefix: (term) => term.length > 2,
      fuzzy: (term) => (term.length > 5 ? 0.2 : false),
      weights: { fuzzy: 0.2, prefix: 0.5 },
    },
  });
  index.addAll(entries);

  // The query, and the same with the glossary's other names for what it names.
  const variants = (query) => {
    const found = [{ query, weight: 1 }];
    let rest = ` ${query} `;
    for (const { name, entry } of names) {
      if (!rest.includes(` ${name} `)) continue;
      rest = rest.replace(` ${name} `, " | ");
      for (const other of names) {
        if (other.entry === entry && other.name !== name) found.push({ query: ` ${query} `.replace(` ${name} `, ` ${other.name} `).trim(), weight: 0.6 });
      }
    }
    return found;
  };

  const search = (text) => {
    const query = key(text);
    if (!query) return [];
    const identifier = /[_.]/.test(text.trim().replace(/\.$/, ""));
    const scores = new Map();
    const add = (entry, score) => scores.set(entry, (scores.get(entry) ?? 0) + score);

    for (const { query: asked, weight } of variants(query)) {
      const wanted = new Set(asked.split(" ").filter((word) => !COMMON.has(word))).size || 1;
      for (const hit of index.search(asked)) {
        const share = Math.min(1, new Set(hit.queryTerms).size / wanted);
        add(entries[hit.id], weight * hit.score * share ** 2);
      }
      const whole = asked.replaceAll(" ", "");
      const list = asked.split(" ");
      for (const entry of entries) {
        const first = entry.anchor === "";
        const same = entry.key.replaceAll(" ", "") === whole;
        if (entry.page.kind === "reference" && !identifier && !(same && first)) continue;
        if (same) add(entry, weight * (first ? EXACT.page : EXACT.heading));
        else if (first && entry.parts.includes(whole)) add(entry, weight * EXACT.part);
        else if (` ${entry.key} `.includes(` ${asked} `)) add(entry, weight * EXACT.phrase * (first ? 2 : 1) * (asked.length / entry.key.length));
        else if (list.every((word) => entry.words.has(word))) add(entry, weight * EXACT.words * (first ? 2 : 1) * (asked.length / entry.key.length));
      }
    }
    // The pages that a definition points to teach the term, the first above all.
    const taught = new Set();
    const whole = query.replaceAll(" ", "");
    let rest = ` ${query} `;
    for (const { name, closed, entry } of names) {
      let share = 0;
      if (closed === whole) share = 1;
      else if (closed.startsWith(whole) && whole.length > closed.length * 0.6) share = 0.5;
      else if (rest.includes(` ${name} `)) share = 0.3 * (name.length / query.length) ** 2;
      if (!share || taught.has(entry)) continue;
      rest = rest.replace(` ${name} `, " | ");
      taught.add(entry);
      add(entry, share * EXACT.entry);
      entry.pages.forEach((page, i) => {
        const first = top.get(page);
        if (first) add(best(scores, first.page) ?? first, (share * EXACT.taught) / (i + 1));
      });
    }
    const pages = new Map();
    for (const [entry, score] of scores) {
      const worth = score * (entry.page.kind === "reference" && (identifier || score > EXACT.page) ? 1 : KIND[entry.page.kind]);
      const page = pages.get(entry.page) ?? { page: entry.page, entry, best: 0, rest: 0 };
      if (worth > page.best) Object.assign(page, { rest: page.rest + page.best, best: worth, entry });
      else page.rest += worth;
      pages.set(entry.page, page);
    }
    const found = [...pages.values()].map((one) => ({ ...one, score: one.best + Math.min(one.rest, one.best) * 0.3 }));
    const enough = Math.min(2, Math.max(...found.map((one) => one.score)) / 100);
    return found.filter((one) => one.score > enough).sort((a, b) => b.score - a.score).slice(0, MOST);
  };
  const best = (scores, page) => {
    const here = [...scores].filter(([entry]) => entry.page === page).sort((a, b) => b[1] - a[1]);
    return here[0]?.[0];
  };

  // ---- Showing the results. ----
  const AROUND = 120;
  const escapeHtml = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const excerpt = (entry, query) => {
    const looked = words(query).filter((word) => !COMMON.has(word)).map(root);
    const text = entry.text || entry.code;
    const marks = [...text.matchAll(/[\p{L}\p{N}_]+/gu)].filter((match) => looked.some((word) => root(match[0].toLowerCase()).startsWith(word)));
    const from = Math.max(0, (marks[0]?.index ?? 0) - AROUND);
    const start = from && text.indexOf(" ", from) + 1;
    const stop = text.length > start + 2 * AROUND ? text.lastIndexOf(" ", start + 2 * AROUND) : text.length;
    let html = start ? "… " : "";
    let at = start;
    for (const match of marks) {
      if (match.index < at || match.index + match[0].length > stop) continue;
      html += `${escapeHtml(text.slice(at, match.index))}<mark>${escapeHtml(match[0])}</mark>`;
      at = match.index + match[0].length;
    }
    return html + escapeHtml(text.slice(at, stop)) + (stop < text.length ? " …" : "");
  };
  const show = (query) => {
    const found = search(query);
    const items = found.map(({ page, entry, score }) => {
      const inside = entry.anchor ? ` › ${escapeHtml(entry.title)}` : "";
      const address = `${page.url}${entry.anchor && "#" + entry.anchor}`;
      return `<li class="kind-${page.kind}"><a href="${escapeHtml(address)}" data-score="${score.toFixed(2)}">${escapeHtml(page.title)}${inside}</a>
        <p class="context">${excerpt(entry, query)}</p></li>`;
    });
    const count = found.length === 1 ? "One page" : `${found.length || "No"} pages`;
    document.getElementById("search-results").innerHTML = query.trim()
      ? `<p class="search-summary">${count}${found.length ? "" : ": try other words, or the index"}</p><ul class="search">${items.join("\n")}</ul>`
      : "";
  };
  const field = document.querySelector(".bd-search-container input[name=q]");
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => {
    show(field.value);
    history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
  });
  show(field.value);
  field.focus();
  window.bookSearch = (query) => search(query).map(({ page, entry }) => `${page.page}${entry.anchor && "#" + entry.anchor}`);
})();
