package integration

import (
	"testing"
)

func TestImportIsImmutable(t *testing.T) {
	const (
		bare     = `{cidr: 192.168.0.0/16}`
		imported = `{cidr: 192.168.0.0/16, import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6}}`
		forced   = `{cidr: 192.168.0.0/16, import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6, overwrite: true}}`
		another  = `{cidr: 192.168.0.0/16, import: {id: 168d42bb-96f5-48f9-849f-0d08dcfe7af6}}`
		observed = `{cidr: 192.168.0.0/16, managementPolicy: Observe,
			import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6}}`
		managed = `{cidr: 192.168.0.0/16, managementPolicy: Manage,
			import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6}}`
	)
	updated(t, networks, newNamespace(t), networkWith, map[string]update{
		"an import is not added":                    {bare, imported, "spec.import", "leave import out, or delete this Network"},
		"an import is not taken off":                {imported, bare, "spec.import", "write the id 068d42bb-96f5-48f9-849f-0d08dcfe7af6 again"},
		"an import does not move":                   {imported, another, "spec.import", "write the id 068d42bb-96f5-48f9-849f-0d08dcfe7af6 again"},
		"a managed network is not observed":         {imported, observed, "spec.managementPolicy", "deletionPolicy Retain"},
		"one that says it is managed neither":       {managed, observed, "spec.managementPolicy", "deletionPolicy Retain"},
		"an import may be allowed to overwrite":     {imported, forced, "", ""},
		"an observed network may become a managed":  {observed, managed, "", ""},
		"an observed network may leave it to unset": {observed, imported, "", ""},
		"an observed network stays one":             {observed, observed, "", ""},
	})
}
