package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// preface begins the chart's README.
const preface = `<!-- Written by tools/chart from values.yaml. -->

# The chart network-controller

It installs what ` + "`kubectl apply -k config`" + ` installs, from the same manifests, and the CRDs.
[Install](../../docs/install.md) explains it.

` + "```sh" + `
kubectl create namespace network-controller
kubectl --namespace network-controller create secret generic network-controller-clouds --from-file=clouds.yaml
helm install network-controller charts/network-controller --namespace network-controller \
  --set image.repository=REGISTRY/network-controller --set cloud.name=ENTRY
` + "```" + `

The namespace is fixed. ` + "`helm uninstall`" + ` keeps the CRDs, and so the Networks: see
[Uninstall](../../docs/install.md#uninstall).

## Values

| value | default | |
| --- | --- | --- |
`

// writeREADME writes the chart's README from the comments in values.yaml that begin with --.
func writeREADME(chart string) error {
	content, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return err
	}
	var readme strings.Builder
	readme.WriteString(preface)
	if err := describe(&readme, "", document.Content[0]); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, "README.md"), []byte(readme.String()), 0o644) //nolint:gosec // a document
}

// describe writes a row for each value that has a description, and goes on to what is in the others.
func describe(to *strings.Builder, prefix string, node *yaml.Node) error {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		// Only what follows the last "# --" is the value's own; a list of plain values is described as a whole.
		_, text, found := strings.Cut(strings.ReplaceAll(key.HeadComment, "\n# ", " "), "# -- ")
		if !found && value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if err := describe(to, prefix+key.Value+".", value); err != nil {
				return err
			}
			continue
		}
		var plain any
		if err := value.Decode(&plain); err != nil {
			return err
		}
		shown, err := json.Marshal(plain)
		if err != nil {
			return err
		}
		fmt.Fprintf(to, "| `%s%s` | `%s` | %s |\n", prefix, key.Value, shown, text)
	}
	return nil
}
