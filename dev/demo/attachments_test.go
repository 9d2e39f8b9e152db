//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var examplePlan = addressPlan{network: "default/example", within: netip.MustParsePrefix("192.168.0.0/16")}

// scene is a Deployment of two whose Pods have what they should, in Kubernetes and in Neutron.
type scene struct {
	pods    []corev1.Pod
	ports   []cloudteamv1.NetworkPort
	neutron []resource
}

func wholeScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{}
	for i := range 2 {
		allocation := cloudteamv1.Allocation{
			Name: examplePlan.network, IPs: []string{fmt.Sprintf("192.168.0.%d/16", 10+i)},
			MAC: fmt.Sprintf("fa:16:3e:00:00:0%d", i), PortID: fmt.Sprintf("id-%d", i), Port: fmt.Sprintf("web-%d", i),
		}
		s.pods = append(s.pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i))},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
		s.allocate(t, i, allocation)
		port := cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: allocation.Port}}
		port.Status.PortID = allocation.PortID
		port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: s.pods[i].Name, UID: s.pods[i].UID}
		port.Status.Conditions = []metav1.Condition{{
			Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue,
		}}
		s.ports = append(s.ports, port)
		s.neutron = append(s.neutron, resource{
			"id": allocation.PortID, "name": allocation.Port, "mac_address": allocation.MAC,
			"fixed_ips": []any{map[string]any{"ip_address": fmt.Sprintf("192.168.0.%d", 10+i), "subnet_id": "s"}},
		})
	}
	return s
}

// allocate writes what a Pod is told of its networks.
func (s *scene) allocate(t *testing.T, pod int, allocations ...cloudteamv1.Allocation) {
	t.Helper()
	text, err := json.Marshal(allocations)
	if err != nil {
		t.Fatal(err)
	}
	s.pods[pod].Annotations = map[string]string{cloudteamv1.AnnotationAllocations: string(text)}
}

// edit changes what a Pod is told of its one network.
func (s *scene) edit(t *testing.T, pod int, change func(*cloudteamv1.Allocation)) {
	t.Helper()
	var allocations []cloudteamv1.Allocation
	text := s.pods[pod].Annotations[cloudteamv1.AnnotationAllocations]
	if err := json.Unmarshal([]byte(text), &allocations); err != nil {
		t.Fatal(err)
	}
	change(&allocations[0])
	s.allocate(t, pod, allocations...)
}

func TestAttachments(t *testing.T) {
	for sentence, test := range map[string]struct {
		spoil     func(*testing.T, *scene)
		wantError string
	}{
		"all is as it should be": {spoil: func(*testing.T, *scene) {}},
		"a Pod is missing": {
			spoil:     func(_ *testing.T, s *scene) { s.pods = s.pods[:1] },
			wantError: "1 Pods and 2 NetworkPorts, not 2",
		},
		"a port is left over": {
			spoil:     func(_ *testing.T, s *scene) { s.ports = append(s.ports, cloudteamv1.NetworkPort{}) },
			wantError: "2 Pods and 3 NetworkPorts, not 2",
		},
		"a Pod waits": {
			spoil:     func(_ *testing.T, s *scene) { s.pods[1].Status.Phase = corev1.PodPending },
			wantError: "Pod pod-1 does not run",
		},
		"a Pod is being deleted": {
			spoil:     func(_ *testing.T, s *scene) { s.pods[1].DeletionTimestamp = new(metav1.Now()) },
			wantError: "Pod pod-1 does not run",
		},
		"a Pod is told nothing": {
			spoil:     func(_ *testing.T, s *scene) { s.pods[1].Annotations = nil },
			wantError: "Pod pod-1 has not one allocation",
		},
		"a Pod is told of two networks": {
			spoil: func(t *testing.T, s *scene) {
				s.allocate(t, 1, cloudteamv1.Allocation{}, cloudteamv1.Allocation{})
			},
			wantError: "Pod pod-1 has not one allocation",
		},
		"a Pod has a port of nobody's": {
			spoil:     func(_ *testing.T, s *scene) { s.ports[1].Status.PortID = "other" },
			wantError: "of which there is no NetworkPort",
		},
		"a port is bound to no Pod": {
			spoil:     func(_ *testing.T, s *scene) { s.ports[1].Status.BoundTo = nil },
			wantError: "web-1 is not bound to Pod pod-1",
		},
		"a port is bound to an older Pod of the name": {
			spoil:     func(_ *testing.T, s *scene) { s.ports[1].Status.BoundTo.UID = "older" },
			wantError: "web-1 is not bound to Pod pod-1",
		},
		"a port is not Ready": {
			spoil:     func(_ *testing.T, s *scene) { s.ports[1].Status.Conditions = nil },
			wantError: "web-1 is not Ready",
		},
		"an address is another network's": {
			spoil: func(t *testing.T, s *scene) {
				s.edit(t, 1, func(a *cloudteamv1.Allocation) { a.Name = "default/other" })
			},
			wantError: "of Network default/other, not of default/example",
		},
		"an address is outside": {
			spoil: func(t *testing.T, s *scene) {
				s.edit(t, 1, func(a *cloudteamv1.Allocation) { a.IPs = []string{"10.0.0.1/16"} })
			},
			wantError: "10.0.0.1/16, which is none of 192.168.0.0/16",
		},
		"two Pods have one address": {
			spoil: func(t *testing.T, s *scene) {
				s.edit(t, 1, func(a *cloudteamv1.Allocation) { a.IPs = []string{"192.168.0.10/16"} })
			},
			wantError: "Pods pod-0 and pod-1 both have the address 192.168.0.10/16",
		},
		"Neutron lacks a port": {
			spoil:     func(_ *testing.T, s *scene) { s.neutron = s.neutron[:1] },
			wantError: "1 ports in Neutron, not 2",
		},
		"Neutron has another port": {
			spoil:     func(_ *testing.T, s *scene) { s.neutron[1]["id"] = "other" },
			wantError: "no port id-1 in Neutron, which is Pod pod-1's",
		},
		"Neutron has another address": {
			spoil: func(_ *testing.T, s *scene) {
				s.neutron[1]["fixed_ips"] = []any{map[string]any{"ip_address": "192.168.0.99"}}
			},
			wantError: "port id-1 has 192.168.0.99",
		},
		"Neutron has another MAC": {
			spoil:     func(_ *testing.T, s *scene) { s.neutron[1]["mac_address"] = "fa:16:3e:00:00:99" },
			wantError: "and fa:16:3e:00:00:99 in Neutron",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := wholeScene(t)
			test.spoil(t, s)
			is, err := attached(s.pods, s.ports, 2, examplePlan)
			if err == nil {
				err = is.sameAs(s.neutron)
			}
			if test.wantError == "" && err != nil {
				t.Error(err)
			}
			if test.wantError != "" && (err == nil || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("the error is %v, want one with %q", err, test.wantError)
			}
		})
	}
	t.Run("nothing is there, and nothing is wanted", func(t *testing.T) {
		is, err := attached(nil, nil, 0, examplePlan)
		if err != nil || is.sameAs(nil) != nil {
			t.Errorf("%v, %v", err, is.sameAs(nil))
		}
	})
}

func TestAddressOrderIsNoDifference(t *testing.T) {
	is := attachments{"uid": {pod: "web", Allocation: cloudteamv1.Allocation{
		PortID: "id", MAC: "m", IPs: []string{"fd00::7/64", "192.168.0.7/16"},
	}}}
	port := resource{"id": "id", "mac_address": "m", "fixed_ips": []any{
		map[string]any{"ip_address": "192.168.0.7"}, map[string]any{"ip_address": "fd00::7"},
	}}
	if err := is.sameAs([]resource{port}); err != nil {
		t.Error(err)
	}
}

func TestKeptBy(t *testing.T) {
	has := func(port, ip string) attachment {
		return attachment{pod: "web", Allocation: cloudteamv1.Allocation{PortID: port, IPs: []string{ip}}}
	}
	before := attachments{"a": has("1", "192.168.0.1/16"), "b": has("2", "192.168.0.2/16")}
	for sentence, test := range map[string]struct {
		later attachments
		moved bool
	}{
		"a Pod that is gone has nothing to keep": {later: attachments{"a": before["a"]}},
		"a Pod that is new may have the port of one that is gone": {
			later: attachments{"a": before["a"], "c": before["b"]},
		},
		"another address is not kept": {later: attachments{"a": has("1", "192.168.0.3/16")}, moved: true},
		"another port is not kept":    {later: attachments{"a": has("3", "192.168.0.1/16")}, moved: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			if err := before.keptBy(test.later); (err != nil) != test.moved {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestAttachmentsAndPortsAreShownAsTables(t *testing.T) {
	s := wholeScene(t)
	is, err := attached(s.pods, s.ports, 2, examplePlan)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POD     PHASE     ADDRESS           MAC                 PORT ID",
		"pod-0   Running   192.168.0.10/16   fa:16:3e:00:00:00   id-0",
		"pod-1   Running   192.168.0.11/16   fa:16:3e:00:00:01   id-1",
	}
	if diff := cmp.Diff(want, new(tablePrinter).render(is.table())); diff != "" {
		t.Errorf("Pods (-want +got):\n%s", diff)
	}
	s.neutron[0], s.neutron[1] = s.neutron[1], s.neutron[0]
	want = []string{
		"ID     NAME    MAC ADDRESS         FIXED IP ADDRESSES",
		"id-0   web-0   fa:16:3e:00:00:00   192.168.0.10",
		"id-1   web-1   fa:16:3e:00:00:01   192.168.0.11",
	}
	if diff := cmp.Diff(want, new(tablePrinter).render(neutronPortTable(s.neutron))); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}
