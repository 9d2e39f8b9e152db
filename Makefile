# What a person or a script calls. `make` alone lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

MODULE  := cloudteam.ztgame.com/network-controller
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)

APIS    := ./pkg/apis/cloudteam/v1

##@ Develop

.PHONY: generate
generate: ## Write the generated code (pkg/client, deepcopy) and the CRDs (config/crd)
	hack/generate.sh

##@ Help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
