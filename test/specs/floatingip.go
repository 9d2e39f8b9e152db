package specs

import (
	"reflect"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// beyond is the cidr of the external network that floating IPs are of. No router's gateway moves to or from it, but one
// is in it, at an address that Neutron draws: the one that a floating IP asks for MUST be outside of the pool.
const beyond = "192.0.2.0/24"

// floatingFields is the table of a FloatingIPSpec's fields.
func floatingFields() []field[cloudteamv1.FloatingIPSpec] {
	return []field[cloudteamv1.FloatingIPSpec]{
		{
			path: "externalNetwork", with: "new", ofCloud: true,
			may: func(was, is cloudteamv1.FloatingIPSpec) bool {
				return was.ExternalNetwork == is.ExternalNetwork
			},
			lives: []Life{made("floating", outsideName(beyond)).as(readOutside)},
		},
		{
			path: "address", with: "new", ofCloud: true,
			may:   func(was, is cloudteamv1.FloatingIPSpec) bool { return was.Address == is.Address },
			lives: []Life{made("floating", "192.0.2.250")},
		},
		{
			path: "import.id", with: "new", ofCloud: true,
			may:   func(was, is cloudteamv1.FloatingIPSpec) bool { return reflect.DeepEqual(was.Import, is.Import) },
			lives: []Life{{Trial: "floating", Never: "lifeOfAnImportedFloatingIP takes one over that was made by hand"}},
		},
		{
			path: "import.filter.tags", with: "new", ofCloud: true,
			may:   func(was, is cloudteamv1.FloatingIPSpec) bool { return reflect.DeepEqual(was.Import, is.Import) },
			lives: []Life{{Trial: "floating", Never: "TestImportsByFilter finds one that was made by hand"}},
		},
		{
			path: "portName", part: ofNetwork, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.FloatingIPSpec) {
				s.PortName = rapid.SampledFrom(append([]string{""}, l.FloatingPorts...)).Draw(t, "portName")
			},
			lives: []Life{{
				Trial: "floating", Create: nameOf("first"), Change: nameOf("second"), Drift: isNil, Gone: isNil, Told: " port ",
				Reads: readPort,
			}},
		},
		{path: "deletionPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.FloatingIPSpec) {
			drawDeletion(t, &s.DeletionPolicy)
		}},
		{path: "managementPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.FloatingIPSpec) {
			s.ManagementPolicy = rapid.SampledFrom([]cloudteamv1.ManagementPolicy{
				"", "Manage",
			}).Draw(t, "managementPolicy")
		}},
		{
			path: "cloud", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.FloatingIPSpec) {
				if s.Cloud = nil; len(l.Clouds) > 0 {
					s.Cloud = rapid.SampledFrom(l.Clouds).Draw(t, "cloud").DeepCopy()
				}
			},
		},
		{path: "cloud.name", with: "cloud", ofCloud: true},
		{path: "cloud.secretName", with: "cloud", ofCloud: true},
		{
			path: "className", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.FloatingIPSpec) {
				if s.ClassName = ""; s.Cloud == nil && len(l.Classes) > 0 {
					s.ClassName = rapid.SampledFrom(l.Classes).Draw(t, "className")
				}
			},
		},
	}
}

// FloatingIP draws specs that the API server accepts. Limits MUST have FloatingNetworks.
func (l Limits) FloatingIP() *rapid.Generator[cloudteamv1.FloatingIPSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.FloatingIPSpec {
		spec := cloudteamv1.FloatingIPSpec{
			ExternalNetwork: rapid.SampledFrom(l.FloatingNetworks).Draw(t, "externalNetwork"),
		}
		if len(l.FloatingAddresses) > 0 && oneIn(t, 2, "chosen") {
			spec.Address = rapid.SampledFrom(l.FloatingAddresses).Draw(t, "address")
		}
		if len(l.FloatingImports) > 0 && oneIn(t, 2, "imported") {
			spec.Import = &cloudteamv1.FloatingIPImport{ID: rapid.SampledFrom(l.FloatingImports).Draw(t, "import")}
			if len(l.FloatingTags) > 0 && rapid.Bool().Draw(t, "by tags") {
				spec.Import = &cloudteamv1.FloatingIPImport{Filter: &cloudteamv1.FloatingIPImportFilter{Tags: l.FloatingTags}}
			}
		}
		drawSome(t, l, drawnIn(floatingFields(), ofNetwork, ofPolicy), &spec)
		return spec
	})
}

// FloatingIPEdit draws what a spec may become. The API server refuses those with another external
// network, address or import.
func (l Limits) FloatingIPEdit(spec cloudteamv1.FloatingIPSpec) *rapid.Generator[cloudteamv1.FloatingIPSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.FloatingIPSpec {
		edited := *spec.DeepCopy()
		if oneIn(t, 8, "another") {
			return l.FloatingIP().Draw(t, "another")
		}
		redraw(t, l, drawnIn(floatingFields(), ofNetwork, ofPolicy), &edited)
		if edited.Cloud != nil { // which has no class
			edited.ClassName = ""
		}
		return edited
	})
}

// FloatingIPMayBecome reports whether the API server takes an edit of a spec that it accepts by itself.
func FloatingIPMayBecome(was, is cloudteamv1.FloatingIPSpec) bool {
	return mayBecome(floatingFields(), was, is)
}

// nameOf is the name of the object of another trial.
func nameOf(trial string) Late { return func(o Tried) any { return o.Other(trial).Called() } }

// readPort reads the name of a NetworkPort of the trials first and second.
func readPort(o Tried, _ string, declared any) any {
	for _, trial := range []string{"first", "second"} {
		if port := o.Other(trial); declared == port.Called() {
			return port.ID("port")
		}
	}
	return declared
}
