package managed_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestStateOfAnError(t *testing.T) {
	ofKind := func(kind client.Kind) error {
		return &client.Error{Kind: kind, Op: "create network", Reason: "Neutron's own sentence", Type: "ItsType"}
	}
	resource := plan.Resource{Kind: plan.KindNetwork, ID: "net-1"}
	const reconciling, stalled = cloudteamv1.ConditionReconciling, cloudteamv1.ConditionStalled
	for name, c := range map[string]struct {
		err      error
		abnormal string
		reason   string
		says     string
	}{
		"a transient error is tried again": {
			ofKind(client.Transient), reconciling, cloudteamv1.ReasonCloudUnavailable, ". Retrying with backoff."},
		"a throttled call is tried again when the cloud allows": {
			ofKind(client.Throttled), reconciling, cloudteamv1.ReasonRateLimited, "when the cloud allows"},
		"a full quota waits for capacity": {
			ofKind(client.Capacity), reconciling, cloudteamv1.ReasonQuotaExceeded, "Raise the project's quota"},
		"a refusal asks for another spec": {
			ofKind(client.Invalid), stalled, cloudteamv1.ReasonRejected, "Change the spec"},
		"what is forbidden asks for other credentials": {
			ofKind(client.Forbidden), stalled, cloudteamv1.ReasonForbidden, "Use credentials that are allowed to do this"},
		"what is forbidden of a spec names its fields": {
			managed.NewForbidden(ofKind(client.Forbidden), "shared", "external"), stalled, cloudteamv1.ReasonForbidden,
			"may not set shared, external. Retrying periodically. Leave that out of the spec"},
		"what the cloud does not keep asks for another cloud": {
			ofKind(client.NotKept), stalled, cloudteamv1.ReasonMarkerNotKept, "Have the cloud store descriptions"},
		"what is not found is changing": {
			ofKind(client.NotFound), reconciling, cloudteamv1.ReasonConflict, ". Retrying with backoff."},
		"a conflict is changing": {
			ofKind(client.Conflict), reconciling, cloudteamv1.ReasonConflict, ". Retrying with backoff."},
		"what is in use asks to remove the user": {
			ofKind(client.InUse), reconciling, cloudteamv1.ReasonInUse, "Remove what uses it"},
		"an address that is another's asks for another one": {
			ofKind(client.Taken), reconciling, cloudteamv1.ReasonAddressInUse, "Declare another address"},
		"a network without free addresses asks to make room": {
			ofKind(client.Exhausted), reconciling, cloudteamv1.ReasonAddressesExhausted, "declare another subnet"},
		"rejected credentials need somebody to act": {
			ofKind(client.Unauthenticated), stalled, cloudteamv1.ReasonCredentialsRejected, "Neutron's own sentence"},
		"a token that Neutron alone rejects is the cloud's fault": {
			&client.Error{Kind: client.Unauthenticated, Op: "create network", Reason: "the credentials are right", Fresh: true},
			reconciling, cloudteamv1.ReasonCloudUnavailable, "the credentials are right. Retrying with backoff."},
		"a kind from the future is transient": {
			ofKind(client.Unauthenticated + 100), reconciling, cloudteamv1.ReasonCloudUnavailable, ". Retrying with backoff."},
		"an invalid field names it": {
			errors.Join(&plan.FieldError{Field: "mtu", Problem: "1 is out of range"},
				&plan.FieldError{Field: "cidr", Problem: "2 is no CIDR"}),
			stalled, cloudteamv1.ReasonInvalidSpec, "mtu: 1 is out of range; cidr: 2 is no CIDR"},
		"a foreign resource blocks": {
			&plan.BlockedError{Message: "delete that subnet"}, stalled, cloudteamv1.ReasonBlocked,
			"delete that subnet"},
		"another cloud names both": {
			managed.NewMismatch(plan.KindNetwork, here, elsewhere), stalled, cloudteamv1.ReasonCloudMismatch, elsewhere.String()},
		"a removed marker tells the marker": {
			managed.NewUnmarked(resource, ownerOfExample), stalled, cloudteamv1.ReasonOwnershipLost, ownerOfExample.Marker()},
		"an ignored change tells the field": {
			managed.NewNotConverged(plan.Change{{Differences: []plan.Difference{
				{Resource: "network", Field: "mtu", Declared: "9000", Actual: "1450"},
			}}}), stalled, cloudteamv1.ReasonNotConverged, "network mtu is 1450, declared 9000"},
		"a dispute about the cluster asks to stop one": {
			inventory.ErrDisputed, stalled, cloudteamv1.ReasonIdentityDisputed, "stop the controller of one"},
		"anything else is tried again": {
			errors.New("the unexpected"), reconciling, cloudteamv1.ReasonReconcileFailed, "the unexpected"},
		"several unexpected things are one line": {
			errors.Join(errors.New("one"), errors.New("two")), reconciling, cloudteamv1.ReasonReconcileFailed, "one; two"},
	} {
		for how, err := range map[string]error{
			"as it is": c.err, "wrapped": fmt.Errorf("wrapped: %w", c.err), "joined": errors.Join(c.err, nil),
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				got := managed.StateOf(err)
				if got.Ready != metav1.ConditionFalse || got.Abnormal != c.abnormal || got.Reason != c.reason {
					t.Errorf("state %+v, want Ready False, %s True, reason %s", got, c.abnormal, c.reason)
				}
				expect.Contains(t, got.Message, c.says, "the message")
				if strings.ContainsRune(got.Message, '\n') {
					t.Errorf("message %q has more than one line", got.Message)
				}
			})
		}
	}
}

// TestEveryKindHasAState walks the kinds up to the first without a name, so that a new one is not forgotten above.
func TestEveryKindHasAState(t *testing.T) {
	want := map[string]bool{
		"transient": true, "throttled": true, "capacity": true, "invalid": true, "not found": true, "conflict": true,
		"in use": true, "unauthenticated": true, "taken": true, "exhausted": true, "forbidden": true, "not kept": true,
	}
	for kind := client.Kind(0); kind.String() != ""; kind++ {
		if !want[kind.String()] {
			t.Errorf("kind %q stands in no line of TestStateOfAnError", kind)
		}
		delete(want, kind.String())
	}
	expect.Empty(t, want, "kinds that are no more")
}

// TestTheCloudOfAStatusAfterASync: what else a status keeps and shows is held where syncs write it.
func TestTheCloudOfAStatusAfterASync(t *testing.T) {
	pinned := cloudteamv1.CloudStatus(here)
	ready := controller.Ready("Available", "ok")
	for name, c := range map[string]struct {
		was, want cloudteamv1.NetworkStatus
	}{
		"a network that is gone leaves its cloud": {
			cloudteamv1.NetworkStatus{
				ResourceStatus: cloudteamv1.ResourceStatus{
					ObservedGeneration: 3, AppliedGeneration: 3, Cloud: &pinned,
					Drift: []cloudteamv1.Drift{{Resource: "network", Field: "name"}},
				},
				NetworkID: "net-1", MTU: 1450,
				Subnets: []cloudteamv1.SubnetStatus{{ID: "sub-1", CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}},
			},
			cloudteamv1.NetworkStatus{ResourceStatus: cloudteamv1.ResourceStatus{
				ObservedGeneration: 4, AppliedGeneration: 3, Cloud: &pinned,
			}},
		},
		"nothing was created and nothing is pinned": {
			cloudteamv1.NetworkStatus{},
			cloudteamv1.NetworkStatus{ResourceStatus: cloudteamv1.ResourceStatus{ObservedGeneration: 4}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				obj := example()
				obj.Generation = 4
				obj.Status = *c.was.DeepCopy()
				before := obj.DeepCopy()
				got := w.c.Updated(obj, managed.Outcome{State: ready, Identity: &here, Observed: &plan.Observed{}}).Status
				if len(got.Conditions) == 0 || got.Conditions[0].ObservedGeneration != 4 {
					t.Errorf("conditions %+v, want one of generation 4", got.Conditions)
				}
				got.Conditions = nil
				expect.Equal(t, c.want, got, "status")
				expect.Equal(t, before, obj, "the object was changed")
			})
		})
	}
}

func TestChangeEvent(t *testing.T) {
	subnet := plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/8")}
	create := plan.Change{
		{Action: plan.CreateNetwork, Ref: plan.Ref{ID: "net-1"}}, {Action: plan.CreateSubnet, Subnet: subnet},
	}
	update := plan.Change{{Action: plan.UpdateNetwork, Ref: plan.Ref{ID: "net-1"}, Differences: []plan.Difference{
		{Resource: "network", Field: "mtu", Declared: "9000", Actual: "1450"},
		{Resource: "network", Field: "name", Declared: "a", Actual: "b"},
	}}}
	remove := plan.Change{
		{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: "net-2"}, Reason: "it is a duplicate"},
		{Action: plan.DeleteSubnet, Ref: plan.Ref{ID: "sub-2"}, Subnet: subnet, Reason: "it is no longer declared"},
	}
	for name, c := range map[string]struct {
		done    plan.Change
		drifted bool
		want    controller.Event
	}{
		"nothing done, nothing told": {nil, true, controller.Event{}},
		"a creation": {create, false,
			controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventCreated, Message: "Created network net-1; Created subnet 10.0.0.0/8"}},
		"a creation of what somebody deleted": {create, true,
			controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventDriftCorrected, Message: "Created network net-1; Created subnet 10.0.0.0/8"}},
		"a change of the spec": {update, false,
			controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventUpdated, Message: "Updated network: mtu 1450 → 9000, name b → a"}},
		"a change put back": {update, true,
			controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventDriftCorrected, Message: "Updated network: mtu 1450 → 9000, name b → a"}},
		"an update without differences": {
			plan.Change{{Action: plan.UpdateNetwork, Ref: plan.Ref{ID: "net-1"}}}, false,
			controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventUpdated, Message: "Updated network net-1"}},
		"deletions": {remove, false, controller.Event{Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventUpdated,
			Message: "Deleted network net-2: it is a duplicate; Deleted subnet 10.0.0.0/8: it is no longer declared"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, c.want, managed.ChangeEvent(plan.KindNetwork, c.done, c.drifted), "the Event")
		})
	}
}

func TestAStatusIsNotWrittenOnAnotherObjectOfTheName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stale := w.Get()
		w.DeleteByForce()
		again := example()
		again.UID = "uid-2"
		w.API.Create(t, again)
		err := w.c.Report(controllertest.Logged(t), stale, controller.Ready("Available", "ok"))
		if err == nil {
			t.Error("no error, so that the key would not be tried again")
		}
		expect.Empty(t, w.status().Conditions, "conditions of the other object")
	}, example())
}

func TestAStatusOfAnObjectThatIsGoneIsNoError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stale := w.Get()
		w.DeleteByForce()
		expect.NoError(t, w.c.Report(controllertest.Logged(t), stale, controller.Ready("a", "b")))
	}, example())
}

// slow is an Inventory whose writes take a while.
type slow struct {
	managed.Inventory
	writes func()
}

func (s slow) Apply(ctx context.Context, change plan.Change) (plan.Change, error) {
	<-time.After(5 * time.Second)
	s.writes()
	return s.Inventory.Apply(ctx, change)
}

func TestANewObjectThatWaitsSaysSo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var told []string
		w.restartOn(slow{w.Neutron, func() {
			told = append(told, w.Ready().Reason)
		}})
		w.MustSync()
		if len(told) == 0 || told[0] != cloudteamv1.ReasonPending {
			t.Errorf("while it waits, its reasons are %q", told)
		}
		expect.Equal(t, cloudteamv1.ReasonAvailable, w.Ready().Reason, "the reason in the end")
		told = nil
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "other" })
		expect.Equal(t, []string{cloudteamv1.ReasonAvailable}, told, "while an edit waits")
	}, example())
}
