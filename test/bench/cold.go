package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

func coldGroup() group {
	return group{
		id: "cold", clouds: []string{emulator}, components: harness.APIComponents(),
		size:  func(o options) int { return o.cold },
		lives: func(o options) int { return o.largeRounds },
		benchmarks: []benchmark{
			{
				id: "cold", name: "%d Networks cold ÷ bare loop at its best concurrency", limit: 1.1,
				how: "The Networks are in Kubernetes and nothing is in Neutron; from the controller's start until all are " +
					"Ready. The emulator works on as many calls at a time (--neutron-workers) as a Neutron on a machine like " +
					"this one, which starts an API worker per CPU; each call takes what it took measured. The controller may " +
					"ask kube-apiserver 2000 times a second (--kube-api-qps). The bare loop, as above, has an emulator of its " +
					"own.",
			},
		},
		measure: measureCold,
	}
}

func measureCold(ctx context.Context, b *bench) error {
	f, err := b.applyFleet(ctx, b.neutronWorkers)
	if err != nil {
		return err
	}
	if err := f.createBare(ctx); err != nil {
		return err
	}
	if err := f.createCold(ctx); err != nil {
		return err
	}
	f.reportRatio("cold", f.bareTook)
	return nil
}

// manyRequests lets the controller ask kube-apiserver as often as it can.
var manyRequests = []string{"--kube-api-qps=2000", "--kube-api-burst=4000"}

// coldFleet is Networks that are in Kubernetes before the controller starts.
type coldFleet struct {
	*bench
	namespace string
	observer  *observer
	site      *site
	// workers is how many calls the cloud works on at a time.
	workers int
	// bareTook is what the bare loop took and took what the controller did; one is a Network that the controller made.
	bareTook, took time.Duration
	one            *cloudteamv1.Network
}

// applyFleet makes as many Networks as the group is about, and an empty cloud that works on so many calls at a time.
func (b *bench) applyFleet(ctx context.Context, workers int) (*coldFleet, error) {
	f := &coldFleet{bench: b, workers: workers}
	var err error
	if f.namespace, err = b.newNamespace(ctx); err != nil {
		return nil, err
	}
	if f.observer, err = b.observe(ctx, f.namespace); err != nil {
		return nil, err
	}
	if f.site, err = b.openSite(ctx, workers); err != nil {
		return nil, err
	}
	b.say("applying %s Networks", grouped(b.size))
	return f, b.apply(ctx, f.namespace, b.size)
}

// reportRatio reports what the controller took as a ratio to what something bare took.
func (f *coldFleet) reportRatio(id string, bareTook time.Duration) {
	if bareTook > 0 {
		f.report.add(id, f.took.Seconds()/bareTook.Seconds())
	}
}

// createCold has the controller create all, from its start on.
func (f *coldFleet) createCold(ctx context.Context) error {
	cpu, err := f.controlPlaneCPU()
	if err != nil {
		return err
	}
	began := time.Now()
	c, err := f.launch(ctx, f.site, f.Kubeconfig, append(manyRequests, alone...)...)
	if err != nil {
		return err
	}
	profiled := f.profile(ctx, c, f.group)
	ready, err := f.observer.awaitReady(ctx, f.size)
	if err != nil {
		return c.explain(err)
	}
	f.took = ready.Sub(began)
	if err := f.reportCPU(cpu, c); err != nil {
		return err
	}
	calls := f.site.since(0)
	f.say("cold: by the controller in %s with %d calls, of which the first create came after %s", short(f.took),
		len(calls), short(writes(calls)[0].at.Sub(began)))
	f.one, err = f.Networks.CloudteamV1().Networks(f.namespace).Get(ctx, nameOf(f.namespace, 0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	return c.stop(ctx)
}

// used is the CPU time that a process had used at some moment.
type used struct {
	pid  int
	time time.Duration
}

// controlPlaneCPU gives what the programs of the control plane have used so far, by the id of the figure that tells of
// it; nothing where nobody asks for these.
func (f *coldFleet) controlPlaneCPU() (map[string]used, error) {
	so := map[string]used{}
	for id, program := range map[string]string{"cold-cpu-apiserver": "kube-apiserver", "cold-cpu-etcd": "etcd"} {
		if !f.wants(id) {
			continue
		}
		pid, err := descendant(program)
		if err != nil {
			return nil, err
		}
		s, err := statOf(pid)
		if err != nil {
			return nil, err
		}
		so[id] = used{pid, s.cpu}
	}
	return so, nil
}

// reportCPU reports what has been used per Network since then, and by the controller since its start.
func (f *coldFleet) reportCPU(since map[string]used, c *controller) error {
	if f.wants("cold-cpu") {
		since["cold-cpu"] = used{pid: c.PID()}
	}
	for id, was := range since {
		s, err := statOf(was.pid)
		if err != nil {
			return err
		}
		f.report.add(id, (s.cpu-was.time).Seconds()*1000/float64(f.size))
	}
	return nil
}

// createBare creates as many networks, bare and as many at a time as is best, in a cloud of its own.
func (f *coldFleet) createBare(ctx context.Context) error {
	s, err := f.openSite(ctx, f.workers)
	if err != nil {
		return err
	}
	l := newBare(s)
	atATime, err := l.best(ctx, f.bench, "bare", min(f.size, 2*f.workers*bulkSize), f.workers, 2*f.workers)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	began := time.Now()
	if _, err := l.create(ctx, "bare", f.size, atATime); err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	f.bareTook = time.Since(began)
	f.say("cold: bare in %s, %d at a time", short(f.bareTook), atATime)
	return nil
}

// patchesAtATime is how many writes to Kubernetes the bare loop makes at a time, all bulks together, or one for each:
// fewer than the 100 that kube-apiserver serves on one connection.
const patchesAtATime = 64

// writtenAtMost is how many networks are enough to tell how fast they are made with writes to Kubernetes.
const writtenAtMost = 2000

// createWritten is createBare with two writes to Kubernetes for each network, to Networks that are made first: what the
// controller wrote of one that it made. It gives what the whole fleet takes at the rate of the first writtenAtMost.
func (f *coldFleet) createWritten(ctx context.Context) (time.Duration, error) {
	namespace, err := f.newNamespace(ctx)
	if err != nil {
		return 0, err
	}
	s, err := f.openSite(ctx, f.workers)
	if err != nil {
		return 0, err
	}
	n := min(f.size, writtenAtMost)
	f.say("applying %s Networks more", grouped(n))
	if err := f.apply(ctx, namespace, n); err != nil {
		return 0, err
	}
	client := f.Networks.CloudteamV1().Networks(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	// They come in the order of their names, which is that of their numbers.
	networks := list.Items
	// Twice as many bulks as Neutron works on: it has something to do while the others' writes go to Kubernetes.
	atATime := 2 * f.workers
	each := func(patch func(context.Context, *cloudteamv1.Network) error) func(context.Context, int, int) error {
		return func(ctx context.Context, first, end int) error {
			return inParallel(ctx, max(1, patchesAtATime/atATime), end-first, func(ctx context.Context, i int) error {
				return patch(ctx, &networks[first+i])
			})
		}
	}
	send := func(
		ctx context.Context, n *cloudteamv1.Network, kind types.PatchType, o metav1.PatchOptions, body any, sub ...string,
	) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		o.FieldManager = "bench"
		_, err = client.Patch(ctx, n.Name, kind, text, o, sub...)
		return err
	}
	claim := each(func(ctx context.Context, n *cloudteamv1.Network) error {
		return send(ctx, n, types.MergePatchType, metav1.PatchOptions{}, map[string]any{"metadata": map[string]any{
			"uid": n.UID, "resourceVersion": n.ResourceVersion,
			"finalizers": f.one.Finalizers, "annotations": f.one.Annotations,
		}})
	})
	report := each(func(ctx context.Context, n *cloudteamv1.Network) error {
		return send(ctx, n, types.ApplyPatchType, metav1.PatchOptions{Force: new(true)}, map[string]any{
			"apiVersion": cloudteamv1.SchemeGroupVersion.String(), "kind": "Network",
			"metadata": map[string]any{"name": n.Name, "namespace": n.Namespace, "uid": n.UID},
			"status":   f.one.Status,
		}, "status")
	})
	began := time.Now()
	if _, err := newBare(s).createBetween(ctx, "bare", n, atATime, claim, report); err != nil {
		return 0, err
	}
	took := time.Since(began)
	f.say("cold: %s bare, with writes to Kubernetes, in %s, %d at a time", grouped(n), short(took), atATime)
	return took * time.Duration(f.size) / time.Duration(n), nil
}
