//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// webSelector selects the Deployment's Pods, as the sample has it.
const webSelector = "app=" + webName

// attachment is a Pod that runs, and what its annotation says that it has of its Network.
type attachment struct {
	pod, phase string
	cloudteamv1.Allocation
}

// addresses are the attachment's, without prefix lengths, with commas between.
func (a attachment) addresses() string {
	var bare []string
	for _, ip := range a.IPs {
		address, _, _ := strings.Cut(ip, "/")
		bare = append(bare, address)
	}
	return sortedList(bare)
}

// attachments are those of all Pods of a Deployment, by the Pods' UIDs.
type attachments map[types.UID]attachment

// sorted gives the attachments in the order of their Pods' names.
func (s *story) sorted() []attachment {
	return slices.SortedFunc(maps.Values(s.pods), func(a, b attachment) int { return strings.Compare(a.pod, b.pod) })
}

// compare holds what Kubernetes has of a Deployment's Pods against what Neutron has: all Pods run, each with one
// NetworkPort that is Ready and bound to it, and with the addresses and MAC that its port has in Neutron; and there is
// no other port in either.
func compare(pods []corev1.Pod, owned []cloudteamv1.NetworkPort, ports []resource) (attachments, error) {
	is := attachments{}
	var told, bound, has, holders []string
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return nil, fmt.Errorf("the Pod %s does not run: its phase is %s, its conditions are %v",
				pod.Name, pod.Status.Phase, pod.Status.Conditions)
		}
		var allocations []cloudteamv1.Allocation
		annotation := pod.Annotations[cloudteamv1.AnnotationAllocations]
		if json.Unmarshal([]byte(annotation), &allocations) != nil || len(allocations) != 1 {
			return nil, fmt.Errorf("the Pod %s has not one allocation, but %q", pod.Name, annotation)
		}
		a := attachment{pod.Name, string(pod.Status.Phase), allocations[0]}
		is[pod.UID] = a
		told = append(told, fmt.Sprint(a.PortID, " with ", a.addresses(), " and ", a.MAC))
		holders = append(holders, fmt.Sprint(a.PortID, " for ", pod.UID))
	}
	for _, port := range owned {
		if !meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionReady) || port.Status.BoundTo == nil {
			return nil, fmt.Errorf("the NetworkPort %s is not Ready and bound: %v", port.Name, port.Status.Conditions)
		}
		bound = append(bound, fmt.Sprint(port.Status.PortID, " for ", port.Status.BoundTo.UID))
	}
	for _, port := range ports {
		addresses := sortedList(strings.Split(port.text("fixed_ips"), ", "))
		has = append(has, fmt.Sprint(port.id(), " with ", addresses, " and ", port.text("mac_address")))
	}
	return is, errors.Join(
		same("of the Pods' ports, the NetworkPorts", sortedList(bound), sortedList(holders)),
		same("of the Pods' ports, Neutron's", sortedList(has), sortedList(told)),
	)
}

// attached waits until as many Pods of the Deployment run as wanted, and Neutron has their ports and no others. Pods
// that stay keep theirs. A further check may be nil.
func attached(wanted int, check func(*story, attachments) error) beat {
	return func(ctx context.Context, s *story) error {
		expected := fmt.Sprintf("%d Pods of Deployment %s run, with a port each in Neutron, and there are no other ports",
			wanted, webName)
		var is attachments
		err := await(ctx, stepPatience, expected, func(ctx context.Context) (err error) {
			if err := s.rolledOut(ctx, wanted); err != nil {
				return err
			}
			pods, err := s.cluster.kube.CoreV1().Pods(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{LabelSelector: webSelector})
			if err != nil {
				return err
			}
			if len(pods.Items) != wanted {
				return fmt.Errorf("there are %d Pods", len(pods.Items))
			}
			list, err := s.cluster.networks.CloudteamV1().NetworkPorts(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			owned := slices.DeleteFunc(list.Items, func(port cloudteamv1.NetworkPort) bool {
				owner := metav1.GetControllerOf(&port)
				return owner == nil || owner.UID != s.uids["deployment"]
			})
			if s.ports, err = s.cloud.ports(ctx, s.seen.network.id(), s.clusterUID); err != nil {
				return err
			}
			if is, err = compare(pods.Items, owned, s.ports); err == nil && check != nil {
				err = check(s, is)
			}
			return err
		})
		if err != nil {
			return err
		}
		for uid, was := range s.pods {
			if now, stays := is[uid]; stays && (was.PortID != now.PortID || was.addresses() != now.addresses()) {
				return fmt.Errorf("the Pod %s had %s by port %s and now has %s by port %s",
					now.pod, was.addresses(), was.PortID, now.addresses(), now.PortID)
			}
		}
		s.before, s.pods = s.pods, is
		return nil
	}
}

// rolledOut gives nil once the Deployment has as many available Pods as wanted, or is gone where none is wanted.
func (s *story) rolledOut(ctx context.Context, wanted int) error {
	d, err := s.cluster.kube.AppsV1().Deployments(metav1.NamespaceDefault).Get(ctx, webName, metav1.GetOptions{})
	switch {
	case wanted == 0 && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.Status.ObservedGeneration < d.Generation || int(d.Status.AvailableReplicas) != wanted || wanted == 0:
		return fmt.Errorf("%d Pods are available, its conditions are %v", d.Status.AvailableReplicas, d.Status.Conditions)
	}
	return nil
}

// deleteAPod deletes the first of the Pods.
func deleteAPod(ctx context.Context, s *story) error {
	name := s.sorted()[0].pod
	s.n.command("kubectl delete pod " + name)
	return s.cluster.kube.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
}

// victimIsGone holds the Pods against those before the first was deleted.
func (s *story) victimIsGone(is attachments) error {
	for _, a := range is {
		if victim := s.sorted()[0].pod; a.pod == victim {
			return fmt.Errorf("the Pod %s is still there", victim)
		}
	}
	return nil
}

// replacement says which Pod is new.
func (s *story) replacement() string {
	for uid, a := range s.pods {
		if _, known := s.before[uid]; !known {
			return fmt.Sprintf("the replacement %s runs with the address %s", a.pod, a.addresses())
		}
	}
	return "there is no replacement"
}

// scale changes the number of the Deployment's Pods.
func scale(replicas int) beat {
	return func(ctx context.Context, s *story) error {
		s.n.command(fmt.Sprintf("kubectl scale deployment %s --replicas=%d", webName, replicas))
		_, err := s.objects("deployment").Patch(ctx, webName, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{FieldManager: fieldManager}, "scale")
		return err
	}
}

// showPorts shows the NetworkPorts.
func showPorts(ctx context.Context, s *story) error {
	s.n.command("kubectl get networkports")
	table, err := s.cluster.portTable(ctx, metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	return s.table(table)
}

// allocationsOfPods prints what Pods were told of their networks, given a label selector and the annotation's key.
const allocationsOfPods = `kubectl get pods -l %s -o json | jq -r '.items[] | [.metadata.name, .status.phase] +
       (.metadata.annotations["%s"] | fromjson[0] | [.ips[0], .mac, .portID]) | @tsv'`

// showAllocations shows what the Pods' annotations say.
func showAllocations(_ context.Context, s *story) error {
	s.n.command(fmt.Sprintf(allocationsOfPods, webSelector, cloudteamv1.AnnotationAllocations))
	var rows [][]any
	for _, a := range s.sorted() {
		rows = append(rows, []any{a.pod, a.phase, strings.Join(a.IPs, ", "), a.MAC, a.PortID})
	}
	return s.table(newTable(rows, "Pod", "Phase", "Address", "MAC", "Port ID"))
}

// showNeutronPorts shows the Pods' ports as openstack port list does.
func showNeutronPorts(_ context.Context, s *story) error {
	s.n.command(osc.PortsOf(s.seen.network.id()))
	var rows [][]any
	for _, port := range s.ports {
		rows = append(rows, []any{port.id(), port.text("name"), port.text("mac_address"), port.text("fixed_ips")})
	}
	slices.SortFunc(rows, func(a, b []any) int { return strings.Compare(fmt.Sprint(a[1]), fmt.Sprint(b[1])) })
	return s.table(newTable(rows, "ID", "Name", "MAC Address", "Fixed IP Addresses"))
}

// newTable is a Table as the API server gives one.
func newTable(rows [][]any, columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name})
	}
	for _, cells := range rows {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t
}

func sortedList(items []string) string {
	return strings.Join(slices.Sorted(slices.Values(items)), ", ")
}
