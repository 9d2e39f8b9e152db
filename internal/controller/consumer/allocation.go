package consumer

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Allocations reads which ports a Pod was given. It fails if somebody overwrote the annotation.
func Allocations(pod *corev1.Pod) ([]cloudteamv1.Allocation, error) {
	var allocations []cloudteamv1.Allocation
	err := json.Unmarshal([]byte(pod.Annotations[cloudteamv1.AnnotationAllocations]), &allocations)
	return allocations, err
}

// Mentions reports whether a Pod's declaration names everything that a port has got. It does once the Pod was given the
// port. The containers of a Pod that is not gated may then use the port, even if other annotations were removed.
func Mentions(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	selections, err := DeclaredByPod(pod)
	given, ok := Given(port)
	return err == nil && ok && slices.ContainsFunc(selections, func(s selection.Selection) bool {
		return RequestOf(s) == given
	})
}

// AsGiven finds the ports that a Pod was given before, if it is not gated: held ports that its requests name with
// everything that they have got. They are in the order of the requests; nil unless there is one for each.
func AsGiven(requests []Request, held []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	given := make([]*cloudteamv1.NetworkPort, len(requests))
	for i, request := range requests {
		at := slices.IndexFunc(held, func(port *cloudteamv1.NetworkPort) bool {
			all, ok := Given(port)
			return ok && all == request && !slices.Contains(given, port)
		})
		if at < 0 {
			return nil
		}
		given[i] = held[at]
	}
	return given
}
