#!/usr/bin/env bash
# Writes everything that is generated from the API types: deepcopy functions, the client in pkg/client, the CRDs,
# the references of the fields, flags and metrics in docs.
# `make verify` runs it and fails when it changes a file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=cloudteam.ztgame.com/network-controller
apis=("$module/pkg/apis/cloudteam/v1" "$module/pkg/apis/samplecontroller/v1alpha1")
client=pkg/client
header=hack/boilerplate.go.txt
# client-gen takes "path relative to the base" where the others take packages.
client_inputs=cloudteam/v1,samplecontroller/v1alpha1

tool() { go tool -modfile=tools/generate/go.mod "$@"; }
hack/go-build.sh -o /dev/null -modfile=tools/generate/go.mod tool

find pkg/apis -name zz_generated.deepcopy.go -delete
tool deepcopy-gen --go-header-file "$header" --output-file zz_generated.deepcopy.go "${apis[@]}"

rm -rf "$client"
tool applyconfiguration-gen --go-header-file "$header" \
  --output-dir "$client/applyconfiguration" --output-pkg "$module/$client/applyconfiguration" "${apis[@]}"
tool client-gen --go-header-file "$header" \
  --clientset-name versioned --input-base "$module/pkg/apis" --input "$client_inputs" \
  --apply-configuration-package "$module/$client/applyconfiguration" \
  --output-dir "$client/clientset" --output-pkg "$module/$client/clientset"
tool lister-gen --go-header-file "$header" \
  --output-dir "$client/listers" --output-pkg "$module/$client/listers" "${apis[@]}"
tool informer-gen --go-header-file "$header" \
  --versioned-clientset-package "$module/$client/clientset/versioned" --listers-package "$module/$client/listers" \
  --output-dir "$client/informers" --output-pkg "$module/$client/informers" "${apis[@]}"

rm -f config/crd/*_*.yaml
tool controller-gen crd:maxDescLen=1024 paths=./pkg/apis/... output:crd:dir=config/crd
# The rules in the markers use fragments by name; see tools/rules.
go run ./tools/rules config/crd

go run ./tools/fields
go run ./tools/flags
go run ./tools/metrics
go run ./tools/recording

# The chart has the same manifests. Lists of the CRDs and kinds in config are written, too.
go run ./tools/chart
