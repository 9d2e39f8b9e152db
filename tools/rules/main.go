// Command rules expands the fragments in the validation rules of the CRDs, so that a person reads short rules and the
// API server evaluates plain CEL.
//
// A rule is a controller-gen marker on an API type in pkg/apis, in whose rule and messageExpression a fragment is
// written $name or $name(argument, …):
//
//	// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || $isAddress(self.gateway)`,message=`not an address`
//
// fragments.go defines each name. hack/generate.sh has controller-gen copy the rules to config/crd, and then this
// command replace each fragment there by its text. To add a rule, write a marker; where a part of it is in another
// rule or takes more than a line, make that part a fragment. Then run `make generate` and test/integration, which
// holds the rules against a second implementation and the API server's cost limits.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rules FOLDER, the folder with the CRDs")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

// run expands the rules of all CRDs in a folder.
func run(folder string) error {
	known, err := parse(fragments)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no CRDs: run `make generate`", folder)
	}
	used := map[string]bool{}
	for _, file := range files {
		if err := expandFile(file, known, used); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for name := range known {
		if !used[name] {
			return fmt.Errorf("no rule uses the fragment $%s: remove it", name)
		}
	}
	return nil
}

// expandFile expands the rules of one CRD, and writes the file in the format of controller-gen.
func expandFile(file string, known map[string]fragment, used map[string]bool) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return err
	}
	if err := expandRules(crd, known, used); err != nil {
		return err
	}
	if content, err = yaml.Marshal(crd); err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), content...), 0o644)
}

// expandRules expands the rules at and below a part of a CRD.
func expandRules(at any, known map[string]fragment, used map[string]bool) error {
	switch at := at.(type) {
	case []any:
		for _, element := range at {
			if err := expandRules(element, known, used); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range at {
			if key != "x-kubernetes-validations" {
				if err := expandRules(value, known, used); err != nil {
					return err
				}
				continue
			}
			for _, rule := range value.([]any) {
				if err := expandRule(rule.(map[string]any), known, used); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func expandRule(rule map[string]any, known map[string]fragment, used map[string]bool) error {
	for _, key := range []string{"rule", "messageExpression"} {
		text, ok := rule[key].(string)
		if !ok {
			continue
		}
		expanded, err := expand(text, known, used)
		if err != nil {
			return fmt.Errorf("%s %s: %w", key, text, err)
		}
		rule[key] = expanded
	}
	return nil
}
