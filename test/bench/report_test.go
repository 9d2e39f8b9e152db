package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestVerdict(t *testing.T) {
	for sentence, test := range map[string]struct {
		limit   float64
		rounds  []float64
		verdict string
		target  string
	}{
		"the median counts":                     {1.2, []float64{9, 1.1, 1}, "met", "≤ 1.20"},
		"of two rounds, it is between them":     {1, []float64{1, 3}, "missed by 100 %", "≤ 1"},
		"the limit itself is good":              {1.2, []float64{1.2}, "met", "≤ 1.20"},
		"a miss is told in percent":             {1.2, []float64{1.5}, "missed by 25 %", "≤ 1.20"},
		"the least miss is one":                 {1.2, []float64{1.2001}, "missed by 1 %", "≤ 1.20"},
		"where none is allowed, each counts":    {0, []float64{3}, "missed by 3", "none"},
		"none is none":                          {0, []float64{0}, "met", "none"},
		"without a target there is no verdict":  {noLimit, []float64{3}, "", ""},
		"what was not measured is not met":      {1, nil, "not measured", "≤ 1"},
		"what was not measured is never missed": {0, nil, "not measured", "none"},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, test.verdict, verdict(median(test.rounds), test.limit), "the verdict")
			expect.Equal(t, test.target, target(test.limit, ""), "the target")
		})
	}
}

// measured is a report of what was asked for by arguments, with the values of each figure.
func measured(t *testing.T, arguments string, values map[string][]float64) *report {
	t.Helper()
	t.Setenv("OS_CLIENT_CONFIG_FILE", "clouds.yaml")
	o, err := parse(strings.Fields(arguments), io.Discard)
	expect.NoError(t, err)
	r := newReport(o, strings.Fields(arguments), choose(o))
	for id, rounds := range values {
		for _, value := range rounds {
			r.add(id, value)
		}
	}
	return r
}

func TestTableHasTheLastRowOfEachCloud(t *testing.T) {
	folder := t.TempDir()
	for _, run := range []struct {
		cloud, arguments string
		values           map[string][]float64
	}{
		{emulator, "--only=create,lone", map[string][]float64{"create": {9}, "lone": {1.1}}},
		{emulator, "--only=create --networks=7", map[string][]float64{"create": {1.5, 1.1}, "nobody asked": {1}}},
		{openStack, "--cloud=openstack --only=create", map[string][]float64{"create": {1}}},
		{dataplane, "--cloud=dataplane --only=start-50-s", map[string][]float64{"start-50-s": {66.1}}},
	} {
		expect.NoError(t, keep(folder, run.cloud, measured(t, run.arguments, run.values).rows()))
	}
	table, err := tableOf(folder)
	expect.NoError(t, err)
	want := `
| figure | target | emulator | real Neutron | command |
| --- | --- | --- | --- | --- |
| 7 Networks, apply to all Ready ÷ bare bulk loop | ≤ 1.20 | 1.30, missed by 9 % | 1 | ` +
		"`make bench BENCHFLAGS=--only=create`" + ` |
| one lone Network, apply to Ready ÷ the same calls bare | ≤ 1.30 | 1.10 |  | ` +
		"`make bench BENCHFLAGS=--only=lone`" + ` |
| 50 Pods to their first packets |  |  | 66.1 s | ` + "`make bench-dataplane`" + " |\n\n- "
	if got := table[:min(len(table), len(want))]; got != want {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, table))
	}
}

func TestTargetOfAnAuditIsMeasured(t *testing.T) {
	folder := t.TempDir()
	r := measured(t, "--only=audit-calls", nil)
	r.addTo("audit-calls", 4, 6)
	r.addTo("audit-calls", 4, 5)
	expect.NoError(t, keep(folder, emulator, r.rows()))
	if table, err := tableOf(folder); err != nil || !strings.Contains(table, "| ≤ 6 | 4 |") {
		t.Errorf("%v\n%s", err, table)
	}
}

func TestWhatIsNotMeasuredIsMissing(t *testing.T) {
	r := measured(t, "--only=create,delete", map[string][]float64{"create": {1}})
	if err := r.missing(); err == nil || err.Error() != "delete was not measured" {
		t.Error(err)
	}
	r.add("delete", 1)
	expect.NoError(t, r.missing())
}

// TestPageMatchesResults holds the page to the committed results.
func TestPageMatchesResults(t *testing.T) {
	page, err := os.ReadFile("../../docs/benchmarks.md")
	expect.NoError(t, err)
	table, err := tableOf("results")
	expect.NoError(t, err)
	want, err := inserted(string(page), "figures", table)
	expect.NoError(t, err)
	expect.Equal(t, want, string(page), "docs/benchmarks.md does not show what %s has: put the lines in", resultsFolder)
}

func TestPageWithoutMarkersIsRefused(t *testing.T) {
	for _, page := range []string{"", "<!-- x -->\n", "<!-- end of x -->\n<!-- x -->\n"} {
		if _, err := inserted(page, "x", "text"); err == nil {
			t.Errorf("%q is no error", page)
		}
	}
}

func TestSizingHasAColumnForEachSize(t *testing.T) {
	text := measured(t, "--cloud=sizing --sizes=100,10000", map[string][]float64{
		"size-audit": {3, 81}, "size-peak": {60.7},
	}).text()
	for _, want := range []string{
		"| Networks, and as many Pods | 100 | 10,000 |\n| --- | --- | --- |\n",
		"| calls of an audit | 3 | 81 |\n",
		"| memory of the controller, the most | 60.7 MiB | not measured |\n",
	} {
		expect.Contains(t, text, want, "the report")
	}
}

func TestCommandRepeatsTheRun(t *testing.T) {
	for arguments, want := range map[string]string{
		"--write page.md --networks=7 --write=p": "go run ./test/bench --networks=7",
		"--cloud=openstack --rounds=5": "dev/openstack/openstack run -- " +
			"go run ./test/bench --cloud=openstack --rounds=5",
		"--cloud=dataplane --write=page.md": "make bench-dataplane",
		"--cloud=sizing --write=page.md":    "make bench-sizing",
	} {
		expect.Equal(t, want, measured(t, arguments, nil).command(), "the command of %s", arguments)
	}
}

func TestAuditCallLimit(t *testing.T) {
	first := call{method: "GET", shape: "/v2.0/networks", uri: "/networking/v2.0/networks?limit=500&sort_key=id"}
	for n, want := range map[int]float64{1: 9, 449: 9, 450: 11, 10000: 49} {
		expect.Equal(t, want, auditLimit([]call{first}, n), "the limit of %d Networks", n)
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	t.Setenv("OS_CLIENT_CONFIG_FILE", "")
	for argument, want := range map[string]string{
		"--cloud=other":             "emulator, openstack, dataplane, sizing, fleet",
		"--cloud=fleet --sizes=9":   "at least 10000",
		"--cloud=openstack":         "OS_CLIENT_CONFIG_FILE",
		"--only=(":                  "--only=(",
		"--rounds=0":                "--rounds=0",
		"--idle=1s":                 "at least 10s",
		"--lease-duration=1500ms":   "whole seconds",
		"--delay=2ms":               "real or none",
		"--write=p --delay=none":    "leave --delay out",
		"create":                    "everything is said by flags",
		"--controller-flag=-v=2 -q": "unknown",
		"--write=p --cloud=sizing --only=size-json": "leave --delay out",
	} {
		if _, err := parse(strings.Fields(argument), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", argument, err, want)
		}
	}
}

func TestBenchmarksAreDescribedAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups() {
		ids := []string{g.id}
		for _, b := range g.benchmarks {
			if b.name == "" || b.how == "" {
				t.Errorf("%s has no name or does not say how it is measured", b.id)
			}
			if b.id != g.id {
				ids = append(ids, b.id)
			}
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("there are two of %s", id)
			}
			seen[id] = true
		}
	}
	for _, id := range onPage {
		if !seen[id] {
			t.Errorf("docs/benchmarks.md shows %s, which nothing measures", id)
		}
	}
}
