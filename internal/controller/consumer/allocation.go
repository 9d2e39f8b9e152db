package consumer

import (
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// MaxAllocationsSize is the maximum number of bytes of AnnotationAllocations: 512 for each of selection.MaxSelections.
// Every Pod's value stays in memory.
const MaxAllocationsSize = 16 << 10

var errAllocations = errors.New("the annotation " + cloudteamv1.AnnotationAllocations + " was overwritten")

// Allocations reads which ports a Pod was given. It fails if somebody overwrote the annotation. Users can write it, so
// it costs little to read, whatever is in it, and names nothing outside the Pod's namespace.
func Allocations(pod *corev1.Pod) ([]cloudteamv1.Allocation, error) {
	text := pod.Annotations[cloudteamv1.AnnotationAllocations]
	if len(text) > MaxAllocationsSize {
		return nil, errAllocations
	}
	var allocations []cloudteamv1.Allocation
	if err := json.Unmarshal([]byte(text), &allocations); err != nil {
		return nil, err
	}
	if len(allocations) > selection.MaxSelections || slices.ContainsFunc(allocations, func(a cloudteamv1.Allocation) bool {
		return len(a.Port) > validation.DNS1123SubdomainMaxLength || len(a.PortID) > maxID
	}) {
		return nil, errAllocations
	}
	return allocations, nil
}

// maxID is the maximum length of an id in Neutron.
const maxID = 255

// Mentions reports whether a Pod's declaration names everything that a port has got. It does once the Pod was given the
// port. The containers of a Pod that is not gated may then use the port, even if other annotations were removed.
func Mentions(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	selections, err := DeclaredByPod(pod)
	given, ok := Given(port)
	return err == nil && ok && slices.ContainsFunc(selections, func(s selection.Selection) bool {
		request := RequestOf(s, Extras{Groups: given.Groups})
		request.External = given.External
		return request == given
	})
}

// AsGiven finds the ports that a Pod was given before, if it is not gated: held ports that its requests name with
// everything that they have got. They are in the order of the requests; nil unless there is one for each.
func AsGiven(requests []Request, held []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	given := make([]*cloudteamv1.NetworkPort, len(requests))
	for i, request := range requests {
		at := slices.IndexFunc(held, func(port *cloudteamv1.NetworkPort) bool {
			all, ok := Given(port)
			// What a running Pod says is what its ports have.
			all.Groups, all.External = request.Groups, request.External
			return ok && all == request && !slices.Contains(given, port)
		})
		if at < 0 {
			return nil
		}
		given[i] = held[at]
	}
	return given
}
