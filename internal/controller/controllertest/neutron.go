package controllertest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// AuditInterval is the Inventory's. Nothing audits but Audit.
const AuditInterval = time.Minute

// Latency is how long each call of the Inventory takes, in virtual time.
const Latency = time.Millisecond

// Neutron is the product's Inventory over the emulated cloud, without sockets. Between them are the product's client
// and a transport that notes the calls and breaks them: see wire. The methods that a test calls act on the cloud as
// somebody else does, without the Inventory's knowledge. Make it with NewNeutron, in a bubble of testing/synctest. Its
// fields may be set while no sync runs.
//
// Ids are short texts, such as net-1: a kind and a serial number, or what Put was given.
type Neutron struct {
	*inventory.Inventory

	// Before may fail a write, which is then not carried out. After may fail one that was carried out. A step has the
	// action and the id of the resource. See answerTo for the errors. Writes that are Deaf are answered with success and
	// not carried out.
	Before, After func(step plan.Step) error
	Deaf          func(step plan.Step) bool
	// Reads may fail a read, by its line in the CallLog.
	Reads func(line string) error
	// Missed are ids that lists do not show though they are there.
	Missed map[string]bool
	// Replayed, where set, is what lists show, whatever Neutron has: the lists are too old.
	Replayed Listing
	// Lists is true if a list begins with each look, so that it may end after a live read before it.
	Lists bool
	// Used, where set, are the addresses in use that the cloud counts, by subnet.
	Used map[string]int64
	// Term, where set, is the leader's term.
	Term *inventory.Term
	// Unsettled is whether another cluster of the same UID may act.
	Unsettled bool
	// Moved, where set, gets the owners of what lists found changed.
	Moved func(object string)

	calls   *CallLog
	server  *neutrontest.Server
	habits  neutrontest.Habits
	wire    *wire
	product *client.Cloud
	// admin acts for the test.
	admin *client.Cloud
	// project is that of what the test makes.
	project string

	mu        sync.Mutex
	handedOut []handed
	looks     int
	applied   plan.Change
	down      error
}

type handed struct{ given, copy plan.Observed }

// projects are those that other credentials can lead to.
var projects = []string{"p", "p1", "p2", "q", "x"}

// NewNeutron makes an empty cloud, and an Inventory of what is the cluster's in the project of the credentials. These
// are an administrator's. The CallLog gets each call.
func NewNeutron(calls *CallLog, credentials client.Identity, cluster string) *Neutron {
	c := &Neutron{calls: calls, project: credentials.ProjectID}
	c.wire = &wire{of: c, numbers: map[string]int{}, hidden: map[string]bool{}, region: credentials.Region}
	c.server = neutrontest.New(neutrontest.Options{
		Now: c.wire.now, NewID: c.wire.newID, TokenLifetime: tokenLifetime,
		Tenants: slices.DeleteFunc(slices.Clone(projects), func(name string) bool { return name == c.project }),
		ProjectID: func(name string) string {
			if name == administrator {
				return c.project
			}
			return name
		},
	})
	c.product = client.NewCloud(c.credentials(credentials), client.Options{Transport: c.wire})
	byHand := byHand{c.wire}
	c.admin = client.NewCloud(c.credentials(client.Identity{ProjectID: c.project}), client.Options{Transport: byHand})
	c.Inventory = inventory.New(c.product, cluster, inventory.Options{
		Interval: AuditInterval, Ports: true,
		Moved: func(object string) {
			if c.Moved != nil {
				c.Moved(object)
			}
		},
		Term: func() (inventory.Term, bool) {
			if c.Term == nil {
				return inventory.Term{}, false
			}
			return *c.Term, true
		},
	})
	// Each project has a default group from its first one on.
	first := c.doIn(as(context.Background(), "sg-default", time.Time{}), http.MethodPost, "security-groups",
		map[string]any{"security_group": map[string]any{"name": "first", "project_id": c.project}})
	c.Remove(first["security_group"].(map[string]any)["id"].(string))
	return c
}

// administrator is the user whose project is the test's. The others are members of projects of their names.
const administrator = "admin"

// tokenLifetime is longer than tests take, so that no write is sent twice.
const tokenLifetime = 365 * 24 * time.Hour

// credentials are for an identity.
func (c *Neutron) credentials(to client.Identity) client.Credentials {
	user := to.ProjectID
	if user == c.project {
		user = administrator
	}
	base := strings.TrimSuffix(to.Endpoint, "/")
	if base == "" {
		base = "https://neutron.test"
	}
	text := c.server.CloudsYAML(base)
	if to.Region != "" {
		text = strings.ReplaceAll(text, emulatedRegion, to.Region)
	}
	anywhere, err := client.NewConfinement([]string{client.AnyEndpoint}, client.Credentials{}, false)
	if err != nil {
		panic(err)
	}
	data := map[string][]byte{client.SecretClouds: []byte(text)}
	credentials, err := client.SecretCredentials("test", data, user, anywhere)
	if err != nil {
		panic(err)
	}
	return credentials
}

// Lead changes the credentials to another project or cloud. Another endpoint has the same resources.
func (c *Neutron) Lead(t *testing.T, to client.Identity) {
	t.Helper()
	c.wire.region = to.Region
	if err := c.product.Replace(context.Background(), c.credentials(to)); err != nil {
		t.Fatal(err)
	}
}

// SetHabits has the cloud answer the Inventory as some other clouds do.
func (c *Neutron) SetHabits(t *testing.T, habits ...neutrontest.Habit) {
	t.Helper()
	if err := c.habits.Set(habits...); err != nil {
		t.Fatal(err)
	}
}

// SetDown has every call fail; with nil, calls succeed again.
func (c *Neutron) SetDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

func (c *Neutron) isDown() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Observed is the Inventory's.
func (c *Neutron) Observed(
	ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind,
) (plan.Observed, error) {
	if c.Lists {
		<-time.After(1)
		since = time.Now()
	}
	observed, err := c.Inventory.Observed(ctx, owner, since, need...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	c.handedOut = append(c.handedOut, handed{observed, plantest.Clone(observed)})
	return observed, err
}

// Apply is the Inventory's.
func (c *Neutron) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	done, err = c.Inventory.Apply(ctx, change)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied = append(c.applied, done...)
	return done, err
}

// Applied gives the steps that the Inventory has taken since it was last called.
func (c *Neutron) Applied() plan.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	applied := c.applied
	c.applied = nil
	return applied
}

// Looks is how often a sync asked what there is, which every sync of an object that stays does.
func (c *Neutron) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// Settled is the Inventory's.
func (c *Neutron) Settled() bool { return !c.Unsettled && c.Inventory.Settled() }

// Audit lists now, as the Inventory does at intervals. The CallLog has what came of it, and nothing before.
func (c *Neutron) Audit(t *testing.T) {
	t.Helper()
	<-time.After(1) // a list that began at the same moment would do
	c.calls.Take()
	if err := c.Inventory.Audit(context.WithValue(context.Background(), quietKey{}, true)); err != nil {
		t.Fatal(err)
	}
}

// quietKey is in the context of an audit that a test asks for.
type quietKey struct{}

// reader owns everything, as byHand shows it.
var reader = plan.Owner{Cluster: "reader", Object: "everything"}

// Everything is what the cloud has, regardless of who owns it, in order of creation. Default groups and what Outside
// made are not shown.
func (c *Neutron) Everything() plan.Observed { return c.see() }

// readKey has byHand show some collections alone.
type readKey struct{}

// see is Everything of some collections; none means all.
func (c *Neutron) see(collections ...string) plan.Observed {
	all := inventory.New(c.admin, reader.Cluster, inventory.Options{Ports: true})
	ctx := context.WithValue(context.Background(), readKey{}, collections)
	shown, err := all.Observed(ctx, reader, time.Time{})
	if err != nil {
		panic(err)
	}
	shown = plantest.Clone(shown)
	shown.Networks = listed(c, shown.Networks,
		func(n *plan.ObservedNetwork) (string, *string) { return n.ID, &n.Description })
	// The ports of routers' gateways and of floating IPs are of no project.
	shown.Ports = slices.DeleteFunc(shown.Ports, func(p plan.ObservedPort) bool {
		return strings.HasPrefix(p.Device, "network:router_gateway") || strings.HasPrefix(p.Device, "network:floatingip")
	})
	shown.Ports = listed(c, shown.Ports, func(p *plan.ObservedPort) (string, *string) { return p.ID, &p.Description })
	shown.Routers = listed(c, shown.Routers,
		func(r *plan.ObservedRouter) (string, *string) { return r.ID, &r.Description })
	shown.Groups = slices.DeleteFunc(shown.Groups, func(g plan.ObservedGroup) bool { return g.Name == "default" })
	shown.Groups = listed(c, shown.Groups, func(g *plan.ObservedGroup) (string, *string) { return g.ID, &g.Description })
	shown.FloatingIPs = listed(c, shown.FloatingIPs,
		func(f *plan.ObservedFloatingIP) (string, *string) { return f.ID, &f.Description })
	return shown
}

// listed gives resources without the reader's marker, in order of creation.
func listed[T any](c *Neutron, all []T, of func(*T) (id string, description *string)) []T {
	all = slices.DeleteFunc(all, func(r T) bool {
		id, _ := of(&r)
		return c.wire.isHidden(id)
	})
	for i := range all {
		_, description := of(&all[i])
		*description, _, _ = plan.ParseDescription(*description)
	}
	slices.SortFunc(all, func(a, b T) int {
		first, _ := of(&a)
		second, _ := of(&b)
		return c.wire.number(first) - c.wire.number(second)
	})
	return all
}

// Has gives the networks that Neutron has, in order of creation.
func (c *Neutron) Has() []plan.ObservedNetwork {
	return c.see("networks", "subnets", "rbac-policies").Networks
}

// Ports gives the ports that Neutron has, in order of creation.
func (c *Neutron) Ports() []plan.ObservedPort { return c.see("ports").Ports }

// Groups gives the security groups that Neutron has, in order of creation.
func (c *Neutron) Groups() []plan.ObservedGroup { return c.see("security-groups").Groups }

// FloatingIPs gives the floating IPs that Neutron has, in order of creation.
func (c *Neutron) FloatingIPs() []plan.ObservedFloatingIP { return c.see("floatingips").FloatingIPs }

// CheckUntouched fails the test where what the Inventory handed out was changed.
func (c *Neutron) CheckUntouched(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handedOut {
		if diff := gocmp.Diff(h.copy, h.given, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("what the Inventory handed out was changed (-given +left):\n%s", diff)
		}
	}
	c.handedOut = nil
}

// Listing is what lists show, by collection.
type Listing map[string][]map[string]any

// Listing is what lists show now.
func (c *Neutron) Listing() Listing {
	all := Listing{}
	for _, of := range []string{
		"networks", "subnets", "ports", "routers", "security-groups", "floatingips", "rbac-policies",
	} {
		answer := c.do("GET", of, nil)
		for _, item := range answer[many(of)].([]any) {
			all[of] = append(all[of], item.(map[string]any))
		}
	}
	return all
}

// Ghost adds to a listing a copy of a resource under another id, an hour older.
func (l Listing) Ghost(of, id, ghost string) {
	at := slices.IndexFunc(l[of], func(item map[string]any) bool { return item["id"] == id })
	item := maps.Clone(l[of][at])
	created, err := time.Parse(time.RFC3339, item["created_at"].(string))
	if err != nil {
		panic(err)
	}
	item["id"], item["created_at"] = ghost, created.Add(-time.Hour).Format(time.RFC3339)
	l[of] = append(l[of], item)
}

// Fails makes a Before or After that fails the writes of one action, the given number of times.
func Fails(action plan.Action, times int, err error) func(plan.Step) error {
	return func(step plan.Step) error {
		if step.Action != action || times == 0 {
			return nil
		}
		times--
		return err
	}
}

// errCut is a connection that ends before an answer.
var errCut = errors.New("the connection was cut")
