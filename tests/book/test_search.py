"""The search page, in a browser, from file:// : the right page among the first three, and excerpts without a server."""

from collections import Counter

import pytest

# What a reader types, and the page (one of the pages) that answers it.
QUERIES = {
    # names of things
    "RoPE": "stack/06b-rope-and-norms",
    "rotary embedding": "stack/06b-rope-and-norms",
    "RMSNorm": "stack/06c-norms",
    "root mean square": "stack/06c-norms",
    "layer norm": "step/07-add-and-norm",
    "layernorm backward": "step/18-layer-norm-backward",
    "softmax": "step/06-attention",
    "softmax derivative": "stack/05a-derivative",
    "self-attention": "step/06-attention",
    "cross attention": "step/10-cross-attention",
    "masked attention": "step/09-masked-attention",
    "causal mask": "step/09-masked-attention",
    "multi-head attention": "step/05-queries-keys-values stack/03-attention-shapes",
    "grouped-query attention": "stack/10a-inference",
    "shared heads": "stack/10a-inference",
    "KV cache": "stack/10a-inference",
    "prefill": "stack/10a-inference",
    "time to first token": "stack/10c-decoding",
    "LoRA": "stack/11b-lora stack/11-adaptation",
    "low-rank adaptation": "stack/11b-lora stack/11-adaptation",
    "fine-tuning": "stack/11-adaptation",
    "DPO": "stack/09b-preferences",
    "RLHF reward model": "stack/09b-preferences",
    "speculative decoding": "stack/10c-decoding",
    "sliding window": "stack/06c-norms",
    "attention sink": "stack/06c-norms",
    "paged cache": "stack/10a-inference",
    "chinchilla scaling": "stack/09-breakthroughs",
    "perplexity": "stack/02b-objective step/13-loss",
    "backpropagation": "step/15-reversed-graph",
    "backprop": "step/15-reversed-graph",
    "teacher forcing": "step/09-masked-attention stack/02b-objective",
    "beam search": "stack/10c-decoding",
    "nucleus sampling": "stack/10c-decoding",
    "top-p": "stack/10c-decoding",
    "temperature": "stack/04-worked-row",
    "flash attention": "stack/10b-tiled-attention",
    "online softmax": "stack/10b-tiled-attention",
    "BPE": "stack/02a-tokens",
    "tokenizer": "stack/02a-tokens",
    "embeddings": "step/03-embeddings",
    "positional encoding": "step/04-positions",
    "sinusoidal": "step/04-positions",
    "feed forward": "step/08-feed-forward",
    "SwiGLU": "stack/06a-block",
    "pre-norm vs post-norm": "stack/06a-block stack/07-depth",
    "residual connection": "step/07-add-and-norm stack/07-depth",
    "vanishing gradients": "stack/07-depth",
    "cross entropy loss": "step/13-loss",
    "label smoothing": "step/13-loss",
    "Adam": "step/25-adam",
    "warmup": "step/25-adam",
    "gradient clipping": "stack/08a-training-loop",
    "microbatches": "stack/08a-training-loop",
    "mixed precision": "stack/08a-training-loop",
    "finite differences": "stack/05b-finite-differences step/14-nudge",
    "prompt injection": "stack/12-assistant",
    "retrieval": "stack/12-assistant stack/11-adaptation",
    # questions
    "why divide by sqrt d_k": "stack/03-attention-shapes step/06-attention",
    "why is my loss NaN": "stack/08b-symptoms",
    "do attention weights explain": "stack/04-worked-row stack/14-continue",
    "check my own transformer": "workshop/compare workshop/mine",
    "which line of my code is wrong": "workshop/mine",
    "worksheets for a class": "workshop/teachers",
    "conformance kit": "workshop/kit",
    "transformer in another language": "workshop/kit",
    "wrong gradient": "workshop/mine step/14-nudge",
    "gradient checker": "workshop/mine step/14-nudge stack/05b-finite-differences",
    "worksheet": "workshop/teachers",
    "published Llama": "workshop/llama stack/14-continue",
    "mutation testing": "appendix/mutation appendix/kill-matrix",
    "kill matrix": "appendix/kill-matrix appendix/mutation",
    "ablation": "learn/03-what-each-part-is-worth",
    "what does each part do": "learn/03-what-each-part-is-worth",
    "train a translation model": "learn/01-translate",
    "run without installing": "appendix/running",
    "pyodide": "appendix/running",
    "live numbers": "step/00-live",
    "interactive": "step/00-live",
    # slips of the keyboard, and a name of the package
    "atention backward": "step/20-attention-backward step/20a-attention-row",
    "layer_norm_backward": "appendix/reference/numpy",
}


@pytest.fixture(scope="module")
def search(chromium, site):
    """The search page, opened from its file with the network off."""
    context = chromium.new_context(offline=True)
    tab = context.new_page()
    tab.complaints = []
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.goto((site / "search.html").as_uri() + "?q=softmax")
    tab.wait_for_function("() => Boolean(window.bookSearch)")
    yield tab
    context.close()


def results(search, queries):
    return search.evaluate("(queries) => queries.map((query) => bookSearch(query))", list(queries))


def test_the_right_page_is_among_the_first_three(search):
    assert len(QUERIES) >= 60
    missed = {}
    for (query, right), found in zip(QUERIES.items(), results(search, QUERIES)):
        first = [address.partition("#")[0].removeprefix("book/") for address in found[:3]]
        if not set(first) & set(right.split()):
            missed[query] = first
    assert len(missed) <= 3, list(missed.items())


def test_exact_titles_come_first(search):
    pages = search.evaluate("bookIndex.map(({ page, title, kind }) => ({ page, title, kind }))")
    shared = Counter(page["title"] for page in pages)
    pages = [page for page in pages if shared[page["title"]] == 1]
    found = results(search, [page["title"] for page in pages])
    assert not [page for page, addresses in zip(pages, found) if addresses[:1] != [page["page"]]]


def test_exact_headings_come_early(search):
    headings = search.evaluate(
        """bookIndex.filter(({ kind }) => kind === "page")
        .flatMap(({ page, entries }) => entries.filter(({ anchor }) => anchor).map(({ title, anchor }) => [title, `${page}#${anchor}`]))"""
    )
    shared = Counter(title.lower() for title, _ in headings)
    headings = [heading for heading in headings if shared[heading[0].lower()] == 1]
    found = results(search, [title for title, _ in headings])
    late = [heading for heading, addresses in zip(headings, found) if heading[1].partition("#")[0] not in {a.partition("#")[0] for a in addresses[:3]}]
    assert not late


def test_excerpts_and_links_without_a_server(search, site):
    search.fill(".bd-search-container input", "teacher forcing")
    search.wait_for_function("document.querySelector('#search-results').innerText.includes('Training a decoder on the right tokens')")
    search.fill(".bd-search-container input", "label smoothing")
    search.wait_for_selector("#search-results mark")
    assert all(len(excerpt) > 60 for excerpt in search.locator("#search-results p.context").all_inner_texts()[:3])
    links = search.locator("#search-results ul.search > li > a").evaluate_all("(links) => links.map((link) => link.getAttribute('href'))")
    assert links and all((site / link.partition("#")[0]).is_file() for link in links)
    search.fill(".bd-search-container input", "xyzzy")
    search.wait_for_function("document.querySelector('.search-summary').textContent.startsWith('No pages')")
    assert not search.complaints


def test_the_index_is_loaded_only_where_it_is_searched(site):
    loading = [page.name for page in site.rglob("*.html") if any(name in page.read_text(encoding="utf-8") for name in ("search-index.js", "searchindex.js"))]
    assert loading == ["search.html"]
