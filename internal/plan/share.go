package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// everyProject is the target of the RBAC policy by which Neutron shares a network with all projects. Spec.Shared is
// about that policy. Spec.SharedWith never is.
const everyProject = "*"

// Share allows one project to use another project's network. In Neutron it is an RBAC policy. RBAC policies have no
// description, so a Share bears no marker. It belongs to its network and is deleted with it.
type Share struct {
	// ID is the RBAC policy's id. It is empty if another project made the policy, so that the credentials cannot see
	// it. Such a share exists, but the controller cannot remove it.
	ID string
	// Project is the id of the project that may use the network.
	Project string
}

var errSharesUnknown = errors.New("the cloud does not list its RBAC policies, so the controller cannot know with " +
	"which projects the network is shared. Have its policy get_rbac_policy allow the list, or leave sharedWith out")

// CompareShares sorts by project. Neutron has one policy for each project.
func CompareShares(a, b Share) int {
	return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.ID, b.ID))
}

// planShares plans to share a network with the declared projects and no others. Each step settles a part of one
// difference.
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
	settles := []Difference{{NetworkResource, FieldSharedWith, quotedAll(spec.SharedWith), quotedAll(actual)}}
	// Removals come first. If the quota is full, they make room for the new shares.
	for _, share := range shares {
		if share.ID != "" && !slices.Contains(spec.SharedWith, share.Project) {
			change = append(change, Step{
				Action: UnshareNetwork, Ref: Ref{ID: share.ID}, NetworkRef: network, Share: share,
				Differences: settles, Reason: "it is not declared",
			})
		}
	}
	for _, project := range spec.SharedWith {
		if !slices.Contains(actual, project) {
			change = append(change, Step{
				Action: ShareNetwork, NetworkRef: network, Share: Share{Project: project},
				Differences: settles, Reason: "it is declared but missing",
			})
		}
	}
	return change
}

// shareActions are the actions on a network's shares.
var shareActions = map[Action]facts{
	ShareNetwork: {
		postponable: true, about: Step.sharing,
		done: func(s Step) string { return fmt.Sprintf("Shared network with project %q", s.Share.Project) },
	},
	UnshareNetwork: {
		deletes: true, postponable: true, about: Step.sharing,
		done: func(s Step) string { return fmt.Sprintf("Stopped sharing network with project %q", s.Share.Project) },
	},
}

func (s Step) sharing() string {
	return fmt.Sprintf("%s: project %q", cmp.Or(s.NetworkRef.ID, "just created"), s.Share.Project)
}
