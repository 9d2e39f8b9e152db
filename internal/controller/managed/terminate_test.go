package managed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// secretClouds is what a Secret leads to, or why it does not.
type secretClouds struct {
	in  managed.Inventory
	err error
}

func (s *secretClouds) In(managed.CloudRef, bool) (managed.Inventory, error) { return s.in, s.err }

// TestANamespaceThatGoesWithItsSecretEnds has a new leader, which has never seen the Secret.
func TestANamespaceThatGoesWithItsSecretEnds(t *testing.T) {
	for name, c := range map[string]struct {
		gone, terminating bool
		after             time.Duration
		want              bool
	}{
		"after a while":                 {true, true, managed.AbandonAfter, true},
		"not at once":                   {true, true, managed.AbandonAfter - 2*time.Minute, false},
		"not while the namespace stays": {true, false, 2 * managed.AbandonAfter, false},
		"not while the Secret is there": {false, true, 2 * managed.AbandonAfter, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
			inWorld(t, func(t *testing.T, w *world) {
				clouds := &secretClouds{in: w.Neutron}
				w.c.ReachClouds(clouds)
				w.MustSync()
				w.WantState(available)
				w.Delete()

				w.restart()
				w.c.ReachClouds(clouds)
				problem := managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, "there is no Secret."))
				problem.Gone = c.gone
				clouds.in, clouds.err = nil, problem
				w.c.AskNamespaces(func(_ context.Context, namespace string) bool {
					return c.terminating && namespace == exampleKey.Namespace
				})
				w.Quiet()
				for waited := time.Duration(0); w.Exists() && waited <= c.after; {
					again := w.MustSync()
					if w.Exists() && again <= 0 {
						t.Fatal("it is not looked at again")
					}
					controllertest.Settle(again)
					waited += again
				}
				if w.Exists() == c.want {
					t.Errorf("the object is there: %t", w.Exists())
				}
				told := strings.Join(w.Events.Take(), "\n")
				if strings.Contains(told, "Warning Abandoned Network example-network") != c.want ||
					c.want && !strings.Contains(told, ownerOfExample.Marker()) {
					t.Errorf("Events:\n%s", told)
				}
				wantNetworks(t, w.Neutron, 1)
			}, obj)
		})
	}
}
