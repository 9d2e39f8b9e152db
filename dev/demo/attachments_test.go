//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestCompareFindsWhatIsNotAsItShouldBe(t *testing.T) {
	for sentence, test := range map[string]struct {
		spoil     func(*corev1.Pod, *cloudteamv1.Allocation, *cloudteamv1.NetworkPort, resource)
		wantError string
	}{
		"nothing": {spoil: func(*corev1.Pod, *cloudteamv1.Allocation, *cloudteamv1.NetworkPort, resource) {}},
		"a Pod waits": {
			spoil: func(pod *corev1.Pod, _ *cloudteamv1.Allocation, _ *cloudteamv1.NetworkPort, _ resource) {
				pod.Status.Phase = corev1.PodPending
			},
			wantError: "does not run",
		},
		"a port is bound to an older Pod of the name": {
			spoil: func(_ *corev1.Pod, _ *cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, _ resource) {
				port.Status.BoundTo.UID = "older"
			},
			wantError: "the NetworkPorts is id for older, not id for uid",
		},
		"a port is not Ready": {
			spoil: func(_ *corev1.Pod, _ *cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, _ resource) {
				port.Status.Conditions = nil
			},
			wantError: "web-0 is not Ready",
		},
		"the Pod was told another address": {
			spoil: func(_ *corev1.Pod, a *cloudteamv1.Allocation, _ *cloudteamv1.NetworkPort, _ resource) {
				a.IPs = a.IPs[:1]
			},
			wantError: "Neutron's is id with 192.168.0.7, fd00::7 and m, not id with fd00::7 and m",
		},
		"Neutron has another port": {
			spoil: func(_ *corev1.Pod, _ *cloudteamv1.Allocation, _ *cloudteamv1.NetworkPort, port resource) {
				port["id"] = "other"
			},
			wantError: "Neutron's is other with",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			allocation := cloudteamv1.Allocation{PortID: "id", MAC: "m", IPs: []string{"fd00::7/64", "192.168.0.7/16"}}
			pod := corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "pod-0", UID: "uid"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			port := cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
			port.Status.PortID, port.Status.BoundTo = "id", &cloudteamv1.PortBinding{UID: "uid"}
			port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
			inNeutron := resource{"id": "id", "mac_address": "m", "fixed_ips": []any{
				map[string]any{"ip_address": "192.168.0.7"}, map[string]any{"ip_address": "fd00::7"},
			}}
			test.spoil(&pod, &allocation, &port, inNeutron)
			annotation, err := json.Marshal([]cloudteamv1.Allocation{allocation})
			expect.NoError(t, err)
			pod.Annotations = map[string]string{cloudteamv1.AnnotationAllocations: string(annotation)}
			_, err = compare([]corev1.Pod{pod}, []cloudteamv1.NetworkPort{port}, []resource{inNeutron})
			if (err == nil) != (test.wantError == "") || err != nil && !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("the error is %v, want one with %q", err, test.wantError)
			}
		})
	}
}
