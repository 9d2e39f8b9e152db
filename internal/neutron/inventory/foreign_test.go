package inventory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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

func TestAFilterMeansWhatFitsAndIsNobodyElses(t *testing.T) {
	id := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
	item := func(n int, name, description string, tags ...string) map[string]any {
		return map[string]any{"id": id(n), "name": name, "description": description, "tags": tags, "project_id": "project-1"}
	}
	with := func(item map[string]any, key string, value any) map[string]any { item[key] = value; return item }
	of9 := func(n int) map[string]any { return with(item(n, "prod", "", "live"), "project_id", "p9") }
	mine, others := ownerOf("mine"), plan.Owner{Cluster: "c2", Object: "mine"}
	all := []map[string]any{
		item(3, "prod", "", "live", "old"), item(2, "prod", "by hand", "live"),
		item(4, "Prod", "", "live"), item(5, "prod", "", "old"), item(6, "prod", others.Describe("text"), "live"),
	}
	for sentence, c := range map[string]struct {
		more  []map[string]any
		want  []string
		fails bool
	}{
		"those that fit, in order":        {want: []string{id(2), id(3)}},
		"what was found before":           {more: []map[string]any{item(7, "prod", mine.Marker(), "live")}, want: []string{id(7)}},
		"an id that is none":              {more: []map[string]any{{"id": "../x", "name": "prod", "tags": []string{"live"}}}, fails: true},
		"what cannot be read":             {more: []map[string]any{{"id": id(8), "name": 5}}, fails: true},
		"without tags, as some clouds do": {more: []map[string]any{{"id": id(9), "name": "prod"}}, want: []string{id(2), id(3)}},
		"others' do not count beside":     {more: []map[string]any{with(of9(1), "shared", true)}, want: []string{id(2), id(3)}},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBench(t, Options{})
			content, err := json.Marshal(map[string]any{"networks": slices.Concat(all, c.more)})
			expect.NoError(t, err)
			var asked url.Values
			b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
				asked = r.URL.Query()
				answer(w, http.StatusOK, string(content))
				return true
			})
			for _, ofProject := range []bool{false, true} {
				by := plan.ImportFilter{Name: "prod", Tags: []string{"live"}}
				got, err := b.Matching(t.Context(), plan.KindNetwork, by, mine, ofProject)
				if (err != nil) != c.fails {
					t.Errorf("the error is %v", err)
				}
				if !c.fails {
					expect.Equal(t, c.want, got, "what fits")
				}
				if asked.Get("name") != "prod" || asked.Get("tags") != "live" || asked.Has("project_id") != ofProject {
					t.Errorf("it asked for %v", asked)
				}
			}
		})
	}
	b := newBench(t, Options{})
	content, err := json.Marshal(map[string]any{"networks": []any{of9(1), with(of9(2), "shared", true), with(of9(3), "router:external", true)}})
	expect.NoError(t, err)
	b.neutron.setBefore(func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w, http.StatusOK, string(content))
		return true
	})
	got, err := b.Matching(t.Context(), plan.KindNetwork, plan.ImportFilter{Name: "prod"}, mine, false)
	expect.NoError(t, err)
	expect.Equal(t, []string{id(2), id(3)}, got, "others' networks that the project may use")

	b = newBench(t, Options{}) // a cloud without floating IPs
	got, err = b.Matching(t.Context(), plan.KindFloatingIP, plan.ImportFilter{Tags: []string{"a", "b"}}, mine, true)
	expect.NoError(t, err)
	expect.Empty(t, got, "floating IPs")
}
