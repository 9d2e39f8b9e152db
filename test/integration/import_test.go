package integration

import (
	"testing"
)

func TestImportIsImmutable(t *testing.T) {
	const (
		imported = `import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6}`
		forced   = `import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6, overwrite: true}`
		another  = `import: {id: 168d42bb-96f5-48f9-849f-0d08dcfe7af6}`
		observed = `managementPolicy: Observe, ` + imported
		managed  = `managementPolicy: Manage, ` + imported
		again    = "write the id 068d42bb-96f5-48f9-849f-0d08dcfe7af6 again"
	)
	updated(t, networks, newNamespace(t), networkWith, `cidr: 192.168.0.0/16, `, []update{
		{"", imported, "import", "leave import out, or delete this Network"},
		{imported, "", "import", again},
		{imported, another, "import", again},
		{imported, observed, "managementPolicy", "deletionPolicy Retain"},
		{managed, observed, "managementPolicy", "deletionPolicy Retain"},
		{imported, forced, "", ""}, // it may be allowed to overwrite
		{observed, managed, "", ""},
		{observed, imported, "", ""}, // it may leave the policy to its default
		{observed, observed, "", ""},
	})
}
