package network

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// addressWatch decides when to warn about addresses in use (the condition AddressesLow), and which counts are worth a
// write. Both follow from the counts in the status.
type addressWatch struct {
	// share is Options.AddressesLow.
	share float64
}

// usageOf gives a subnet's usage by its status; known is false if the status lacks the counts.
func usageOf(s cloudteamv1.SubnetStatus) (u plan.Usage, known bool) {
	if s.UsedAddresses == nil || s.TotalAddresses == nil {
		return plan.Usage{}, false
	}
	return plan.Usage{Used: *s.UsedAddresses, Total: *s.TotalAddresses}, true
}

// tell sets or removes the condition by the counts in the object's status. While some subnet is low, the message also
// names the subnets that would stay low if they were low before. A Network that is being deleted needs no addresses.
func (w addressWatch) tell(obj *cloudteamv1.Network) {
	conditions := &obj.Status.Conditions
	was := meta.IsStatusConditionTrue(*conditions, cloudteamv1.ConditionAddressesLow)
	if obj.DeletionTimestamp == nil && len(w.low(obj, obj.Status.Subnets, was)) > 0 {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: cloudteamv1.ConditionAddressesLow, Status: metav1.ConditionTrue, ObservedGeneration: obj.Generation,
			Reason: cloudteamv1.ReasonAddressesLow, Message: lowMessage(obj, w.low(obj, obj.Status.Subnets, true)),
		})
		return
	}
	meta.RemoveStatusCondition(conditions, cloudteamv1.ConditionAddressesLow)
}

// low gives the declared subnets that are low on addresses; was says whether they were low before. A subnet that was
// removed from the spec does not count: it is expected to run empty.
func (w addressWatch) low(
	obj *cloudteamv1.Network, subnets []cloudteamv1.SubnetStatus, was bool,
) (low []cloudteamv1.SubnetStatus) {
	for _, s := range subnets {
		if u, known := usageOf(s); known && u.Low(w.share, was) && obj.Declares(s) {
			low = append(low, s)
		}
	}
	return low
}

// lowMessage names the low subnets and says what to do.
func lowMessage(obj *cloudteamv1.Network, low []cloudteamv1.SubnetStatus) string {
	texts := make([]string, len(low))
	for i, s := range low {
		texts[i] = fmt.Sprintf("%d of %d addresses of subnet %s are in use", *s.UsedAddresses, *s.TotalAddresses, s.CIDR)
	}
	todo := "Widen allocationPools where the cidr has room, declare another subnet in additionalSubnets for " +
		"NetworkPorts that name its addresses, or delete ports that are not needed."
	if obj.Observes() {
		todo = "Have whoever manages the network widen its pools or add a subnet, or delete ports that are not needed."
	}
	return strings.Join(texts, ", ") + ". " + todo
}

// toWrite is the Kind's ToWrite.
func (w addressWatch) toWrite(was, is *cloudteamv1.Network) (status any, changed bool) {
	return is.Status, !w.negligible(was, is)
}

// negligible reports whether no difference is worth a write: Pods come and go, and each takes an address. Counts are
// written when one is a step away from the last written one (plan.Usage.Near). They are also written when other subnets
// become low or no longer are, and along with anything else.
func (w addressWatch) negligible(was, is *cloudteamv1.Network) bool {
	if len(was.Status.Subnets) != len(is.Status.Subnets) {
		return false
	}
	like := is.Status.DeepCopy()
	for i := range like.Subnets {
		told, wasKnown := usageOf(was.Status.Subnets[i])
		counted, known := usageOf(like.Subnets[i])
		if known != wasKnown || !told.Near(counted) {
			return false
		}
		like.Subnets[i].UsedAddresses = was.Status.Subnets[i].UsedAddresses
	}
	lowThen := meta.FindStatusCondition(was.Status.Conditions, cloudteamv1.ConditionAddressesLow)
	lowNow := meta.FindStatusCondition(like.Conditions, cloudteamv1.ConditionAddressesLow)
	if lowThen != nil && lowNow != nil {
		// The message has the counts, too. The old one stays if it matches the old counts and names the same subnets.
		then, now := w.low(is, like.Subnets, true), w.low(is, is.Status.Subnets, true)
		sameSubnet := func(a, b cloudteamv1.SubnetStatus) bool { return a.ID == b.ID }
		if lowMessage(is, then) == lowThen.Message && slices.EqualFunc(then, now, sameSubnet) {
			lowNow.Message = lowThen.Message
		}
	}
	return !managed.Differs(was.Status, *like)
}
