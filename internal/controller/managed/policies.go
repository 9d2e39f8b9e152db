package managed

import (
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Policies are what an object wants done where its resources and its spec part ways. Those that are empty are unset.
type Policies struct {
	Deletion cloudteamv1.DeletionPolicy
	Drift    cloudteamv1.DriftPolicy
	// IgnoreDrift are the fields, as network.Difference names them, in which others may change the resources.
	IgnoreDrift []string
	// Observe is true where the resource is only shown, and nothing may be written to Neutron: the object's Declaration
	// is an Observer.
	Observe bool
}

// DefaultPolicies hold for objects that say nothing, where whoever runs the controller does not either.
var DefaultPolicies = Policies{
	Deletion: cloudteamv1.DeletionPolicyDelete,
	Drift:    cloudteamv1.DriftPolicyCorrect,
}

// Fields gives names of fields as Policies has them.
func Fields[S ~string](names []S) []string {
	fields := make([]string, len(names))
	for i, name := range names {
		fields[i] = string(name)
	}
	return fields
}

// DefaultTo tells the policies of objects that leave them unset, where those are not DefaultPolicies. It MUST be called
// before Run, if at all.
func (r *Reconciler[T]) DefaultTo(defaults Policies) { r.defaults = defaults }

// policies are those that hold for the object.
func (r *Reconciler[T]) policies(obj T) Policies {
	p := r.kind.Policies(obj)
	if p.Deletion == "" {
		p.Deletion = r.defaults.Deletion
	}
	if p.Drift == "" {
		p.Drift = r.defaults.Drift
	}
	return p
}
