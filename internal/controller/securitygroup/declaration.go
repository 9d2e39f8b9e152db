package securitygroup

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a SecurityGroup's spec.
type declaration struct {
	plan.GroupSpec
	// judged is what the group's class says of it.
	judged managed.Judged
	// toldBy are the clouds that told the ids of groups that rules are about.
	toldBy []cloudteamv1.CloudStatus
	// pending says for which groups rules wait; nil if none does.
	pending *managed.Problem
}

// Resolve implements managed.Declaration. The rules that wait for other groups are left out, and the others applied: so
// two groups may have rules about each other.
func (d declaration) Resolve(context.Context, managed.Inventory) (managed.Declaration, error) {
	if d.pending != nil {
		return d, d.pending
	}
	return d, nil
}

// Plan implements managed.Declaration.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	return plan.SecurityGroup(d.GroupSpec, observed)
}

// Traits implements managed.Declaration.
func (d declaration) Traits() managed.Traits { return managed.Traits{ToldBy: d.toldBy} }

// Retained implements managed.Declaration.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// declarationOf is the Kind's Declare. A SecurityGroup whose class is not for its namespace, or does not exist, is not
// applied. One that was applied before stays.
func (k *kind) declarationOf(obj *cloudteamv1.SecurityGroup, owner plan.Owner) (managed.Declaration, error) {
	judged, refused := k.class.Of(obj)
	if refused != nil {
		return nil, refused
	}
	d := declaration{judged: judged}
	about, err := k.remotes(obj)
	if err != nil {
		return nil, err
	}
	d.toldBy = about.toldBy
	if len(about.waiting) > 0 {
		d.pending = managed.Waits(controller.Reconciling(cloudteamv1.ReasonSecurityGroupNotReady, fmt.Sprintf(
			"Rules wait for other groups: %s. All other rules are as declared. Create the SecurityGroup, or remove the rules.",
			strings.Join(about.waiting, ", "))))
	}
	d.GroupSpec, err = declare.SecurityGroup(obj, owner, about.ids)
	return d, err
}

// remotes are the groups that an object's rules are about.
type remotes struct {
	// ids are in Neutron, by name; toldBy are the clouds that told them.
	ids    map[string]string
	toldBy []cloudteamv1.CloudStatus
	// waiting says which groups have no id now, and why.
	waiting []string
}

// remotes looks for the groups of the namespace that an object's rules are about. Only controllers write the ids, and
// nothing is applied with one that a tenant's own cloud told, if this object's cloud is the operator's: so no user can
// name another namespace's group. Rules that exist stay then: the two may be on their way from the one to the other.
func (k *kind) remotes(obj *cloudteamv1.SecurityGroup) (found remotes, err error) {
	found.ids = map[string]string{}
	at, _ := k.class.CloudOf(obj)
	for _, name := range declare.RemoteGroups(obj) {
		wait := func(format string) { found.waiting = append(found.waiting, fmt.Sprintf(format, name)) }
		other, exists := controller.Cached[*cloudteamv1.SecurityGroup](k.groups, cache.NewObjectName(obj.Namespace, name))
		switch {
		case !exists:
			wait("SecurityGroup %s does not exist")
		case other.DeletionTimestamp != nil:
			wait("SecurityGroup %s is being deleted")
		case other.Status.SecurityGroupID == "":
			wait("SecurityGroup %s is not in Neutron yet")
		case !at.MayUse(obj.Namespace, other.Status.Credentials):
			return found, toldElsewhere(name)
		default:
			found.ids[name] = other.Status.SecurityGroupID
			if other.Status.Cloud != nil {
				found.toldBy = append(found.toldBy, *other.Status.Cloud)
			}
		}
	}
	return found, nil
}

// toldElsewhere is the problem of rules about a group that others' credentials made.
func toldElsewhere(name string) *managed.Problem {
	return managed.Waits(controller.Stalled(cloudteamv1.ReasonCloudMismatch, fmt.Sprintf(
		"Rules are about SecurityGroup %s, which is in another cloud, or there by others' credentials. Nothing is changed "+
			"in Neutron. Write the same cloud or className in both.", name)))
}

// show is the Kind's Show: it shows in the status what exists in Neutron, and by which class the group was made. A
// group that is being deleted keeps the class: it says with whose credentials to delete.
func show(obj *cloudteamv1.SecurityGroup, declared managed.Declaration, _ plan.Owner, observed plan.Observed) {
	group, _ := observed.Group()
	obj.Status.SecurityGroupID, obj.Status.RuleCount = group.ID, int32(len(group.Rules))
	var forbids *controller.State
	if d, ok := declared.(declaration); ok {
		obj.Status.Class, forbids = d.judged.With, d.judged.Forbids
	}
	managed.SetViolation(obj, &obj.Status.Conditions, forbids)
	setPolicyProblem(obj)
}

// setPolicyProblem shows which part of its MultiNetworkPolicy a group lacks. The controller of these wrote it.
func setPolicyProblem(obj *cloudteamv1.SecurityGroup) {
	problem := obj.Annotations[cloudteamv1.AnnotationPolicyProblem]
	if problem == "" {
		meta.RemoveStatusCondition(&obj.Status.Conditions, cloudteamv1.ConditionPolicyIncomplete)
		return
	}
	meta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{
		Type: cloudteamv1.ConditionPolicyIncomplete, Status: metav1.ConditionTrue, ObservedGeneration: obj.Generation,
		Reason: cloudteamv1.ReasonInvalidSpec, Message: problem,
	})
}
