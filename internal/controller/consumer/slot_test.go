package consumer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Users can write the annotation: what is no slot is none.
func TestSlotOf(t *testing.T) {
	for text, want := range map[string]string{
		"StatefulSet/db/0":            "team/db-0",
		"StatefulSet/a.b/12":          "team/a.b-12",
		"StatefulSet/db/00":           "",
		"StatefulSet/db/+1":           "",
		"StatefulSet/db/-1":           "",
		"StatefulSet/db/4294967296":   "",
		"StatefulSet/db":              "",
		"StatefulSet//0":              "",
		"StatefulSet/db/0/1":          "",
		"VirtualMachine/db":           "team/VirtualMachine/db",
		"VirtualMachine/":             "",
		"VirtualMachine/db/0":         "",
		"VirtualMachineInstance/db":   "",
		"Deployment/db/0":             "",
		"Pod/db-0":                    "",
		"":                            "",
		"StatefulSet/../../db/0/../0": "",
	} {
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Annotations: map[string]string{AnnotationMadeFor: text},
		}}
		slot, ok := SlotOf(port)
		if ok != (want != "") || ok && slot.Key().String() != want {
			t.Errorf("%q is the slot %+v, %t; want %q", text, slot, ok, want)
		}
		if ok {
			again, same := SlotOf(NewPortOfSlot("port", slot, Request{}))
			if !same || again != slot {
				t.Errorf("a port that is made for %+v is of %+v", slot, again)
			}
		}
		port.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", APIVersion: "v1", Name: "db-0", Controller: new(true)}}
		if slot, ok := SlotOf(port); ok {
			t.Errorf("%q with an owner is of the slot %+v", text, slot)
		}
	}
}
