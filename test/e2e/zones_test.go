package e2e

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// testZones holds what becomes of the zones that a spec names.
func testZones(
	parallel func(sentence string, test func(t *testing.T, c *cloud, namespace, name string)), cloudName string,
) {
	if cloudName != "tenant" {
		return // whom Neutron treats as it treats anybody
	}
	parallel("a network keeps the zones that it was made with, which an edit can leave out and not change",
		func(t *testing.T, c *cloud, namespace, name string) {
			refused := func(hints string) {
				t.Helper()
				_, err := networks.CloudteamV1().Networks(namespace).Patch(t.Context(), name, types.MergePatchType,
					[]byte(`{"spec":{"availabilityZoneHints":`+hints+`}}`), metav1.PatchOptions{})
				const says = "the zones can neither change nor be added later: write them as they were, or delete this Network"
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
					t.Errorf("an edit to the zones %s: %v, want that it is refused with %q", hints, err, says)
				}
			}
			spec := example()
			spec.AvailabilityZoneHints = []string{"west", "east"}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			made := resource{"availability_zone_hints": []any{"east", "west"}}
			wantFields(t, c.one("networks", "id="+id), made)
			refused(`["east"]`)

			edit(t, namespace, name, `{"availabilityZoneHints":null}`)
			if is := awaitReady(t, namespace, name).Status.NetworkID; is != id {
				t.Errorf("without zones in the spec it is network %s, want %s as before", is, id)
			}
			wantFields(t, c.one("networks", "id="+id), made)
			refused(`["east","west"]`)
			remove(t, namespace, name)
		})

	parallel("a zone that there is not stalls with Neutron's reason, until it is left out",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.AvailabilityZoneHints = []string{"east", "nowhere"}
			apply(t, namespace, name, spec)
			stalled := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
				cloudteamv1.ReasonRejected)
			const says = "AvailabilityZone nowhere could not be found"
			wantMessage(t, stalled, says)
			awaitEvent(t, namespace, name, cloudteamv1.ReasonRejected, says)
			edit(t, namespace, name, `{"availabilityZoneHints":null}`)
			id := awaitReady(t, namespace, name).Status.NetworkID
			wantFields(t, c.one("networks", "id="+id), resource{"availability_zone_hints": []any{}})
			remove(t, namespace, name)
		})
}
