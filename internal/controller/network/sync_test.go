package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

const clusterUID = "c1"

var (
	exampleKey = cache.NewObjectName("team", "example-network")
	here       = neutron.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
	elsewhere  = neutron.Identity{Endpoint: "https://other.test/", Region: "two", ProjectID: "p2"}
	addresses  = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
)

// example is a Network as the API server holds it after a first apply.
func example() *cloudteamv1.Network {
	obj := &cloudteamv1.Network{}
	obj.Namespace, obj.Name, obj.UID, obj.Generation = exampleKey.Namespace, exampleKey.Name, "uid-1", 1
	obj.Spec.CIDR, obj.Spec.Gateway = "192.168.0.0/16", "192.168.0.1"
	return obj
}

// ownerOfExample is the marker's content of what belongs to example().
var ownerOfExample = network.Owner{Cluster: clusterUID, Object: "uid-1"}

// logged is the test's context with a logger whose lines belong to the test.
func logged(t *testing.T) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

// world is a controller between an API server and a cloud that are both played. Its informer is real.
type world struct {
	t      *testing.T
	diary  *diary
	api    *apiServer
	cloud  *cloud
	events *events
	c      *Controller
}

// inWorld runs a test in a bubble of synthetic time, in which the given objects exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...*cloudteamv1.Network) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, diary: &diary{}, events: &events{}}
		w.api = newAPIServer(w.diary)
		w.cloud = &cloud{diary: w.diary, identity: here, index: map[string]network.ObservedNetwork{}}
		for _, obj := range objects {
			w.api.create(t, obj)
		}
		w.restart()
		test(t, w)
	})
}

// restart replaces the controller by a new one, which knows nothing but what the API server and the cloud hold.
func (w *world) restart() {
	w.t.Helper()
	factory := informers.NewSharedInformerFactory(w.api, 0)
	c, err := NewController(w.api, factory.Cloudteam().V1().Networks(), w.cloud, w.events, clusterUID)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	ctx, cancel := context.WithCancel(logged(w.t))
	factory.StartWithContext(ctx)
	w.t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		// A loop that is told to stop before it starts lets go of its queue.
		if err := c.loop.Run(ctx, 1); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

// sync syncs one key when the informer has come to rest, and holds that it changes nothing that others own: the objects
// of the lister and what the Inventory handed out.
func (w *world) sync(key cache.ObjectName) error {
	w.t.Helper()
	synctest.Wait()
	cached := w.c.indexer.List()
	before := make([]runtime.Object, len(cached))
	for i, obj := range cached {
		before[i] = obj.(runtime.Object).DeepCopyObject()
	}
	_, err := w.c.sync(logged(w.t), key)
	for i, obj := range cached {
		if diff := cmp.Diff(before[i], obj.(runtime.Object)); diff != "" {
			w.t.Errorf("the sync changed an object of the lister (-before +after):\n%s", diff)
		}
	}
	w.cloud.checkUntouched(w.t)
	synctest.Wait()
	return err
}

// mustSync is sync of the example without an error.
func (w *world) mustSync() {
	w.t.Helper()
	if err := w.sync(exampleKey); err != nil {
		w.t.Fatalf("sync: %v", err)
	}
}

// syncFails is sync of the example with an error.
func (w *world) syncFails() {
	w.t.Helper()
	if w.sync(exampleKey) == nil {
		w.t.Fatal("sync: no error, so that the key would not be tried again")
	}
}

// status is the example's status at the API server.
func (w *world) status() cloudteamv1.NetworkStatus {
	w.t.Helper()
	return w.api.get(w.t, exampleKey).Status
}

// wantState holds the example's conditions against "Ready=True Available" and the like.
func (w *world) wantState(want string) {
	w.t.Helper()
	if got := stateText(w.status()); got != want {
		ready := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionReady)
		w.t.Errorf("state is %q, want %q; condition Ready: %+v", got, want, ready)
	}
}

func stateText(s cloudteamv1.NetworkStatus) string {
	var texts []string
	reason := ""
	for _, c := range s.Conditions {
		if c.Type == cloudteamv1.ConditionReady || c.Status != metav1.ConditionFalse {
			texts = append(texts, c.Type+"="+string(c.Status))
		}
		reason = c.Reason
	}
	slices.Sort(texts)
	return strings.Join(append(texts, reason), " ")
}

// diary is what was asked of the API server and of the cloud, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take gives what was noted since it was last called.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// count counts the lines that begin with prefix.
func count(lines []string, prefix string) int {
	n := 0
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// events is a record.EventRecorder that keeps what it is given.
type events struct{ diary }

func (e *events) Event(_ runtime.Object, kind, reason, message string) {
	e.note("%s %s %s", kind, reason, message)
}

func (e *events) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	e.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(
	obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any,
) {
	e.Eventf(obj, kind, reason, format, args...)
}

// reasons gives the kind and reason of each Event since it was last called.
func (e *events) reasons() []string {
	var reasons []string
	for _, line := range e.take() {
		words := strings.SplitN(line, " ", 3)
		reasons = append(reasons, words[0]+" "+words[1])
	}
	return reasons
}

// apiServer is the generated fake clientset, made to treat Networks as an API server does where the tracker does not:
// resource versions move with every change and with nothing else, preconditions hold, a status that the CRD refuses is
// refused, and an object that is being deleted goes with its last finalizer.
type apiServer struct {
	*fake.Clientset
	diary *diary

	mu      sync.Mutex
	version int64
	// refuse, where set, may fail a write; what is "finalizers" or "status".
	refuse func(what string) error
}

var networksResource = cloudteamv1.SchemeGroupVersion.WithResource("networks")

func newAPIServer(d *diary) *apiServer {
	// The clientset that tracks fields has no schema for types of a CRD and refuses them.
	a := &apiServer{Clientset: fake.NewSimpleClientset(), diary: d, version: 100}
	a.PrependReactor("patch", "networks", a.patch)
	return a
}

func (a *apiServer) get(t *testing.T, key cache.ObjectName) *cloudteamv1.Network {
	t.Helper()
	obj, err := a.Tracker().Get(networksResource, key.Namespace, key.Name)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*cloudteamv1.Network)
}

func (a *apiServer) exists(key cache.ObjectName) bool {
	_, err := a.Tracker().Get(networksResource, key.Namespace, key.Name)
	return err == nil
}

func (a *apiServer) create(t *testing.T, obj *cloudteamv1.Network) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	obj = obj.DeepCopy()
	a.version++
	obj.ResourceVersion = strconv.FormatInt(a.version, 10)
	if err := a.Tracker().Create(networksResource, obj, obj.Namespace); err != nil {
		t.Fatal(err)
	}
}

// edit changes an object as its user would.
func (a *apiServer) edit(t *testing.T, key cache.ObjectName, change func(*cloudteamv1.Network)) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.get(t, key)
	obj := was.DeepCopy()
	change(obj)
	if !cmp.Equal(was.Spec, obj.Spec) {
		obj.Generation++
	}
	if err := a.store(obj); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object as its user would: it stays until its finalizers are off.
func (a *apiServer) remove(t *testing.T, key cache.ObjectName) {
	t.Helper()
	a.edit(t, key, func(obj *cloudteamv1.Network) {
		now := metav1.Now()
		obj.DeletionTimestamp = &now
	})
}

// removeByForce takes the finalizers off and deletes.
func (a *apiServer) removeByForce(t *testing.T, key cache.ObjectName) {
	t.Helper()
	a.edit(t, key, func(obj *cloudteamv1.Network) {
		now := metav1.Now()
		obj.DeletionTimestamp = &now
		obj.Finalizers = nil
	})
}

func (a *apiServer) store(obj *cloudteamv1.Network) error {
	if obj.DeletionTimestamp != nil && len(obj.Finalizers) == 0 {
		return a.Tracker().Delete(networksResource, obj.Namespace, obj.Name)
	}
	a.version++
	obj.ResourceVersion = strconv.FormatInt(a.version, 10)
	return a.Tracker().Update(networksResource, obj, obj.Namespace)
}

func (a *apiServer) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	what := "finalizers"
	if patch.Subresource != "" {
		what = patch.Subresource
	}
	a.diary.note("write %s", what)
	if a.refuse != nil {
		if err := a.refuse(what); err != nil {
			return true, nil, err
		}
	}
	stored, err := a.Tracker().Get(networksResource, patch.Namespace, patch.Name)
	if err != nil {
		return true, nil, err
	}
	was := stored.(*cloudteamv1.Network)
	var body struct {
		Metadata struct {
			UID             types.UID         `json:"uid"`
			ResourceVersion string            `json:"resourceVersion"`
			Finalizers      []string          `json:"finalizers"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status cloudteamv1.NetworkStatus `json:"status"`
	}
	if err := json.Unmarshal(patch.Patch, &body); err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(networksResource.GroupResource(), patch.Name, fmt.Errorf(format, args...))
	}
	if body.Metadata.UID != was.UID {
		return true, nil, conflict("UID is %s, not %s", was.UID, body.Metadata.UID)
	}
	if v := body.Metadata.ResourceVersion; v != "" && v != was.ResourceVersion {
		return true, nil, conflict("the object has been modified")
	}
	obj := was.DeepCopy()
	switch {
	case what == "finalizers" && patch.PatchType == types.MergePatchType:
		obj.Finalizers = body.Metadata.Finalizers
		for key, value := range body.Metadata.Annotations {
			metav1.SetMetaDataAnnotation(&obj.ObjectMeta, key, value)
		}
	case what == "status" && patch.PatchType == types.ApplyPatchType:
		obj.Status = body.Status
		for _, c := range obj.Status.Conditions {
			if c.Reason == "" || c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse {
				return true, nil, apierrors.NewInvalid(cloudteamv1.SchemeGroupVersion.WithKind("Network").GroupKind(),
					patch.Name, nil)
			}
		}
	default:
		return true, nil, apierrors.NewBadRequest("a write of an unknown kind")
	}
	if cmp.Equal(was, obj) {
		return true, was, nil
	}
	if err := a.store(obj); err != nil {
		return true, nil, err
	}
	return true, obj, nil
}

// latency is what each call of the played cloud takes of the synthetic time.
const latency = 10 * time.Millisecond

// cloud is an Inventory before a Neutron, both played. What Neutron has and what the Inventory holds of it are apart,
// as they are in life: others' changes are unknown until a list or Reread brings them in.
type cloud struct {
	diary *diary

	mu       sync.Mutex
	identity neutron.Identity
	// down, where set, fails the calls that learn something.
	down error
	// networks are what Neutron has, in order of creation.
	networks []network.ObservedNetwork
	// missed are ids that lists do not show though they are there.
	missed map[string]bool
	// index is what the Inventory holds, as of listed.
	index  map[string]network.ObservedNetwork
	listed time.Time
	serial int

	// before may fail a step that is then not carried out; after may fail one that has been, and whose outcome then
	// stays unknown to the index. deaf steps are answered with success and not carried out.
	before, after func(step network.Step) error
	deaf          func(step network.Step) bool

	handedOut []handOut
}

type handOut struct{ given, copy network.Observed }

func pass() { <-time.After(latency) }

func (c *cloud) Identity(context.Context) (neutron.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity, c.down
}

func (c *cloud) Observed(_ context.Context, owner network.Owner, since time.Time) (network.Observed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed.Before(since) {
		if err := c.list(); err != nil {
			return network.Observed{}, err
		}
	}
	var observed network.Observed
	for _, n := range c.networks {
		held, known := c.index[n.ID]
		if _, of, ok := network.ParseDescription(held.Description); known && ok && of == owner {
			observed.Networks = append(observed.Networks, clone(held))
		}
	}
	// What is held of a network that is gone is handed out, too.
	for id, held := range c.index {
		if c.at(id) < 0 {
			if _, of, ok := network.ParseDescription(held.Description); ok && of == owner {
				observed.Networks = append(observed.Networks, clone(held))
			}
		}
	}
	given := handOut{given: observed}
	for _, n := range observed.Networks {
		given.copy.Networks = append(given.copy.Networks, clone(n))
	}
	c.handedOut = append(c.handedOut, given)
	return observed, nil
}

func (c *cloud) list() error {
	c.diary.note("list")
	began := time.Now()
	pass()
	if c.down != nil {
		return c.down
	}
	c.index = map[string]network.ObservedNetwork{}
	for _, n := range c.networks {
		if _, of, ok := network.ParseDescription(n.Description); ok && of.Cluster == clusterUID && !c.missed[n.ID] {
			c.index[n.ID] = clone(n)
		}
	}
	c.listed = began
	return nil
}

// audit lists now, as the Inventory does at intervals.
func (c *cloud) audit(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.list(); err != nil {
		t.Fatal(err)
	}
	c.diary.take()
}

func (c *cloud) Reread(_ context.Context, r network.Resource) (bool, error) {
	id := r.ID
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.note("reread %s", id)
	pass()
	if c.down != nil {
		return false, c.down
	}
	delete(c.index, id)
	at := c.at(id)
	if at < 0 {
		return false, nil
	}
	_, of, ok := network.ParseDescription(c.networks[at].Description)
	if !ok || of.Cluster != clusterUID {
		return true, neutron.ErrUnmarked
	}
	c.index[id] = clone(c.networks[at])
	return true, nil
}

func (c *cloud) Apply(_ context.Context, change network.Change) (done network.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := ""
	for _, step := range change {
		c.diary.note("apply %s", step.Action)
		pass()
		if step.Action == network.CreateSubnet && step.NetworkID == "" {
			step.NetworkID = created
		}
		if c.before != nil {
			if err := c.before(step); err != nil {
				return done, err
			}
		}
		if c.deaf != nil && c.deaf(step) {
			done = append(done, step)
			continue
		}
		touched, err := c.take(&step)
		if err != nil {
			return done, err
		}
		if c.after != nil {
			if err := c.after(step); err != nil {
				return done, err
			}
		}
		delete(c.index, touched)
		if at := c.at(touched); at >= 0 {
			if _, of, ok := network.ParseDescription(c.networks[at].Description); ok && of.Cluster == clusterUID {
				c.index[touched] = clone(c.networks[at])
			}
		}
		if step.Action == network.CreateNetwork {
			created = step.ID
		}
		done = append(done, step)
	}
	return done, nil
}

// take carries a step out and returns the id of the network that it touched.
func (c *cloud) take(step *network.Step) (string, error) {
	id := func(kind string) string {
		c.serial++
		return fmt.Sprintf("%s-%d", kind, c.serial)
	}
	if step.Action == network.CreateNetwork {
		step.ID = id("net")
		created := network.ObservedNetwork{ID: step.ID, Revision: 1, Created: time.Now(), Attributes: step.Attributes}
		if created.MTU == 0 {
			created.MTU = 1450
		}
		c.networks = append(c.networks, created)
		return step.ID, nil
	}

	networkID := step.NetworkID
	if step.Action == network.UpdateNetwork || step.Action == network.DeleteNetwork {
		networkID = step.ID
	}
	at := c.at(networkID)
	if at < 0 {
		return "", &neutron.Error{Kind: neutron.NotFound, Op: string(step.Action), Reason: "there is no such network"}
	}
	n := &c.networks[at]
	subnet := slices.IndexFunc(n.Subnets, func(s network.ObservedSubnet) bool { return s.ID == step.ID })
	moved := &neutron.Error{
		Kind: neutron.Conflict, Op: string(step.Action), Reason: "the revision moved",
		Type: "RevisionNumberConstraintFailed", Status: 412,
	}
	switch step.Action {
	case network.UpdateNetwork:
		if n.Revision != step.Revision {
			return "", moved
		}
		mtu := n.MTU
		n.Attributes = step.Attributes
		if n.MTU == 0 {
			n.MTU = mtu
		}
	case network.DeleteNetwork:
		if n.Revision != step.Revision {
			return "", moved
		}
		c.networks = slices.Delete(c.networks, at, at+1)
		return networkID, nil
	case network.CreateSubnet:
		n.Subnets = append(n.Subnets, network.ObservedSubnet{
			ID: id("sub"), Revision: 0, Name: step.SubnetName, Description: step.SubnetDescription, Subnet: step.Subnet,
		})
	case network.UpdateSubnet, network.DeleteSubnet:
		if subnet < 0 {
			return "", &neutron.Error{Kind: neutron.NotFound, Op: string(step.Action),
				Reason: "there is no such subnet"}
		}
		if n.Subnets[subnet].Revision != step.Revision {
			return "", moved
		}
		if step.Action == network.DeleteSubnet {
			n.Subnets = slices.Delete(n.Subnets, subnet, subnet+1)
			break
		}
		s := &n.Subnets[subnet]
		s.Revision++
		s.Name, s.Description, s.Subnet = step.SubnetName, step.SubnetDescription, step.Subnet
	}
	n.Revision++
	return networkID, nil
}

func (c *cloud) at(id string) int {
	return slices.IndexFunc(c.networks, func(n network.ObservedNetwork) bool { return n.ID == id })
}

// edit changes a network in Neutron as somebody else would, behind the Inventory's back.
func (c *cloud) edit(t *testing.T, id string, change func(*network.ObservedNetwork)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.at(id)
	if at < 0 {
		t.Fatalf("there is no network %s", id)
	}
	change(&c.networks[at])
	c.networks[at].Revision++
}

// remove deletes a network in Neutron behind the Inventory's back.
func (c *cloud) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks = slices.DeleteFunc(c.networks, func(n network.ObservedNetwork) bool { return n.ID == id })
}

// has gives what Neutron has.
func (c *cloud) has() []network.ObservedNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.networks)
}

func (c *cloud) checkUntouched(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handedOut {
		if diff := cmp.Diff(h.copy, h.given, addresses); diff != "" {
			t.Errorf("what the Inventory handed out was changed (-given +left):\n%s", diff)
		}
	}
	c.handedOut = nil
}

func clone(n network.ObservedNetwork) network.ObservedNetwork {
	n.Subnets = slices.Clone(n.Subnets)
	for i := range n.Subnets {
		n.Subnets[i].Pools = slices.Clone(n.Subnets[i].Pools)
		n.Subnets[i].DNSServers = slices.Clone(n.Subnets[i].DNSServers)
		n.Subnets[i].HostRoutes = slices.Clone(n.Subnets[i].HostRoutes)
	}
	return n
}

// fails makes a hook that fails the steps of one action, the given number of times.
func fails(action network.Action, times int, err error) func(network.Step) error {
	return func(step network.Step) error {
		if step.Action != action || times == 0 {
			return nil
		}
		times--
		return err
	}
}

func wantDiary(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("what was asked of the API server and the cloud (-want +got):\n%s", diff)
	}
}

func wantEvents(t *testing.T, w *world, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.events.reasons(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

func TestANetworkIsCreatedBehindItsFinalizerAndThenLeftAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		wantDiary(t, w.diary.take(),
			"write finalizers", "list", "apply create network", "apply create subnet", "write status")
		wantEvents(t, w, "Normal Created")
		w.wantState("Ready=True Available")
		if got := w.api.get(t, exampleKey).Finalizers; !slices.Equal(got, []string{cloudteamv1.Finalizer}) {
			t.Errorf("finalizers %q", got)
		}
		n := w.cloud.has()[0]
		want := cloudteamv1.NetworkStatus{
			ResourceStatus: cloudteamv1.ResourceStatus{
				ObservedGeneration: 1, AppliedGeneration: 1,
				Cloud: &cloudteamv1.CloudStatus{Endpoint: here.Endpoint, Region: here.Region, ProjectID: here.ProjectID},
			},
			NetworkID: n.ID, MTU: 1450,
			Subnets: []cloudteamv1.SubnetStatus{
				{ID: n.Subnets[0].ID, CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"},
			},
		}
		ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
		if diff := cmp.Diff(want, w.status(), ignore); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}

		before := w.api.get(t, exampleKey)
		for range 3 {
			w.mustSync()
		}
		wantDiary(t, w.diary.take())
		wantEvents(t, w)
		if diff := cmp.Diff(before, w.api.get(t, exampleKey)); diff != "" {
			t.Errorf("syncs of an unchanged object changed it:\n%s", diff)
		}
	}, example())
}

func TestNothingIsCreatedWhereTheFinalizerCannotBeWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.refuse = func(string) error { return errors.New("etcd is away") }
		w.syncFails()
		wantDiary(t, w.diary.take(), "write finalizers")
	}, example())
}

func TestTheCloudIsPinnedBeforeTheFirstResource(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// The process ends while the POST is under way: no status is written after it.
		dying := false
		w.api.refuse = func(what string) error {
			if dying {
				return errors.New("the process is gone")
			}
			return nil
		}
		w.cloud.after = func(network.Step) error {
			dying = true
			return &neutron.Error{Op: "create network", Reason: "canceled", MaybeDone: true}
		}
		w.syncFails()
		dying, w.cloud.after = false, nil

		// The next process is given credentials of another cloud, which has nothing of this object's.
		there := &cloud{diary: w.diary, identity: elsewhere, index: map[string]network.ObservedNetwork{}}
		was := w.cloud
		w.cloud = there
		w.restart()
		w.syncFails()
		w.wantState("Ready=False Stalled=True CloudMismatch")
		if n := len(there.has()); n != 0 {
			t.Errorf("%d networks were created in the other cloud, beside %d in the first", n, len(was.has()))
		}

		w.api.remove(t, exampleKey)
		w.syncFails()
		if !w.api.exists(exampleKey) {
			t.Error("the object went, and its network stays in the first cloud for ever")
		}
	}, example())
}

func TestAnObjectThatTheCloudNeverSawIsFreeToGo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.down = &neutron.Error{Op: "log in", Reason: "no answer in time"}
		w.syncFails()
		w.wantState("Ready=False Reconciling=True CloudUnavailable")
		wantDiary(t, w.diary.take(), "write status")
		w.api.remove(t, exampleKey)
		if w.api.exists(exampleKey) {
			t.Error("a finalizer keeps the object, though nothing was ever created")
		}
	}, example())
}

func TestAnotherCloudThanThePinnedOneStalls(t *testing.T) {
	for name, c := range map[string]struct {
		identity neutron.Identity
	}{
		"another endpoint": {
			neutron.Identity{Endpoint: "https://x.test/", Region: here.Region, ProjectID: here.ProjectID},
		},
		"another region":  {neutron.Identity{Endpoint: here.Endpoint, Region: "x", ProjectID: here.ProjectID}},
		"another project": {neutron.Identity{Endpoint: here.Endpoint, Region: here.Region, ProjectID: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.diary.take()
				w.events.take()
				w.cloud.identity = c.identity
				w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
				w.syncFails()
				w.syncFails()
				wantDiary(t, w.diary.take(), "write status")
				wantEvents(t, w, "Warning CloudMismatch")
				w.wantState("Ready=False Stalled=True CloudMismatch")
				if got := w.status(); got.NetworkID == "" || got.AppliedGeneration != 1 || got.ObservedGeneration != 2 {
					t.Errorf("status forgot what it knew: %+v", got)
				}
				w.api.remove(t, exampleKey)
				w.syncFails()
				if lines := w.diary.take(); count(lines, "apply") != 0 || !w.api.exists(exampleKey) {
					t.Errorf("deletion did something in another cloud, or gave up: %q", lines)
				}
			}, example())
		})
	}
}

func TestDriftPolicy(t *testing.T) {
	rename := func(n *network.ObservedNetwork) { n.Name = "renamed" }
	dropSubnet := func(n *network.ObservedNetwork) { n.Subnets = nil }
	for name, c := range map[string]struct {
		policy     cloudteamv1.DriftPolicy
		hand       func(*network.ObservedNetwork)
		wantApply  int
		wantState  string
		wantEvent  string
		wantFields []string
	}{
		"by default a hand edit is put back": {
			"", rename, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Correct a hand edit is put back": {
			cloudteamv1.DriftPolicyCorrect, rename, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Correct a missing subnet is made again": {
			cloudteamv1.DriftPolicyCorrect, dropSubnet, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Report a hand edit is reported and the network stays Ready": {
			cloudteamv1.DriftPolicyReport, rename, 0, "Ready=True DriftReported", "Warning DriftDetected",
			[]string{"name"}},
		"under Report a missing subnet is reported and the network is not Ready": {
			cloudteamv1.DriftPolicyReport, dropSubnet, 0, "Ready=False Stalled=True DriftReported",
			"Warning DriftDetected", []string{"exists"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DriftPolicy = c.policy
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.cloud.edit(t, w.status().NetworkID, c.hand)
				w.cloud.audit(t)
				w.diary.take()
				w.events.take()
				w.mustSync()
				w.mustSync()
				if n := count(w.diary.take(), "apply"); n != c.wantApply {
					t.Errorf("%d steps applied, want %d", n, c.wantApply)
				}
				w.wantState(c.wantState)
				wantEvents(t, w, c.wantEvent)
				var fields []string
				for _, d := range w.status().Drift {
					fields = append(fields, d.Field)
				}
				if diff := cmp.Diff(c.wantFields, fields); diff != "" {
					t.Errorf("fields in status.drift (-want +got):\n%s", diff)
				}
			}, obj)
		})
	}
}

func TestUnderReportASpecIsAppliedOnceAndWhole(t *testing.T) {
	obj := example()
	obj.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	inWorld(t, func(t *testing.T, w *world) {
		// The first attempt stops half way. What is missing is no drift: the spec was never applied.
		refusal := &neutron.Error{Kind: neutron.Capacity, Op: "create subnet", Reason: "full", Type: "OverQuota",
			Status: 409}
		w.cloud.before = fails(network.CreateSubnet, 1, refusal)
		w.syncFails()
		w.wantState("Ready=False Reconciling=True QuotaExceeded")
		if got := w.status(); got.AppliedGeneration != 0 || got.NetworkID == "" {
			t.Errorf("status after half a creation: %+v", got)
		}
		w.mustSync()
		w.wantState("Ready=True Available")
		if got := w.status().AppliedGeneration; got != 1 {
			t.Errorf("appliedGeneration is %d, want 1", got)
		}

		w.cloud.edit(t, w.status().NetworkID, func(n *network.ObservedNetwork) { n.AdminStateUp = false })
		w.cloud.audit(t)
		w.mustSync()
		w.wantState("Ready=True DriftReported")

		w.events.take()
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		w.mustSync()
		w.wantState("Ready=True Available")
		wantEvents(t, w, "Normal Updated")
		if got := w.status(); len(got.Drift) != 0 || got.AppliedGeneration != 2 {
			t.Errorf("status after the edit: %+v", got)
		}
		n := w.cloud.has()[0]
		if want := ownerOfExample.Describe("second edition"); n.Description != want || !n.AdminStateUp {
			t.Errorf("network has description %q and admin state %t, want %q and true", n.Description, n.AdminStateUp,
				want)
		}
	}, obj)
}

func TestUnderReportADuplicateGoesAllTheSame(t *testing.T) {
	obj := example()
	obj.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.cloud.networks = append(w.cloud.networks, network.ObservedNetwork{
			ID: "net-9", Created: time.Now().Add(time.Hour),
			Attributes: network.Attributes{Name: "twin", Description: ownerOfExample.Marker()},
		})
		w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Name = "renamed" })
		w.cloud.audit(t)
		w.mustSync()
		w.wantState("Ready=True DriftReported")
		if all := w.cloud.has(); len(all) != 1 || all[0].ID != id || all[0].Name != "renamed" {
			t.Errorf("Neutron has %+v, want the older, with its new name", all)
		}
	}, obj)
}

func TestACreateThatMayBeDoneIsLookedForBeforeTheNext(t *testing.T) {
	lost := func(op string) error {
		return &neutron.Error{Kind: neutron.Transient, Op: op, Reason: "no answer in time", MaybeDone: true}
	}
	for name, c := range map[string]struct {
		action     network.Action
		done       bool
		wantSecond []string
	}{
		"a network that was created is found": {
			network.CreateNetwork, true, []string{"list", "apply create subnet", "write status"}},
		"a network that was not created is created": {network.CreateNetwork, false,
			[]string{"list", "apply create network", "apply create subnet", "write status"}},
		"a subnet that was created is found": {
			network.CreateSubnet, true, []string{"list", "write status"}},
		"a subnet that was not created is created": {
			network.CreateSubnet, false, []string{"list", "apply create subnet", "write status"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				hook := fails(c.action, 1, lost(string(c.action)))
				if c.done {
					w.cloud.after = hook
				} else {
					w.cloud.before = hook
				}
				w.syncFails()
				w.wantState("Ready=False Reconciling=True CloudUnavailable")
				w.diary.take()
				failed := time.Now()
				w.mustSync()
				wantDiary(t, w.diary.take(), c.wantSecond...)
				if w.cloud.listed.Before(failed) {
					t.Error("it relied on a list that began before the failure")
				}
				w.wantState("Ready=True Available")
				if all := w.cloud.has(); len(all) != 1 || len(all[0].Subnets) != 1 {
					t.Errorf("Neutron has %+v, want one network with one subnet", all)
				}
				w.mustSync()
				wantDiary(t, w.diary.take())
			}, example())
		})
	}
}

func TestARestartLooksBeforeItCreates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.restart()
		w.diary.take()
		w.mustSync()
		wantDiary(t, w.diary.take(), "list")
		// A list that fails says nothing, and above all not that there is nothing.
		w.restart()
		w.cloud.down = &neutron.Error{Op: "list networks", Reason: "service unavailable", Status: 503}
		w.diary.take()
		w.syncFails()
		if n := count(w.diary.take(), "apply"); n != 0 {
			t.Errorf("%d steps were applied on the strength of a failed list", n)
		}
		w.wantState("Ready=False Reconciling=True CloudUnavailable")
		if w.status().NetworkID == "" {
			t.Error("the status forgot the network because a list failed")
		}
		w.cloud.down = nil
		w.mustSync()
		w.wantState("Ready=True Available")
	}, example())
}

func TestAConflictIsReadAgainAndPlannedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		rivals    int // changes by others, one in front of each attempt
		wantApply int
		wantState string
		wantError bool
	}{
		"one rival is overcome at once":                {1, 2, "Ready=True Available", false},
		"a rival in each round but the last is too":    {rounds - 1, rounds, "Ready=True Available", false},
		"a rival that never rests is left until later": {99, rounds, "Ready=False Reconciling=True Changing", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				id := w.status().NetworkID
				w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
				rivals := c.rivals
				w.cloud.before = func(network.Step) error {
					if rivals > 0 {
						rivals--
						w.cloud.networks[w.cloud.at(id)].Name = fmt.Sprint("rival ", rivals)
						w.cloud.networks[w.cloud.at(id)].Revision++
					}
					return nil
				}
				w.diary.take()
				err := w.sync(exampleKey)
				if (err != nil) != c.wantError {
					t.Errorf("error %v, want one: %t", err, c.wantError)
				}
				lines := w.diary.take()
				if n := count(lines, "apply"); n != c.wantApply {
					t.Errorf("%d steps were tried, want %d: %q", n, c.wantApply, lines)
				}
				w.wantState(c.wantState)
			}, example())
		})
	}
}

func TestANetworkThatVanishesUnderAnUpdateIsMadeAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		first := w.status().NetworkID
		w.cloud.remove(first)
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
		w.mustSync()
		w.wantState("Ready=True Available")
		all := w.cloud.has()
		if len(all) != 1 || all[0].ID == first || w.status().NetworkID != all[0].ID {
			t.Errorf("Neutron has %+v and the status says %s", all, w.status().NetworkID)
		}
	}, example())
}

func TestAListThatFallsShortMakesNoSecondNetwork(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.cloud.missed = map[string]bool{id: true}
		w.cloud.audit(t)
		w.diary.take()
		w.mustSync()
		wantDiary(t, w.diary.take(), "reread "+id)
		w.wantState("Ready=True Available")
	}, example())
}

func TestARemovedMarkerStallsAndNothingIsCreated(t *testing.T) {
	for name, description := range map[string]string{
		"the marker is gone":                 "mine now",
		"it is another cluster's":            network.Owner{Cluster: "c2", Object: "uid-1"}.Marker(),
		"it is another object's of ours":     network.Owner{Cluster: clusterUID, Object: "uid-2"}.Marker(),
		"text stands behind what was marked": ownerOfExample.Marker() + " and more",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				id := w.status().NetworkID
				w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Description = description })
				w.cloud.audit(t)
				w.diary.take()
				w.events.take()
				w.syncFails()
				w.syncFails()
				wantDiary(t, w.diary.take(), "reread "+id, "write status", "reread "+id)
				wantEvents(t, w, "Warning MarkerRemoved")
				w.wantState("Ready=False Stalled=True MarkerRemoved")
				if got := w.status().NetworkID; got != id {
					t.Errorf("networkID is %q, want %q: the next sync would create a second network", got, id)
				}

				// Deleting the object leaves what is not ours.
				w.api.remove(t, exampleKey)
				w.mustSync()
				if w.api.exists(exampleKey) || len(w.cloud.has()) != 1 {
					t.Errorf("object exists: %t; networks: %d, want false and 1", w.api.exists(exampleKey),
						len(w.cloud.has()))
				}
				wantEvents(t, w, "Normal Retained")
			}, example())
		})
	}
}

func TestAMarkerPutBackEndsTheStall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Description = "mine now" })
		w.cloud.audit(t)
		w.syncFails()
		w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Description = "back " + ownerOfExample.Marker() })
		w.mustSync()
		w.wantState("Ready=True Available")
		if n := len(w.cloud.has()); n != 1 {
			t.Errorf("Neutron has %d networks, want 1", n)
		}
	}, example())
}

func TestAChangeThatNeutronDoesNotShow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.diary.take()
		w.events.take()
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.MTU = new(int32(9000)) })
		w.cloud.deaf = func(network.Step) bool { return true }
		w.syncFails()
		wantDiary(t, w.diary.take(), "apply update network", "write status")
		wantEvents(t, w, "Warning NotApplied")
		w.wantState("Ready=False Stalled=True NotApplied")
		if got := w.status().AppliedGeneration; got != 1 {
			t.Errorf("appliedGeneration is %d, want 1: the edit was not applied", got)
		}
		// Later attempts cost a call each and tell nothing new.
		w.syncFails()
		wantDiary(t, w.diary.take(), "apply update network")
		wantEvents(t, w)

		w.cloud.deaf = nil
		w.mustSync()
		w.wantState("Ready=True Available")
		wantEvents(t, w, "Normal Updated")
	}, example())
}

func TestAPartOfAChangeThatNeutronDoesNotShow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.events.take()
		w.diary.take()
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) {
			obj.Spec.MTU = new(int32(9000))
			obj.Spec.DNSServers = []string{"192.0.2.1"}
		})
		w.cloud.deaf = func(step network.Step) bool { return step.Action == network.UpdateNetwork }
		w.syncFails()
		wantDiary(t, w.diary.take(), "apply update network", "apply update subnet", "apply update network",
			"write status")
		w.wantState("Ready=False Stalled=True NotApplied")
	}, example())
}

func TestEventsTellTransitionsOnly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refused := &neutron.Error{Kind: neutron.Invalid, Op: "create network", Reason: "no", Status: 400}
		w.cloud.before = fails(network.CreateNetwork, 3, refused)
		for range 3 {
			w.syncFails()
		}
		wantEvents(t, w, "Warning Refused")
		// The same reason with other words is news.
		w.cloud.before = fails(network.CreateNetwork, 2,
			&neutron.Error{Kind: neutron.Invalid, Op: "create network", Reason: "still no", Status: 400})
		w.syncFails()
		w.syncFails()
		wantEvents(t, w, "Warning Refused")
		w.mustSync()
		w.mustSync()
		wantEvents(t, w, "Normal Created")
	}, example())
}

func TestAnInvalidSpecIsToldOnceAndNotTriedAgain(t *testing.T) {
	obj := example()
	obj.Spec.CIDR = "nonsense"
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.mustSync()
		wantDiary(t, w.diary.take(), "write status")
		wantEvents(t, w, "Warning InvalidSpec")
		w.wantState("Ready=False Stalled=True InvalidSpec")
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Spec.CIDR = "192.168.0.0/16" })
		w.mustSync()
		w.wantState("Ready=True Available")
	}, obj)
}

func TestACacheBehindOurOwnWriteIsNotActedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.c.expected.Written(exampleKey, "uid-1", "999999")
		w.mustSync()
		wantDiary(t, w.diary.take())
		// Another object of the name is waited for by nobody.
		w.c.expected.Written(exampleKey, "uid-0", "999999")
		w.mustSync()
		w.wantState("Ready=True Available")
	}, example())
}

func TestAStatusThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		writes := 0
		w.api.refuse = func(what string) error {
			if what == "status" {
				if writes++; writes == 1 {
					return errors.New("etcd is away")
				}
			}
			return nil
		}
		w.syncFails()
		w.mustSync()
		w.wantState("Ready=True Available")
		if n := len(w.cloud.has()); n != 1 {
			t.Errorf("Neutron has %d networks, want 1", n)
		}
	}, example())
}

func TestDeletionLeavesNeutronBeforeKubernetes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.remove(t, exampleKey)
		w.diary.take()
		w.events.take()
		w.mustSync()
		wantDiary(t, w.diary.take(), "apply delete network", "write finalizers")
		wantEvents(t, w, "Normal Deleted")
		if w.api.exists(exampleKey) || len(w.cloud.has()) != 0 {
			t.Errorf("object exists: %t; networks: %d", w.api.exists(exampleKey), len(w.cloud.has()))
		}
		w.mustSync()
		wantDiary(t, w.diary.take())
	}, example())
}

func TestDeletionOfWhatWasNeverCreated(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{cloudteamv1.Finalizer}
	obj.Spec.CIDR = "nonsense"
	inWorld(t, func(t *testing.T, w *world) {
		w.api.remove(t, exampleKey)
		w.mustSync()
		wantDiary(t, w.diary.take(), "list", "write finalizers")
		if w.api.exists(exampleKey) {
			t.Error("the object stays")
		}
	}, obj)
}

func TestOthersFinalizersStay(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first", "b.test/second"}
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		want := []string{"a.test/first", "b.test/second", cloudteamv1.Finalizer}
		if diff := cmp.Diff(want, w.api.get(t, exampleKey).Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		w.api.remove(t, exampleKey)
		w.mustSync()
		if diff := cmp.Diff(want[:2], w.api.get(t, exampleKey).Finalizers); diff != "" {
			t.Errorf("finalizers after the deletion (-want +got):\n%s", diff)
		}
		w.diary.take()
		w.mustSync()
		wantDiary(t, w.diary.take())
	}, obj)
}

func TestAFinalizerThatOthersTookOffIsNoLossWhileAnotherStays(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first"}
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.remove(t, exampleKey)
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) { obj.Finalizers = []string{"a.test/first"} })
		w.mustSync()
		if left := w.cloud.has(); len(left) > 0 {
			t.Errorf("Neutron still has %v", left)
		}
		w.diary.take()
		w.mustSync()
		wantDiary(t, w.diary.take())
	}, obj)
}

func TestAFailureIsToldOnceItsStatusIsWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.down = &neutron.Error{Op: "log in", Reason: "no answer in time"}
		refused := 0
		w.api.refuse = func(string) error {
			if refused++; refused <= 2 {
				return errors.New("etcd is away")
			}
			return nil
		}
		w.syncFails()
		w.syncFails()
		wantEvents(t, w)
		w.syncFails()
		w.syncFails()
		wantEvents(t, w, "Warning CloudUnavailable")
	}, example())
}

func TestANetworkInUseKeepsItsObject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.remove(t, exampleKey)
		w.events.take()
		w.cloud.before = fails(network.DeleteNetwork, 2, &neutron.Error{
			Kind: neutron.InUse, Op: "delete network", Reason: "ports are on it", Type: "NetworkInUse", Status: 409,
		})
		w.syncFails()
		w.syncFails()
		w.wantState("Ready=False Reconciling=True InUse")
		wantEvents(t, w, "Warning InUse")
		if got := w.status(); got.NetworkID == "" || len(got.Subnets) != 1 {
			t.Errorf("the status no longer shows what is there: %+v", got)
		}
		w.mustSync()
		if w.api.exists(exampleKey) {
			t.Error("the object stays")
		}
		wantEvents(t, w, "Normal Deleted")
	}, example())
}

func TestRetainTakesTheMarkersOffInOneSync(t *testing.T) {
	obj := example()
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	obj.Spec.Description = "keep me"
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.remove(t, exampleKey)
		w.diary.take()
		w.events.take()
		w.mustSync()
		lines := w.diary.take()
		if n := count(lines, "apply delete"); n != 0 {
			t.Errorf("%d deletions under Retain", n)
		}
		if n := count(lines, "write status"); n != 0 {
			t.Errorf("%d writes of a status that nobody needs: %q", n, lines)
		}
		if w.api.exists(exampleKey) {
			t.Error("the object stays")
		}
		wantEvents(t, w, "Normal Retained")
		all := w.cloud.has()
		if len(all) != 1 || all[0].Description != "keep me" || all[0].Subnets[0].Description != "" {
			t.Errorf("Neutron has %+v, want the network and its subnet without markers", all)
		}
	}, obj)
}

func TestARetainThatWasCutOffIsTakenUpAgain(t *testing.T) {
	obj := example()
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.remove(t, exampleKey)
		w.cloud.before = fails(network.UpdateNetwork, 1, &neutron.Error{Op: "update network", Reason: "canceled"})
		w.syncFails()
		w.restart()
		w.mustSync()
		if all := w.cloud.has(); w.api.exists(exampleKey) || len(all) != 1 || all[0].Description != "" {
			t.Errorf("object exists: %t; Neutron has %+v", w.api.exists(exampleKey), all)
		}
	}, obj)
}

func TestAMarkerRemovedWhileTheDeletionIsUnderWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Description = "mine now" })
		w.api.remove(t, exampleKey)
		w.mustSync() // the Inventory still holds the network as ours; the DELETE is refused
		if w.api.exists(exampleKey) || len(w.cloud.has()) != 1 {
			t.Errorf("object exists: %t; networks: %d, want false and 1", w.api.exists(exampleKey), len(w.cloud.has()))
		}
	}, example())
}

func TestADeletionThatMeetsRivals(t *testing.T) {
	for name, c := range map[string]struct {
		rivals int
		goes   bool
	}{
		"one rival is overcome at once":                {1, true},
		"a rival in each round but the last is too":    {rounds - 1, true},
		"a rival that never rests is left until later": {99, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.api.remove(t, exampleKey)
				rivals := c.rivals
				w.cloud.before = func(network.Step) error {
					if rivals > 0 {
						rivals--
						w.cloud.networks[0].Revision++
					}
					return nil
				}
				w.diary.take()
				err := w.sync(exampleKey)
				if n := count(w.diary.take(), "apply"); n > rounds {
					t.Errorf("%d attempts in one sync, want at most %d", n, rounds)
				}
				if gone := !w.api.exists(exampleKey); gone != c.goes || (err == nil) != c.goes {
					t.Errorf("object is gone: %t, error: %v; want gone: %t", gone, err, c.goes)
				}
				if !c.goes {
					w.wantState("Ready=False Reconciling=True Changing")
				}
			}, example())
		})
	}
}

func TestADeletionBlockedByAForeignSubnet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.cloud.edit(t, w.status().NetworkID, func(n *network.ObservedNetwork) {
			n.Subnets = append(n.Subnets, network.ObservedSubnet{
				ID: "foreign", Subnet: network.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")},
			})
		})
		w.cloud.audit(t)
		w.api.remove(t, exampleKey)
		w.syncFails()
		w.wantState("Ready=False Stalled=True Blocked")
		if len(w.cloud.has()) != 1 || !w.api.exists(exampleKey) {
			t.Error("somebody else's subnet was deleted with the network, or the object went without it")
		}
	}, example())
}

func TestWhatAnObjectLeftBehindIsPruned(t *testing.T) {
	for name, c := range map[string]struct {
		policy       cloudteamv1.DeletionPolicy
		wantNetworks int
	}{
		"a finalizer that was forced off":              {"", 0},
		"a finalizer that was forced off under Retain": {cloudteamv1.DeletionPolicyRetain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy = c.policy
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.api.removeByForce(t, exampleKey)
				w.mustSync()
				all := w.cloud.has()
				if len(all) != c.wantNetworks {
					t.Errorf("Neutron has %d networks, want %d", len(all), c.wantNetworks)
				}
				for _, n := range all {
					if _, _, marked := network.ParseDescription(n.Description); marked {
						t.Errorf("a network that was retained is still marked: %s", n.Description)
					}
				}
				w.diary.take()
				w.mustSync()
				wantDiary(t, w.diary.take())
			}, obj)
		})
	}
}

func TestAPruneThatFailsIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.api.removeByForce(t, exampleKey)
		w.cloud.before = fails(network.DeleteNetwork, 1, &neutron.Error{Op: "delete network", Reason: "down",
			Status: 503})
		w.syncFails()
		w.mustSync()
		if n := len(w.cloud.has()); n != 0 {
			t.Errorf("Neutron has %d networks, want none", n)
		}
	}, example())
}

func TestAnObjectThatBearsTheNameOfAGoneOne(t *testing.T) {
	again := example()
	again.UID = "uid-2"
	for name, before := range map[string]func(network.Step) error{
		"has a network of its own, and the old one goes": nil,
		"does not wait for an old network that is still in use": fails(network.DeleteNetwork, 1, &neutron.Error{
			Kind: neutron.InUse, Op: "delete network", Reason: "ports are on it", Type: "NetworkInUse", Status: 409,
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.api.removeByForce(t, exampleKey)
				w.api.create(t, again)
				w.cloud.before = before
				err := w.sync(exampleKey)
				if (err != nil) != (before != nil) {
					t.Errorf("error %v, want one: %t, so that the old network is tried again", err, before != nil)
				}
				w.wantState("Ready=True Available")
				w.mustSync()
				all := w.cloud.has()
				if len(all) != 1 || all[0].ID != w.status().NetworkID ||
					all[0].Description != (network.Owner{Cluster: clusterUID, Object: "uid-2"}).Marker() {
					t.Errorf("Neutron has %+v, want the new object's alone", all)
				}
			}, example())
		})
	}
}

// TestTheWorldPlaysBothParts holds the doubles themselves to what the tests lean on.
func TestTheWorldPlaysBothParts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		networks := w.api.CloudteamV1().Networks(exampleKey.Namespace)
		write := func(kind types.PatchType, patch string, subresource ...string) error {
			_, err := networks.Patch(t.Context(), exampleKey.Name, kind, []byte(patch), metav1.PatchOptions{},
				subresource...)
			return err
		}
		if err := write(types.MergePatchType, `{"metadata":{"uid":"other"}}`); !apierrors.IsConflict(err) {
			t.Errorf("a patch for another UID: %v", err)
		}
		err := write(types.MergePatchType, `{"metadata":{"uid":"uid-1","resourceVersion":"1"}}`)
		if !apierrors.IsConflict(err) {
			t.Errorf("a patch for another resourceVersion: %v", err)
		}
		err = write(types.ApplyPatchType,
			`{"metadata":{"uid":"uid-1"},"status":{"conditions":[{"type":"Ready","status":"","reason":""}]}}`, "status")
		if !apierrors.IsInvalid(err) {
			t.Errorf("a condition without a status: %v", err)
		}
	}, example())
}
