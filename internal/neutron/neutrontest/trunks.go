package neutrontest

import (
	"net/http"
	"slices"
)

// trunk carries several ports to one virtual machine: that of its parent, and of each subport with its own VLAN.
type trunk struct {
	standard
	parent       *port
	adminStateUp bool
	subports     []subport
}

type subport struct {
	port *port
	vlan int
}

type subportBody struct {
	PortID string `json:"port_id"`
	Type   string `json:"segmentation_type"`
	VLAN   int    `json:"segmentation_id"`
	MAC    string `json:"mac_address,omitempty"`
}

func (r *trunk) bodies() []subportBody {
	bodies := []subportBody{}
	for _, sub := range r.subports {
		bodies = append(bodies, subportBody{PortID: sub.port.id, Type: "vlan", VLAN: sub.vlan})
	}
	return bodies
}

// trunkDetails is what a port shows of the trunk whose parent it is.
type trunkDetails struct {
	TrunkID string `json:"trunk_id"`
	// Subports are as in lists. For one port alone, each real one adds their hardware addresses.
	Subports []subportBody `json:"sub_ports"`
}

// trunkDetails is omitted from ports that are no parents.
func (s *Server) trunkDetails(p *port) any {
	r := s.trunkOf(p)
	if r == nil {
		return omitted{}
	}
	details := trunkDetails{r.id, r.bodies()}
	if s.since(SubportsTellMACs) {
		for i, sub := range r.subports {
			details.Subports[i].MAC = sub.port.mac
		}
	}
	return details
}

// trunkOf is the trunk whose parent a port is, or nil. trunkWith is the one whose subport it is.
func (s *Server) trunkOf(p *port) *trunk {
	if found := s.trunks.with("port_id", p.id); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (s *Server) trunkWith(p *port) *trunk {
	for _, r := range s.trunks.ordered {
		if slices.ContainsFunc(r.subports, func(sub subport) bool { return sub.port == p }) {
			return r
		}
	}
	return nil
}

func (s *Server) trunkKind() kind {
	k := &resources[*trunk]{server: s, schema: trunkSchema(), table: s.trunks}
	k.build = s.createTrunk
	k.alter = func(tx *transaction, _ *caller, r *trunk, in values) *apiError {
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		if tx.moves() {
			tx.bump(&r.standard)
		}
		s.trunks.change(r, func() {
			r.rename(in)
			r.adminStateUp = in.truth("admin_state_up", r.adminStateUp)
		})
		return nil
	}
	k.discard = func(tx *transaction, _ *caller, r *trunk) *apiError {
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		s.trunks.remove(r)
		return nil
	}
	k.actions = map[string]func(*transaction, *caller, *trunk, map[string]any) (any, *apiError){
		"add_subports":    s.addSubports,
		"remove_subports": s.removeSubports,
	}
	return k
}

func trunkSchema() *schema[*trunk] {
	s := &schema[*trunk]{
		singular: "trunk", plural: "trunks", single: true,
		notFound: func(id string) *apiError {
			return refuse(http.StatusNotFound, "TrunkNotFound", "Trunk %s could not be found.", id)
		},
		seenBy: func(v *view, r *trunk) bool { return v.caller.admin || r.project == v.caller.project },
	}
	s.attributes = append([]attribute[*trunk]{
		identifier[*trunk](),
		resourceName[*trunk](),
		{name: "admin_state_up", access: inPost | inPut | visible | filterable | sortable, convert: toBoolean,
			get: func(_ *view, r *trunk) any { return r.adminStateUp }},
		{name: "port_id", access: inPost | required | visible | filterable | sortable, check: isUUID,
			get: func(_ *view, r *trunk) any { return r.parent.id }},
		tenant[*trunk](),
		{name: "status", access: visible | sortable, get: func(*view, *trunk) any { return "DOWN" }},
		{name: "sub_ports", access: visible, get: func(_ *view, r *trunk) any { return r.bodies() }},
	}, standardAttributes[*trunk]()...)
	return s.init()
}

func (s *Server) createTrunk(tx *transaction, c *caller, in values) (*trunk, *apiError) {
	parent, ok := s.ports.byID[in.text("port_id")]
	switch {
	case !ok || !c.admin && parent.project != c.project:
		return nil, portNotFound(in.text("port_id"))
	case s.trunkWith(parent) != nil:
		return nil, refuse(http.StatusConflict, "TrunkPortInUse", "Port %s is in use by another trunk.", parent.id)
	case s.trunkOf(parent) != nil:
		return nil, parentInUse(parent.id)
	}
	r := &trunk{parent: parent, adminStateUp: in.truth("admin_state_up", true)}
	tx.stamp("trunks", &r.standard, in)
	insertIn(tx, s.trunks, r)
	return r, nil
}

func parentInUse(id string) *apiError {
	return refuse(http.StatusConflict, "ParentPortInUse",
		"Port %s is currently in use and is not eligible for use as a parent port.", id)
}

// wantedSubports reads the subports of a request. The real one has more ways to say what is wrong with them.
func wantedSubports(body map[string]any) ([]map[string]any, *apiError) {
	list, ok := body["sub_ports"].([]any)
	if !ok {
		return nil, invalidInput("Invalid data format for subports: '%s'", pyString(body["sub_ports"]))
	}
	var wanted []map[string]any
	for _, item := range list {
		object, ok := item.(map[string]any)
		if id, given := object["port_id"].(string); !ok || !given || isUUID(id) != "" {
			return nil, invalidInput("Invalid data format for subports: '%s'", pyString(list))
		}
		wanted = append(wanted, object)
	}
	return wanted, nil
}

// eachSubport takes the subports of a request one by one, and undoes all if one is refused.
func (s *Server) eachSubport(
	tx *transaction, r *trunk, body map[string]any, take func(id string, object map[string]any) *apiError,
) (any, *apiError) {
	wanted, err := wantedSubports(body)
	if err != nil {
		return nil, err
	}
	before := r.subports
	tx.onUndo(func() { r.subports = before })
	for _, object := range wanted {
		if err := take(object["port_id"].(string), object); err != nil {
			return nil, err
		}
	}
	if !s.since(SubportsKeepRevision) {
		tx.bump(&r.standard)
	}
	return r.actionBody(), nil
}

func (s *Server) addSubports(tx *transaction, c *caller, r *trunk, body map[string]any) (any, *apiError) {
	return s.eachSubport(tx, r, body, func(id string, object map[string]any) *apiError {
		p, ok := s.ports.byID[id]
		given, _ := toInteger(object["segmentation_id"])
		vlan, _ := given.(int)
		switch {
		case object["segmentation_type"] != "vlan" || vlan < 1 || vlan > 4094:
			return invalidInput("Segmentation ID '%s' is not in range", pyString(object["segmentation_id"]))
		case !ok || !c.admin && p.project != c.project:
			return portNotFound(id)
		case p == r.parent, s.trunkOf(p) != nil:
			return parentInUse(id)
		case s.trunkWith(p) != nil:
			return refuse(http.StatusConflict, "TrunkPortInUse", "Port %s is in use by another trunk.", id)
		case p.deviceID != "":
			return refuse(http.StatusConflict, "PortInUse", "Unable to complete operation on port %s for network %s. "+
				"Port already has an attached device %s.", id, p.network.id, p.deviceID)
		case slices.ContainsFunc(r.subports, func(sub subport) bool { return sub.vlan == vlan }):
			return refuse(http.StatusConflict, "DuplicateSubPort",
				"segmentation_type vlan and segmentation_id %d already in use on trunk %s.", vlan, r.id)
		}
		r.subports = append(slices.Clip(r.subports), subport{p, vlan})
		return nil
	})
}

func (s *Server) removeSubports(tx *transaction, _ *caller, r *trunk, body map[string]any) (any, *apiError) {
	return s.eachSubport(tx, r, body, func(id string, _ map[string]any) *apiError {
		at := slices.IndexFunc(r.subports, func(sub subport) bool { return sub.port.id == id })
		if at < 0 {
			return refuse(http.StatusNotFound, "SubPortNotFound", "SubPort %s on trunk %s could not be found.", id, r.id)
		}
		r.subports = slices.Delete(slices.Clone(r.subports), at, at+1)
		return nil
	})
}

// actionBody is what the actions answer: the trunk without a key around it.
func (r *trunk) actionBody() any {
	return map[string]any{
		"id": r.id, "name": r.name, "port_id": r.parent.id, "sub_ports": r.bodies(), "admin_state_up": r.adminStateUp,
		"status": "DOWN", "project_id": r.project, "tenant_id": r.project, "revision_number": r.revision,
	}
}

// inTrunk refuses to delete a port that a trunk has.
func (s *Server) inTrunk(p *port) *apiError {
	if r := s.trunkWith(p); r != nil {
		return refuse(http.StatusConflict, "PortInUseAsSubPort",
			"Port %s is currently a subport for trunk %s.", p.id, r.id)
	}
	if r := s.trunkOf(p); r != nil {
		return refuse(http.StatusConflict, "PortInUseAsTrunkParent",
			"Port %s is currently a parent port for trunk %s.", p.id, r.id)
	}
	return nil
}
