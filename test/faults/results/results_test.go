package results

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	emulated = Run{Head{"emulator", "v1-3-gabc", "2026-01-02"}, []Row{
		{Heading: "Kills", Scenario: "killed at a write", Outcome: Holds, Kills: 20},
		{Heading: "Lists", Scenario: "a list <is> empty", Outcome: Fails},
		{Heading: "Lists", Scenario: "a list ends", Outcome: Holds},
		{Heading: "Lists", Scenario: "a list is new", Outcome: Holds},
	}}
	onReal = Run{Head{"Neutron 21.0.0", "", "2025-12-31"}, []Row{
		{Heading: "Kills", Scenario: "killed at a write", Outcome: Holds, Kills: 1},
		{Heading: "Lists", Scenario: "a list <is> empty", Outcome: Holds},
		{Heading: "Lists", Scenario: "a list ends", Outcome: NotTried, Reason: "slow"},
		{Heading: "Lists", Scenario: "a list of before", Outcome: Fails},
	}}
)

func TestRetriedScenarioReplacesItsResult(t *testing.T) {
	got := onReal.With(Run{Head{"Neutron 21.0.0", "v2", "2026-01-03"}, []Row{
		{Heading: "Lists", Scenario: "a list of before", Outcome: Holds},
		{Heading: "Lists", Scenario: "a list <is> empty", Outcome: NotTried, Reason: "short run"},
	}})
	want := Run{onReal.Head, append(slices.Clone(onReal.Rows[:3]),
		Row{Heading: "Lists", Scenario: "a list of before", Outcome: Holds, Version: "v2"})}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewScenarioGoesUnderItsHeading(t *testing.T) {
	before := Run{Head{"Neutron 21.0.0", "v1", "2026-01-03"}, []Row{
		{Heading: "Kills", Scenario: "killed at a write", Outcome: Holds},
		{Heading: "Lists", Scenario: "a list ends", Outcome: Holds},
	}}
	got := before.With(Run{Head{"Neutron 21.0.0", "v2", "2026-01-04"}, []Row{
		{Heading: "Kills", Scenario: "killed twice", Outcome: Holds},
		{Heading: "Lists", Scenario: "a list that nobody tried", Outcome: NotTried},
		{Heading: "Routers", Scenario: "a router goes", Outcome: Fails, Reason: "it stays"},
		{Heading: "Routers", Scenario: "a router comes", Outcome: Holds},
	}})
	want := Run{before.Head, []Row{
		{Heading: "Kills", Scenario: "killed at a write", Outcome: Holds},
		{Heading: "Kills", Scenario: "killed twice", Outcome: Holds, Version: "v2"},
		{Heading: "Lists", Scenario: "a list ends", Outcome: Holds},
		{Heading: "Routers", Scenario: "a router goes", Outcome: Fails, Reason: "it stays", Version: "v2"},
		{Heading: "Routers", Scenario: "a router comes", Outcome: Holds, Version: "v2"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPageCountsByGroup(t *testing.T) {
	page := "# Page\n" + Begin + "\nold\n" + End + "\nrest\n"
	want := "# Page\n" + Begin + `

- The emulated Neutron: 2026-01-02, controller v1-3-gabc.
- A real Neutron 21.0.0: 2025-12-31.

| group | scenarios | emulator: tried | held | kills | real Neutron: tried | held | kills |
| --- | --- | --- | --- | --- | --- | --- | --- |
| Kills | 1 | 1 | 1 | 20 | 1 | 1 | 1 |
| Lists | 3 | 3 | 2 | 0 | 1 | 1 | 0 |
| all | 4 | 4 | 3 | 20 | 2 | 2 | 1 |

` + End + "\nrest\n"
	got, err := Insert(page, emulated, onReal)
	expect.NoError(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := Insert(got, emulated, onReal)
	if diff := cmp.Diff(got, again); err != nil || diff != "" {
		t.Errorf("a second time it gives another page: %v\n%s", err, diff)
	}
}

func TestScenariosShowBothRuns(t *testing.T) {
	want := `
- The emulated Neutron: 2026-01-02, controller v1-3-gabc.
- A real Neutron 21.0.0: 2025-12-31.

## Kills

| scenario | emulator | real Neutron |
| --- | --- | --- |
| killed at a write | holds, killed at 20 writes | holds, killed at 1 write |

## Lists

| scenario | emulator | real Neutron |
| --- | --- | --- |
| a list <is> empty | does not hold | holds |
| a list ends | holds | not tried: slow |
| a list is new | holds | not tried yet |
`
	_, tables, _ := strings.Cut(Scenarios(emulated, onReal), "names its controller.\n")
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPageWithoutMarkersIsRefused(t *testing.T) {
	for _, page := range []string{"", Begin + "\n", End, "x" + End + Begin + "\n"} {
		if _, err := Insert(page, emulated, onReal); err == nil || !strings.Contains(err.Error(), Begin) {
			t.Errorf("%q: %v", page, err)
		}
	}
}

func TestRunRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "run.jsonl")
	if none, err := Read(path); err != nil || len(none.Rows) > 0 {
		t.Errorf("no file: %v %v", none, err)
	}
	expect.NoError(t, onReal.Write(path))
	got, err := Read(path)
	expect.NoError(t, err)
	if diff := cmp.Diff(onReal, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	expect.NoError(t, os.WriteFile(path, []byte("{}\nnone\n"), 0o600))
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "run.jsonl:2") {
		t.Errorf("a broken line: %v", err)
	}
}

// TestPagesMatchResults holds both pages to the committed results.
func TestPagesMatchResults(t *testing.T) {
	emulator, err := Read("emulator.jsonl")
	expect.NoError(t, err)
	real, err := Read("openstack.jsonl")
	expect.NoError(t, err)
	pages := map[string]string{}
	for _, path := range []string{"../../../docs/reliability.md", "README.md"} {
		text, err := os.ReadFile(path)
		expect.NoError(t, err)
		pages[path] = string(text)
	}
	page, err := Insert(pages["../../../docs/reliability.md"], emulator, real)
	expect.NoError(t, err)
	for path, want := range map[string]string{
		"../../../docs/reliability.md": page, "README.md": Scenarios(emulator, real),
	} {
		expect.Equal(t, want, pages[path], "%s is not what test/faults/results says: run `make reliability`", path)
	}
}
