package adversary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

const (
	// patience is how long a world may take to come to rest, and leaving how long its namespaces may take to go: the
	// namespace controller looks again only after 8 seconds where a finalizer held something. They end hangs alone.
	patience, leaving = 3 * time.Minute, 5 * time.Minute
	// patienceOnceFailed is for the sequences that rapid tries once one failed, of which it is to find a short one.
	patienceOnceFailed = 8 * time.Second
	pause              = 100 * time.Millisecond
)

// failed is whether a world did not come to rest.
var failed atomic.Bool

// otherCloud is one of the emulator's beside the controller's own.
const otherCloud = "other"

// secretName is the name of the Secrets with credentials of otherCloud.
const secretName = "openstack"

// homes tell the namespaces of a world apart.
var homes = []string{"a", "b", "c"}

// scenery is where sequences take place, one after another.
type scenery struct {
	*world
	// admin is an administrator's view of Neutron.
	admin *harness.Cloud
	// cluster is what the markers of all resources name.
	cluster types.UID
}

// sequence is what becomes of three tenants.
type sequence struct {
	*scenery
	ctx     context.Context
	tenants []*tenant
	// forged are the Pods that claim an owner or an allocation of another's.
	forged map[types.UID]bool
	// homesOf are the namespaces of all Pods that were seen, and owners all Networks and NetworkPorts.
	homesOf map[types.UID]string
	owners  map[string]bool
}

func newSequence(t *rapid.T, at *scenery) *sequence {
	s := &sequence{
		scenery: at, ctx: context.Background(), forged: map[types.UID]bool{}, homesOf: map[types.UID]string{},
		owners: map[string]bool{},
	}
	id := string(uuid.NewUUID())[:8]
	for _, home := range homes {
		who, err := s.newEditor("sequence-" + id + "-" + home)
		expect.NoError(t, err)
		s.tenants = append(s.tenants, who)
	}
	return s
}

// scene is what there is of a world at a time, by namespace. The lists are made one after another.
type scene map[string]*place

// place is what there is in a namespace.
type place struct {
	// namespace is nil if there is none.
	namespace   *corev1.Namespace
	networks    []cloudteamv1.Network
	ports       []cloudteamv1.NetworkPort
	pods        []corev1.Pod
	sets        []appsv1.ReplicaSet
	deployments []appsv1.Deployment
	// secret is whether the Secret leads to otherCloud.
	secret bool
}

// lives reports whether a namespace is there to stay.
func (p *place) lives() bool { return p.namespace != nil && p.namespace.DeletionTimestamp == nil }

// look reads a world.
func (s *sequence) look(t *rapid.T) scene {
	t.Helper()
	all := scene{}
	for _, who := range s.tenants {
		p, err := s.lookAt(who.name)
		expect.NoError(t, err)
		all[who.name] = p
		for _, pod := range p.pods {
			s.homesOf[pod.UID] = pod.Namespace
		}
		for _, n := range p.networks {
			s.owners[string(n.UID)] = true
		}
		for _, port := range p.ports {
			s.owners[string(port.UID)] = true
		}
	}
	return all
}

func (s *sequence) lookAt(name string) (*place, error) {
	kube, ours, p := s.Kube, s.Networks.CloudteamV1(), &place{}
	list := metav1.ListOptions{}
	namespace, err := kube.CoreV1().Namespaces().Get(s.ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return p, nil
	case err != nil:
		return nil, err
	}
	p.namespace = namespace
	secret, err := kube.CoreV1().Secrets(name).Get(s.ctx, secretName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	p.secret = err == nil && secret.Annotations["leads-to"] == otherCloud
	// Ports before Pods: what a port is bound to was there before.
	ports, err1 := ours.NetworkPorts(name).List(s.ctx, list)
	networks, err2 := ours.Networks(name).List(s.ctx, list)
	pods, err3 := kube.CoreV1().Pods(name).List(s.ctx, list)
	sets, err4 := kube.AppsV1().ReplicaSets(name).List(s.ctx, list)
	deployments, err5 := kube.AppsV1().Deployments(name).List(s.ctx, list)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return nil, err
	}
	p.ports, p.networks, p.pods, p.sets = ports.Items, networks.Items, pods.Items, sets.Items
	p.deployments = deployments.Items
	return p, nil
}

// await polls until check gives nil.
func (s *sequence) await(t *rapid.T, patience time.Duration, check func() error) {
	t.Helper()
	if failed.Load() {
		patience = min(patience, max(patience/4, patienceOnceFailed))
	}
	if err := harness.Poll(nil, patience, pause, check); err != nil {
		failed.Store(true)
		t.Fatal(err)
	}
}

// left are the resources in Neutron that were made for objects of the world that are not there.
func (s *sequence) left(t *rapid.T, all scene) (left []string) {
	t.Helper()
	alive := map[string]bool{}
	for _, p := range all {
		for _, n := range p.networks {
			alive[string(n.UID)] = true
		}
		for _, port := range p.ports {
			alive[string(port.UID)] = true
		}
	}
	for _, collection := range markedCollections {
		for _, r := range s.admin.List(collection, "fields=id&fields=description") {
			description, _ := r["description"].(string)
			_, owner, marked := plan.ParseDescription(description)
			if marked && owner.Cluster == string(s.cluster) && s.owners[owner.Object] && !alive[owner.Object] {
				left = append(left, fmt.Sprintf("%s %s of %s", collection, r.ID(), owner.Object))
			}
		}
	}
	return left
}

// deploymentOf is the Deployment that a Pod belongs to through its ReplicaSet, nil for none.
func (p *place) deploymentOf(pod *corev1.Pod) *appsv1.Deployment {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	for i := range p.sets {
		if p.sets[i].UID != owner.UID {
			continue
		}
		for j := range p.deployments {
			if metav1.IsControlledBy(&p.sets[i], &p.deployments[j]) {
				return &p.deployments[j]
			}
		}
	}
	return nil
}

// everybody are the names of a world's namespaces, sorted.
func (s scene) everybody() []string { return slices.Sorted(maps.Keys(s)) }
