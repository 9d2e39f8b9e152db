package faults

import (
	"fmt"
	"strings"
	"time"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// bystanders are lives in which Neutron does not answer reads that one Network does not need, from the beginning on.
// It becomes Ready as if nothing were.
func bystanders() map[string]scenario {
	// prompt is more than the controller waits for a list that it can do without, and far less than a call may take.
	const prompt = 40 * time.Second
	all := map[string]scenario{}
	// Without a query, it is all lists of the path.
	for list, names := range map[string]func(*cloudteamv1.NetworkSpec){
		"qos/policies": func(s *cloudteamv1.NetworkSpec) { s.QoSPolicy = "gold" },
		"subnetpools":  func(s *cloudteamv1.NetworkSpec) { s.SubnetSpec = cloudteamv1.SubnetSpec{SubnetPool: "pool"} },
		"routers":      func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{} },
		"networks?router:external": func(s *cloudteamv1.NetworkSpec) {
			s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "outside"}
		},
		"ports":                     nil,
		"security-groups":           nil,
		"floatingips":               nil,
		"rbac-policies":             nil,
		"network-ip-availabilities": nil,
	} {
		path, query, _ := strings.Cut(list, "?")
		what := strings.ReplaceAll(path, "/", " ")
		if query != "" {
			what = "external networks"
		}
		listed := is("GET", "/v2.0/"+path)
		reads := func(c proxy.Call) bool { return listed(c) && (query == "" || c.Query(query) != "") }
		var rule *proxy.Rule
		var released chan struct{}
		all[fmt.Sprintf("%s hang: a Network that does not need them becomes Ready, even if others wait for them", what)] = scenario{
			slow: true, arguments: []string{"--workers=4", "--cloud-timeout=2m"},
			prepare: func(w *world) {
				released = make(chan struct{})
				rule = w.neutron.Break(reads, 0, proxy.Hang(released))
			},
			live: func(w *world) {
				waiting := []string{}
				for n := range 8 {
					if names != nil {
						waiting = append(waiting, fmt.Sprint("w", n))
						w.createNetwork(w.namespace, waiting[n], cidrA, "", names)
					}
				}
				late := time.Now().Add(prompt)
				w.createNetwork(w.namespace, "bystander", cidrA, "")
				w.awaitNetwork(w.namespace, "bystander")
				if virtualTime && time.Now().After(late) {
					w.t.Errorf("it became Ready after more than %s", prompt)
				}
				rule.Mend()
				close(released)
				for _, short := range append(waiting, "bystander") {
					w.deleteNetwork(w.namespace, short)
				}
				for _, short := range append(waiting, "bystander") {
					w.awaitNetworkGone(w.namespace, short)
				}
				w.life()
			},
		}
	}
	return all
}
