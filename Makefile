# Every target prepares .venv itself. Versions: ranges in pyproject.toml, exact pins in constraints.txt.
.POSIX:

PYTHON = python3
PAGES = book
# `make test CONSTRAINTS=` takes the newest versions that pyproject.toml allows.
CONSTRAINTS = --constraint constraints.txt
# Asked for PyTorch's CPU build on Linux without an NVIDIA driver; `make test TORCH_INDEX=` asks nobody.
TORCH_INDEX = https://download.pytorch.org/whl/cpu
WORKERS = 3
# For `make mutations`.
SEED = 1
# For `make browser`: firefox, webkit or chromium.
BROWSER = firefox
# One thread for each worker: the pages are small, and results do not depend on the number of cores.
THREADS = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# For one cell. Only against hanging: the slowest takes a hundredth of it on an idle machine, and a busy one is no failure.
SECONDS = 2400

BIN = .venv/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet install $(CONSTRAINTS)
TORCH = $$($(BIN)/python book/_tools/torch_index.py "$(TORCH_INDEX)")
SITE = _build/html
PDF = _build/one-training-step-by-hand.pdf
PDF_OF_PAGES = _build/pages.pdf
KIT = _build/kit

help:
	@echo "make book       build the site from the stored outputs (needs no PyTorch)"
	@echo "make test       run every page against its stored outputs, and all other tests"
	@echo "make weekly     what takes too long for make test: every page as on Colab, and what Binder installs"
	@echo "make mutations  change the package's source at random places, and see whether the tests notice (SEED=2 for others)"
	@echo "make kill-matrix  ask every witness about every planted mistake, and store the answers for the appendix"
	@echo "make browser    look at the built pages in another browser (BROWSER=firefox or webkit)"
	@echo "make test-kernels  run every page as other processors would"
	@echo "make lab        open the book in JupyterLab"
	@echo "make notebooks  run the pages again and store their outputs (PAGES=book/step/x.ipynb for one)"
	@echo "make pdf        print the whole book into one PDF (PAGES=book/step/x.ipynb for one page; needs Chromium, Chrome or Edge)"
	@echo "make kit        write the conformance kit, with its runners, and pack it as _build/kit.zip"
	@echo "make publish    build the site and push it to the branch gh-pages"
	@echo "make bench      time the step, attention in tiles and decoding against PyTorch, and weigh the pages and the site"
	@echo "make clean      remove what was built; make distclean also removes .venv"

book: .venv/.book
	$(BIN)/python book/_tools/lint.py book
	rm -rf $(SITE)
	$(BIN)/jupyter-book build . --warningiserror --keep-going -n -q --all
	@echo
	@echo "The book is in $(SITE)/. Open $(SITE)/index.html in a browser, or serve it:"
	@echo "  $(BIN)/python -m http.server --bind 127.0.0.1 --directory $(SITE) 8000"

test: .venv/.all
	$(THREADS) $(BIN)/python -m pytest --nbval --nbval-current-env --nbval-sanitize-with nbval.cfg --nbval-cell-timeout $(SECONDS) \
		-n $(WORKERS) --dist loadfile --no-loadscope-reorder book tests

weekly: .venv/.grader
	$(THREADS) $(BIN)/python -m pytest -m slow -n $(WORKERS) tests

# A few slips in the package's source, other ones for another SEED: does a test notice each?
mutations: .venv/.all
	$(THREADS) $(BIN)/python tests/mutate.py numpy torch check check/compare check/diagnosis check/exercise --sample 15 --seed $(SEED)

browser: .venv/.all
	$(BIN)/playwright install --with-deps $(BROWSER)
	BOOK_BROWSER=$(BROWSER) $(BIN)/python -m pytest tests/book/test_pages.py tests/book/test_run.py

# Asks every witness about every mistake of the catalogue, and stores what the appendix shows. Minutes.
kill-matrix: .venv/.all
	cd book/_tools && $(THREADS) ../../$(BIN)/python -m ledger.kill

# Under each kernel of NumPy and PyTorch that this machine can run, and with two threads.
test-kernels: .venv/.all
	$(BIN)/python book/_tools/kernels.py --workers $(WORKERS)

lab: .venv/.lab
	$(BIN)/python book/_tools/toc.py
	$(BIN)/jupyter lab contents.ipynb

notebooks: .venv/.all
	$(THREADS) $(BIN)/python -m pytest -p no:cacheprovider --nbmake --overwrite --nbmake-kernel python3 --nbmake-timeout $(SECONDS) \
		-n $(WORKERS) --dist loadfile $(PAGES)
	$(BIN)/python book/_tools/normalise.py $(PAGES)

pdf: .venv/.all
	$(BIN)/jupyter-book build . --builder singlehtml --warningiserror --keep-going -n -q --all
	$(BIN)/python book/_tools/print_pdf.py _build/singlehtml $(if $(PAGES:book=),$(PDF_OF_PAGES) $(PAGES),$(PDF))

# The site has the same files, without the archive.
kit: .venv/.book
	$(BIN)/python book/_ext/kit.py $(KIT)
	cd $(KIT)/.. && $(CURDIR)/$(BIN)/python -m zipfile -c kit.zip kit/

# Force-pushes the built site, with the PDF if there is one, as the only commit of gh-pages, from where GitHub serves it.
publish: book
	touch $(SITE)/.nojekyll
	if [ -f $(PDF) ]; then cp $(PDF) $(SITE)/; fi
	$(BIN)/python book/_tools/publish.py $(SITE)

bench: .venv/.all
	$(BIN)/python -m benchmarks

clean:
	rm -rf _build .pytest_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf .venv

.venv/.python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...')"
	$(PYTHON) -m venv .venv
	touch $@

.venv/.book: .venv/.python pyproject.toml constraints.txt
	$(PIP) --editable '.[book]'
	touch $@

.venv/.lab: .venv/.python pyproject.toml constraints.txt
	$(PIP) $(TORCH) --editable '.[notebooks]'
	touch $@

.venv/.all: .venv/.python pyproject.toml constraints.txt
	$(PIP) $(TORCH) --editable '.[test]'
	touch $@ .venv/.book .venv/.lab

# The book's exercises go through nbgrader, which few want to install.
.venv/.grader: .venv/.all
	$(PIP) $(TORCH) --editable '.[grader]'
	touch $@

.PHONY: help book test test-kernels weekly mutations kill-matrix browser lab notebooks pdf kit publish bench clean distclean
