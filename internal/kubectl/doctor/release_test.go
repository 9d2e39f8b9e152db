package doctor

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	kubefake "k8s.io/client-go/kubernetes/fake"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// about are the checks of a cloud whose names begin so.
func about(t *testing.T, cloud *client.Cloud, name string) (all []Check) {
	t.Helper()
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	for _, check := range Run(t.Context(), c, Options{Cloud: cloud, Now: time.Now()}) {
		if strings.HasPrefix(check.Name, name) {
			all = append(all, check)
		}
	}
	return all
}

func TestTheReleaseIsToldByExtensionsAndBehaviour(t *testing.T) {
	for release, want := range map[neutrontest.Release]Check{
		neutrontest.Neutron21: {"Neutron's release", Warns, "answers as Neutron 21 (Zed): no extension " +
			"subnet-external-network, no router:external of subnets. A refused bulk of ports may leak addresses there, and " +
			"more updates conflict and are sent again", "Upgrade Neutron to 26 (2025.1) or later.", false},
		neutrontest.Neutron26: {"Neutron's release", OK, "answers as Neutron 26 (2025.1): extension " +
			"subnet-external-network, router:external of subnets; not as 29: no extension network-ip-availability-details, " +
			"no quota router_route", "", false},
		neutrontest.Neutron29: {"Neutron's release", OK, "answers as Neutron 29 (2026.2): extension " +
			"network-ip-availability-details, quota router_route", "", false},
	} {
		cloud, _ := cloudtest.Emulated(t, neutrontest.Options{Release: release}, nil)
		var made struct{ Network struct{ ID string } }
		expect.NoError(t, cloud.Do(t.Context(), client.Request{Op: "make", Method: http.MethodPost, Path: "networks",
			Body: map[string]any{"network": map[string]any{}}, Answer: &made}))
		expect.NoError(t, cloud.Do(t.Context(), client.Request{Op: "make", Method: http.MethodPost, Path: "subnets",
			Body: map[string]any{"subnet": map[string]any{
				"network_id": made.Network.ID, "ip_version": 4, "cidr": "10.0.0.0/24"}}}))
		expect.Equal(t, []Check{want}, about(t, cloud, "Neutron's release"), "Neutron %d", release)
	}
}

// TestAProjectWithoutSubnetsShowsLess has no subnet that could tell router:external: only the extension speaks.
func TestAProjectWithoutSubnetsShowsLess(t *testing.T) {
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{Release: neutrontest.Neutron26}, nil)
	got := about(t, cloud, "Neutron's release")
	if len(got) != 1 || !strings.Contains(got[0].Says, "2025.1): extension subnet-external-network; not as 29") {
		t.Errorf("it says %+v", got)
	}
}

// TestEachMissingExtensionIsALineWithItsCost has a Neutron without some of them.
func TestEachMissingExtensionIsALineWithItsCost(t *testing.T) {
	var without []string
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/extensions") {
				next.ServeHTTP(w, r)
				return
			}
			recorder := httptest.NewRecorder()
			next.ServeHTTP(recorder, r)
			text := recorder.Body.String()
			for _, alias := range without {
				text = strings.ReplaceAll(text, `"alias":"`+alias+`"`, `"alias":"not-`+alias+`"`)
			}
			_, _ = w.Write([]byte(text))
		})
	})
	for _, c := range []struct {
		without []string
		want    []Check
	}{
		{nil, []Check{{"Neutron's extensions", OK, "all that the controller uses are there", "", false}}},
		{[]string{"dvr", "revision-if-match", "qos"}, []Check{
			{"extension revision-if-match", Fails, "missing: the controller does not work without it",
				"Ask the cloud's operator to enable it.", false},
			{"extension dvr", Warns, "missing: Neutron refuses or ignores spec.router.distributed",
				"Do not use that, or ask the cloud's operator to enable the extension.", false},
			{"extension qos", Warns, "missing: Neutron refuses or ignores spec.qosPolicy",
				"Do not use that, or ask the cloud's operator to enable the extension.", false},
		}},
	} {
		without = c.without
		got := slices.Concat(about(t, cloud, "Neutron's extensions"), about(t, cloud, "extension "))
		expect.Equal(t, c.want, got, "without %v", c.without)
	}
}
