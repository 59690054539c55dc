# Each target does all of its own set-up, in .venv and nowhere else.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
DOCS := $(VENV)/.docs
PACKAGING := $(VENV)/.packaging
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# The tests start Python more than a hundred times: without what was compiled, each start compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE
# A second process pays for its start only where there are many tests.
PYTEST = $(BIN)/python -m pytest --quiet $(if $(ARGS),,--numprocesses 2 --dist loadfile --no-loadscope-reorder)

# Two processes of tests on two cores: more threads than one for each would wait for each other.
test slow browser properties: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test slow browser properties fuzz soak crash bombs lab lint links nightly format formats harnesses study bench leaderboard conformance conformance-clis coverage recommendations outcomes trials onpolicy pictures docs bench-peers stop-peers wheel compatibility clean help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile

# Python compiles what it imports; to compile all that is installed takes three times as long.
$(INSTALLED): pyproject.toml constraints.txt .ci/bootstrap
	.ci/bootstrap $(VENV) $(PYTHON)
	@echo "Installing boolab and what it needs into $(VENV): some minutes, once."
	$(BIN)/python -m pip install --quiet --no-compile --editable .
	@touch $(INSTALLED)

$(READY): pyproject.toml constraints.txt .ci/bootstrap
	.ci/bootstrap $(VENV) $(PYTHON)
	@echo "Installing boolab and what its tests need into $(VENV): some minutes, once."
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(INSTALLED) $(READY)

demo: $(INSTALLED) ## the answer on recorded public runs; two figures go to out/demo
	$(BIN)/boolab demo

test: $(READY) ## run the tests, but for those that take long; make test ARGS=tests/limits runs those of one package
	$(if $(ARGS),,.ci/chromium)
	$(PYTEST) -m "not pages and not slow and not alone" $(ARGS)

slow: $(READY) ## run the tests that take long, and the properties on four times as many random cases as make test
	.ci/chromium
	$(PYTEST) -m slow -o faulthandler_timeout=600 $(ARGS)
	$(PYTEST) -m "hypothesis and not slow" --hypothesis-profile usual $(ARGS)
	$(BIN)/python -m pytest --quiet -m alone tests/runtime/models/remote/test_many_streams.py tests/store/test_store.py tests/soak/test_soak.py

browser: $(READY) ## run all tests of widgets in a real browser: keyboards, contrast, widths, each widget's page
	.ci/chromium
	$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/browser

properties: $(READY) ## try all properties on eighty times as many cases, drawn at random
	$(BIN)/python -m pytest --quiet --numprocesses 2 -m hypothesis --hypothesis-profile thorough \
		-o faulthandler_timeout=3600

fuzz: $(READY) ## try 20,000 inputs on each of all that reads what strangers wrote, half of them led by coverage
	$(BIN)/python -m pip install --quiet --editable '.[dev,fuzz]'
	$(BIN)/python -m tests.fuzz

soak: $(READY) ## 1,000 runs on a server that fails in all ways, cancelling in all ways, 10,000 runs at once, a mixed sweep
	$(BIN)/python -m pytest --quiet tests/runtime/models/remote/test_faults.py --soak 1000
	$(BIN)/python -m pytest --quiet tests/runtime/engine/test_cancel.py --cancel -o faulthandler_timeout=600
	$(BIN)/python -m tests.soak --minutes 10

crash: $(READY) ## kill sweeps 400 times at any moment, and run them again
	$(BIN)/python -m pytest --quiet tests/sweeps/test_crash.py --crash 400

bombs: $(READY) ## read logs of a gigabyte, of a line or of ten million, and what else there is too much of
	$(BIN)/python -m pytest --quiet -o faulthandler_timeout=1800 tests/security/test_limits.py --bombs

lab: $(INSTALLED) ## open the notebooks in JupyterLab
	$(BIN)/boolab lab

lint: $(READY) ## check style, types, words, which package imports which, and the budgets of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words
	$(BIN)/python -m benchmarks.house --check

links: $(READY) ## check the links of the Markdown pages and notebooks
	$(BIN)/python docs/site/links.py .

nightly: ## what takes too long for each change: slow tests, the site, released packages, and make demo and test on the bare system
	$(MAKE) slow
	$(MAKE) docs
	$(MAKE) conformance
	git diff --exit-code --stat docs
	.ci/fresh demo test

format: $(READY) ## put the code into the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

formats: $(READY) ## put what each log format gives into docs/formats.md
	$(BIN)/python -m tests.logs.readers.given --write

harnesses: $(READY) ## put what each preset is into docs/harnesses.md
	$(BIN)/python -m tests.docs.harness_page --write

study: $(READY) ## run the notebook of the study, and put what it gives into docs/study.md
	$(BIN)/python -m tests.docs.study_page --write

bench: $(READY) ## measure (and save, with ARGS=--write) the loop against a bare loop, counterfactuals against memory, scorecards, readers, real models' client, sweeps, widgets, the hook, monitors, logs that grow, and kept files
	for name in loop counterfactual scorecard ingest stream sweep widgets displays hook monitor watch world; do \
		$(BIN)/python -m benchmarks.$$name $(ARGS) || exit; done

bench-peers: $(READY) ## measure the loop beside nine released packages, and what their limits leave; makes docs/peers.md
	$(BIN)/python -m benchmarks.peers --write

stop-peers: $(READY) ## run five released packages on RUNS, a folder of recordings with texts, and enter them into the stop benchmark
	$(BIN)/python -m benchmarks.stop_peers $(if $(RUNS),--runs $(RUNS)) --write

leaderboard: $(READY) ## put all submissions of docs/leaderboard into docs/leaderboard.md and its figure
	$(BIN)/python -m benchmarks.leaderboard

conformance: $(READY) ## play the same scripts through released packages, their presets, exported limits and the adapters of Monitor; makes docs/conformance.md, exports.md and monitors.md
	$(BIN)/python -m benchmarks.conformance
	$(BIN)/python -m benchmarks.conformance.exported
	$(BIN)/python -m benchmarks.conformance.monitors

conformance-clis: $(READY) ## run Claude Code, opencode, Gemini CLI and Codex with a scripted model, exported limits, and the hook; makes docs/cli_conformance.md
	$(BIN)/python -m benchmarks.conformance.clis.make
	$(BIN)/python -m benchmarks.conformance.clis.exported
	$(BIN)/python -m benchmarks.conformance.clis.hook

coverage: $(READY) ## measure how often 95% intervals hold the truth
	$(BIN)/python benchmarks/coverage.py

recommendations: $(READY) ## judge recommendations on runs that they did not see; saves what docs/tables/measured.md has
	$(BIN)/python -m benchmarks.recommendations --write
	$(BIN)/python -m benchmarks.tails --write

outcomes: $(READY) ## measure the desk: wrong answers and how many it takes, in worlds whose truth is known; saves what docs/tables/measured.md has
	$(BIN)/python -m benchmarks.outcomes --write

trials: $(READY) ## measure 500 trials in each of four simulated worlds: coverage at every look, branches, bias of hazards
	$(BIN)/python -m benchmarks.trials

onpolicy: $(READY) ## run a small language model under limits, beside what its recordings say of them (some 10 hours; ARGS="--size recorded=100,equality=30"); a second start records what is missing; saves what docs/onpolicy.md has
	$(BIN)/python -m pip install --quiet --editable '.[local]'
	$(BIN)/boolab model
	$(BIN)/python -m benchmarks.onpolicy --write $(ARGS)

pictures: $(READY) ## make the README's pictures anew; needs Chromium
	$(BIN)/python -m docs.pictures.make_pictures
	$(BIN)/python -m docs.pictures.make_gallery

docs: $(DOCS) ## build the documentation in out/docs, and the reference in Markdown in docs/api
	rm -rf out/docs out/markdown
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --jobs 2 -c docs/site -d out/doctrees . out/docs
	$(BIN)/python docs/site/check.py out/docs
	$(BIN)/python -m sphinx --quiet --builder markdown -c docs/site -d out/doctrees . out/markdown docs/reference/*.rst
	rm -rf docs/api
	mv out/markdown/docs/reference docs/api
	@echo "Open out/docs/index.html."

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $(DOCS)

wheel: $(PACKAGING) ## build dist/*.tar.gz and *.whl, check them, try the wheel alone, and run the tests on it
	$(BIN)/python -m tests.packaging.distribution
	$(BIN)/python -m tests.packaging.compatibility --python $$($(BIN)/python -c "import sys; print('%d.%d' % sys.version_info[:2])") --dependencies pinned

compatibility: $(PACKAGING) ## run the tests on the wheel: each Python that is here (or PYTHONS="3.12 3.13"), oldest and newest dependencies
	$(BIN)/python -m tests.packaging.compatibility $(if $(PYTHONS),--python $(PYTHONS))

$(PACKAGING): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[packaging]'
	@touch $(PACKAGING)

clean: ## remove what the targets made
	rm -rf $(VENV) .venv-pythons .venv-peers out build dist .mypy_cache .ruff_cache .hypothesis .pytest_cache
