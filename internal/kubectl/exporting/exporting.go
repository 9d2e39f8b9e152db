// Package exporting writes Networks for what is in Neutron, which import it without a change there. It only reads.
package exporting

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Request says what to export.
type Request struct {
	// Cluster is the UID of the cluster that is to import. Namespace and Class are those of the Networks; Class may be
	// empty.
	Cluster, Namespace, Class string
	// Names are the names or ids of the networks to export; empty for all. Orphans is true for those alone that bear the
	// marker of an object that is gone.
	Names   []string
	Orphans bool
	// Refusals gives what the API server's rules refuse in a Network, by its fields; nil for nothing. Without it, nobody
	// checks them.
	Refusals func(*cloudteamv1.Network) []metav1.StatusCause
}

// Exported is what can be said of one network.
type Exported struct {
	// ID and Name are those in Neutron.
	ID, Name string
	// Network imports the network as it is; nil if no Network can.
	Network *cloudteamv1.Network
	// Incomplete is true if something is left out because a Network cannot say it.
	Incomplete bool
	// Notes are what the Network does not say, and what to do first.
	Notes []string
}

// listed is a network of the project.
type listed struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	// Segments is empty for a network with one segment. By Neutron's default policy, only administrators see them.
	Segments        []json.RawMessage `json:"segments"`
	VLANTransparent *bool             `json:"vlan_transparent"`
}

// Key implements client.Identified.
func (l listed) Key() string { return l.ID }

// Skipped counts the networks that were not asked for: those of objects that exist, and those of other clusters.
type Skipped struct{ Managed, Others int }

// Export reads the networks of a project. live gives the UIDs of all objects of the cluster.
func Export(
	ctx context.Context, cloud *client.Cloud, q Request, live func() (map[string]bool, error),
) (all []Exported, skipped Skipped, err error) {
	of, err := cloud.Identity(ctx)
	if err != nil {
		return nil, skipped, err
	}
	networks, err := client.List[listed](ctx, cloud, "list networks", client.Collection{One: "network", Many: "networks"},
		url.Values{"project_id": {of.ProjectID}, "fields": {"id", "name", "description", "segments", "vlan_transparent"}})
	if err != nil {
		return nil, skipped, err
	}
	interfaces, err := client.List[tree.Port](ctx, cloud, "list ports", client.Collection{One: "port", Many: "ports"},
		url.Values{"device_owner": {"network:router_interface", "network:ha_router_replicated_interface",
			"network:router_interface_distributed"}, "fields": {"id", "network_id", "device_id"}})
	if err != nil {
		return nil, skipped, err
	}
	objects, err := live() // after Neutron: an object exists before anything is created for it
	if err != nil {
		return nil, skipped, err
	}
	slices.SortStableFunc(networks, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	in := inventory.New(cloud, q.Cluster, inventory.Options{})
	names := map[string]bool{}
	for _, n := range networks {
		_, owner, marked := plan.ParseDescription(n.Description)
		if len(q.Names) > 0 && !slices.Contains(q.Names, n.ID) && !slices.Contains(q.Names, n.Name) {
			continue
		}
		switch {
		case marked && owner.Cluster != q.Cluster:
			skipped.Others++
			continue
		case marked && objects[owner.Object]:
			skipped.Managed++
			continue
		case !marked && q.Orphans:
			continue
		}
		is, found, err := in.Foreign(ctx, n.ID)
		if err != nil {
			return nil, skipped, err
		}
		if !found {
			continue // it was deleted meanwhile
		}
		one := q.export(is.ObservedNetwork, owner)
		one.note(n, interfaces, owner != plan.Owner{})
		if one.Network != nil {
			one.Network.Name = unique(names, objectName(n))
		}
		all = append(all, one)
	}
	return all, skipped, nil
}

// note adds what no Network says. orphan is true if the network bears the marker of an object that is gone.
func (e *Exported) note(n listed, interfaces []tree.Port, orphan bool) {
	if len(n.Segments) > 1 {
		e.Notes = append(e.Notes, fmt.Sprintf("It has %d segments, which a Network does not declare. They stay.",
			len(n.Segments)))
	}
	if n.VLANTransparent != nil && *n.VLANTransparent {
		e.Notes = append(e.Notes, "It is VLAN transparent, which a Network does not declare. It stays so.")
	}
	routers := map[string]bool{}
	for _, i := range interfaces {
		if i.NetworkID == n.ID && !routers[i.DeviceID] {
			routers[i.DeviceID] = true
			note := "Router " + i.DeviceID + " serves it. It stays, and the Network does not manage it: an import takes over " +
				"no router (docs/router.md)."
			if orphan {
				note = "Router " + i.DeviceID + " serves it. An import takes over no router (docs/router.md). If it bears " +
					"a marker of an object that is gone, the controller removes it. To keep it, remove its marker, too: " +
					osc.DescribeRouter(i.DeviceID, "")
			}
			e.Notes = append(e.Notes, note)
		}
	}
}

// export makes the Network for one network. owner is whose marker it bears, if any.
func (q Request) export(is plan.ObservedNetwork, owner plan.Owner) Exported {
	e := Exported{ID: is.ID, Name: is.Name}
	if owner != (plan.Owner{}) {
		is = e.release(is, owner)
	}
	n := &cloudteamv1.Network{}
	n.APIVersion, n.Kind, n.Namespace = cloudteamv1.SchemeGroupVersion.String(), "Network", q.Namespace
	n.Spec.ClassName, n.Spec.Import = q.Class, &cloudteamv1.NetworkImport{ID: is.ID}
	e.attributes(&n.Spec, is)
	before := len(e.Notes) // what to do before an import, which does not matter without one
	without := func(reason string) Exported {
		e.Incomplete = true
		e.Notes = append(e.Notes[before:], "No Network can import it: "+strings.TrimSuffix(reason, ".")+".")
		return e
	}
	declared := e.subnets(is)
	for {
		if len(declared) == 0 {
			return without("it has no subnet that a Network can declare")
		}
		n.Spec.SubnetSpec, n.Spec.AdditionalSubnets = declared[0], declared[1:]
		unsaid, err := q.unsaid(n, is)
		switch {
		case err != nil:
			return without(err.Error())
		case unsaid == nil:
			e.Network = n
			return e
		case unsaid.subnet >= 0:
			e.leaveOut("Subnet "+declared[unsaid.subnet].CIDR, unsaid.why)
			declared = slices.Delete(declared, unsaid.subnet, unsaid.subnet+1)
		default:
			less := n.DeepCopy()
			if !leaveOut(&less.Spec, unsaid.field) {
				return without(unsaid.why)
			}
			if differs, err := q.differences(less, is); err != nil || len(differs) > 0 {
				return without(unsaid.why) // it cannot stay as it is
			}
			e.leaveOut("The field "+unsaid.field, unsaid.why)
			n = less
		}
	}
}

// unsaid is something of a network that a Network cannot say.
type unsaid struct {
	// subnet is its place in the Network, -1 for the network itself.
	subnet int
	// field is the field of the spec that the API server refuses, empty for none, and why is what is wrong.
	field, why string
}

// unsaid gives the first thing that a Network does not say of a network as it is, or that the API server does not let
// it say; nil if there is none.
func (q Request) unsaid(n *cloudteamv1.Network, is plan.ObservedNetwork) (*unsaid, error) {
	differs, err := q.differences(n, is)
	if err != nil {
		return nil, err
	}
	if len(differs) > 0 {
		d := differs[0]
		at := slices.IndexFunc(n.Spec.Subnets(), func(s cloudteamv1.SubnetSpec) bool {
			return d.Resource == "subnet "+s.CIDR
		})
		if at < 0 {
			return &unsaid{subnet: at, why: d.String()}, nil
		}
		return &unsaid{subnet: at, why: fmt.Sprintf("its %s is %s, which a Network cannot say", d.Field, d.Actual)}, nil
	}
	if q.Refusals == nil {
		return nil, nil
	}
	refused := q.Refusals(n)
	if len(refused) == 0 {
		return nil, nil
	}
	field := strings.TrimPrefix(refused[0].Field, "spec.")
	u := &unsaid{subnet: -1, why: strings.TrimPrefix(field+": "+refused[0].Message, ": ")}
	u.field, _, _ = strings.Cut(field, ".")
	u.field, _, _ = strings.Cut(u.field, "[")
	place := 0
	switch _, err := fmt.Sscanf(field, "additionalSubnets[%d]", &place); {
	case err == nil:
		u.subnet = place + 1
	case u.field == "additionalSubnets": // together they are too many, or too large
		u.subnet = len(n.Spec.AdditionalSubnets)
	case ofSubnet[u.field]:
		u.subnet = 0
	}
	return u, nil
}

// ofSubnet are the fields of the spec that are the first subnet's.
var ofSubnet = func() map[string]bool {
	fields := map[string]bool{}
	for f := range reflect.TypeFor[cloudteamv1.SubnetSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	return fields
}()

// leaveOut takes a field out of a spec. It reports whether the spec had it, and is for the same network without it.
func leaveOut(s *cloudteamv1.NetworkSpec, field string) bool {
	if slices.Contains([]string{"import", "cloud", "className"}, field) {
		return false // another network, other credentials or other rules
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil || fields[field] == nil {
		return false
	}
	delete(fields, field)
	*s = cloudteamv1.NetworkSpec{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, s) == nil
}

// leaveOut says that something is left out, and why.
func (e *Exported) leaveOut(what, why string) {
	e.Incomplete = true
	e.Notes = append(e.Notes, fmt.Sprintf("%s is not declared, and stays: %s.", what, strings.TrimSuffix(why, ".")))
}

// differences lists what an import of a network by a Network finds different, by the controller's own code.
func (q Request) differences(n *cloudteamv1.Network, is plan.ObservedNetwork) ([]plan.Difference, error) {
	// The object's UID is not known. Its length is: a UUID's.
	spec, err := declare.Network(n, plan.Owner{Cluster: q.Cluster, Object: strings.Repeat("0", 36)})
	if err != nil {
		return nil, err
	}
	return plan.Compare(spec, is)
}

// release takes the marker of an object that is gone from what is to be imported, and says how to do it.
func (e *Exported) release(is plan.ObservedNetwork, owner plan.Owner) plan.ObservedNetwork {
	e.Notes = append(e.Notes, "It bears the marker of an object that is gone ("+owner.Object+"). The controller removes "+
		"such networks (kubectl network orphans), and imports none. Before you apply this, remove the marker:")
	is.Subnets = slices.Clone(is.Subnets)
	for _, step := range plan.Release(owner, plan.Observed{Networks: []plan.ObservedNetwork{is}}) {
		text := step.Attributes.Description
		if step.Action == plan.UpdateSubnet {
			text = step.SubnetDescription
			e.Notes = append(e.Notes, "  "+osc.DescribeSubnet(step.ID, text))
			at := slices.IndexFunc(is.Subnets, func(s plan.ObservedSubnet) bool { return s.ID == step.ID })
			is.Subnets[at].Description = text
			continue
		}
		is.Description = text
		e.Notes = append(e.Notes, "  "+osc.DescribeNetwork(step.ID, text))
	}
	return is
}

// attributes declares the network's own settings. What stays unchanged without a declaration is declared where it says
// something.
func (e *Exported) attributes(s *cloudteamv1.NetworkSpec, is plan.ObservedNetwork) {
	s.Description, s.Tags, s.PortSecurity = is.Description, is.Tags, is.PortSecurity
	if len(is.Tags) == 0 {
		s.Tags = nil
	}
	if !is.AdminStateUp {
		s.AdminState = cloudteamv1.AdminStateDown
	}
	if is.MTU > 0 {
		s.MTU = new(int32(is.MTU)) //nolint:gosec // Neutron's are small
	}
	if is.DNSDomain != nil {
		s.DNSDomain = *is.DNSDomain
	}
	if is.QoSPolicy != nil {
		s.QoSPolicy = *is.QoSPolicy
	}
	var privileged []string
	for _, share := range is.Shares {
		if !slices.Contains(s.SharedWith, share.Project) {
			s.SharedWith = append(s.SharedWith, share.Project)
		}
	}
	if len(s.SharedWith) > 0 {
		privileged = append(privileged, string(cloudteamv1.FieldSharedWith))
	}
	if is.SharesUnknown {
		e.Notes = append(e.Notes, "The cloud does not list with whom it is shared. That stays.")
	}
	if is.Shared != nil && *is.Shared {
		s.Shared, privileged = is.Shared, append(privileged, string(cloudteamv1.FieldShared))
	}
	if is.External != nil && *is.External {
		s.External, privileged = is.External, append(privileged, string(cloudteamv1.FieldExternal))
	}
	if len(privileged) > 0 {
		e.Notes = append(e.Notes, "Its class has to allow "+strings.Join(privileged, ", ")+", too.")
	}
}

// maxSubnets is how many subnets a Network has.
const maxSubnets = 8

// subnets declares the subnets.
func (e *Exported) subnets(is plan.ObservedNetwork) (all []cloudteamv1.SubnetSpec) {
	left := 0
	// Neutron's answer has no order. IPv4 comes first, as its networks mostly began so.
	for _, s := range slices.SortedFunc(slices.Values(is.Subnets), func(a, b plan.ObservedSubnet) int {
		return cmp.Or(a.CIDR.Addr().Compare(b.CIDR.Addr()), cmp.Compare(a.CIDR.Bits(), b.CIDR.Bits()))
	}) {
		_, _, marked := plan.ParseDescription(s.Description)
		switch err := s.Validate(); {
		case err != nil || marked:
			why := "it bears an owner's marker"
			if field, ok := errors.AsType[*plan.FieldError](err); ok {
				why = field.Problem
			}
			e.leaveOut(fmt.Sprintf("Subnet %s (%s)", s.CIDR, s.ID), why)
			continue
		case len(all) == maxSubnets:
			left++
			continue
		}
		if s.PoolID != "" {
			e.Notes = append(e.Notes, fmt.Sprintf("Subnet %s is from subnet pool %s. It is declared by its cidr.",
				s.CIDR, s.PoolID))
		}
		all = append(all, subnet(s))
	}
	if left > 0 {
		e.Incomplete = true
		e.Notes = append(e.Notes, fmt.Sprintf("%d more subnets are not declared, and stay: a Network has at most %d.",
			left, maxSubnets))
	}
	return all
}

func subnet(is plan.ObservedSubnet) cloudteamv1.SubnetSpec {
	s := cloudteamv1.SubnetSpec{CIDR: is.CIDR.String(), ServiceTypes: is.ServiceTypes,
		IPv6AddressMode: cloudteamv1.IPv6Mode(is.IPv6AddressMode), IPv6RAMode: cloudteamv1.IPv6Mode(is.IPv6RAMode)}
	switch {
	case !is.Gateway.IsValid():
		s.Gateway = cloudteamv1.GatewayNone
	case is.Gateway != plan.DefaultGateway(is.CIDR):
		s.Gateway = is.Gateway.String()
	}
	standard := plan.Subnet{Pools: plan.DefaultPools(is.CIDR, is.Gateway)}.Canonical().Pools
	if pools := is.Canonical().Pools; !slices.Equal(pools, standard) {
		for _, r := range pools {
			s.AllocationPools = append(s.AllocationPools,
				cloudteamv1.AllocationPool{Start: r.Start.String(), End: r.End.String()})
		}
	}
	if !is.DHCP {
		s.DHCP = new(false)
	}
	if is.DNSPublishFixedIP {
		s.DNSPublishFixedIP = new(true)
	}
	for _, server := range is.DNSServers {
		s.DNSServers = append(s.DNSServers, server.String())
	}
	for _, r := range is.HostRoutes {
		s.HostRoutes = append(s.HostRoutes,
			cloudteamv1.HostRoute{Destination: r.Destination.String(), NextHop: r.NextHop.String()})
	}
	return s
}

// maxName is how long the name of an object is: a label's, so that it is one everywhere.
const maxName = 63

// objectName makes a name for an object of a network's name in Neutron.
func objectName(n listed) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, n.Name)
	if len(name) > maxName {
		name = name[:maxName]
	}
	if name = strings.Trim(name, "-"); name == "" {
		name = "network-" + n.ID[:min(8, len(n.ID))]
	}
	return name
}

// unique gives a name that was not given before.
func unique(given map[string]bool, name string) string {
	free := name
	for i := 2; given[free]; i++ {
		suffix := fmt.Sprintf("-%d", i)
		free = strings.TrimRight(name[:min(len(name), maxName-len(suffix))], "-") + suffix
	}
	given[free] = true
	return free
}

// Manifest is what to write of a Network: what a user declares.
type Manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata                `json:"metadata"`
	Spec            cloudteamv1.NetworkSpec `json:"spec"`
}

// Metadata is the part of an object's metadata that a user declares.
type Metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Manifest gives what to write of the Network.
func (e Exported) Manifest() Manifest {
	return Manifest{e.Network.TypeMeta, Metadata{e.Network.Name, e.Network.Namespace}, e.Network.Spec}
}
