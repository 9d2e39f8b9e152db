package plan

import (
	"cmp"
	"slices"
)

// everyProject is the target of the RBAC policy by which Neutron shares a network with all projects. Spec.Shared is
// about that one, and Spec.SharedWith never.
const everyProject = "*"

// Share is that one project may use a network which is another's: an RBAC policy in Neutron. It bears no marker, as
// RBAC policies have no description; it belongs to its network, and goes with it.
type Share struct {
	// ID is the RBAC policy's. It is empty where the credentials cannot see the policy, which another project has made:
	// such a share is there, and cannot be taken back from here.
	ID string
	// Project is the id of the project that the network is shared with.
	Project string
}

// CompareShares sorts by project. Neutron has one policy for each.
func CompareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.ID, b.ID))
}

// planShares gives the steps that share a network with the projects that are declared, and with no other. Each settles
// its part of one difference.
func planShares(spec Spec, network Ref, shares []Share) (change Change) {
	if spec.SharedWith == nil {
		return nil
	}
	var actual []string
	for _, share := range shares {
		if share.ID != "" || slices.Contains(spec.SharedWith, share.Project) {
			actual = append(actual, share.Project)
		}
	}
	differences := []Difference{{NetworkResource, FieldSharedWith, quotedAll(spec.SharedWith), quotedAll(actual)}}
	// Where the quota is full, who comes has the place of who goes.
	for _, share := range shares {
		if share.ID != "" && !slices.Contains(spec.SharedWith, share.Project) {
			change = append(change, Step{
				Action: UnshareNetwork, Ref: Ref{ID: share.ID}, NetworkRef: network, Share: share,
				Differences: differences, Reason: "it is not declared",
			})
		}
	}
	for _, project := range spec.SharedWith {
		if !slices.Contains(actual, project) {
			change = append(change, Step{
				Action: ShareNetwork, NetworkRef: network, Share: Share{Project: project},
				Differences: differences, Reason: "it is declared and not shared so",
			})
		}
	}
	return change
}
