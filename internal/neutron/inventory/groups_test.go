package inventory

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// TestSecurityGroup finds groups by name, and takes an id as it is.
func TestSecurityGroup(t *testing.T) {
	var calls atomic.Int64
	tenant, admin := cloudtest.Emulated(t, neutrontest.Options{OnCall: func(c neutrontest.Call) {
		if strings.Contains(c.Path, "security-groups") {
			calls.Add(1)
		}
	}}, nil)
	made := func(in *client.Cloud, name string) string {
		t.Helper()
		return byHand(t, in, http.MethodPost, "/security-groups", "security_group", map[string]any{"name": name})
	}
	web, hidden := made(tenant, "web"), made(admin, "hidden")
	made(tenant, "twin")
	made(tenant, "twin")
	before := calls.Load()

	i := New(tenant, "c", Options{Ports: true})
	for _, id := range []string{web, hidden, strings.ReplaceAll(web, "-", "")} {
		if got, err := i.SecurityGroup(t.Context(), "spec.securityGroups", id); got != id || err != nil {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
	if calls.Load() != before {
		t.Error("an id costs a call")
	}
	for name, want := range map[string]string{
		"hidden": `spec.securityGroups: "hidden" is neither the id nor the name`,
		"twin":   `spec.securityGroups: 2 are called "twin": write the id`,
		"":       `is neither the id nor the name`,
	} {
		_, err := i.SecurityGroup(t.Context(), "spec.securityGroups", name)
		if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	before = calls.Load()
	for range 9 {
		if got, err := i.SecurityGroup(t.Context(), "spec.securityGroups", "web"); got != web || err != nil {
			t.Errorf("web: %s, %v", got, err)
		}
	}
	if calls.Load() != before {
		t.Error("names that were read a moment ago cost a call")
	}
}
