package plan

// privileged are the fields that only an administrator may set under Neutron's default policy (neutron.conf.policies,
// of networks, of ports and of routers).
var privileged = []string{
	FieldShared, FieldExternal, FieldNetworkType, FieldPhysicalNetwork, FieldSegmentationID, FieldMAC,
	FieldSNAT, FieldExternalIP, FieldHA, FieldDistributed,
}

// Privileged lists the fields that the step sends and that only an administrator may set under Neutron's default
// policy.
func (s Step) Privileged() (fields []string) {
	a, r := s.Attributes, s.Router
	var sent map[string]bool
	switch s.Action {
	case CreateNetwork:
		sent = map[string]bool{
			FieldShared: a.Shared != nil && *a.Shared, FieldExternal: a.External != nil && *a.External,
			FieldNetworkType: a.Provider.NetworkType != "", FieldPhysicalNetwork: a.Provider.PhysicalNetwork != "",
			FieldSegmentationID: a.Provider.SegmentationID != 0,
		}
	case CreateRouter, UpdateGateway:
		sent = map[string]bool{
			FieldSNAT: r.Gateway.SNAT != nil, FieldExternalIP: len(r.Gateway.Addresses) > 0,
			FieldHA: s.Action.Creates() && r.HA != nil, FieldDistributed: s.Action.Creates() && r.Distributed != nil,
		}
	}
	for _, field := range privileged {
		if sent[field] || !s.Action.Creates() && s.Changes(field) {
			fields = append(fields, field)
		}
	}
	return fields
}
