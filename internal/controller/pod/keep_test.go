package pod

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1/fake"
)

// A release that does not know slots gives a StatefulSet's Pod a port of its own. The port of the slot, with its
// address, is for the next Pod.
func TestThePortOfASlotOutlivesAPodWithoutIt(t *testing.T) {
	pod := declaringPod("team", controlledBy("apps/v1", "StatefulSet", "db", "db"))
	pod.Name, pod.UID = "db-2", "pod"
	pod.Annotations[cloudteamv1.AnnotationAllocations] =
		`[{"name":"team/net","ips":["10.0.0.7/24"],"mac":"fa:16:3e:00:00:07","portID":"own-id","port":"own"}]`
	own := consumer.NewPort("team", "own", ownerOf(pod), requestFor("net"))
	own.UID, own.Status.PortID, own.Status.MAC = "own", "own-id", "fa:16:3e:00:00:07"
	own.Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.7/24"}}
	own.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod.Name, UID: pod.UID}
	useless := consumer.NewPort("team", "useless", ownerOf(pod), requestFor("net"))
	useless.UID = "useless"
	slot := consumer.NewPortOfSlot("db-2-net-0", consumer.Slot{Namespace: "team", Set: "db", Number: 2}, requestFor("net"))
	slot.UID = "slot"

	c := newIdle(t, pod, own, useless, slot)
	if _, err := c.keep(controllertest.Logged(t), cache.MetaObjectToName(pod), pod); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for _, action := range c.ports.Ports.(*fake.FakeCloudteamV1).Actions() {
		if is, ok := action.(interface{ GetName() string }); ok && action.GetVerb() == "delete" {
			deleted = append(deleted, is.GetName())
		}
	}
	if len(deleted) != 1 || deleted[0] != "useless" {
		t.Errorf("deleted were %v, want only the Pod's own port that it does not have", deleted)
	}
}
