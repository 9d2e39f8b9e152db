// Package mark names to whom an interface on the node belongs. The mark is on the host's end of each interface, and in
// Open vSwitch. So no file has to be kept, and a mark goes with what it marks.
package mark

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Owner begins each mark. A change of the format changes the number.
const Owner = "network-controller/1"

// Mark says for which interface of which Pod something was made.
type Mark struct {
	// Sandbox is the container runtime's id of the Pod's sandbox. A Pod gets another one when the kubelet retries.
	Sandbox string
	// IfName is the interface's name in the Pod.
	IfName string
	// PodUID is the Pod's UID.
	PodUID types.UID
	// PortUID is the UID of the NetworkPort.
	PortUID types.UID
}

// String is the text of a mark. It fits into an interface's alias (255 bytes).
func (m Mark) String() string {
	return strings.Join([]string{Owner, m.Sandbox, m.IfName, string(m.PodUID), string(m.PortUID)}, " ")
}

// Parse reads the text of a mark. It reports false for any other text.
func Parse(text string) (Mark, bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 5 || fields[0] != Owner {
		return Mark{}, false
	}
	m := Mark{Sandbox: fields[1], IfName: fields[2], PodUID: types.UID(fields[3]), PortUID: types.UID(fields[4])}
	return m, m.Validate() == nil
}

// Validate reports what is missing, or cannot be written as one word.
func (m Mark) Validate() error {
	for _, field := range []struct{ name, value string }{
		{"sandbox", m.Sandbox}, {"ifname", m.IfName}, {"podUID", string(m.PodUID)}, {"portUID", string(m.PortUID)},
	} {
		if field.value == "" || strings.ContainsAny(field.value, " \t\n\x00") {
			return fmt.Errorf("%s %q is empty, or has a space", field.name, field.value)
		}
	}
	if size := len(m.String()); size > 255 {
		return fmt.Errorf("the mark of sandbox %s has %d bytes, more than 255", m.Sandbox, size)
	}
	return nil
}

// Of reports whether the mark is that of an interface of a sandbox.
func (m Mark) Of(sandbox, ifName string) bool { return m.Sandbox == sandbox && m.IfName == ifName }
