package batch

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Callers of one call may be of namespaces that do not know each other.
func TestWhatNeutronSaysOfOneItemIsToldToNoOther(t *testing.T) {
	for sentence, refusal := range map[string]client.Error{
		"with an unknown outcome": {Kind: client.Transient, Status: http.StatusInternalServerError, MaybeDone: true},
		"for want of capacity":    {Kind: client.Capacity, Type: "NoNetworkAvailable", Status: http.StatusServiceUnavailable},
		"for itself":              {Kind: client.Invalid, Status: http.StatusBadRequest},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{fails: func(names []string) *client.Error {
					if !slices.Contains(names, "bad") {
						return nil
					}
					e := refusal
					e.Op, e.Reason = "create network", "Invalid input for name: 'bad'"
					return &e
				}}
				b := New(Options{Post: s.post})
				for name, err := range createMany(t.Context(), b, "a", "bad", "c", "d") {
					if name != "bad" && strings.Contains(err.Error(), "bad") {
						t.Errorf("%s is told %v", name, err)
					}
				}
			})
		})
	}
}
