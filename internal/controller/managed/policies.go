package managed

import (
	"cmp"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Policies say what to do when an object's resources and its spec differ, or when it is deleted. Empty ones are unset.
type Policies struct {
	Deletion cloudteamv1.DeletionPolicy
	Drift    cloudteamv1.DriftPolicy
	// IgnoreDrift are the fields that others may change, as plan.Difference names them.
	IgnoreDrift []string
	// Observe is true if the resource is only shown and nothing may be written to Neutron. The object's Declaration is
	// then one with Traits.Observe.
	Observe bool
	// Plan, in DefaultTo only, is true if nothing may be written to Neutron for any object, and the conditions say what
	// would be.
	Plan bool
}

// DefaultPolicies apply where neither the object nor DefaultTo sets a policy.
var DefaultPolicies = Policies{
	Deletion: cloudteamv1.DeletionPolicyDelete,
	Drift:    cloudteamv1.DriftPolicyCorrect,
}

// Fields converts names of fields for Policies.
func Fields[S ~string](names []S) []string {
	fields := make([]string, len(names))
	for i, name := range names {
		fields[i] = string(name)
	}
	return fields
}

// DefaultTo sets the policies of objects that leave them unset; the default is DefaultPolicies. If called, it MUST be
// called before Run.
func (r *Reconciler[T]) DefaultTo(defaults Policies) { r.defaults = defaults }

// policies gives the effective policies of the object.
func (r *Reconciler[T]) policies(obj T) Policies {
	p := r.kind.Policies(obj)
	p.Deletion = cmp.Or(p.Deletion, r.defaults.Deletion)
	p.Drift = cmp.Or(p.Drift, r.defaults.Drift)
	return p
}
