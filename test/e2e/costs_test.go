package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCosts counts what a life costs. What rest costs, TestEveryField holds with every field set.
func TestCosts(t *testing.T) {
	if emulator == nil {
		t.Skip("the calls are counted at the emulator")
	}
	namespace := newNamespace(t)
	startController(t, "tenant")
	const count = 5
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", unique(t, namespace), i)
	}
	// The first one finds the process at work; what it costs to start is not counted.
	apply(t, namespace, names[0], example())
	awaitReady(t, namespace, names[0])

	emulator.ResetCalls()
	for _, name := range names[1:] {
		apply(t, namespace, name, example())
	}
	for _, name := range names[1:] {
		awaitReady(t, namespace, name)
	}
	// Those that wait together are created in one call.
	for call, made := range cloudWrites() {
		if call != "POST /v2.0/networks" && call != "POST /v2.0/subnets" || made > count-1 {
			t.Errorf("%d calls %s, want at most %d that create networks or subnets", made, call, count-1)
		}
	}

	emulator.ResetCalls()
	for _, name := range names {
		remove(t, namespace, name)
	}
	if diff := cmp.Diff(map[string]int{"DELETE /v2.0/networks/{id}": count}, cloudWrites()); diff != "" {
		t.Errorf("writes to Neutron (-want +got):\n%s", diff)
	}
	// Nothing is read singly in a life without incidents.
	if gets := emulator.Calls("GET", "/v2.0/networks/{id}"); gets > 0 {
		t.Errorf("%d networks were asked for by id", gets)
	}
}

// wantRest holds that nothing happens at rest, neither at resyncs nor at audits: the objects whose resourceVersions
// versions gives are not written, nothing in Neutron is, and Neutron is asked for lists alone, which the audits need.
// The cloud is the emulator, and nobody but the controller may call it meanwhile.
func wantRest(t *testing.T, versions func() []string) {
	t.Helper()
	awaitAudits := func(count int) {
		t.Helper()
		emulator.ResetCalls()
		eventually(t, func() error {
			if audits := emulator.Calls("GET", "/v2.0/networks"); audits < count {
				return fmt.Errorf("%d audits so far", audits)
			}
			return nil
		})
	}
	// What the last write has moved may be news to the next audit, and the counts of addresses are news to the one after.
	awaitAudits(2)
	before := versions()
	awaitAudits(3)
	for call, count := range emulator.CallCounts() {
		lists := strings.HasPrefix(call, "GET ") && !strings.Contains(call, "{id}")
		if !lists && !strings.Contains(call, "/auth/") {
			t.Errorf("at rest: %d calls %s", count, call)
		}
	}
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("objects were written at rest (-before +after):\n%s", diff)
	}
}

// cloudWrites counts the calls of the emulator that are neither reads nor log-ins, nor write the term record: that is one
// call when the first resource is seen, and one after the last is gone (TestTermRecordIsWrittenOnceAndReadByEachAudit).
func cloudWrites() map[string]int {
	writes := map[string]int{}
	for call, count := range emulator.CallCounts() {
		if !strings.HasPrefix(call, "GET ") && !strings.Contains(call, "/auth/") &&
			!strings.Contains(call, "/subnetpools") {
			writes[call] = count
		}
	}
	return writes
}
