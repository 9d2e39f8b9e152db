package app

import (
	"fmt"
	"testing"
)

// TestRunStops stops the process while it waits for a server, which keeps it waiting or has no answer but 503.
func TestRunStops(t *testing.T) {
	const (
		cluster  = "/api/v1/namespaces/kube-system"
		ours     = "/apis/cloudteam.ztgame.com/v1"
		multus   = "/apis/k8s.cni.cncf.io/v1"
		networks = ours + "/networks"
		login    = "/v3/auth/tokens"
	)
	for name, c := range map[string]struct {
		controllers []string
		// silent is the path whose requests are not answered. When all of asked are asked for, it stops.
		silent string
		asked  []string
	}{
		"before it begins": {[]string{"*"}, "", nil},
		"while it waits for its caches and for the cloud":        {[]string{"*"}, "", []string{networks, login}},
		"the API server, asked for the cluster's identity":       {[]string{"*"}, cluster, []string{cluster}},
		"the API server, asked for CRDs":                         {[]string{"*"}, ours, []string{ours}},
		"the API server, asked for what only some clusters have": {[]string{"attachment"}, multus, []string{multus}},
		"the API server, asked for Networks":                     {[]string{"*"}, networks, []string{networks}},
		"the API server, asked for Networks by consumers alone":  {[]string{"deployment", "pod"}, networks, []string{networks}},
		"the cloud, asked to log in":                             {[]string{"network"}, login, []string{login}},
	} {
		t.Run(name, func(t *testing.T) {
			api := (&playedAPI{serves: []string{networks, ours + "/networkports"}, silent: c.silent}).start(t)
			playCloud(t)
			t.Setenv("OS_AUTH_URL", api.URL+"/v3")
			o := NewOptions()
			o.LeaderElection.Enabled = false
			o.Master, o.Controllers = api.URL, c.controllers
			runUntil(t, o, func() error {
				if missing := api.unasked(c.asked...); len(missing) > 0 {
					return fmt.Errorf("it does not ask for %v", missing)
				}
				return nil
			})
		})
	}
}
