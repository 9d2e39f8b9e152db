package main

import (
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
			r := &result{benchmark: benchmark{limit: test.limit}, runs: [][]float64{test.rounds}}
			if got := r.verdict(); got != test.verdict {
				t.Errorf("verdict %q, want %q", got, test.verdict)
			}
			if got := r.target(); got != test.target {
				t.Errorf("target %q, want %q", got, test.target)
			}
		})
	}
}

func TestNumbersAreShort(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 2: "2", 0.25: "0.25", 1.049: "1.05", 12.34: "12.3", 123.4: "123", math.NaN(): "–",
	} {
		if got := number(value); got != want {
			t.Errorf("%v is written %q, want %q", value, got, want)
		}
	}
	for value, want := range map[int]string{5: "5", 1000: "1,000", 50000: "50,000", 1234567: "1,234,567"} {
		if got := grouped(value); got != want {
			t.Errorf("%d is written %q, want %q", value, got, want)
		}
	}
}

func TestTableReplacesItsCloudsSection(t *testing.T) {
	o, err := parse([]string{"--networks=7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(o, []string{"--write", "page.md", "--networks=7", "--cpu-profile=p"}, choose(o))
	r.begin()
	r.add("create", 1.5)
	r.add("nobody asked for this", 1)
	r.addTo("audit-calls", 4, 6)
	r.add("policy-ports", 1.1)
	page := "before\n<!-- emulator -->\nold\n<!-- end of emulator -->\nbetween\n<!-- openstack -->\nkept\n" +
		"<!-- end of openstack -->\n<!-- emulator policies -->\nold policies\n<!-- end of emulator policies -->\n"
	content := written(t, r, page)
	want := strings.NewReplacer("old\n", r.table(""), "old policies\n", r.table("policies")).Replace(page)
	if diff := cmp.Diff(want, content); diff != "" {
		t.Errorf("the page (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		"go run ./test/bench --networks=7\n",
		"| 7 Networks, apply to all Ready ÷ bare bulk loop | ≤ 1.20 | 1.50 | 1 |  | missed by 25 % |\n",
		"| calls of a full audit of 7 Networks | ≤ 6 | 4 | 1 |  | met |\n",
		"| a new policy that selects all of 200 Pods, until all ports are in its group ÷ bare calls | ≤ 1.20 | 1.10 | 1 |  | met |\n",
	} {
		if !strings.Contains(content, line) {
			t.Errorf("the page lacks %q:\n%s", line, content)
		}
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.writeInto(path); err == nil {
		t.Error("a page without markers is no error")
	}
}

// written is a page after a report was written into it.
func written(t *testing.T, r *report, page string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.writeInto(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAGroupWithATableOfItsOwnLeavesOtherTablesAlone(t *testing.T) {
	o, err := parse([]string{"--only=policies", "--write=page.md"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(o, nil, choose(o))
	r.begin()
	r.add("policy-start", 0.8)
	page := "<!-- emulator -->\nkept\n<!-- end of emulator -->\n<!-- emulator policies -->\nold\n<!-- end of emulator policies -->\n"
	content := written(t, r, page)
	if diff := cmp.Diff(strings.Replace(page, "old\n", r.table("policies"), 1), content); diff != "" {
		t.Errorf("the page (-want +got):\n%s", diff)
	}
	if !strings.Contains(content, "a Deployment of 50 under") {
		t.Errorf("a figure with a size of its own has another one:\n%s", content)
	}
}

func TestSeveralRunsMakeOneTable(t *testing.T) {
	o, err := parse([]string{"--networks=7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport(o, nil, choose(o))
	for _, rounds := range [][]float64{{1, 1.1}, {1.3, 1.5}, {1.2}} {
		r.begin()
		for _, value := range rounds {
			r.add("create", value)
		}
	}
	want := "| figure | target | median | of rounds | spread | of each of 3 runs | |\n" +
		"| --- | --- | --- | --- | --- | --- | --- |\n" +
		"| 7 Networks, apply to all Ready ÷ bare bulk loop | ≤ 1.20 | 1.20 | 5 | 1 to 1.50 | 1.05, 1.40, 1.20 | met |\n"
	if table := r.table(""); !strings.Contains(table, want) {
		t.Errorf("the table lacks\n%s:\n%s", want, table)
	}
}

func TestFindProcessByProgram(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	if pid, err := descendant("sleep"); err != nil || pid != child.Process.Pid {
		t.Errorf("sleep is process %d, %v, want %d", pid, err, child.Process.Pid)
	}
	if pid, err := descendant("no such program"); err == nil {
		t.Errorf("a program that nobody started is process %d", pid)
	}
	s, err := statOf(child.Process.Pid)
	if err != nil || s.name != "sleep" || s.parent != os.Getpid() {
		t.Errorf("sleep is %+v, %v, want a child of %d", s, err, os.Getpid())
	}
}

func TestAuditCallLimit(t *testing.T) {
	first := call{method: "GET", shape: "/v2.0/networks", uri: "/networking/v2.0/networks?limit=500&sort_key=id"}
	for n, want := range map[int]float64{1: 6, 500: 6, 501: 8, 10000: 44} {
		if got := auditLimit([]call{first}, n); got != want {
			t.Errorf("of %d Networks: %v, want %v", n, got, want)
		}
	}
}

func TestEventDuringAudit(t *testing.T) {
	epoch := time.Now()
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	page := func(second int, shape, query string) call {
		return call{at: at(second), method: "GET", shape: shape, uri: shape + "?" + query}
	}
	calls := []call{
		page(10, "/v2.0/networks", "limit=1"), page(12, "/v2.0/networks", "limit=1&marker=x"),
		page(14, "/v2.0/subnets", "limit=1"),
		{at: at(17), method: "POST", shape: "/v2.0/networks"},
		page(20, "/v2.0/networks", "limit=1"), page(22, "/v2.0/subnets", "limit=1"),
	}
	for second, want := range map[int]bool{9: false, 11: true, 13: true, 16: false, 18: false, 21: true, 23: false} {
		if got := underWay(calls, at(second)); got != want {
			t.Errorf("at %d: %t, want %t", second, got, want)
		}
	}
}

func TestCreatedNames(t *testing.T) {
	got := names(`{"networks":[{"admin_state_up":true,"name":"a"},{"name":"b","description":"c"}]}`)
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true}, got); diff != "" {
		t.Error(diff)
	}
	for answer, want := range map[string]string{
		`{"network": {"id": "x"}}`:                   "x",
		`{"networks": [{"id": "x"}]}`:                "x",
		`{"networks": [{"id": "x"}, {"id": "y"}]}`:   "",
		`{"NeutronError": {"message": "no"}}`:        "",
		`not JSON`:                                   "",
		`{"network": {"name": "without an id"}}`:     "",
		`{"port": {"id": "p", "network_id": "net"}}`: "p",
	} {
		if got := createdID([]byte(answer)); got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}

func TestParseBenchmarkLine(t *testing.T) {
	got := benchmarkLine("BenchmarkSyncAtRest-2   \t   10000\t     20738 ns/op\t    3709 B/op\t      70 allocs/op")
	want := map[string]float64{"ns/op": 20738, "B/op": 3709, "allocs/op": 70}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"PASS", "ok  \tpackage\t1.2s", "goos: linux", ""} {
		if got := benchmarkLine(line); got != nil {
			t.Errorf("%q gives %v", line, got)
		}
	}
}

func TestInvalidFlagsAreRefused(t *testing.T) {
	t.Setenv("OS_CLIENT_CONFIG_FILE", "")
	for argument, want := range map[string]string{
		"--cloud=other":                    "emulator, openstack, dataplane or sizing",
		"--cloud=openstack":                "OS_CLIENT_CONFIG_FILE",
		"--only=(":                         "--only=(",
		"--rounds=0":                       "--rounds=0",
		"--idle=1s":                        "at least 10s",
		"--lease-duration=1500ms":          "whole seconds",
		"--delay=2ms":                      "real or none",
		"--write=p --only=create":          "--write replaces whole tables",
		"--write=p --delay=none":           "--write replaces whole tables",
		"--write=p --only=policies,create": "--write replaces whole tables",
		"--write=p --only=policy-start":    "--write replaces whole tables",
		"create":                           "everything is said by flags",
		"--controller-flag=-v=2 -q":        "unknown",
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
}

func TestSizingHasAColumnForEachSize(t *testing.T) {
	o := options{cloud: sizing, sizes: []int{100, 10000}}
	r := newReport(o, nil, []group{sizingGroup()})
	r.begin()
	r.add("size-audit", 3)
	r.add("size-audit", 81)
	r.add("size-peak", 60.7)
	for _, want := range []string{
		"| Networks, and as many Pods | 100 | 10,000 |\n| --- | --- | --- |\n",
		"| calls of an audit | 3 | 81 |\n",
		"| memory of the controller, the most | 60.7 MiB | not measured |\n",
	} {
		if !strings.Contains(r.table(""), want) {
			t.Errorf("want %q in\n%s", want, r.table(""))
		}
	}
}
