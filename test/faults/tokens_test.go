package faults

import (
	"net/http"
	"strings"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// deadTokens are tokens that Keystone no longer takes, and so Neutron's own 401 to each call that brings them.
func deadTokens() map[string]scenario {
	// In a life, these come one after another, so that no token ends between the two attempts of one call.
	oneAfterAnother := func() func(proxy.Call) bool {
		left := map[string]bool{
			"GET /v2.0/networks": true, "GET /v2.0/subnets": true, "GET /v2.0/ports": true,
			"POST /v2.0/networks": true, "POST /v2.0/ports": true, "PUT /v2.0/networks/{id}": true,
			"DELETE /v2.0/ports/{id}": true, "DELETE /v2.0/networks/{id}": true,
		}
		return func(c proxy.Call) bool {
			kind := c.Method + " " + c.Shape
			first := left[kind]
			delete(left, kind)
			return first
		}
	}
	return map[string]scenario{
		"the token ends again and again, before the first call of most kinds to Neutron, lists included": {
			// A real Neutron remembers for a while that it found a token good.
			slow: true,
			prepare: func(w *world) {
				w.neutron.Break(oneAfterAnother(), 0, func(x *proxy.Exchange) {
					w.endToken(x.Request.Header.Get("X-Auth-Token"))
					pass(x)
				})
			},
			check: func(w *world) {
				// Both may be under way with the token that ends.
				if creates := w.neutron.Count("POST", "/v2.0/networks"); creates > 4 {
					w.t.Errorf("%d requests to create two networks, want each to be sent again once at most", creates)
				}
				// A token that ends is no news to anybody.
				for _, object := range []string{w.name("a"), w.name("b"), "p", "q"} {
					for _, reason := range []string{cloudteamv1.ReasonCredentialsRejected, cloudteamv1.ReasonCloudUnavailable} {
						expect.Empty(w.t, w.events(object, reason), "Events of %s", object)
					}
				}
			},
		},
		"the token ends before every third write to Neutron": {
			slow: true,
			prepare: func(w *world) {
				w.neutron.Break(func(c proxy.Call) bool { return c.Write%3 == 1 }, 0, func(x *proxy.Exchange) {
					w.endToken(x.Request.Header.Get("X-Auth-Token"))
					pass(x)
				})
			},
		},
	}
}

// endToken has Keystone take a token no more, at its own word.
func (w *world) endToken(token string) {
	address := strings.TrimSuffix(w.cloud.Client.IdentityEndpoint, "/") + "/auth/tokens"
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodDelete, address, nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("X-Subject-Token", token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Error(err)
		return
	}
	answer.Body.Close()
	// Another call may have ended it already.
	if answer.StatusCode != http.StatusNoContent && answer.StatusCode != http.StatusUnauthorized {
		w.t.Errorf("ending a token at %s: %s", address, answer.Status)
	}
}
