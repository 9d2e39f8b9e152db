package inventory

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestForeignReadsWhatIsNobodysAndKeepsNothing(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", "by hand")
	b.audit(t)
	project := `"project_id":"p9",`
	var asked []string
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/networks/a") {
			return false
		}
		asked = r.URL.Query()["fields"]
		answer(w, http.StatusOK, `{"network":{"id":"a",`+project+`"name":"prod","description":"by hand","mtu":1450,
			"admin_state_up":true,"revision_number":7,"created_at":"2026-01-01T00:00:00Z","subnets":[]}}`)
		return true
	})
	got, found, err := b.Foreign(t.Context(), "a")
	if err != nil || !found {
		t.Fatalf("found: %t, %v", found, err)
	}
	want := plan.Attributes{Name: "prod", Description: "by hand", AdminStateUp: true, MTU: 1450}
	if diff := cmp.Diff(want, got.Attributes); diff != "" || got.ProjectID != "p9" || got.ID != "a" || got.Revision != 7 {
		t.Errorf("got %+v; attributes (-want +got):\n%s", got, diff)
	}
	if len(asked) != len(networkKind.fields)+1 || !slices.Contains(asked, "project_id") {
		t.Errorf("fields %q were asked for", asked)
	}
	expect.Empty(t, b.networks.held, "the Inventory holds")

	// Whose it is decides whether it may be marked: an answer that does not say so is none.
	project = ""
	if _, found, err := b.Foreign(t.Context(), "a"); found || err == nil {
		t.Errorf("without a project: found %t, %v", found, err)
	}
}

func TestForeignTellsWhatIsNotThereFromWhatIsNotKnown(t *testing.T) {
	b := newBench(t, Options{})
	if _, found, err := b.Foreign(t.Context(), "none"); found || err != nil {
		t.Errorf("a network that is not there: found %t, %v", found, err)
	}
	for what, status := range map[string]int{"a proxy that has lost Neutron": 404, "an outage": 503} {
		b.neutron.answers("", "", status, "")
		if _, found, err := b.Foreign(t.Context(), "none"); found || err == nil {
			t.Errorf("%s: found %t, %v", what, found, err)
		}
	}
}
