# Every target does its own set-up. ARGS passes arguments on: make test ARGS='-p countersign-core'

.DEFAULT_GOAL := words
.PHONY: words run test lint fmt bench

words:
	@echo "make run     build countersign with its web UI and start it; ARGS are those of 'countersign serve'"
	@echo "make test    every suite on throw-away servers, then the web UI, the clients and those generated from the API's description, a login at a real authorization server and MCP's conformance suite; ARGS=--all runs the long form of each (docs/tests.md); other ARGS go to cargo"
	@echo "make lint    formatting, clippy, dependencies and the rules a compiler cannot know"
	@echo "make fmt     format the code"
	@echo "make bench   build for release and measure; ARGS go to the benchmark"

run:
	@scripts/run.sh $(ARGS)

test:
	@scripts/test.sh $(ARGS)

lint:
	@scripts/lint.sh

fmt:
	@scripts/fmt.sh

bench:
	@scripts/bench.sh $(ARGS)
