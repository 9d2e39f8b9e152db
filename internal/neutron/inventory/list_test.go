package inventory

import (
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestListsAskForTheProjectAndWhatIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		list func(i *Inventory) error
		want url.Values
	}{
		"networks": {
			list: func(i *Inventory) error { return everything(t, networkKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": networkKind.fields},
		},
		"subnets of the project": {
			list: func(i *Inventory) error { return everything(t, subnetKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": subnetKind.fields},
		},
		"subnets of a network, whosever they are": {
			list: func(i *Inventory) error { _, err := i.subnetsOf(t.Context(), wireNetwork{ID: "net-1"}); return err },
			want: url.Values{"network_id": {"net-1"}, "fields": subnetKind.fields},
		},
		"ports": {
			list: func(i *Inventory) error { return everything(t, portKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": portKind.fields},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Value
			f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
				got.Store(r.URL.Query())
				answer(w, http.StatusOK, `{"networks": [], "subnets": [], "ports": []}`)
			})
			expect.NoError(t, test.list(New(f.cloud(client.Options{PageSize: 7}), cluster, Options{})))
			test.want.Set("limit", "7")
			test.want.Set("sort_key", "id")
			test.want.Set("sort_dir", "asc")
			expect.Equal(t, test.want, got.Load(), "query")
		})
	}
}

// everything lists a kind of a project.
func everything[W client.Identified, T any](t *testing.T, k kind[W, T], i *Inventory) error {
	return k.eachOfProject(t.Context(), i.access, func() {}, func(W, error) {})
}
