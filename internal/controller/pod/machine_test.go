package pod

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corefake "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// kubevirt is an object of KubeVirt in the namespace team.
func kubevirt(kind, name string, uid types.UID, edit ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: kind}}
	m.Namespace, m.Name, m.UID = "team", name, uid
	for _, e := range edit {
		e(m)
	}
	return m
}

// launcher is a Pod of the instance web with a UID. It waits for a port on team/net.
func launcher(namespace, name string, instance types.UID) *corev1.Pod {
	pod := declaringPod(namespace, controlledBy("kubevirt.io/v1", "VirtualMachineInstance", "web", instance))
	pod.Name, pod.UID = name, types.UID(name)
	return pod
}

// running is a launcher that was given the port of machinePort.
func running(name string, created time.Time, edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := launcher("team", name, "run-1")
	pod.CreationTimestamp = metav1.NewTime(created)
	pod.Spec.SchedulingGates = nil
	pod.Annotations[cloudteamv1.AnnotationAllocations] =
		`[{"name":"team/net","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:01","portID":"id","port":"` + machinePort("").Name + `"}]`
	for _, e := range edit {
		e(pod)
	}
	return pod
}

var webMachine = consumer.Slot{Namespace: "team", Machine: "web"}

// machinePort is the usable port of the virtual machine web, bound to a Pod if that is not empty.
func machinePort(boundTo string) *cloudteamv1.NetworkPort {
	name := ownPortName(launcher("team", "any", "run-1"), &webMachine, 0, requestFor("net"))
	port := consumer.NewPortOfSlot(name, webMachine, requestFor("net"))
	port.UID, port.ResourceVersion = "port", "1"
	port.Status.PortID, port.Status.MAC = "id", "fa:16:3e:00:00:01"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16"}}
	port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	if boundTo != "" {
		port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: boundTo, UID: types.UID(boundTo)}
	}
	return port
}

// wrote gives the writes to ports and Pods, such as "delete web", and forgets them.
func wrote(c *Controller) (did []string) {
	for _, of := range []*clienttesting.Fake{c.ports.Ports.(*fake.FakeCloudteamV1).Fake, c.pods.(*corefake.FakeCoreV1).Fake} {
		for _, action := range of.Actions() {
			switch is := action.(type) {
			case clienttesting.PatchAction:
				did = append(did, "patch "+is.GetName()+" "+string(is.GetPatch()))
			case clienttesting.CreateAction:
				made := is.GetObject().(metav1.Object)
				did = append(did, fmt.Sprintf("create %s for %s, %d owners", made.GetName(),
					made.GetAnnotations()[consumer.AnnotationMadeFor], len(made.GetOwnerReferences())))
			case clienttesting.DeleteAction:
				did = append(did, "delete "+is.GetName())
			}
		}
		of.ClearActions()
	}
	return did
}

// newMachines makes a controller of a cluster with KubeVirt whose caches and API server have the same ports and Pods.
func newMachines(t *testing.T, machines []*metav1.PartialObjectMetadata, objects ...runtime.Object) *Controller {
	t.Helper()
	c := newIdleWith(t, machines, objects...)
	for _, object := range objects {
		var err error
		switch object := object.(type) {
		case *cloudteamv1.NetworkPort:
			_, err = c.ports.Ports.NetworkPorts(object.Namespace).Create(t.Context(), object.DeepCopy(), metav1.CreateOptions{})
		case *corev1.Pod:
			_, err = c.pods.Pods(object.Namespace).Create(t.Context(), object.DeepCopy(), metav1.CreateOptions{})
		}
		expect.NoError(t, err)
	}
	wrote(c)
	return c
}

// runs is the virtual machine web with its instance.
func runs() []*metav1.PartialObjectMetadata {
	return []*metav1.PartialObjectMetadata{
		kubevirt("VirtualMachine", "web", "web"), kubevirt("VirtualMachineInstance", "web", "run-1"),
	}
}

// A Pod of an instance has a port of its virtual machine, and an owner reference alone proves nothing.
func TestAnInstanceMustExist(t *testing.T) {
	ofMachine := "create " + machinePort("").Name + " for VirtualMachine/web, 0 owners"
	for name, c := range map[string]struct {
		machines []*metav1.PartialObjectMetadata
		pod      *corev1.Pod
		want     string // what is created; empty if the Pod waits for its owner
	}{
		"its own":                         {runs(), launcher("team", "a", "run-1"), ofMachine},
		"one without a virtual machine":   {runs()[1:], launcher("team", "a", "run-1"), ofMachine},
		"of another UID":                  {runs(), launcher("team", "a", "forged"), ""},
		"of another namespace":            {runs(), launcher("evil", "a", "run-1"), ""},
		"the virtual machine's UID":       {runs(), launcher("team", "a", "web"), ""},
		"a stopped machine has no Pod":    {runs()[:1], launcher("team", "a", "run-1"), ""},
		"where KubeVirt is not installed": {nil, launcher("team", "a", "run-1"), "for Pod/a, 1 owners"},
	} {
		t.Run(name, func(t *testing.T) {
			idle := newMachines(t, c.machines, openNetwork(), c.pod)
			p, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(c.pod), c.pod)
			if err != nil || p.reason != cloudteamv1.ReasonPortsNotReady {
				t.Errorf("the Pod is told %+v, error %v", p, err)
			}
			did := strings.Join(wrote(idle), "; ")
			if known := !strings.Contains(p.message, "is not known"); known != (c.want != "") {
				t.Errorf("the Pod is told %q", p.message)
			}
			if c.want == "" && did != "" || !strings.Contains(did, c.want) {
				t.Errorf("it did %q, want %q", did, c.want)
			}
		})
	}
}

// Without the right to list virtual machines, their Pods wait, and say what to do. No port is deleted.
func TestMachinesThatCannotBeListed(t *testing.T) {
	pod := launcher("team", "a", "run-1")
	idle := newMachines(t, runs(), openNetwork(), machinePort(""), pod)
	unlisted := metadatainformer.NewSharedInformerFactory(idle.metadata, 0)
	idle.machines = &consumer.Machines{
		All:       unlisted.ForResource(consumer.MachineResource).Informer(),
		Instances: unlisted.ForResource(consumer.InstanceResource).Informer(),
	}
	p, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(pod), pod)
	if err != nil || p.reason != cloudteamv1.ReasonPortsNotReady || !strings.Contains(p.message, "give its account") {
		t.Errorf("the Pod is told %+v, error %v", p, err)
	}
	expect.NoError(t, idle.caches.Pods.Informer().GetIndexer().Delete(pod))
	if _, err := idle.sync(controllertest.Logged(t), webMachine.Key()); err != nil {
		t.Errorf("the port stays with error %v", err)
	}
	expect.Equal(t, []string(nil), wrote(idle), "writes")
}

// The port of a virtual machine goes when neither it nor its instance will make a Pod, and not before.
func TestRetireOfAMachine(t *testing.T) {
	deleted := func(m *metav1.PartialObjectMetadata) {
		m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"}
	}
	gives := func(m *metav1.PartialObjectMetadata) {
		m.Annotations = map[string]string{cloudteamv1.AnnotationPortsWhenStopped: cloudteamv1.PortsDelete}
	}
	vm := func(edit ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		return kubevirt("VirtualMachine", "web", "web", edit...)
	}
	vmi := func(edit ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		return kubevirt("VirtualMachineInstance", "web", "run-1", edit...)
	}
	going := openNetwork()
	going.DeletionTimestamp = &metav1.Time{}
	none := []*metav1.PartialObjectMetadata{}
	for name, c := range map[string]struct {
		machines []*metav1.PartialObjectMetadata
		bound    string
		with     runtime.Object
		// unseen is what only the API server has.
		unseen *metav1.PartialObjectMetadata
		want   bool
		stale  bool
	}{
		"both are there":                   {machines: runs()},
		"it is stopped":                    {machines: []*metav1.PartialObjectMetadata{vm()}},
		"an instance alone":                {machines: []*metav1.PartialObjectMetadata{vmi()}},
		"both are gone":                    {machines: none, want: true},
		"it is being deleted":              {machines: []*metav1.PartialObjectMetadata{vm(deleted)}, want: true},
		"its instance is being deleted":    {machines: []*metav1.PartialObjectMetadata{vm(), vmi(deleted)}},
		"an instance alone, being deleted": {machines: []*metav1.PartialObjectMetadata{vmi(deleted)}, want: true},
		"it gives up ports, and runs":      {machines: []*metav1.PartialObjectMetadata{vm(gives), vmi()}},
		"it gives up ports, and stopped":   {machines: []*metav1.PartialObjectMetadata{vm(gives)}, want: true},
		"another's name": {
			machines: []*metav1.PartialObjectMetadata{kubevirt("VirtualMachine", "db", "db")}, want: true},
		"it was made again":             {machines: none, unseen: vm(), stale: true},
		"KubeVirt is not installed":     {want: true},
		"KubeVirt is installed later":   {unseen: vm()},
		"a Pod is bound to it":          {machines: none, bound: "a"},
		"a Pod waits for it":            {machines: none, with: launcher("team", "a", "run-1")},
		"a Pod was given it":            {machines: none, with: running("a", time.Now())},
		"its Pod has ended":             {machines: none, with: running("a", time.Now(), ended), want: true},
		"its Network is being deleted":  {machines: []*metav1.PartialObjectMetadata{vm()}, with: going, want: true},
		"another one's Pod is no proof": {machines: none, with: declaringPod("team", nil), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			port := machinePort(c.bound)
			objects := []runtime.Object{port}
			if c.with != nil {
				objects = append(objects, c.with)
			}
			idle := newMachines(t, c.machines, objects...)
			if c.unseen != nil {
				tracker := idle.metadata.(*metadatafake.FakeMetadataClient).Tracker()
				expect.NoError(t, tracker.Create(consumer.MachineResource, c.unseen, "team"))
				if idle.machines != nil {
					forget(t, idle.machines.All, c.unseen)
				}
			}
			_, err := idle.sync(controllertest.Logged(t), webMachine.Key())
			if stale := errors.Is(err, controller.ErrStale); stale != c.stale || err != nil && !stale {
				t.Fatalf("error %v, want one that the cache is old: %t", err, c.stale)
			}
			expect.Equal(t, c.want, slices.Contains(wrote(idle), "delete "+port.Name), "whether it was deleted")
		})
	}
}

// forget waits until a watch has shown an object, and removes it from the cache.
func forget(t *testing.T, from cache.SharedIndexInformer, object *metav1.PartialObjectMetadata) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		_, shown, err := from.GetIndexer().Get(object)
		if err == nil && shown {
			err = from.GetIndexer().Delete(object)
		}
		expect.NoError(t, err)
		if shown {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the watch does not show the object")
		case <-time.After(time.Millisecond):
		}
	}
}

func ended(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// The target of a live migration gets what the source has, which stays bound to the source.
func TestTheTargetOfAMigrationIsGivenTheSourcesPort(t *testing.T) {
	source, target := running("source", time.Now()), launcher("team", "target", "run-1")
	idle := newMachines(t, runs(), openNetwork(), machinePort("source"), source, target)
	p, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(target), target)
	if err != nil || p.reason != "" {
		t.Fatalf("the Pod is told %+v, error %v", p, err)
	}
	did := wrote(idle)
	if len(did) != 1 || !strings.HasPrefix(did[0], "patch target ") || !strings.Contains(did[0], `192.168.0.7/16`) ||
		!strings.Contains(did[0], "fa:16:3e:00:00:01") || !strings.Contains(did[0], `"$patch":"delete"`) {
		t.Errorf("it did %v, want one allocation", did)
	}
	// Each of them is content with what it was given.
	target = running("target", time.Now())
	idle = newMachines(t, runs(), openNetwork(), machinePort("source"), source, target)
	for _, pod := range []*corev1.Pod{source, target} {
		p, err = idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(pod), pod)
		if err != nil || p.reason != "" || !p.allocated {
			t.Errorf("Pod %s is told %+v, error %v", pod.Name, p, err)
		}
	}
	expect.Equal(t, []string(nil), wrote(idle), "writes")
}

// A Pod of a later start waits until the Pod of the earlier one has ended.
func TestANewInstanceWaitsForThePodOfTheLast(t *testing.T) {
	old, pod := running("old", time.Now()), launcher("team", "new", "run-2")
	machines := []*metav1.PartialObjectMetadata{
		kubevirt("VirtualMachine", "web", "web"), kubevirt("VirtualMachineInstance", "web", "run-2"),
	}
	idle := newMachines(t, machines, openNetwork(), machinePort("old"), old, pod)
	p, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(pod), pod)
	if err != nil || p.reason != cloudteamv1.ReasonPortsNotReady || !strings.Contains(p.message, `bound to Pod "old"`) {
		t.Errorf("the Pod is told %+v, error %v", p, err)
	}
	expect.Equal(t, []string(nil), wrote(idle), "writes")
	old.Status.Phase = corev1.PodFailed
	idle = newMachines(t, machines, openNetwork(), machinePort(""), old, pod)
	if _, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(pod), pod); err != nil {
		t.Fatal(err)
	}
	if did := strings.Join(wrote(idle), "; "); !strings.Contains(did, `"boundTo":{"kind":"Pod","name":"new"`) {
		t.Errorf("then it did %q, want a binding", did)
	}
}

// When the source of a live migration has ended, its binding moves to the target in one write.
func TestTheBindingMovesWhenTheSourceHasEnded(t *testing.T) {
	now := time.Now()
	later := now.Add(time.Minute)
	of := func(uid types.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].UID = uid }
	}
	phase := func(is corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = is } }
	for name, c := range map[string]struct {
		source *corev1.Pod
		others []runtime.Object
		want   string // the Pod, "null", or "" for no write
	}{
		"the source lives":            {running("source", now), []runtime.Object{running("target", later)}, ""},
		"the source is being deleted": {running("source", now, leaving), []runtime.Object{running("target", later)}, ""},
		"the source has ended":        {running("source", now, ended), []runtime.Object{running("target", later)}, "target"},
		"the source is gone":          {nil, []runtime.Object{running("target", later)}, "target"},
		"there is no target":          {running("source", now, ended), nil, "null"},
		"the target waits yet":        {nil, []runtime.Object{launcher("team", "target", "run-1")}, "null"},
		"the target has ended":        {nil, []runtime.Object{running("target", later, ended)}, "null"},
		"the target is being deleted": {nil, []runtime.Object{running("target", later, leaving)}, "null"},
		"an earlier target lives":     {nil, []runtime.Object{running("failed", now), running("target", later)}, "target"},
		"an earlier target may have the guest": {nil, []runtime.Object{
			running("earlier", now, phase(corev1.PodRunning)), running("target", later, phase(corev1.PodPending))}, "earlier"},
		"the target is of a later start": {nil, []runtime.Object{running("target", later, of("run-2"))}, "null"},
		"the target is nobody's": {nil, []runtime.Object{
			running("target", later, func(p *corev1.Pod) { p.OwnerReferences = nil })}, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{openNetwork(), machinePort("source")}, c.others...)
			if c.source != nil {
				objects = append(objects, c.source)
			}
			idle := newMachines(t, runs(), objects...)
			err := idle.releaseUseless(controllertest.Logged(t), cache.NewObjectName("team", "source"), c.source)
			expect.NoError(t, err)
			did := strings.Join(wrote(idle), "; ")
			want := map[string]string{"": "", "null": `"boundTo":null`}[c.want]
			if want == "" && c.want != "" {
				want = fmt.Sprintf(`"boundTo":{"kind":"Pod","name":%q`, c.want)
			}
			if want == "" && did != "" || !strings.Contains(did, want) || strings.Count(did, "patch") > 1 {
				t.Errorf("it did %q, want %q", did, c.want)
			}
		})
	}
}

// The target of a migration says why it has no packets while the source does not end.
func TestTheTargetSaysThatItsSourceDoesNotEnd(t *testing.T) {
	source, target := running("source", time.Now()), running("target", time.Now().Add(time.Minute))
	source.Spec.NodeName = "node1"
	all, err := consumer.Allocations(target)
	expect.NoError(t, err)
	given := all[0]
	c := newMachines(t, runs(), openNetwork(), machinePort("source"), source, target)
	expect.Equal(t, "", c.problemOf(given, machinePort("source"), target), "what it says while the source runs")
	leaving(source)
	c = newMachines(t, runs(), openNetwork(), machinePort("source"), source, target)
	said := c.problemOf(given, machinePort("source"), target)
	if !strings.Contains(said, "node1") || !strings.Contains(said, "kubectl delete pod source -n team --force") {
		t.Errorf("while the source is being deleted, it says %q", said)
	}
	if keys := c.keysOfPod(source); !slices.Contains(keys, cache.NewObjectName("team", "target")) {
		t.Errorf("the source's deletion wakes %v", keys)
	}
}

// What changes for a virtual machine wakes the sync that deletes its ports, and its Pods that wait.
func TestAMachineWakesItsPods(t *testing.T) {
	waiting := launcher("team", "waiting", "run-1")
	c := newMachines(t, runs(), openNetwork(), machinePort(""), waiting, running("has", time.Now()))
	key, pod := webMachine.Key(), cache.MetaObjectToName(waiting)
	going := openNetwork()
	going.DeletionTimestamp = &metav1.Time{}
	withGoing := newMachines(t, runs(), going, machinePort(""), waiting)
	for what, of := range map[string]struct{ keys, want []cache.ObjectName }{
		"the virtual machine":     {c.keysOfMachine(runs()[0]), []cache.ObjectName{pod, key}},
		"its instance":            {c.keysOfMachine(runs()[1]), []cache.ObjectName{pod, key}},
		"a Pod":                   {c.keysOfPod(waiting), []cache.ObjectName{pod, key}},
		"the port":                {c.keysOfPort(machinePort("")), []cache.ObjectName{key, pod, cache.NewObjectName("team", "has")}},
		"the caches, once full":   {c.keysOfMachines(), []cache.ObjectName{key}},
		"a Network that is going": {withGoing.keysOfNetwork(cache.MetaObjectToName(going)), []cache.ObjectName{pod, key}},
	} {
		if !slices.Equal(of.keys, of.want) {
			t.Errorf("%s wakes %v, want %v", what, of.keys, of.want)
		}
	}
	if is := runs()[0]; !sameMachine(is, runs()[0]) || sameMachine(is, kubevirt("VirtualMachine", "web", "web",
		func(m *metav1.PartialObjectMetadata) { m.DeletionTimestamp = &metav1.Time{} })) {
		t.Error("a deletion wakes nobody, or anything does")
	}
}
