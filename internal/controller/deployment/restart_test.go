package deployment

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// tick is how often everybody in a played rollout looks and acts.
	tick = 100 * time.Millisecond
	// bulk is how many ports one call to Neutron creates at most.
	bulk = 25
)

// pace is what things take in a played rollout; each Pod takes up to as much again, so that they do not move in step.
type pace struct {
	// port is until a port is in Neutron, start until a Pod that has one is available, end until one that is deleted is
	// gone.
	port, start, end time.Duration
}

// played is a Deployment whose Pods come and go as its own controller, the scheduler and a kubelet would have them, by
// the plans that are tested here. Nothing is behind and nothing fails.
type played struct {
	t       *testing.T
	pace    pace
	chance  *rand.Rand
	now     time.Time
	memory  memory
	o       observed
	version string
	pods    []*playedPod
	named   int
	readyAt map[types.UID]time.Time

	// rolledOutAt is when some Pod was last to come, to go or to be available.
	rolledOutAt time.Time
	// made and deleted are ports; calls is what they cost, where those that one plan makes go in bulk. most is how many
	// there were at a time.
	made, deleted, calls, most int
}

type playedPod struct {
	*corev1.Pod
	version     string
	bound       *cloudteamv1.NetworkPort
	availableAt time.Time
	goneAt      time.Time
}

func play(t *testing.T, replicas int32, p pace, cooldown time.Duration) *played {
	w := &played{
		t: t, pace: p, chance: rand.New(rand.NewPCG(1, 2)), now: time.Unix(0, 0), readyAt: map[types.UID]time.Time{},
		version: "first",
	}
	d := declaring("blue", replicas)
	w.o = observed{
		deployment: d, cooldown: cooldown, deleted: map[types.UID]bool{},
		resolve: func(cache.ObjectName) standing { return standing{kind: consumer.Ours} },
		givenTo: func(*cloudteamv1.NetworkPort) []*corev1.Pod { return nil },
		rival:   func(*cloudteamv1.NetworkPort) *cloudteamv1.NetworkPort { return nil },
		podNamed: func(name string) *corev1.Pod {
			for _, pod := range w.pods {
				if pod.Name == name {
					return pod.Pod
				}
			}
			return nil
		},
		taken: func(name string) bool {
			return slices.ContainsFunc(w.o.ports, func(port *cloudteamv1.NetworkPort) bool { return port.Name == name })
		},
	}
	w.o.declared, w.o.extras, w.o.invalid = consumer.DeclaredByDeployment(d)
	return w
}

// restart changes the Pod template as kubectl rollout restart does.
func (w *played) restart(version string) {
	w.version = version
	w.o.deployment.Generation++
	w.o.deployment.Spec.Template.Labels = map[string]string{"version": version}
}

// until ticks until a condition holds, which it must within ten minutes.
func (w *played) until(done func() bool) {
	w.t.Helper()
	end := w.now.Add(10 * time.Minute)
	for !done() {
		if w.now.After(end) {
			w.t.Fatalf("after ten minutes there are %d Pods and %d ports", len(w.pods), len(w.o.ports))
		}
		w.plan()
		w.bind()
		w.scale()
		w.end()
		w.now = w.now.Add(tick)
	}
}

// pass lets time pass.
func (w *played) pass(d time.Duration) {
	end := w.now.Add(d)
	w.until(func() bool { return !w.now.Before(end) })
}

// reset begins the counts anew.
func (w *played) reset() { w.made, w.deleted, w.calls, w.most = 0, 0, 0, len(w.o.ports) }

// took is a time that something takes, or up to twice that.
func (w *played) took(d time.Duration) time.Time {
	return w.now.Add(d + time.Duration(w.chance.Int64N(int64(d)+1)))
}

// plan applies a plan.
func (w *played) plan() {
	w.o.now, w.o.rolling, w.o.demands = w.now, w.memory.rolling(w.o.deployment), w.memory.demands
	w.o.pods = nil
	for _, pod := range w.pods {
		w.o.pods = append(w.o.pods, pod.Pod)
	}
	p := newPlan(w.o)
	w.memory.demands = p.demands
	for _, port := range p.remove {
		w.o.ports = slices.DeleteFunc(w.o.ports, func(other *cloudteamv1.NetworkPort) bool { return other == port })
		w.deleted++
		w.calls++
	}
	made := slices.Concat(p.create...)
	for _, port := range made {
		w.named++
		port.UID = types.UID(fmt.Sprint("port-", w.named))
		w.readyAt[port.UID] = w.now.Add(w.pace.port)
		w.o.ports = append(w.o.ports, port)
	}
	w.made += len(made)
	w.calls += (len(made) + bulk - 1) / bulk
	w.most = max(w.most, len(w.o.ports))
}

// bind gives Pods that wait ports that are there.
func (w *played) bind() {
	for _, port := range w.o.ports {
		if port.Status.PortID == "" && !w.now.Before(w.readyAt[port.UID]) {
			port.Status.PortID = "id-" + string(port.UID)
			port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		}
	}
	for _, pod := range w.pods {
		if pod.bound != nil {
			continue
		}
		free := slices.IndexFunc(w.o.ports, func(port *cloudteamv1.NetworkPort) bool {
			return port.Status.PortID != "" && port.Status.BoundTo == nil
		})
		if free < 0 {
			return
		}
		pod.bound = w.o.ports[free]
		pod.bound.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod.Name, UID: pod.UID}
		text, _ := json.Marshal([]cloudteamv1.Allocation{{Port: pod.bound.Name, PortID: pod.bound.Status.PortID}})
		pod.Annotations[cloudteamv1.AnnotationAllocations] = string(text)
		pod.availableAt = w.took(w.pace.start)
	}
}

// scale is one look of the controller of Deployments, and of its two ReplicaSets.
func (w *played) scale() {
	var old, updated, available, updatedAvailable int
	for _, pod := range w.pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		ready := pod.bound != nil && !w.now.Before(pod.availableAt)
		if ready {
			available++
		}
		if pod.version != w.version {
			old++
			continue
		}
		updated++
		if ready {
			updatedAvailable++
		}
	}
	replicas := int(replicasOf(w.o.deployment))
	surge, unavailable := fenceposts(w.o.deployment)
	for range min(replicas-updated, replicas+surge-old-updated) {
		w.named++
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprint("pod-", w.named), UID: types.UID(fmt.Sprint("pod-", w.named)),
			Annotations: map[string]string{selection.Annotation: "blue"},
		}}
		w.pods = append(w.pods, &playedPod{Pod: pod, version: w.version})
		updated++
	}
	spared := old + updated - (replicas - unavailable) - (updated - updatedAvailable)
	excess := updated - replicas
	for _, pod := range w.pods {
		switch {
		case pod.DeletionTimestamp != nil:
			continue
		case pod.version != w.version && spared > 0:
			spared--
			old--
		case pod.version == w.version && excess > 0:
			excess--
			updated--
		default:
			continue
		}
		pod.DeletionTimestamp = new(metav1.NewTime(w.now))
		pod.goneAt = w.took(w.pace.end)
	}
	w.o.deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: w.o.deployment.Generation,
		Replicas:           int32(old + updated), UpdatedReplicas: int32(updated), AvailableReplicas: int32(available),
	}
	if !w.rolledOut() {
		w.rolledOutAt = w.now
	}
}

// end removes Pods whose time is over, and gives back their ports.
func (w *played) end() {
	w.pods = slices.DeleteFunc(w.pods, func(pod *playedPod) bool {
		if pod.DeletionTimestamp == nil || w.now.Before(pod.goneAt) {
			return false
		}
		if pod.bound != nil {
			pod.bound.Status.BoundTo = nil
		}
		return true
	})
}

// rolledOut reports whether all Pods are of the present template and available.
func (w *played) rolledOut() bool {
	s, replicas := w.o.deployment.Status, replicasOf(w.o.deployment)
	return s.ObservedGeneration == w.o.deployment.Generation && s.Replicas == replicas && s.UpdatedReplicas == replicas &&
		s.AvailableReplicas == replicas
}

func (w *played) atRest() bool {
	return w.rolledOut() && len(w.pods) == int(replicasOf(w.o.deployment)) && len(w.o.ports) == len(w.pods)
}

// TestARestart holds what a rolling restart of 50 Pods costs in calls to Neutron: a fifth of one for each Pod until
// they are all new, and then one for each port beyond the replicas, which no call to Neutron deletes together.
func TestARestart(t *testing.T) {
	const replicas = 50
	quick, slow := 200*time.Millisecond, 30*time.Second
	for name, c := range map[string]struct {
		pace pace
		// most is how many ports there may be at a time: a fixed number of Pods is beyond the replicas (13), or on its way
		// to be (12), and each that ends slowly has its port until then.
		most int
	}{
		"Pods that end at once need ports for the surge":                  {pace{end: 0, start: time.Second}, 63},
		"Pods that end within the time in which ports are made":           {pace{end: quick, start: time.Second}, 76},
		"Pods that end in the time in which others start":                 {pace{end: time.Second, start: time.Second}, 100},
		"Pods that end slowly have their ports until the restart is over": {pace{end: slow, start: time.Second}, 100},
		"Pods that start slowly, and end at once":                         {pace{end: 0, start: slow}, 63},
		"Pods that start slowly, and end before the next do":              {pace{end: 5 * time.Second, start: slow}, 89},
		"Pods that start slowly, and end as slowly":                       {pace{end: slow, start: slow}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.pace.port = 500 * time.Millisecond
			w := play(t, replicas, c.pace, DefaultCooldown)
			w.until(w.atRest)
			if w.made != replicas || w.deleted != 0 {
				t.Errorf("the first rollout made %d ports and deleted %d, want %d and none", w.made, w.deleted, replicas)
			}
			for _, version := range []string{"second", "third"} {
				w.reset()
				w.restart(version)
				w.until(w.rolledOut)
				if w.calls > replicas/5 {
					t.Errorf("until the Pods are the %s there are %d calls, want at most %d: %d ports made, %d deleted", version,
						w.calls, replicas/5, w.made, w.deleted)
				}
				w.until(func() bool { return len(w.pods) == replicas }) // those of this one are not the next one's
				if w.most > c.most {
					t.Errorf("there were %d ports, want at most %d", w.most, c.most)
				}
			}
			w.until(w.atRest)
			if last := w.rolledOutAt.Add(2*c.pace.end + DefaultCooldown + time.Second); w.now.After(last) {
				t.Errorf("ports beyond the replicas are left at %s, which are due to go at %s", w.now, last)
			}
			w.pass(2 * DefaultCooldown)
			if w.deleted > c.most-replicas || len(w.o.ports) != replicas {
				t.Errorf("%d ports were deleted and %d are left", w.deleted, len(w.o.ports))
			}
		})
	}
}

func TestScaledDown(t *testing.T) {
	w := play(t, 50, pace{port: time.Second, start: time.Second, end: time.Second}, DefaultCooldown)
	w.until(w.atRest)
	w.reset()
	w.o.deployment.Spec.Replicas = new(int32(10))
	w.o.deployment.Generation++
	w.until(w.rolledOut)
	w.pass(DefaultCooldown - time.Second)
	if w.deleted > 0 {
		t.Errorf("%d ports are deleted before the cool-down is over", w.deleted)
	}
	w.o.deployment.Spec.Replicas = new(int32(30))
	w.o.deployment.Generation++
	w.until(w.rolledOut)
	if w.made > 0 {
		t.Errorf("%d ports are made although there were some to spare", w.made)
	}
	w.until(w.atRest)
	if w.deleted != 20 || w.made > 0 {
		t.Errorf("%d ports are deleted and %d made, want 20 and none", w.deleted, w.made)
	}
}
