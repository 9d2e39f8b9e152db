package neutrontest

import (
	"net/http"
	"strings"
)

// The types of networks that the cloud has, and its physical network.
const (
	vxlanType       = "vxlan"
	vlanType        = "vlan"
	flatType        = "flat"
	physicalNetwork = "physnet1"
)

// vlans are what the cloud chooses from where no id is asked for; each one up to 4094 may be asked for.
const (
	firstVLAN, lastVLAN = 100, 199
	maxVLAN             = 4094
)

// vxlanOverhead is by how many bytes the MTU of a vxlan network is smaller than that of the network below.
const vxlanOverhead = 50

// segment is what a network is made of below.
type segment struct {
	networkType string
	physical    string // the physical network's name, or empty
	id          int    // 0 for a flat network
}

// shownID is the id in a body: a flat network has none.
func (s segment) shownID() any {
	if s.networkType == flatType {
		return nil
	}
	return s.id
}

// segments are those that are in use.
type segments struct {
	limit int // of vxlan ids that are given out, the lowest free one first: Unlimited, or the highest
	next  int // no vxlan id below it is free
	used  map[segment]bool
}

func (s *segments) take(one segment) bool {
	if s.used[one] {
		return false
	}
	s.used[one] = true
	return true
}

// takeAny takes any of a type, on a physical network where it is on one. Ids that were asked for may lie above what is
// given out.
func (s *segments) takeAny(networkType, physical string) (segment, bool) {
	if networkType == vlanType {
		for id := firstVLAN; id <= lastVLAN; id++ {
			if one := (segment{vlanType, physical, id}); s.take(one) {
				return one, true
			}
		}
		return segment{}, false
	}
	for s.next = max(s.next, 1); s.limit == Unlimited || s.next <= s.limit; s.next++ {
		if one := (segment{vxlanType, "", s.next}); s.take(one) {
			return one, true
		}
	}
	return segment{}, false
}

func (s *segments) release(one segment) {
	delete(s.used, one)
	if one.networkType == vxlanType {
		s.next = min(s.next, one.id)
	}
}

// takeSegment gives a network the segment that an admin asks for, or any.
func (s *Server) takeSegment(in values) (segment, *apiError) {
	wanted := segment{in.text("provider:network_type"), in.text("provider:physical_network"), in.number(segmentationID)}
	chosen := in.has(segmentationID)
	switch wanted.networkType {
	case "":
		if chosen || in.has("provider:physical_network") {
			return segment{}, invalidInput("network_type required")
		}
		wanted.networkType = vxlanType
	case vxlanType:
		if wanted.physical != "" {
			return segment{}, invalidInput("provider:physical_network specified for vxlan network")
		}
	case vlanType, flatType:
		if err := checkPhysical(wanted, chosen); err != nil {
			return segment{}, err
		}
		if wanted.physical == "" {
			wanted.physical = physicalNetwork
		}
	default:
		return segment{}, invalidInput("network_type value '%s' not supported", wanted.networkType)
	}
	if chosen || wanted.networkType == flatType {
		if !s.segments.take(wanted) {
			return segment{}, segmentInUse(wanted)
		}
		return wanted, nil
	}
	one, ok := s.segments.takeAny(wanted.networkType, wanted.physical)
	if !ok {
		return segment{}, refuse(http.StatusServiceUnavailable, "NoNetworkAvailable",
			"Unable to create the network. No tenant network is available for allocation.")
	}
	return one, nil
}

const segmentationID = "provider:segmentation_id"

// checkPhysical refuses what is no vlan or flat network of the cloud. chosen is whether an id is asked for.
func checkPhysical(wanted segment, chosen bool) *apiError {
	title := strings.ToUpper(wanted.networkType)
	if wanted.networkType == flatType {
		title = flatType
	}
	switch {
	case wanted.networkType == flatType && wanted.physical == "":
		return invalidInput("physical_network required for flat provider network")
	case wanted.physical != "" && wanted.physical != physicalNetwork:
		return invalidInput("physical_network '%s' unknown for %s provider network", wanted.physical, title)
	case wanted.networkType == flatType && chosen:
		return invalidInput("segmentation_id prohibited for flat provider network")
	case wanted.physical == "" && chosen:
		return invalidInput("segmentation_id requires physical_network for VLAN provider network")
	case chosen && (wanted.id < 1 || wanted.id > maxVLAN):
		return invalidInput("segmentation_id out of range (1 through %d)", maxVLAN)
	}
	return nil
}

func segmentInUse(s segment) *apiError {
	switch s.networkType {
	case vlanType:
		return refuse(http.StatusConflict, "VlanIdInUse",
			"Unable to create the network. The VLAN %d on physical network %s is in use.", s.id, s.physical)
	case flatType:
		return refuse(http.StatusConflict, "FlatNetworkInUse",
			"Unable to create the flat network. Physical network %s is in use.", s.physical)
	}
	return refuse(http.StatusConflict, "TunnelIdInUse",
		"Unable to create the network. The tunnel ID %d is in use.", s.id)
}

// resegment changes the id of a vlan, the one thing that can change of a segment.
func (s *Server) resegment(n *network, in values) *apiError {
	is := n.segment
	given := func(name, value string) bool { return in.has(name) && in.text(name) != value }
	if given("provider:network_type", is.networkType) || given("provider:physical_network", is.physical) {
		return invalidInput("Plugin does not support updating the following provider network attributes: " +
			"provider:physical_network, provider:network_type")
	}
	id := in.number(segmentationID)
	switch wanted := (segment{is.networkType, is.physical, id}); {
	case !in.has(segmentationID), id == 0:
		return nil
	case is.networkType != vlanType:
		return invalidInput("Only VLAN type networks can be updated.")
	case id < 1 || id > maxVLAN:
		return invalidInput("segmentation_id out of range (1 through %d)", maxVLAN)
	case !s.segments.take(wanted): // its own one included
		return segmentInUse(wanted)
	default:
		s.segments.release(is)
		n.segment = wanted
		return nil
	}
}

// mtu gives the MTU that a request asks for of a network; zero asks for the largest one.
func (s *Server) mtu(in values, of segment) (int, *apiError) {
	largest := s.options.MaxMTU
	if of.networkType != vxlanType {
		largest += vxlanOverhead
	}
	switch mtu := in.number("mtu"); {
	case mtu == 0:
		return largest, nil
	case mtu > largest:
		return 0, invalidInput("Requested MTU is too big, maximum is %d", largest)
	default:
		return mtu, nil
	}
}
