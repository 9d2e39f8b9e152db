package batch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
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
				s := &server{Fails: func(names []string) *client.Error {
					if !slices.Contains(names, "bad") {
						return nil
					}
					e := refusal
					e.Op, e.Reason = "create network", "Invalid input for name: 'bad'"
					return &e
				}}
				b := New(Options{Post: s.Post})
				for name, err := range createMany(t.Context(), b, "a", "bad", "c", "d") {
					if name != "bad" && strings.Contains(err.Error(), "bad") {
						t.Errorf("%s is told %v", name, err)
					}
				}
			})
		})
	}
}

// A namespace that is left to another controller ends its own creates only, whenever that is seen.
func TestOnlyWhoMayNotWriteIsLeftOutOfABulk(t *testing.T) {
	for when, isSent := range map[string]bool{"before the call": false, "while it is sent": true} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errLeft := errors.New("left")
				var left atomic.Bool
				left.Store(!isSent)
				s := &server{}
				b := New(Options{Post: func(
					ctx context.Context, op string, of client.Collection, bodies []map[string]any,
				) ([]json.RawMessage, error) {
					left.Store(true)
					if err := client.AskPermit(ctx); err != nil { // as a Cloud does
						return nil, client.NotPermitted(op, err)
					}
					return s.Post(ctx, op, of, bodies)
				}})
				fenced := client.WithPermit(t.Context(), func() error {
					if left.Load() {
						return errLeft
					}
					return nil
				})
				refused := make(chan error, 1)
				go func() { refused <- createNamed(fenced, b, "theirs") }()
				for name, err := range createMany(t.Context(), b, "a", "b") {
					t.Errorf("%s failed: %v", name, err)
				}
				if err := <-refused; !errors.Is(err, errLeft) || client.MaybeDone(err) {
					t.Errorf("the other create ended with %v", err)
				}
				if s.Made["a"] != 1 || s.Made["b"] != 1 || len(s.Made) != 2 {
					t.Errorf("made %v, want a and b once", s.Made)
				}
				rested(t, b)
			})
		})
	}
}
