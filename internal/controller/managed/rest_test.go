package managed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// inputs are all that the sync of one object may depend on. object is a *T in JSON, as is on, the Network of a
// NetworkPort; a change is one of the JSON, so that no field is beyond it.
type inputs struct {
	Object   json.RawMessage
	On       json.RawMessage
	Observed json.RawMessage
	Identity json.RawMessage
}

// scene is where one controller of a kind plays: what it is shown, and what it did.
type scene[T managed.Object] struct {
	controllertest.Names

	diary    *controllertest.Diary
	events   *controllertest.Events
	c        *managed.Reconciler[T]
	networks cache.Indexer
	declares int

	identity credentials
	observed plan.Observed
}

// credentials is where the credentials lead, or that nobody knows.
type credentials struct {
	neutron.Identity
	Down bool
}

// Identity is managed.Inventory's.
func (s *scene[T]) Identity(context.Context) (neutron.Identity, error) {
	if s.identity.Down {
		return neutron.Identity{}, errors.New("down")
	}
	return s.identity.Identity, nil
}

// Observed is managed.Inventory's.
func (s *scene[T]) Observed(_ context.Context, owner plan.Owner, _ time.Time) (plan.Observed, error) {
	if owner != ownerOfExample {
		return plan.Observed{}, nil
	}
	return s.observed, nil
}

// Reread is managed.Inventory's.
func (s *scene[T]) Reread(_ context.Context, resource plan.Resource) (bool, error) {
	s.diary.Note("reread %s", resource)
	return false, nil
}

// Find is managed.Inventory's.
func (s *scene[T]) Find(_ context.Context, of plan.Kind, name string, _ plan.Owner) (bool, error) {
	s.diary.Note("look for %s %s", of, name)
	return false, nil
}

// Blockers is managed.Inventory's.
func (s *scene[T]) Blockers(_ context.Context, refused plan.Step) (neutron.Blockers, error) {
	s.diary.Note("look who is in the way of %s", refused.ID)
	return neutron.Blockers{}, nil
}

// Foreign is managed.Inventory's.
func (s *scene[T]) Foreign(_ context.Context, id string) (neutron.Foreign, bool, error) {
	s.diary.Note("get %s", id)
	return neutron.Foreign{}, false, nil
}

// Apply is managed.Inventory's. It changes nothing.
func (s *scene[T]) Apply(_ context.Context, change plan.Change) (plan.Change, error) {
	s.diary.Note("apply %s", change)
	return change, nil
}

// stage sets up a controller of the kind on a scene. Its Loop is to be dismissed.
func stage[T managed.Object](
	t *testing.T, build func(informers.SharedInformerFactory, *scene[T]) (*managed.Reconciler[T], error),
) *scene[T] {
	s := &scene[T]{}
	s.diary, s.events = &controllertest.Diary{}, &controllertest.Events{}
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	c, err := build(factory, s)
	if err != nil {
		t.Fatal(err)
	}
	s.c, s.networks = c, factory.Cloudteam().V1().Networks().Informer().GetIndexer()
	kind := c.Kind()
	declare := kind.Declare
	kind.Declare = func(obj T, owner plan.Owner) (managed.Declaration, error) {
		s.declares++
		return declare(obj, owner)
	}
	kind.Patch = func(string) controller.Patch[T] {
		return func(
			_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string,
		) (T, error) {
			s.diary.Note("patch %s %q %s", name, subresources, data)
			obj, _, err := c.Indexer().GetByKey(exampleKey.String())
			return obj.(T), err
		}
	}
	return s
}

// show has the scene's caches hold what in says, in memory of their own.
func (s *scene[T]) show(in, was inputs) error {
	if string(in.Object) != string(was.Object) {
		var obj T
		if err := json.Unmarshal(in.Object, &obj); err != nil {
			return err
		}
		if cache.MetaObjectToName(obj) != exampleKey {
			return errors.New("it is another object's key")
		}
		if err := s.c.Indexer().Update(obj); err != nil {
			return err
		}
	}
	if string(in.On) != string(was.On) {
		var on *cloudteamv1.Network
		if err := json.Unmarshal(in.On, &on); err != nil {
			return err
		}
		if err := s.networks.Replace([]any{on}, ""); err != nil {
			return err
		}
	}
	if string(in.Observed) != string(was.Observed) {
		var observed plan.Observed
		if err := json.Unmarshal(in.Observed, &observed); err != nil {
			return err
		}
		s.observed = observed
	}
	if string(in.Identity) != string(was.Identity) {
		return json.Unmarshal(in.Identity, &s.identity)
	}
	return nil
}

// moments are times at which a condition changed, which two syncs a moment apart do not have in common.
var moments = regexp.MustCompile(`[0-9-]+T[0-9:]+Z`)

// sync syncs the example and tells all that came of it.
func (s *scene[T]) sync(t *testing.T) []string {
	result, err := s.c.Sync(controllertest.Logged(t), exampleKey)
	lines := append(s.diary.Take(), s.events.Take()...)
	if err != nil {
		lines = append(lines, strings.Split(err.Error(), "\n")...)
	}
	for i := range lines {
		lines[i] = moments.ReplaceAllString(lines[i], "2026-01-01T00:00:00Z")
	}
	slices.Sort(lines) // what several earlier objects left is removed in no order
	return append(lines, fmt.Sprint(result))
}

// TestWhatIsAtRestIsSeenToMove holds that a sync never differs from one that remembers nothing of the last, whatever
// single thing of its inputs changes in between, and that one whose inputs are the same ends at once.
func TestWhatIsAtRestIsSeenToMove(t *testing.T) {
	t.Run("a Network", func(t *testing.T) {
		obj := atRestNetwork()
		seenToMove(t, func(f informers.SharedInformerFactory, s *scene[*cloudteamv1.Network]) (
			*networkcontroller.Controller, error,
		) {
			return networkcontroller.NewController(
				nil, f.Cloudteam().V1().Networks(), nil, s, s.events, clusterUID,
				networkcontroller.Options{AddressesLow: 0.1})
		}, rest(t, obj, obj, plan.Observed{Networks: []plan.ObservedNetwork{{
			ID: "net-1", Revision: 3, Created: time.Unix(1, 0).UTC(),
			Attributes: plan.Attributes{
				Name: obj.Name, Description: ownerOfExample.Describe("of the team"), AdminStateUp: true, MTU: 1450,
				PortSecurity: new(true),
			},
			Subnets: []plan.ObservedSubnet{{
				ID: "sub-1", Name: obj.Name, Description: ownerOfExample.Marker(), Used: new(int64(7)),
				Subnet: plan.Subnet{
					CIDR: netip.MustParsePrefix("192.168.0.0/24"), Gateway: netip.MustParseAddr("192.168.0.1"), DHCP: true,
					Pools: []plan.Range{{
						Start: netip.MustParseAddr("192.168.0.10"), End: netip.MustParseAddr("192.168.0.109"),
					}},
					DNSServers: []netip.Addr{netip.MustParseAddr("192.168.0.2")},
				},
			}},
		}}}))
	})
	t.Run("a NetworkPort", func(t *testing.T) {
		obj := &cloudteamv1.NetworkPort{ObjectMeta: exampleMeta(cloudteamv1.PortFinalizer)}
		obj.Spec.NetworkName, obj.Spec.SecurityGroups = "of-the-team", []string{"sg-1"}
		obj.Status.Cloud = new(cloudteamv1.CloudStatus(here))
		on := atRestNetwork()
		on.Name, on.UID = "of-the-team", "net-uid"
		seenToMove(t, func(f informers.SharedInformerFactory, s *scene[*cloudteamv1.NetworkPort]) (
			*portcontroller.Controller, error,
		) {
			return portcontroller.NewController(
				nil, f.Cloudteam().V1().NetworkPorts(), f.Cloudteam().V1().Networks(), s, s.events, clusterUID)
		}, rest(t, obj, on, plan.Observed{Ports: []plan.ObservedPort{{
			ID: "port-1", Revision: 3, Created: time.Unix(1, 0).UTC(), NetworkID: "net-1",
			PortAttributes: plan.PortAttributes{
				Name: obj.Name, Description: ownerOfExample.Marker(), AdminStateUp: true, MAC: "fa:16:3e:00:00:01",
				Addresses:      []plan.PortAddress{{SubnetID: "sub-1", Address: netip.MustParseAddr("192.168.0.7")}},
				SecurityGroups: []string{"sg-1"},
			},
		}}}))
	})
}

// exampleMeta is the metadata of an object at rest.
func exampleMeta(finalizer string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: exampleKey.Namespace, Name: exampleKey.Name, UID: "uid-1", Generation: 1, ResourceVersion: "1",
		Finalizers: []string{finalizer},
	}
}

func atRestNetwork() *cloudteamv1.Network {
	obj := &cloudteamv1.Network{ObjectMeta: exampleMeta(cloudteamv1.Finalizer)}
	obj.Spec.CIDR, obj.Spec.Gateway, obj.Spec.Description = "192.168.0.0/24", "192.168.0.1", "of the team"
	obj.Spec.AllocationPools = []cloudteamv1.AllocationPool{{Start: "192.168.0.10", End: "192.168.0.109"}}
	obj.Spec.DNSServers, obj.Spec.MTU, obj.Spec.PortSecurity = []string{"192.168.0.2"}, new(int32(1450)), new(true)
	obj.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	obj.Status.NetworkID, obj.Status.MTU = "net-1", 1450
	obj.Status.ObservedGeneration, obj.Status.AppliedGeneration = 1, 1
	obj.Status.Cloud = new(cloudteamv1.CloudStatus(here))
	obj.Status.Subnets = []cloudteamv1.SubnetStatus{{
		ID: "sub-1", CIDR: "192.168.0.0/24", Gateway: "192.168.0.1",
		TotalAddresses: new(int64(100)), UsedAddresses: new(int64(7)),
	}}
	obj.Status.Conditions = controller.SetState(
		nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, "The network is as declared"))
	return obj
}

func rest(t *testing.T, obj managed.Object, on *cloudteamv1.Network, observed plan.Observed) inputs {
	t.Helper()
	encode := func(value any) json.RawMessage {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return inputs{encode(obj), encode(on), encode(observed), encode(credentials{Identity: here})}
}

func seenToMove[T managed.Object](
	t *testing.T, build func(informers.SharedInformerFactory, *scene[T]) (*managed.Reconciler[T], error), base inputs,
) {
	first := stage(t, build)
	if err := first.show(base, inputs{}); err != nil {
		t.Fatal(err)
	}
	base.Object = untilAtRest(t, first, base)
	controllertest.Dismiss(t, first.c.Loop)

	short := 0
	rapid.Check(t, func(rt *rapid.T) {
		remembers, forgets := stage(t, build), stage(t, build)
		defer controllertest.Dismiss(t, remembers.c.Loop)
		defer controllertest.Dismiss(t, forgets.c.Loop)
		var shown inputs
		both := func(do func(*scene[T])) { do(remembers); do(forgets) }
		show := func(in inputs) error {
			if err := first.show(in, inputs{}); err != nil {
				return err // it is of no form that it could have
			}
			defer func() { shown = in }()
			return errors.Join(remembers.show(in, shown), forgets.show(in, shown))
		}
		must := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		compare := func() {
			forgets.c.ForgetSights()
			if diff := cmp.Diff(forgets.sync(t), remembers.sync(t)); diff != "" {
				rt.Fatalf("the sync differs from one that remembers nothing (-forgets +remembers) with %s:\n%s", shown, diff)
			}
		}
		restore := func() {
			both(func(s *scene[T]) { s.c.Expected().Forget(exampleKey) })
			must(show(base))
			compare()
		}
		restore()
		rt.Repeat(map[string]func(*rapid.T){
			"nothing happens": func(*rapid.T) {},
			"all is as at the start": func(rt *rapid.T) {
				restore()
				before := remembers.declares
				compare()
				if remembers.declares != before {
					rt.Fatalf("a sync at rest went the long way with %s", shown)
				}
				short++
			},
			"it is stored anew": func(rt *rapid.T) {
				in := shown
				switch rapid.IntRange(0, 2).Draw(rt, "what") {
				case 0:
					shown.Object = nil
				case 1:
					shown.On = nil
				case 2:
					shown.Observed = nil
				}
				must(show(in))
			},
			"something changes": func(rt *rapid.T) {
				in := shown
				parts := []*json.RawMessage{&in.Object, &in.On, &in.Observed, &in.Identity}
				part := parts[rapid.IntRange(0, len(parts)-1).Draw(rt, "part")]
				*part = changed(rt, *part)
				if show(in) != nil {
					rt.Skip("it is not of a form that it could have")
				}
			},
			"it is to be deleted": func(*rapid.T) {
				in := shown
				var obj map[string]any
				must(json.Unmarshal(in.Object, &obj))
				obj["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
				text, err := json.Marshal(obj)
				must(err)
				in.Object = text
				must(show(in))
			},
			"a create may have been done": func(*rapid.T) {
				both(func(s *scene[T]) { s.c.Doubt(types.UID(ownerOfExample.Object)) })
			},
			"the cache is behind": func(*rapid.T) {
				both(func(s *scene[T]) {
					s.c.Expected().Written(exampleKey, types.UID(ownerOfExample.Object), "1000")
				})
			},
			"": func(*rapid.T) { compare() },
		})
	})
	if short == 0 {
		t.Error("no sync was cut short")
	}
}

// untilAtRest gives the object with the status that its controller writes, in JSON.
func untilAtRest[T managed.Object](t *testing.T, s *scene[T], in inputs) json.RawMessage {
	t.Helper()
	for range 3 {
		lines := s.sync(t)
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "patch ") })
		if at < 0 {
			if len(lines) > 1 {
				t.Fatalf("it does not come to rest: %q", lines)
			}
			return in.Object
		}
		var obj, patch map[string]json.RawMessage
		if err := errors.Join(
			json.Unmarshal(in.Object, &obj),
			json.Unmarshal([]byte(lines[at][strings.Index(lines[at], "{"):]), &patch),
		); err != nil {
			t.Fatal(err)
		}
		obj["status"] = patch["status"]
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		was := in
		in.Object = text
		if err := s.show(in, was); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("it does not come to rest")
	return nil
}

// changed is a document in which one value is another, or is gone.
func changed(t *rapid.T, document json.RawMessage) json.RawMessage {
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		t.Fatal(err)
	}
	root = changedAt(t, root)
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func changedAt(t *rapid.T, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			return nil
		}
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(value))).Draw(t, "key")
		if value[key] = changedAt(t, value[key]); value[key] == nil {
			delete(value, key)
		}
		return value
	case []any:
		if len(value) == 0 {
			return nil
		}
		at := rapid.IntRange(0, len(value)-1).Draw(t, "index")
		switch rapid.IntRange(0, 5).Draw(t, "item") {
		case 0:
			return slices.Delete(value, at, at+1)
		case 1:
			return append(value, value[at])
		}
		if value[at] = changedAt(t, value[at]); value[at] == nil {
			return slices.Delete(value, at, at+1)
		}
		return value
	case string:
		options := []any{nil, "", value + "x", "example-network", "Other"}
		if value != "" {
			// Of an address, a time and a number another one, and of an id another id.
			options = append(options, value[:len(value)-1]+"9", strings.ReplaceAll(value, "1", "3"))
		}
		return rapid.SampledFrom(options).Draw(t, "text")
	case float64:
		return rapid.SampledFrom([]any{nil, value + 1, value - 1, 0}).Draw(t, "number")
	case bool:
		return rapid.SampledFrom([]any{nil, !value}).Draw(t, "truth")
	default:
		return rapid.SampledFrom([]any{nil, true, 1, "x"}).Draw(t, "value")
	}
}
