package plan_test

import (
	"slices"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// cloud is a Neutron in which people work behind our back.
type cloud struct{ plantest.Neutron }

func (c *cloud) clone() *cloud { return &cloud{*c.Clone()} }

// apply takes the steps until one fails, and says which.
func (c *cloud) apply(change Change) error {
	_, err := c.Apply(change)
	return err
}

func clonePortSpec(spec PortSpec) PortSpec {
	spec.Addresses = slices.Clone(spec.Addresses)
	spec.SecurityGroups = slices.Clone(spec.SecurityGroups)
	spec.AddressPairs = slices.Clone(spec.AddressPairs)
	return spec
}

// keepUnset gives what the spec leaves as it is the values that it had.
func keepUnset(a *Attributes, spec Spec, had Attributes) {
	if spec.MTU == 0 {
		a.MTU = had.MTU
	}
	if spec.PortSecurity == nil {
		a.PortSecurity = had.PortSecurity
	}
	if spec.DNSDomain == nil {
		a.DNSDomain = had.DNSDomain
	}
	if spec.QoSPolicy == nil {
		a.QoSPolicy = had.QoSPolicy
	}
	if spec.Shared == nil {
		a.Shared = had.Shared
	}
	if spec.External == nil {
		a.External = had.External
	}
	if spec.Provider.SegmentationID == 0 {
		a.Provider.SegmentationID = had.Provider.SegmentationID
	}
	a.Provider.NetworkType, a.Provider.PhysicalNetwork = had.Provider.NetworkType, had.Provider.PhysicalNetwork
	if spec.Tags == nil {
		a.Tags = slices.Sorted(slices.Values(had.Tags))
	}
}

func cloneSpec(spec Spec) Spec {
	a := plantest.CloneAttributes(spec.Attributes())
	spec.PortSecurity, spec.DNSDomain, spec.Tags, spec.Shared, spec.External = a.PortSecurity, a.DNSDomain, a.Tags, a.Shared, a.External
	spec.ZoneHints, spec.QoSPolicy, spec.SharedWith = a.ZoneHints, a.QoSPolicy, slices.Clone(spec.SharedWith)
	spec.Subnets = slices.Clone(spec.Subnets)
	for i, s := range spec.Subnets {
		spec.Subnets[i] = plantest.CloneSubnet(s)
	}
	if spec.Router != nil {
		spec.Router = new(*spec.Router)
		spec.Router.Routes = slices.Clone(spec.Router.Routes)
		spec.Router.HA, spec.Router.Distributed = plantest.ClonePointer(spec.Router.HA), plantest.ClonePointer(spec.Router.Distributed)
	}
	return spec
}
