package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// failed fills in the state that an error leads to. The error has the key tried again.
func (o outcome) failed(err error) outcome {
	o.err = err
	o.state = stateOf(err)
	return o
}

// stateOf says what an error means for the object. Texts of errors go into conditions: every error that comes here is
// one that is the same for the same cause.
func stateOf(err error) controller.State {
	var blocked *network.BlockedError
	var field *network.FieldError
	var elsewhere *mismatch
	var bare *unmarked
	var ignored *notApplied
	switch {
	case errors.As(err, &field):
		return controller.Stalled(cloudteamv1.ReasonInvalidSpec, sentence(err))
	case errors.As(err, &blocked):
		return controller.Stalled(cloudteamv1.ReasonBlocked, err.Error())
	case errors.As(err, &elsewhere):
		return controller.Stalled(cloudteamv1.ReasonCloudMismatch, err.Error())
	case errors.As(err, &bare):
		return controller.Stalled(cloudteamv1.ReasonMarkerRemoved, err.Error())
	case errors.As(err, &ignored):
		return controller.Stalled(cloudteamv1.ReasonNotApplied, err.Error())
	}
	var cloud *neutron.Error
	if !errors.As(err, &cloud) {
		return controller.Reconciling(cloudteamv1.ReasonFailed, err.Error()+"; it is tried again")
	}
	text := cloud.Error()
	switch cloud.Kind {
	case neutron.Throttled:
		return controller.Reconciling(cloudteamv1.ReasonThrottled, text+"; it is tried again when the cloud allows")
	case neutron.Capacity:
		return controller.Reconciling(cloudteamv1.ReasonQuotaExceeded,
			text+": raise the project's quota or delete what is not needed; it is tried again")
	case neutron.Exhausted:
		return controller.Reconciling(cloudteamv1.ReasonNoAddresses,
			text+": remove ports or add a subnet; it is tried again")
	case neutron.Taken:
		return controller.Reconciling(cloudteamv1.ReasonAddressTaken,
			text+": ask for another, or have it freed; it is tried again")
	case neutron.Invalid:
		return controller.Stalled(cloudteamv1.ReasonRefused,
			text+": change the spec, or have the cloud allow it; it is tried again now and then")
	case neutron.Unauthenticated:
		return controller.Stalled(cloudteamv1.ReasonCredentialsRejected, text)
	case neutron.InUse:
		return controller.Reconciling(cloudteamv1.ReasonInUse, text+": remove what uses it; it is tried again")
	case neutron.Conflict, neutron.NotFound:
		return controller.Reconciling(cloudteamv1.ReasonChanging, text+"; it is tried again")
	default:
		return controller.Reconciling(cloudteamv1.ReasonCloudUnavailable, text+"; it is tried again")
	}
}

// succeeded fills in the state of a network that is as the spec says, but for drift that is left.
func (o outcome) succeeded() outcome {
	o.err = nil
	o.applied = true
	if len(o.drift) == 0 {
		o.state = controller.Ready(cloudteamv1.ReasonAvailable, "The network is as declared")
		return o
	}
	message := "Changed in Neutron and left so (driftPolicy Report): " + listed(o.drift)
	o.state = controller.Ready(cloudteamv1.ReasonDriftReported, message)
	if !complete(o.spec, *o.observed) {
		// Nothing is being done about it, and nobody can use the network.
		o.state = controller.Stalled(cloudteamv1.ReasonDriftReported, message)
	}
	return o
}

// listed is differences as one line of a message.
func listed(differences []network.Difference) string {
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}

// complete reports whether the network and all its declared subnets exist.
func complete(spec network.Spec, observed network.Observed) bool {
	n, exists := observed.Network()
	if !exists {
		return false
	}
	for _, subnet := range spec.Subnets {
		if _, exists := n.SubnetByCIDR(subnet.CIDR); !exists {
			return false
		}
	}
	return true
}

// changeEvent tells what was done. It is empty where nothing was.
func changeEvent(done network.Change, drifted bool) event {
	if done.Empty() {
		return event{}
	}
	texts := make([]string, len(done))
	reason := cloudteamv1.EventUpdated
	for i, step := range done {
		texts[i] = describe(step)
		if step.Action == network.CreateNetwork {
			reason = cloudteamv1.EventCreated
		}
	}
	if drifted {
		reason = cloudteamv1.EventDriftCorrected
	}
	return event{reason, strings.Join(texts, "; ")}
}

// describe is a step in the past tense, for an Event.
func describe(step network.Step) string {
	switch step.Action {
	case network.CreateNetwork:
		return "Created network " + step.ID
	case network.CreateSubnet:
		return "Created subnet " + step.Subnet.CIDR.String()
	case network.DeleteNetwork:
		return "Deleted network " + step.ID + ": " + step.Reason
	case network.DeleteSubnet:
		return "Deleted subnet " + step.Subnet.CIDR.String() + ": " + step.Reason
	}
	changes := make([]string, len(step.Differences))
	for i, d := range step.Differences {
		changes[i] = fmt.Sprintf("%s %s → %s", d.Field, d.Actual, d.Declared)
	}
	return "Updated " + step.Differences[0].Resource + ": " + strings.Join(changes, ", ")
}

// report sends the Events of what was done, writes the status where it changed, and tells a new failure or new drift in
// an Event of its own once the status says so too: a status that could not be written is tried again, and its Event
// comes then.
func (c *Controller) report(ctx context.Context, obj *cloudteamv1.Network, o outcome) error {
	for _, e := range o.events {
		if e.reason != "" {
			c.recorder.Event(obj, corev1.EventTypeNormal, e.reason, e.message)
		}
	}
	status := statusOf(obj, o)
	if equality.Semantic.DeepEqual(obj.Status, status) {
		return nil
	}
	if err := c.writeStatus(ctx, obj, status); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	was := meta.FindStatusCondition(obj.Status.Conditions, cloudteamv1.ConditionReady)
	if was != nil && was.Reason == o.state.Reason && was.Message == o.state.Message {
		return nil
	}
	switch {
	case o.err != nil, o.state.Reason == cloudteamv1.ReasonInvalidSpec:
		c.recorder.Event(obj, corev1.EventTypeWarning, o.state.Reason, o.state.Message)
	case len(o.drift) > 0:
		c.recorder.Event(obj, corev1.EventTypeWarning, cloudteamv1.EventDriftDetected, o.state.Message)
	}
	return nil
}

// writeStatus replaces the object's status.
func (c *Controller) writeStatus(
	ctx context.Context, obj *cloudteamv1.Network, status cloudteamv1.NetworkStatus,
) error {
	return controller.WriteStatus(ctx, c.client.CloudteamV1().Networks(obj.Namespace).Patch,
		cloudteamv1.SchemeGroupVersion.WithKind("Network"), obj, status, &c.expected)
}

// ownedSubnets are the network's subnets that bear the owner's marker: the declared ones in the order of the spec, then
// others, by address.
func ownedSubnets(n network.ObservedNetwork, spec network.Spec) []network.ObservedSubnet {
	place := func(s network.ObservedSubnet) int {
		at := slices.IndexFunc(spec.Subnets, func(declared network.Subnet) bool { return declared.CIDR == s.CIDR })
		if at < 0 {
			return len(spec.Subnets)
		}
		return at
	}
	var ours []network.ObservedSubnet
	for _, s := range n.Subnets {
		if spec.Owner.Owns(s.Description) {
			ours = append(ours, s)
		}
	}
	slices.SortFunc(ours, func(a, b network.ObservedSubnet) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), a.CIDR.Addr().Compare(b.CIDR.Addr()), cmp.Compare(a.ID, b.ID))
	})
	return ours
}

// statusOf gives the object's status after a sync. What the sync did not learn stays as it was.
func statusOf(obj *cloudteamv1.Network, o outcome) cloudteamv1.NetworkStatus {
	status := *obj.Status.DeepCopy()
	status.ObservedGeneration = obj.Generation
	status.Conditions = controller.SetState(status.Conditions, obj.Generation, o.state)
	if o.applied {
		status.AppliedGeneration = obj.Generation
	}
	if o.observed == nil {
		return status
	}

	status.Drift = nil
	for _, d := range o.drift {
		status.Drift = append(status.Drift, cloudteamv1.Drift(d))
	}
	status.NetworkID, status.MTU, status.Subnets = "", 0, nil
	n, exists := o.observed.Network()
	if !exists {
		return status
	}
	if status.Cloud == nil && o.identity != nil {
		status.Cloud = new(cloudteamv1.CloudStatus(*o.identity))
	}
	status.NetworkID = n.ID
	status.MTU = int32(n.MTU)
	for _, s := range ownedSubnets(n, o.spec) {
		gateway := cloudteamv1.GatewayNone
		if s.Gateway.IsValid() {
			gateway = s.Gateway.String()
		}
		status.Subnets = append(status.Subnets, cloudteamv1.SubnetStatus{
			ID: s.ID, CIDR: s.CIDR.String(), Gateway: gateway, TotalAddresses: s.Total, UsedAddresses: s.Used,
		})
	}
	return status
}
