package contract

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestEachFactIsAskedFor holds that the emulator does as each fact of a release says, and that this suite looks at it.
func TestEachFactIsAskedFor(t *testing.T) {
	const emulator = "../../internal/neutron/neutrontest/"
	text := func(pattern string) string {
		t.Helper()
		files, err := filepath.Glob(pattern)
		expect.NoError(t, err)
		var all strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			expect.NoError(t, err)
			if filepath.Base(file) != "releases.go" {
				all.Write(content)
			}
		}
		return all.String()
	}
	table, err := os.ReadFile(emulator + "releases.go")
	expect.NoError(t, err)
	emulated, held := text(emulator+"*.go"), text("*_test.go")
	facts := 0
	for _, name := range exportedNames(t, emulator+"releases.go") {
		if !strings.Contains(string(table), "\t"+name+" = Fact{") {
			continue
		}
		facts++
		if !strings.Contains(emulated, name) && !strings.Contains(string(table), "s.since("+name+")") {
			t.Errorf("the emulator does not ask for %s", name)
		}
		if !strings.Contains(held, "neutrontest."+name) {
			t.Errorf("no test asks for %s", name)
		}
	}
	if facts < 30 {
		t.Errorf("%d facts are found: has the table another form?", facts)
	}
}
