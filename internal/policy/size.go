package policy

import (
	"cmp"
	"fmt"
	"strings"
	"unsafe"

	"k8s.io/client-go/tools/cache"
)

// MaxSize is the most bytes that may be kept of a policy: of its rules, peers, ports, selectors with their values, and
// Networks, all together. Each process keeps all policies that it uses, also a standby. So tenants could fill its
// memory. A policy with 50 rules, each with some peers and ports, has less.
const MaxSize = 26 << 10

// sizes are the bytes that one item of a list, or one entry of a map, takes beside its texts, by the names that these
// have in a policy. They are no less than what Parse makes of one.
var sizes = map[string]int{
	"ingress": int(unsafe.Sizeof(Rule{})), "egress": int(unsafe.Sizeof(Rule{})),
	"from": int(unsafe.Sizeof(Peer{})), "to": int(unsafe.Sizeof(Peer{})),
	"ports": int(unsafe.Sizeof(Ports{})), "except": int(unsafe.Sizeof(Peer{}.Block)),
	"matchLabels":      int(unsafe.Sizeof(requirement{})) + sizeOfValue + len("="),
	"matchExpressions": int(unsafe.Sizeof(requirement{})) + len(" notin (),"),
	"values":           sizeOfValue,
}

const (
	// sizeOfValue is that of a value of a selector, with a comma.
	sizeOfValue = int(unsafe.Sizeof("")) + len(",")
	// sizeOfSelector is that of a selector, with a place among the policy's own ones.
	sizeOfSelector = int(unsafe.Sizeof(Selector{})) + 2*int(unsafe.Sizeof(&Selector{}))
	// sizeOfOther is that of what Parse does not keep. It bounds what is read.
	sizeOfOther = 8
)

// fits reports whether a policy may be kept. It stops where the policy becomes too large, and copies nothing.
func fits(spec any, on []cache.ObjectName) bool {
	left := MaxSize
	for _, key := range on {
		left -= int(unsafe.Sizeof(key)) + len(key.Namespace) + len(key.Name)
	}
	return spend(&left, "", spec)
}

// spend takes the size of a value, which has a name, from what is left. It returns false if nothing is left.
func spend(left *int, name string, value any) bool {
	switch v := value.(type) {
	case string:
		*left -= len(v)
	case []any:
		for _, item := range v {
			if *left -= cmp.Or(sizes[name], sizeOfOther); !spend(left, "", item) {
				return false
			}
		}
	case map[string]any:
		if strings.HasSuffix(name, "Selector") && len(v) > 0 {
			*left -= sizeOfSelector
		}
		for key, item := range v {
			if name == "matchLabels" {
				*left -= sizes[name] + len(key)
			}
			if !spend(left, key, item) {
				return false
			}
		}
	}
	return *left >= 0
}

// tooLarge says that a policy is.
func tooLarge() string {
	return fmt.Sprintf("the policy is too large: its rules, peers, ports, selectors and Networks take more than %d KiB "+
		"of memory. Write several policies, each with fewer of them", MaxSize>>10)
}
