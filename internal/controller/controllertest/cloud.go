package controllertest

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// latency is what each call of the Cloud takes of the synthetic time.
const latency = 10 * time.Millisecond

// Cloud is an Inventory in front of a Neutron in memory. What Neutron has and what the Inventory holds of it are apart,
// as in production: the Inventory does not know others' changes until a list or Reread brings them in. Make it with
// NewCloud. Its fields may be set while no sync runs.
type Cloud struct {
	Names

	calls   *CallLog
	cluster string

	mu lock
	// Credentials are where the credentials lead.
	Credentials client.Identity
	// Projects are of networks that are not of the credentials' project, by id. Lists show them nonetheless.
	Projects map[string]string
	// Missed are ids that lists do not show though they are there.
	Missed map[string]bool
	// Replayed, where set, is what lists show, whatever Neutron has: the lists are too old.
	Replayed *plan.Observed
	// Lists is true if a list ends before each look, so that it may be older than a live read before it.
	Lists bool
	// Before may fail a step that is then not carried out; After may fail one that has been, and whose outcome then
	// stays unknown to the Inventory. Deaf steps are answered with success and not carried out.
	Before, After func(step plan.Step) error
	Deaf          func(step plan.Step) bool
	// Unsettled is whether another cluster of the same UID may act.
	Unsettled bool
	// InTheWay are the ports that Blockers gives; BlockersFail, where set, is its error.
	InTheWay     inventory.Blockers
	BlockersFail error

	// down, where set, fails the calls that learn something, and unnamed those that ask for something by a name.
	down, unnamed error

	neutron  plantest.Neutron
	networks *shelf[plan.ObservedNetwork]
	ports    *shelf[plan.ObservedPort]
	routers  *shelf[plan.ObservedRouter]
	groups   *shelf[plan.ObservedGroup]
	floating *shelf[plan.ObservedFloatingIP]
	// listed is when the list began that the Inventory holds.
	listed time.Time

	handedOut []handOut
	// looks counts the calls of Observed.
	looks int
}

// lock is a mutex that is held while synthetic time goes by, which it does not where somebody waits for a sync.Mutex.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

type handOut struct{ given, copy plan.Observed }

// NewCloud makes a Cloud without networks, and an Inventory of what is the cluster's. The CallLog gets each call.
func NewCloud(calls *CallLog, credentials client.Identity, cluster string) *Cloud {
	c := &Cloud{calls: calls, cluster: cluster, Credentials: credentials, mu: make(lock, 1)}
	c.neutron.Now = time.Now
	c.networks = newShelf(cluster, &c.neutron.Networks, plantest.CloneNetwork, func(n plan.ObservedNetwork) identity {
		return identity{n.ID, n.Name, n.Description}
	})
	c.ports = newShelf(cluster, &c.neutron.Ports, plantest.ClonePort, func(p plan.ObservedPort) identity {
		return identity{p.ID, p.Name, p.Description}
	})
	c.routers = newShelf(cluster, &c.neutron.Routers, plantest.CloneRouter, func(r plan.ObservedRouter) identity {
		return identity{r.ID, r.Name, r.Description}
	})
	c.groups = newShelf(cluster, &c.neutron.Groups, plantest.CloneGroup, func(g plan.ObservedGroup) identity {
		return identity{g.ID, g.Name, g.Description}
	})
	same := func(f plan.ObservedFloatingIP) plan.ObservedFloatingIP { return f }
	c.floating = newShelf(cluster, &c.neutron.FloatingIPs, same, func(f plan.ObservedFloatingIP) identity {
		return identity{f.ID, "", f.Description}
	})
	return c
}

func pass() { <-time.After(latency) }

// SetDown has the calls that learn something fail; with nil, no more.
func (c *Cloud) SetDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

// SetUnnamed has the calls that ask for something by a name fail; with nil, no more.
func (c *Cloud) SetUnnamed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unnamed = err
}

// Identity is the Inventory's.
func (c *Cloud) Identity(context.Context) (client.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Credentials, c.down
}

// Observed is the Inventory's.
func (c *Cloud) Observed(
	_ context.Context, owner plan.Owner, since time.Time, _ ...plan.Kind,
) (plan.Observed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	if c.listed.Before(since) || c.Lists {
		if err := c.list(); err != nil {
			return plan.Observed{}, err
		}
	}
	observed := plan.Observed{
		Networks: c.networks.ownedBy(owner), Ports: c.ports.ownedBy(owner), Routers: c.routers.ownedBy(owner),
		Groups: c.groups.ownedBy(owner), FloatingIPs: c.floating.ownedBy(owner),
	}
	c.handedOut = append(c.handedOut, handOut{observed, plantest.CloneObserved(observed)})
	return observed, nil
}

// Looks is how often a sync asked what there is, which every sync of an object that stays does.
func (c *Cloud) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

func (c *Cloud) list() error {
	c.calls.Note("list")
	began := time.Now()
	pass()
	if c.down != nil {
		return c.down
	}
	c.networks.list(c.Missed)
	c.ports.list(c.Missed)
	c.routers.list(c.Missed)
	c.groups.list(c.Missed)
	c.floating.list(c.Missed)
	if c.Replayed != nil {
		c.networks.replay(c.Replayed.Networks)
		c.ports.replay(c.Replayed.Ports)
		c.routers.replay(c.Replayed.Routers)
		c.groups.replay(c.Replayed.Groups)
		c.floating.replay(c.Replayed.FloatingIPs)
	}
	c.listed = began
	return nil
}

// Listed is when the last complete list began.
func (c *Cloud) Listed() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed
}

// Audit lists now, as the Inventory does at intervals.
func (c *Cloud) Audit(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.list(); err != nil {
		t.Fatal(err)
	}
	c.calls.Take()
}

// Reread is the Inventory's.
func (c *Cloud) Reread(_ context.Context, resource plan.Resource) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Note("reread %s", resource)
	pass()
	if c.down != nil {
		return false, c.down
	}
	found, ours := c.reread(resource.ID)
	if found && !ours {
		return true, inventory.ErrUnmarked
	}
	return found, nil
}

// Find is the Inventory's.
func (c *Cloud) Find(_ context.Context, of plan.Kind, name string, owner plan.Owner) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Note("find %s", of)
	pass()
	if c.down != nil {
		return false, c.down
	}
	var ids []string
	switch of {
	case plan.KindPort:
		ids = c.ports.named(name, owner)
	case plan.KindRouter:
		ids = c.routers.named(name, owner)
	case plan.KindGroup:
		ids = c.groups.named(name, owner)
	case plan.KindFloatingIP: // they have no names
		ids = c.floating.named("", owner)
	default:
		ids = c.networks.named(name, owner)
	}
	for _, id := range ids {
		c.reread(id)
	}
	return len(ids) > 0, nil
}

// reread has the Inventory hold one resource of any kind as Neutron has it, if it is the cluster's.
func (c *Cloud) reread(id string) (found, ours bool) {
	for _, reread := range []func(string) (bool, bool){
		c.networks.reread, c.ports.reread, c.routers.reread, c.groups.reread, c.floating.reread,
	} {
		exists, marked := reread(id)
		found, ours = found || exists, ours || marked
	}
	return found, ours
}

// Apply is the Inventory's.
func (c *Cloud) Apply(_ context.Context, change plan.Change) (done plan.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, step := range change {
		step = step.Resolve(done)
		c.calls.Note("apply %s", step.Action)
		pass()
		if c.Before != nil {
			if err := c.Before(step); err != nil {
				return done, err
			}
		}
		if c.Deaf != nil && c.Deaf(step) {
			done = append(done, step)
			continue
		}
		if !c.keeps(step.Keeper) {
			return done, &client.Error{Kind: client.Conflict, Op: string(step.Action), Reason: "the keeper is gone"}
		}
		step, err = c.neutron.Take(step)
		if err != nil {
			return done, refusal(step, err)
		}
		if c.After != nil {
			if err := c.After(step); err != nil {
				return done, err
			}
		}
		switch step.Action {
		case plan.CreateSubnet, plan.UpdateSubnet, plan.DeleteSubnet, plan.ShareNetwork, plan.UnshareNetwork:
			c.reread(step.NetworkRef.ID)
		case plan.CreateRules, plan.DeleteRule:
			c.reread(step.GroupRef.ID)
		default:
			c.reread(step.ID)
		}
		done = append(done, step)
	}
	return done, nil
}

// keeps reports whether a step's Keeper exists and is its owner's. The Inventory asks for it live.
func (c *Cloud) keeps(keeper plan.Keeper) bool {
	if keeper.ID == "" {
		return true
	}
	c.calls.Note("reread keeper %s", keeper.Resource)
	pass()
	found, _ := c.reread(keeper.ID)
	owned := c.neutron.Observe(keeper.Owner).Resources()
	return found && (keeper.Owner == (plan.Owner{}) || slices.Contains(owned, keeper.Resource))
}

// Blockers is the Inventory's.
func (c *Cloud) Blockers(_ context.Context, refused plan.Step) (inventory.Blockers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Note("blockers of %s", refused.Action)
	pass()
	return c.InTheWay, c.BlockersFail
}

// Foreign is the Inventory's. All networks are of the project that the credentials lead to, but for those of Projects.
func (c *Cloud) Foreign(_ context.Context, id string) (inventory.Foreign, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Note("get network %s", id)
	pass()
	if c.down != nil {
		return inventory.Foreign{}, false, c.down
	}
	n := c.neutron.Network(id)
	if n == nil {
		return inventory.Foreign{}, false, nil
	}
	project, elsewhere := c.Projects[id]
	if !elsewhere {
		project = c.Credentials.ProjectID
	}
	return inventory.Foreign{ObservedNetwork: plantest.CloneNetwork(*n), ProjectID: project}, true, nil
}

// refusal is Neutron's answer as the client gives it.
func refusal(step plan.Step, err error) error {
	var refused *plantest.Error
	if !errors.As(err, &refused) {
		return err
	}
	answer := &client.Error{Kind: client.Invalid, Op: string(step.Action), Reason: refused.Message, Type: refused.Type}
	switch refused.Type {
	case plantest.ErrMoved.Type, "SecurityGroupRuleExists":
		answer.Kind, answer.Status = client.Conflict, http.StatusPreconditionFailed
	case "NetworkInUse", "SubnetInUse", "RouterInUse", "SecurityGroupInUse":
		answer.Kind = client.InUse
	case "IpAddressAlreadyAllocated", "FloatingIPPortAlreadyAssociated":
		answer.Kind = client.Taken
	case "IpAddressGenerationFailure":
		answer.Kind = client.Exhausted
	case "NetworkNotFound", "SubnetNotFound", "PortNotFound", "RouterNotFound", "SecurityGroupNotFound",
		"FloatingIPNotFound":
		answer.Kind = client.NotFound
	}
	return answer
}

// Everything is a copy of all that Neutron has.
func (c *Cloud) Everything() plan.Observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neutron.Everything()
}

// Put adds a network to Neutron behind the Inventory's back.
func (c *Cloud) Put(n plan.ObservedNetwork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.Networks = append(c.neutron.Networks, n)
}

// Edit changes a network in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) Edit(t *testing.T, id string, change func(*plan.ObservedNetwork)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.neutron.Network(id) == nil {
		t.Fatalf("there is no network %s", id)
	}
	c.Rival(id, change)
}

// Rival is Edit for the functions Before and After, which run while a step is taken.
func (c *Cloud) Rival(id string, change func(*plan.ObservedNetwork)) {
	n := c.neutron.Network(id)
	change(n)
	n.Revision++
}

// Remove deletes a network or a port in Neutron behind the Inventory's back.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.Remove(id)
}

// Has gives the networks that Neutron has, in order of creation.
func (c *Cloud) Has() []plan.ObservedNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neutron.Everything().Networks
}

// PutPort adds a port to Neutron behind the Inventory's back.
func (c *Cloud) PutPort(p plan.ObservedPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.Ports = append(c.neutron.Ports, p)
}

// PutRouter adds a router to Neutron behind the Inventory's back.
func (c *Cloud) PutRouter(r plan.ObservedRouter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.Routers = append(c.neutron.Routers, r)
}

// PutGroup adds a security group to Neutron behind the Inventory's back.
func (c *Cloud) PutGroup(g plan.ObservedGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.Groups = append(c.neutron.Groups, g)
}

// EditGroup changes a security group in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) EditGroup(t *testing.T, id string, change func(*plan.ObservedGroup)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.neutron.Group(id)
	if g == nil {
		t.Fatalf("there is no security group %s", id)
	}
	change(g)
	g.Revision++
}

// Groups gives the security groups that Neutron has, in order of creation.
func (c *Cloud) Groups() []plan.ObservedGroup {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neutron.Everything().Groups
}

// PutFloatingIP adds a floating IP to Neutron behind the Inventory's back.
func (c *Cloud) PutFloatingIP(f plan.ObservedFloatingIP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.neutron.FloatingIPs = append(c.neutron.FloatingIPs, f)
}

// EditFloatingIP changes a floating IP in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) EditFloatingIP(t *testing.T, id string, change func(*plan.ObservedFloatingIP)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.neutron.FloatingIP(id)
	if f == nil {
		t.Fatalf("there is no floating IP %s", id)
	}
	change(f)
	f.Revision++
}

// FloatingIPs gives the floating IPs that Neutron has, in order of creation.
func (c *Cloud) FloatingIPs() []plan.ObservedFloatingIP {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neutron.Everything().FloatingIPs
}

// EditPort changes a port in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) EditPort(t *testing.T, id string, change func(*plan.ObservedPort)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.neutron.Port(id) == nil {
		t.Fatalf("there is no port %s", id)
	}
	c.RivalPort(id, change)
}

// RivalPort is EditPort for the functions Before and After, which run while a step is taken.
func (c *Cloud) RivalPort(id string, change func(*plan.ObservedPort)) {
	p := c.neutron.Port(id)
	change(p)
	p.Revision++
}

// Ports gives the ports that Neutron has, in order of creation.
func (c *Cloud) Ports() []plan.ObservedPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neutron.Everything().Ports
}

// CheckUntouched fails the test where what the Inventory handed out was changed.
func (c *Cloud) CheckUntouched(t *testing.T) {
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
