package networkport

import (
	"cmp"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// defaultGroup is the name of the group that Neutron gives to a port for which no group is declared. Each project has
// one (neutron/db/securitygroups_db.py, _ensure_default_security_group).
const defaultGroup = "default"

// inGroups fills in the groups of the SecurityGroups that a port names. It reads only their status, because their own
// controller handles Neutron, and only controllers write the ids in it: no user can name the group of another
// namespace. groups is nil if SecurityGroups are not served.
//
// A port is created once all of them are Ready: a new group lets everything out before its rules are there. An existing
// port stays in them whatever becomes of them, and keeps the groups that it has while one was never applied. But it
// leaves a group of MultiNetworkPolicies that is being deleted, because no user can take it out: so the group goes, and
// comes again if policies need it. Until then, less may pass, and never more.
//
// After a change of policies, an existing port first keeps its groups if new ones are on their way. It would otherwise
// leave the old groups now and join the new ones later: two updates of each port, and what both allow would be
// interrupted in between. If the new groups take too long, less may pass until they are there.
func (d declaration) inGroups(
	groups listers.SecurityGroupLister, by *netpolicy.Policies, on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort,
) (managed.Declaration, error) {
	var notReady *managed.Problem
	var missing []string
	var refs []types.NamespacedName
	for _, name := range d.GroupRefs {
		refs = append(refs, types.NamespacedName{Namespace: d.GroupsIn, Name: name})
	}
	for _, name := range d.byPolicies {
		refs = append(refs, types.NamespacedName{Namespace: obj.Namespace, Name: name})
	}
	for i, ref := range refs {
		id, never, waits, err := groupOf(groups, ref, on, obj)
		if err != nil {
			return nil, err
		}
		if i >= len(d.GroupRefs) {
			id, never, waits = d.ofPolicies(groups, ref, obj, id, never, waits)
			if id == "" {
				missing = append(missing, ref.Name)
			}
		}
		d.pending, notReady = cmp.Or(d.pending, never), cmp.Or(notReady, waits)
		if id != "" {
			d.groups = append(d.groups, id)
		}
	}
	if d.selected && len(missing) > 0 && obj.Status.PortID != "" && by.Settling(obj.Namespace) > 0 {
		gone := func(name string) bool { return !by.Coming(obj.Namespace, name) }
		if !slices.ContainsFunc(missing, gone) {
			d.keep(obj)
		}
	}
	if obj.Status.BoundTo == nil {
		d.withheld = cmp.Or(d.withheld, d.pending, notReady)
		if d.withheld != nil && obj.Status.PortID == "" {
			return nil, d.withheld
		}
	}
	return d, nil
}

// ofPolicies is what groupOf gives, for a group of MultiNetworkPolicies. The port is in none that somebody else made,
// or that is being deleted. If a policy selects it, it does not wait for those that are missing: the others allow
// less.
func (d declaration) ofPolicies(
	groups listers.SecurityGroupLister, ref types.NamespacedName, obj *cloudteamv1.NetworkPort,
	id string, never, waits *managed.Problem,
) (string, *managed.Problem, *managed.Problem) {
	if groups != nil && id != "" {
		group, err := groups.SecurityGroups(ref.Namespace).Get(ref.Name)
		switch {
		case err != nil || group.DeletionTimestamp != nil:
			id = ""
		case group.Annotations[consumer.AnnotationMadeFor] != netpolicy.MadeFor:
			id, never = "", groupNotReady(ref, obj,
				"was made by somebody else, and MultiNetworkPolicies need its name. Delete it")
		}
	}
	if d.selected {
		never, waits = nil, cmp.Or(never, waits)
	}
	return id, never, waits
}

// unlisted is why no port is created before it is known what MultiNetworkPolicies say about it.
const unlisted = "The controller cannot yet determine which MultiNetworkPolicies select the port. The port is " +
	"created when it can. If this lasts, see the Events PolicyIncomplete of the namespace, and the controller's log: " +
	"its account needs the right to list and watch multi-networkpolicies."

// underPolicies declares what MultiNetworkPolicies decide about a port. One that they select is in their groups alone,
// whatever its spec, its Network or the class says: groups only ever add to what may pass. Others may be members of
// groups that rules name, besides those that they are in without. A port that left all of them goes back into the group
// that the cloud gives to a port, unless others are declared.
func (d *declaration) underPolicies(by *netpolicy.Policies, obj *cloudteamv1.NetworkPort) {
	member, known := by.Decide(obj)
	switch {
	case d.PortSecurity != nil && !*d.PortSecurity:
		return // such a port is in no group
	case !known:
		d.keep(obj)
		d.unresolved = managed.Waits(controller.Reconciling(cloudteamv1.ReasonSecurityGroupNotReady, unlisted))
		return
	case member.Selected:
		d.SecurityGroups, d.GroupRefs, d.selected = []string{}, nil, true
	case d.SecurityGroups == nil && (wereByPolicies(obj) || len(member.Groups) > 0):
		d.SecurityGroups, d.GroupsFrom = []string{defaultGroup}, "the cloud's default"
	}
	d.ByPolicies, d.byPolicies = len(member.Groups) > 0, member.Groups
}

// keep has the port stay in the groups that it has.
func (d *declaration) keep(obj *cloudteamv1.NetworkPort) {
	d.ByPolicies, d.keepsGroups = wereByPolicies(obj), true
}

// wereByPolicies reports whether the groups that a port has may be the choice of policies.
func wereByPolicies(obj *cloudteamv1.NetworkPort) bool {
	return slices.Contains(managed.Remembered(obj), plan.FieldSecurityGroups)
}

// groupOf gives the id of a SecurityGroup's group. never says why the port cannot be in it, and waits why no port is
// created in it now; both are nil if nothing is in the way.
func groupOf(
	groups listers.SecurityGroupLister, ref types.NamespacedName, on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort,
) (id string, never, waits *managed.Problem, err error) {
	if groups == nil {
		return "", groupNotReady(ref, obj, "cannot be read: the API server does not serve SecurityGroups. Install the CRDs, "+
			"and restart the controller"), nil, nil
	}
	group, err := groups.SecurityGroups(ref.Namespace).Get(ref.Name)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return "", nil, nil, err
	case err != nil || group.Status.SecurityGroupID == "" || group.Status.AppliedGeneration == 0:
		// One text for both: each port that names a group that comes and goes would write its status each time.
		return "", groupNotReady(ref, obj, "does not exist, or is not Ready. Create it, or see kubectl describe"), nil, nil
	case elsewhere(group, on):
		return "", groupElsewhere(ref, obj), nil, nil
	case group.DeletionTimestamp != nil:
		waits = groupNotReady(ref, obj, "is being deleted. Name another one, or create it again when it is gone")
	case !meta.IsStatusConditionTrue(group.Status.Conditions, cloudteamv1.ConditionReady):
		waits = groupNotReady(ref, obj, "is not Ready. Run kubectl describe to see why")
	}
	return group.Status.SecurityGroupID, nil, waits, nil
}

// elsewhere reports whether a group is in another project than a Network, which Neutron refuses, or whether somebody
// else's credentials told its id. A tenant's own cloud can tell any id and any project: also those of another tenant's
// group in the operator's cloud.
func elsewhere(group *cloudteamv1.SecurityGroup, on *cloudteamv1.Network) bool {
	if group.Status.Cloud == nil || on.Status.Cloud == nil {
		return false
	}
	return group.Status.Cloud.ProjectID != on.Status.Cloud.ProjectID ||
		managed.TenantOf(group.Namespace, group.Status.Credentials) != managed.TenantOf(on.Namespace, on.Status.Credentials)
}

// groupNotReady is the problem of a port that waits for a SecurityGroup. One of another namespace, which the Network
// names, is not shown.
func groupNotReady(ref types.NamespacedName, obj *cloudteamv1.NetworkPort, what string) *managed.Problem {
	named := fmt.Sprintf("SecurityGroup %s %s.", ref, what)
	if ref.Namespace != obj.Namespace {
		named = fmt.Sprintf("A SecurityGroup that Network %s has for its ports is not Ready. Ask the Network's owner, or "+
			"write spec.securityGroupRefs.", obj.Network())
	}
	return managed.Waits(controller.Reconciling(cloudteamv1.ReasonSecurityGroupNotReady,
		named+" The port joins its group when it is Ready."))
}

// groupElsewhere is the problem of a port that can never be in a group, because Neutron has them in two projects.
func groupElsewhere(ref types.NamespacedName, obj *cloudteamv1.NetworkPort) *managed.Problem {
	what := "SecurityGroup " + ref.String()
	if ref.Namespace != obj.Namespace {
		what = fmt.Sprintf("A SecurityGroup that Network %s has for its ports", obj.Network())
	}
	return managed.Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
		"%s is in another project than Network %s, or there by others' credentials, and a group serves only ports of its "+
			"own project. Create a SecurityGroup with the cloud or the className of the Network, and name that.", what,
		obj.Network())))
}

// inGroup is what ports may be in: a SecurityGroup that they or their Networks name, or those of the
// MultiNetworkPolicies of a namespace, without a name.
type inGroup cache.ObjectName

// inGroups gives the handler for SecurityGroups: the ports that are in one, or may be.
func inGroups(l *controller.Loop, ports, networks cache.Indexer, by *netpolicy.Policies) cache.ResourceEventHandler {
	groupsOf := func(group metav1.Object) []inGroup {
		key := cache.MetaObjectToName(group)
		of := []inGroup{inGroup(key)}
		if group.GetAnnotations()[consumer.AnnotationMadeFor] == netpolicy.MadeFor {
			by.Touched(key) // before its ports are looked for
			of = append(of, inGroup{Namespace: key.Namespace})
		}
		return of
	}
	keysOf := func(group inGroup) []cache.ObjectName {
		if group.Name == "" {
			return by.PortsOf(group.Namespace)
		}
		return controller.KeysOf(controller.PortsIn(ports, networks, cache.ObjectName(group)))
	}
	only := func(group inGroup) func(cache.ObjectName) bool {
		if group.Name == "" {
			return by.InTouched(group.Namespace)
		}
		return func(cache.ObjectName) bool { return true }
	}
	return controller.HandlerOfSome(l, groupsOf, keysOf, only, sameGroup)
}

// underPolicies gives the handler for MultiNetworkPolicies, whose changes it records first.
func underPolicies(l *controller.Loop, by *netpolicy.Policies) cache.ResourceEventHandler {
	ports := controller.HandlerOfSome(l, netpolicy.PlacesOf, by.PortsAt, by.Otherwise, netpolicy.SamePolicy)
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, initial bool) { by.Changed(nil, obj); ports.OnAdd(obj, initial) },
		UpdateFunc: func(was, is any) { by.Changed(was, is); ports.OnUpdate(was, is) },
		DeleteFunc: func(obj any) { by.Changed(obj, nil); ports.OnDelete(obj) },
	}
}

// sameGroup reports whether two states of a SecurityGroup are the same for ports in it. Other rules are no reason to
// requeue them.
func sameGroup(was, is *cloudteamv1.SecurityGroup) bool {
	isReady := func(g *cloudteamv1.SecurityGroup) bool {
		return meta.IsStatusConditionTrue(g.Status.Conditions, cloudteamv1.ConditionReady)
	}
	project := func(g *cloudteamv1.SecurityGroup) string {
		if g.Status.Cloud == nil {
			return ""
		}
		return g.Status.Cloud.ProjectID
	}
	return was.Status.SecurityGroupID == is.Status.SecurityGroupID && isReady(was) == isReady(is) &&
		(was.Status.AppliedGeneration == 0) == (is.Status.AppliedGeneration == 0) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp) && project(was) == project(is) &&
		managed.TenantOf(was.Namespace, was.Status.Credentials) == managed.TenantOf(is.Namespace, is.Status.Credentials)
}
