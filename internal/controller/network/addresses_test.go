package network

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// filled is a Ready Network whose subnets have so many addresses in use of so many, by CIDR; nothing is counted of those
// that have none.
func filled(counts ...subnetCount) *cloudteamv1.Network {
	obj := networkOf(specOf(cloudteamv1.SubnetSpec{CIDR: counts[0].cidr}))
	obj.Generation = 3
	for i, c := range counts {
		if i > 0 {
			obj.Spec.AdditionalSubnets = append(obj.Spec.AdditionalSubnets, cloudteamv1.SubnetSpec{CIDR: c.cidr})
		}
		s := cloudteamv1.SubnetStatus{ID: "sub-" + c.cidr, CIDR: c.cidr}
		if c.total > 0 {
			s.UsedAddresses, s.TotalAddresses = &c.used, &c.total
		}
		obj.Status.Subnets = append(obj.Status.Subnets, s)
	}
	obj.Status.Conditions = controller.SetState(
		nil, 3, controller.Ready(cloudteamv1.ReasonAvailable, "The network is as declared"))
	return obj
}

type subnetCount struct {
	cidr        string
	used, total int64
}

const (
	four, other, six = "10.0.0.0/24", "10.0.1.0/24", "fd00::/64"
	todo             = ". Widen allocationPools where the cidr has room, declare another subnet of the same IP " +
		"family and reservedFor in additionalSubnets, or delete ports that are not needed."
)

var tenth = addressWatch{0.1}

// lowBefore has the condition stand, as it was told at an earlier time.
func lowBefore(obj *cloudteamv1.Network, message string) *cloudteamv1.Network {
	meta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{
		Type: cloudteamv1.ConditionAddressesLow, Status: metav1.ConditionTrue, ObservedGeneration: 2,
		Reason: cloudteamv1.ReasonAddressesLow, Message: message,
	})
	return obj
}

func TestWhetherAddressesAreLowIsTold(t *testing.T) {
	observing := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.Spec.Import = &cloudteamv1.NetworkImport{ID: "net-1"}
		obj.Spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
		return obj
	}
	pooled := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.Spec.CIDR, obj.Spec.SubnetPool, obj.Status.Subnets[0].SubnetPool = "", "office", "office"
		return obj
	}
	deleted := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.DeletionTimestamp = new(metav1.Now())
		return obj
	}
	forRouters := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.Status.Subnets[1].ServiceTypes = []string{"network:router_gateway"}
		return obj
	}
	forGuests := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.Spec.AdditionalSubnets[0].ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}}
		return obj
	}
	without := func(obj *cloudteamv1.Network) *cloudteamv1.Network {
		obj.Spec.AdditionalSubnets = nil
		return obj
	}
	for sentence, c := range map[string]struct {
		obj   *cloudteamv1.Network
		watch addressWatch
		// says is the message; empty where the condition does not stand.
		says string
	}{
		"with room there is no condition": {filled(subnetCount{four, 200, 253}), tenth, ""},
		"nor where nothing is counted":    {filled(subnetCount{four, 0, 0}), tenth, ""},
		"of a subnet that runs out the counts stand": {filled(subnetCount{four, 240, 253}), tenth,
			"240 of 253 addresses of subnet 10.0.0.0/24 are in use" + todo},
		"those of one IP family count together": {
			filled(subnetCount{four, 240, 253}, subnetCount{six, 240, math.MaxInt64}, subnetCount{other, 253, 253}), tenth,
			"493 of 506 addresses of subnets 10.0.0.0/24 and 10.0.1.0/24 are in use" + todo},
		"so that another subnet ends it": {
			lowBefore(filled(subnetCount{four, 253, 253}, subnetCount{other, 1, 253}), "before"), tenth, ""},
		"but none that is for other ports": {
			forRouters(filled(subnetCount{four, 253, 253}, subnetCount{other, 1, 253})), tenth,
			"253 of 253 addresses of subnet 10.0.0.0/24 are in use" + todo},
		"nor for other users": {
			forGuests(filled(subnetCount{four, 253, 253}, subnetCount{other, 1, 253})), tenth,
			"253 of 253 addresses of subnet 10.0.0.0/24 are in use" + todo},
		"and beside one that does, one that nearly does": {
			filled(subnetCount{four, 240, 253}, subnetCount{six, 220, 253}), tenth,
			"240 of 253 addresses of subnet 10.0.0.0/24 are in use, 220 of 253 addresses of subnet fd00::/64 are in " +
				"use" + todo},
		"endless subnets have an end": {
			filled(subnetCount{six, 1, math.MaxInt64}, subnetCount{"fd01::/64", math.MaxInt64, math.MaxInt64}), tenth,
			"9223372036854775807 of 9223372036854775807 addresses of subnets fd00::/64 and fd01::/64 are in use" + todo},
		"one that nearly does is not enough": {filled(subnetCount{other, 220, 253}), tenth, ""},
		"but does not end it either": {lowBefore(filled(subnetCount{other, 220, 253}), "before"), tenth,
			"220 of 253 addresses of subnet 10.0.1.0/24 are in use" + todo},
		"it ends with some more":                 {lowBefore(filled(subnetCount{other, 215, 253}), "before"), tenth, ""},
		"it ends where nobody counts any more":   {lowBefore(filled(subnetCount{four, 0, 0}), "before"), tenth, ""},
		"it ends where it is turned off":         {lowBefore(filled(subnetCount{four, 253, 253}), "before"), addressWatch{}, ""},
		"it does not begin where it is":          {filled(subnetCount{four, 253, 253}), addressWatch{}, ""},
		"a Network that goes needs no addresses": {deleted(lowBefore(filled(subnetCount{four, 253, 253}), "before")), tenth, ""},
		"nor does a subnet that was taken out of the spec": {
			without(filled(subnetCount{four, 0, 253}, subnetCount{other, 253, 253})), tenth, ""},
		"one whose range is from a pool is as any other": {pooled(filled(subnetCount{four, 253, 253})), tenth,
			"253 of 253 addresses of subnet 10.0.0.0/24 are in use" + todo},
		"of an observed one others can do something": {observing(filled(subnetCount{four, 253, 253})), tenth,
			"253 of 253 addresses of subnet 10.0.0.0/24 are in use. Have the owner of the network widen its pools or add " +
				"a subnet, or delete ports that are not needed."},
	} {
		t.Run(sentence, func(t *testing.T) {
			ready := *meta.FindStatusCondition(c.obj.Status.Conditions, cloudteamv1.ConditionReady)
			c.watch.setCondition(c.obj)
			want := []metav1.Condition{ready}
			if c.says != "" {
				want = append(want, metav1.Condition{
					Type: cloudteamv1.ConditionAddressesLow, Status: metav1.ConditionTrue, ObservedGeneration: 3,
					Reason: cloudteamv1.ReasonAddressesLow, Message: c.says,
				})
			}
			got := c.obj.DeepCopy().Status.Conditions
			for i := range got {
				if got[i].Type == cloudteamv1.ConditionAddressesLow {
					got[i].LastTransitionTime = metav1.Time{}
				}
			}
			expect.Equal(t, want, got, "conditions")
		})
	}
}

func TestASubnetIsKnownByItsCIDRHoweverItIsSpelt(t *testing.T) {
	obj := filled(subnetCount{four, 0, 253}, subnetCount{six, 5, 5})
	obj.Spec.AdditionalSubnets[0].CIDR = "FD00:0:0::/64"
	tenth.setCondition(obj)
	if !meta.IsStatusConditionTrue(obj.Status.Conditions, cloudteamv1.ConditionAddressesLow) {
		t.Error("the subnet is taken for one that the spec does not declare")
	}
}

func TestWhichCountsAreWorthAWrite(t *testing.T) {
	told := func(counts ...subnetCount) *cloudteamv1.Network {
		obj := filled(counts...)
		tenth.setCondition(obj)
		return obj
	}
	then := func(was *cloudteamv1.Network, counts ...subnetCount) *cloudteamv1.Network {
		obj := filled(counts...)
		obj.Status.Conditions = was.DeepCopy().Status.Conditions
		tenth.setCondition(obj)
		return obj
	}
	for sentence, c := range map[string]struct {
		was        []subnetCount
		is         []subnetCount
		change     func(was, is *cloudteamv1.Network)
		negligible bool
	}{
		"a Pod came": {was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 6, 253}}, negligible: true},
		"a twentieth of all addresses came into use": {
			was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 18, 253}}},
		"a twentieth of one subnet's did": {
			was: []subnetCount{{four, 5, 253}, {other, 5, 253}}, is: []subnetCount{{four, 5, 253}, {other, 18, 253}}},
		"an address of a small subnet came into use": {was: []subnetCount{{four, 1, 5}}, is: []subnetCount{{four, 2, 5}}},
		"the pools became larger":                    {was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 5, 254}}},
		"somebody counts now":                        {was: []subnetCount{{four, 0, 0}}, is: []subnetCount{{four, 5, 253}}},
		"nobody counts any more":                     {was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 0, 0}}},
		"nobody ever counted":                        {was: []subnetCount{{four, 0, 0}}, is: []subnetCount{{four, 0, 0}}, negligible: true},
		"a subnet came": {
			was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 5, 253}, {six, 0, math.MaxInt64}}},
		"something else changed, too": {
			was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 6, 253}},
			change: func(_, is *cloudteamv1.Network) { is.Status.MTU = 9000 }},
		"the subnet is another of the same CIDR": {
			was: []subnetCount{{four, 5, 253}}, is: []subnetCount{{four, 6, 253}},
			change: func(_, is *cloudteamv1.Network) { is.Status.Subnets[0].ID = "made-anew" }},
		"addresses became low by a step that is none": {
			was: []subnetCount{{four, 227, 253}}, is: []subnetCount{{four, 228, 253}}},
		"they are low, and a Pod came": {
			was: []subnetCount{{four, 240, 253}}, is: []subnetCount{{four, 241, 253}}, negligible: true},
		"they are low, and many came": {
			was: []subnetCount{{four, 236, 253}}, is: []subnetCount{{four, 250, 253}}},
		"they are low, and those of another subnet became so": {
			was: []subnetCount{{four, 240, 253}, {six, 215, 253}}, is: []subnetCount{{four, 240, 253}, {six, 216, 253}}},
		"of two subnets that are low one is not any more": {was: []subnetCount{{four, 216, 253}, {six, 240, 253}},
			is: []subnetCount{{four, 215, 253}, {six, 229, 253}}},
		"they are low by another share than they were told": {
			was: []subnetCount{{four, 240, 253}}, is: []subnetCount{{four, 240, 253}},
			change: func(was, _ *cloudteamv1.Network) {
				meta.FindStatusCondition(was.Status.Conditions, cloudteamv1.ConditionAddressesLow).Message = "of another share"
			}},
	} {
		t.Run(sentence, func(t *testing.T) {
			was := told(c.was...)
			is := then(was, c.is...)
			if c.change != nil {
				c.change(was, is)
			}
			untouched := is.DeepCopy()
			expect.Equal(t, c.negligible, tenth.negligible(was, is), "negligible")
			expect.Equal(t, untouched, is, "the object was changed")
		})
	}
}
