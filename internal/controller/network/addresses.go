package network

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
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

// setCondition sets or removes the condition by the counts in the object's status. While some group is low, the message
// also names the groups that would stay low if they were low before. A Network that is being deleted needs no
// addresses.
func (w addressWatch) setCondition(obj *cloudteamv1.Network) {
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

// group is subnets of a Network that serve in each other's place: one IP family, and the same kinds of ports and users.
type group struct {
	plan.Usage
	cidrs []string
}

// groupsOf gives the counted groups of a Network. A subnet that was removed from the spec does not count: it is to run
// empty.
func groupsOf(obj *cloudteamv1.Network, subnets []cloudteamv1.SubnetStatus) []group {
	purpose := func(s cloudteamv1.SubnetStatus) string {
		of := slices.Sorted(slices.Values(s.ServiceTypes))
		return fmt.Sprint(strings.Contains(s.CIDR, ":"), declare.SelfAddressed(s), of, declare.Users(obj, s))
	}
	var groups []group
	at := map[string]int{}
	for _, s := range subnets {
		u, known := usageOf(s)
		if !known || !obj.Declares(s) {
			continue
		}
		key := purpose(s)
		n, exists := at[key]
		if !exists {
			n = len(groups)
			at[key], groups = n, append(groups, group{})
		}
		groups[n].Usage, groups[n].cidrs = groups[n].Plus(u), append(groups[n].cidrs, s.CIDR)
	}
	return groups
}

// low gives the groups that are low on addresses; was says whether they were low before.
func (w addressWatch) low(obj *cloudteamv1.Network, subnets []cloudteamv1.SubnetStatus, was bool) []group {
	return slices.DeleteFunc(groupsOf(obj, subnets), func(g group) bool { return !g.Low(w.share, was) })
}

// lowMessage names the subnets that are low and says what to do.
func lowMessage(obj *cloudteamv1.Network, low []group) string {
	texts := make([]string, len(low))
	for i, g := range low {
		which := "subnet "
		if len(g.cidrs) > 1 {
			which = "subnets "
		}
		texts[i] = fmt.Sprintf("%d of %d addresses of %s are in use", g.Used, g.Total, which+strings.Join(g.cidrs, " and "))
	}
	todo := "Widen allocationPools where the cidr has room, declare another subnet of the same IP " +
		"family and reservedFor in additionalSubnets, or delete ports that are not needed."
	if obj.Observes() {
		todo = "Have the owner of the network widen its pools or add a subnet, or delete ports that are not needed."
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
		same := func(a, b group) bool { return slices.Equal(a.cidrs, b.cidrs) }
		if lowMessage(is, then) == lowThen.Message && slices.EqualFunc(then, now, same) {
			lowNow.Message = lowThen.Message
		}
	}
	return !managed.Differs(was.Status, *like)
}
