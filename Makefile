SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
SCRIPTS = .ci/run provision/raidlab $(shell find $(wildcard provision packer benchmarks tests docs/findings lab) -name '*.sh') $(addprefix provision/guest/files/,ssh-host-keys has-arrays 90-raidlab)
# One worker runs all tests of a file, because a test of the embedded kernel leaves its machine to the next test in the
# file. Files run in the order of tests/conftest.py, longest first, so that no worker is left with a long file at the
# end.
PYTEST ?= $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder --durations 10
# The machine on which `make test-kernel` runs.
ON ?= qemu:
# The tests that `make test-vm` runs. "vm and not slow" takes half the time. It is one bake, one start, one experiment,
# and the end.
VM ?= vm
# The kernel tests that `make test-qemu` runs on the stock kernel. Of each level's failures, it runs only that of the
# first disk.
ON_QEMU = $(addprefix tests/kernel/,test_grow.py test_scrub.py test_verdicts.py) \
  tests/kernel/test_disks.py::test_sixteen_file_disks_have_their_exact_sizes $(addprefix tests/kernel/test_machine.py::test_,\
  long_requests_and_answers_pass_the_serial_line a_panic_is_named a_client_ended_by_a_signal_leaves_no_process_and_the_next_one_sweeps)
SETUPS := $(addprefix setup-,lab cluster test vm test-vm)
# The experiment that `make lab` runs without a terminal.
EXPERIMENT ?= antioquia-quick

# No environment variable may determine what Python loads. Without PYTHONDONTWRITEBYTECODE, compiled tests are kept,
# too. Otherwise each worker would need five seconds to rewrite the assertions of all tests.
unexport $(filter PYTHON%,$(.VARIABLES))

.PHONY: help lab cluster vm test test-fast test-wide test-cluster test-qemu test-vm check format bench theory-table screenshots architecture lock uml-kernel planted-kernel root-image oci-image
.PHONY: $(SETUPS) clean

help: ## show these targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

lab: setup-lab ## set up what is missing, then open the lab; without a terminal: run antioquia-quick and print its tables
	@if [[ -t 0 && -t 1 ]]; then $(BIN)/raidlab; else $(BIN)/raidlab run $(EXPERIMENT); fi

cluster: setup-cluster ## set up the lab, including what raidlab sweep and --cluster need (Dask)

vm: setup-vm ## set up what is missing, bake the image, start the virtual machine (vagrant up)
	@vagrant up

test: setup-test ## set up what is missing, then run the unit, app and embedded-kernel tests (seven minutes on two processors)
	@$(PYTEST) -m "not vm and not wide and not cluster and not qemu"

test-fast: setup-test ## run make test without the embedded kernel and without tests of more than a second (a minute and a half)
	@$(PYTEST) -m "not vm and not kernel and not cluster and not qemu and not slow"

test-wide: setup-test ## run what make test leaves out: every combination, proofs, kills, soak, fuzzing, planted bugs, mdadm's suite (45 minutes)
	@$(PYTEST) -m wide

test-cluster: setup-test ## run the tests on Slurm and over ssh, with separate daemons on loopback, as an ordinary user (two minutes)
	@$(PYTEST) -m cluster tests/cluster

test-qemu: setup-test ## run the tests of a distribution's kernel in QEMU, and some of the kernel tests on it (five minutes)
	@[[ "$$($(BIN)/raidlab --json kernels list)" != "[]" ]] || $(BIN)/raidlab kernels get 6.12
	@$(BIN)/pytest -v -m "qemu and not wide" tests/kernel
	@$(BIN)/pytest --on qemu: -m "kernel and not wide" -k "not without or without-0" $(ON_QEMU)

test-kernel: setup-test ## run all kernel tests that need no virtual time on the machine ON: make test-kernel ON='qemu:?kernel=7.2'
	@$(PYTEST) --on $(ON) -m "kernel and not wide" tests/kernel

test-vm: setup-test-vm ## bake an image and test the virtual machine on it, in separate namespaces (root; half an hour)
	@$(BIN)/pytest -v -m "$(VM)" -o timeout=0 tests/vm

check: setup-test ## check formatting, lint, types, direction of imports, duplicate lines, spelling, shell scripts, image templates
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pylint lab tui
	$(BIN)/codespell
	shellcheck -x $(SCRIPTS)
	shfmt -i 2 -d $(SCRIPTS)
	packer/validate.sh

format: setup-test ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	shfmt -i 2 -w $(SCRIPTS)

bench: setup-test ## measure the lab itself; each script in benchmarks/ writes JSON (with --smoke, it is only tried)
	@failed=0; for script in benchmarks/*.py; do name="$$(basename "$$script" .py)"; echo "== $$name" >&2; $(BIN)/python -I -m "benchmarks.$$name" || failed=1; done; exit $$failed

theory-table: setup-test ## measure md against theory in virtual time (half an hour) and rewrite the tables in docs/theory.md
	$(BIN)/python -I -m benchmarks.theory_accuracy --table docs/theory.md
	$(BIN)/python -I -m benchmarks.louwrentius_ratios --table docs/theory.md

screenshots: setup-test ## make the pictures of README and docs from the real app on the embedded kernel (five minutes)
	$(BIN)/python -I -m docs.pictures.make

architecture: setup-test ## redraw the picture of the packages in docs/architecture.md from the imports
	$(BIN)/python -I -m docs.pictures.packages

lock: ## choose the newest versions that pyproject.toml allows and rewrite requirements/*.txt
	@provision/host/lock.sh

uml-kernel: ## build the embedded kernel with virtual time (once, three minutes on two processors; an interrupted build is continued)
	@provision/host/setup.sh kernel
	@provision/kernel/build-uml.sh virtual-time

planted-kernel: ## build the same kernel with planted bugs in md, which the fault lab must find (once, three minutes)
	@provision/host/setup.sh kernel
	@provision/kernel/build-uml.sh planted

root-image: ## build a root image for qemu:?root=, for this computer's architecture or ARCH=amd64 or arm64 (a minute of processor time)
	@provision/root-image/build.sh $(or $(ARCH),$(shell dpkg --print-architecture))

oci-image: ## build an image for podman and docker with all that uml: and qemu: need, for this computer's architecture or ARCH=amd64 or arm64
	@provision/oci-image/build.sh $(or $(ARCH),$(shell dpkg --print-architecture))

$(SETUPS): setup-%:
	@provision/host/setup.sh $*

clean: ## remove .venv and the tools' caches; results and kernels stay
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
	find lab tui tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
