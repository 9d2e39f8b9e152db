package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestProblemOfAPortThatAPodWasGiven(t *testing.T) {
	notReady := func(reason string) []metav1.Condition {
		return []metav1.Condition{{
			Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "the cloud says why",
		}}
	}
	for sentence, test := range map[string]struct {
		change func(*cloudteamv1.NetworkPort)
		// want is in the message; empty where nothing is to be said.
		want string
	}{
		"nothing, while it is as it was": {change: func(*cloudteamv1.NetworkPort) {}},
		"nothing, while it is there and fails for a while": {change: func(port *cloudteamv1.NetworkPort) {
			port.Status.Conditions = notReady(cloudteamv1.ReasonCloudUnavailable)
		}},
		"nothing, while it is being made again": {change: func(port *cloudteamv1.NetworkPort) {
			port.Status.PortID, port.Status.Conditions = "", notReady(cloudteamv1.ReasonConflict)
		}},
		"that it is gone from Neutron and why it does not come back": {change: func(port *cloudteamv1.NetworkPort) {
			port.Status.PortID, port.Status.Conditions = "", notReady(cloudteamv1.ReasonAddressInUse)
		}, want: "is no longer in Neutron and cannot be created again (AddressInUse: the cloud says why)"},
		"that it is another": {change: func(port *cloudteamv1.NetworkPort) {
			port.Status.PortID = "another"
		}, want: "is another port in Neutron now"},
	} {
		t.Run(sentence, func(t *testing.T) {
			port := portOf("web-net-0 bound:a")
			a := cloudteamv1.Allocation{
				Port: port.Name, PortID: port.Status.PortID, MAC: port.Status.MAC, IPs: []string{port.Status.Addresses[0].Address},
			}
			test.change(port)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", UID: "a"}}
			said := newIdle(t).problemOf(a, port, pod)
			if (said == "") != (test.want == "") || !strings.Contains(said, test.want) {
				t.Errorf("it says %q, want %q", said, test.want)
			}
		})
	}
}
