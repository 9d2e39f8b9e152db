package app

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/metric/metrictest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Quotas are read with the first audit and then rarely. A cloud that refuses has none.
func TestQuotasAreReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var refuses atomic.Bool
		cloud := clienttest.Unserved(func(w http.ResponseWriter, r *http.Request) {
			expect.Equal(t, "/v2.0/quotas/"+clienttest.ProjectID+"/details", r.URL.Path, "the path")
			asked.Add(1)
			if refuses.Load() {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			fmt.Fprint(w, `{"quota": {"network": {"limit": 10, "used": 9, "reserved": 0}, "port": {"limit": -1, "used": 7},
				"trunk": {"limit": 5, "used": 1}, "router": {"limit": "5", "used": []}}}`)
		})
		here, err := client.NewConfinement([]string{cloud.URL}, client.Credentials{}, false)
		expect.NoError(t, err)
		secret := map[string][]byte{client.SecretClouds: []byte(cloud.CloudsYAML())}
		credentials, err := client.SecretCredentials("test", secret, "", here)
		expect.NoError(t, err)
		q := quotaReader{audited: make(chan struct{}, 1), cloud: client.NewCloud(credentials,
			client.Options{Transport: clienttest.Direct{Handler: cloud}})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go q.run(ctx)
		audits := func(count int) sample {
			for range count {
				q.note()
				synctest.Wait()
			}
			got := sample{}
			measureQuotas(got.set, []string{"shop", "own", ""}, q.found.Load())
			return got
		}
		expect.Equal(t, sample{}, audits(0), "before the first audit")
		want := sample{
			quotaUsed:  {"shop own  network": 9, "shop own  port": 7, "shop own  router": 0},
			quotaLimit: {"shop own  network": 10, "shop own  router": 5},
		}
		expect.Equal(t, want, audits(1), "after the first audit")
		refuses.Store(true)
		expect.Equal(t, want, audits(quotaAudits-1), "before they are read again")
		expect.Equal(t, int64(1), asked.Load(), "calls")
		expect.Equal(t, sample{}, audits(1), "of a cloud that refuses")
		expect.Equal(t, int64(2), asked.Load(), "calls")
	})
}

// A tenant can name new Secrets for ever. The calls to its clouds are one series for each result, and are not among
// those of the operator's.
func TestCallsToTenantsCloudsAreOneSeries(t *testing.T) {
	metric.Register()
	const name = "network_controller_cloud_response_seconds"
	before, own := metrictest.Value(t, name, "", tenants, "", "ok"), metrictest.Value(t, name, "", "", "", "ok")
	for n := range 10_000 {
		countCall(managed.CloudRef{Namespace: "hostile", Secret: fmt.Sprint("s", n)}, false,
			client.Call{Op: "list networks", Duration: time.Hour})
	}
	countCall(managed.CloudRef{}, true, client.Call{Op: "list networks", Duration: time.Second})
	countCall(managed.CloudRef{Namespace: "network-controller", Secret: "gold", Entry: "b"}, true,
		client.Call{Op: "list networks", Duration: time.Second})
	expect.Equal(t, before+10_000, metrictest.Value(t, name, "", tenants, "", "ok"), "of tenants")
	expect.Equal(t, own+1, metrictest.Value(t, name, "", "", "", "ok"), "of the controller's own cloud")
	expect.Equal(t, 1.0, metrictest.Value(t, name, "network-controller", "gold", "b", "ok"), "of a class's cloud")
	expect.Equal(t, 0.0, metrictest.Value(t, name, "hostile", "s1", "", "ok"), "of one of the tenant's clouds")
}
