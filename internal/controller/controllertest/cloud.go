package controllertest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Latency is what each call of the Cloud takes of the synthetic time.
const Latency = 10 * time.Millisecond

// Cloud is an Inventory before a Neutron with networks and ports, both played. What Neutron has and what the Inventory
// holds of it are apart, as they are in life: others' changes are unknown until a list or Reread brings them in. Make
// it with NewCloud. Its fields may be set while no sync runs.
type Cloud struct {
	Names

	diary   *Diary
	cluster string

	mu lock
	// Credentials are where the credentials lead.
	Credentials client.Identity
	// Projects are of networks that are not of the credentials' project, by id. Lists show them nonetheless.
	Projects map[string]string
	// Missed are ids that lists do not show though they are there.
	Missed map[string]bool
	// Before may fail a step that is then not carried out; After may fail one that has been, and whose outcome then
	// stays unknown to the Inventory. Deaf steps are answered with success and not carried out.
	Before, After func(step plan.Step) error
	Deaf          func(step plan.Step) bool
	// InTheWay are the ports that Blockers gives; BlockersFail, where set, is its error.
	InTheWay     inventory.Blockers
	BlockersFail error

	// down, where set, fails the calls that learn something, and unnamed those that ask for something by a name.
	down, unnamed error

	networks *shelf[plan.ObservedNetwork]
	ports    *shelf[plan.ObservedPort]
	// listed is when the list began that the Inventory holds.
	listed time.Time
	serial int

	handedOut []handOut
}

// lock is a mutex that is held while synthetic time goes by, which it does not where somebody waits for a sync.Mutex.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

type handOut struct{ given, copy plan.Observed }

// NewCloud makes a Cloud without networks, and an Inventory of what is the cluster's. What it is asked goes into the
// diary.
func NewCloud(diary *Diary, credentials client.Identity, cluster string) *Cloud {
	return &Cloud{
		diary: diary, cluster: cluster, Credentials: credentials, mu: make(lock, 1),
		networks: newShelf(cluster, cloneNetwork,
			func(n plan.ObservedNetwork) (id, description string) { return n.ID, n.Description }),
		ports: newShelf(cluster, clonePort,
			func(p plan.ObservedPort) (id, description string) { return p.ID, p.Description }),
	}
}

func pass() { <-time.After(Latency) }

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
func (c *Cloud) Observed(_ context.Context, owner plan.Owner, since time.Time) (plan.Observed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed.Before(since) {
		if err := c.list(); err != nil {
			return plan.Observed{}, err
		}
	}
	observed := plan.Observed{Networks: c.networks.of(owner), Ports: c.ports.of(owner)}
	given := handOut{observed, plan.Observed{Networks: c.networks.of(owner), Ports: c.ports.of(owner)}}
	c.handedOut = append(c.handedOut, given)
	return observed, nil
}

func (c *Cloud) list() error {
	c.diary.Note("list")
	began := time.Now()
	pass()
	if c.down != nil {
		return c.down
	}
	c.networks.list(c.Missed)
	c.ports.list(c.Missed)
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
	c.diary.Take()
}

// Reread is the Inventory's.
func (c *Cloud) Reread(_ context.Context, resource plan.Resource) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.Note("reread %s", resource)
	pass()
	if c.down != nil {
		return false, c.down
	}
	var found, ours bool
	if resource.Kind == plan.KindPort {
		found, ours = c.ports.reread(resource.ID)
	} else {
		found, ours = c.networks.reread(resource.ID)
	}
	if found && !ours {
		return true, inventory.ErrUnmarked
	}
	return found, nil
}

// Find is the Inventory's.
func (c *Cloud) Find(_ context.Context, of plan.Kind, name string, owner plan.Owner) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.Note("find %s", of)
	pass()
	if c.down != nil {
		return false, c.down
	}
	var ids []string
	if of == plan.KindPort {
		for _, p := range c.ports.has {
			if p.Name == name && owner.Owns(p.Description) {
				ids = append(ids, p.ID)
			}
		}
	} else {
		for _, n := range c.networks.has {
			if n.Name == name && owner.Owns(n.Description) {
				ids = append(ids, n.ID)
			}
		}
	}
	for _, id := range ids {
		c.networks.reread(id)
		c.ports.reread(id)
	}
	return len(ids) > 0, nil
}

// Apply is the Inventory's.
func (c *Cloud) Apply(_ context.Context, change plan.Change) (done plan.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, step := range change {
		step = step.Resolve(done)
		c.diary.Note("apply %s", step.Action)
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
		touched, err := c.take(&step) // of the other kind there is none of that id
		if err != nil {
			return done, err
		}
		if c.After != nil {
			if err := c.After(step); err != nil {
				return done, err
			}
		}
		c.networks.reread(touched)
		c.ports.reread(touched)
		done = append(done, step)
	}
	return done, nil
}

// Blockers is the Inventory's.
func (c *Cloud) Blockers(_ context.Context, refused plan.Step) (inventory.Blockers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.Note("blockers of %s", refused.Action)
	pass()
	return c.InTheWay, c.BlockersFail
}

// Foreign is the Inventory's. All networks are of the project that the credentials lead to, but for those of Projects.
func (c *Cloud) Foreign(_ context.Context, id string) (inventory.Foreign, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.Note("get network %s", id)
	pass()
	if c.down != nil {
		return inventory.Foreign{}, false, c.down
	}
	n := c.networks.find(id)
	if n == nil {
		return inventory.Foreign{}, false, nil
	}
	project, elsewhere := c.Projects[id]
	if !elsewhere {
		project = c.Credentials.ProjectID
	}
	return inventory.Foreign{ObservedNetwork: cloneNetwork(*n), ProjectID: project}, true, nil
}

// take carries a step out and returns the id of the network or port that it touched.
func (c *Cloud) take(step *plan.Step) (string, error) {
	switch step.Action {
	case plan.CreateNetwork:
		step.ID = c.nextID("net")
		created := plan.ObservedNetwork{ID: step.ID, Revision: 1, Created: time.Now(), Attributes: step.Attributes}
		if created.MTU == 0 {
			created.MTU = 1450
		}
		created.Tags = nil // they come in a step of their own
		c.networks.has = append(c.networks.has, created)
		return step.ID, nil
	case plan.CreatePort, plan.UpdatePort, plan.DeletePort:
		return step.ID, c.takePort(step)
	}

	networkID := step.NetworkRef.ID
	if step.Action == plan.UpdateNetwork || step.Action == plan.TagNetwork ||
		step.Action == plan.DeleteNetwork {
		networkID = step.ID
	}
	n := c.networks.find(networkID)
	if n == nil {
		return "", refuse(step, client.NotFound, "there is no such network")
	}
	subnet := slices.IndexFunc(n.Subnets, func(s plan.ObservedSubnet) bool { return s.ID == step.ID })
	switch step.Action {
	case plan.UpdateNetwork:
		if n.Revision != step.Revision {
			return "", moved(step)
		}
		was := n.Attributes
		n.Attributes = step.Attributes
		n.Tags = was.Tags
		if n.MTU == 0 {
			n.MTU = was.MTU
		}
	case plan.TagNetwork:
		n.Tags = step.Attributes.Tags
	case plan.ShareNetwork:
		step.ID = c.nextID("rbac")
		n.Shares = append(n.Shares, plan.Share{ID: step.ID, Project: step.Share.Project})
	case plan.UnshareNetwork:
		n.Shares = slices.DeleteFunc(n.Shares, func(s plan.Share) bool { return s.ID == step.ID })
	case plan.DeleteNetwork:
		if n.Revision != step.Revision {
			return "", moved(step)
		}
		if slices.ContainsFunc(c.ports.has, func(p plan.ObservedPort) bool { return p.NetworkID == n.ID }) {
			return "", refuse(step, client.InUse, "ports are on it")
		}
		c.networks.remove(networkID)
		return networkID, nil
	case plan.CreateSubnet:
		created := plan.ObservedSubnet{
			ID: c.nextID("sub"), Created: time.Now(), Name: step.SubnetName, Description: step.SubnetDescription,
			Subnet: step.Subnet,
		}
		c.allocateCIDR(&created)
		step.ID, step.Subnet.CIDR = created.ID, created.CIDR
		n.Subnets = append(n.Subnets, created)
	case plan.UpdateSubnet, plan.DeleteSubnet:
		if subnet < 0 {
			return "", refuse(step, client.NotFound, "there is no such subnet")
		}
		if n.Subnets[subnet].Revision != step.Revision {
			return "", moved(step)
		}
		if step.Action == plan.DeleteSubnet {
			n.Subnets = slices.Delete(n.Subnets, subnet, subnet+1)
			break
		}
		s := &n.Subnets[subnet]
		s.Revision++
		s.Name, s.Description, s.Subnet = step.SubnetName, step.SubnetDescription, step.Subnet
		s.From = nil
	default:
		return "", fmt.Errorf("%s: there is no such action", step.Action)
	}
	n.Revision++
	return networkID, nil
}

// allocateCIDR takes the CIDR of a subnet from its pool, where it is to come from one: a new one each time.
func (c *Cloud) allocateCIDR(s *plan.ObservedSubnet) {
	from := s.From
	if s.From = nil; from == nil {
		return
	}
	s.PoolID = from.Pool.ID
	first := netip.AddrFrom4([4]byte{10, 200, byte(c.serial)})
	if from.Pool.IPVersion == 6 {
		first = netip.AddrFrom16([16]byte{0xfd, 0xaa, 7: byte(c.serial)})
	}
	s.CIDR = netip.PrefixFrom(first, cmp.Or(from.PrefixLength, from.Pool.DefaultPrefixLength))
	s.Gateway = plan.DefaultGateway(s.CIDR)
	s.Pools = plan.DefaultPools(s.CIDR, s.Gateway)
}

func (c *Cloud) nextID(kind string) string {
	c.serial++
	return fmt.Sprintf("%s-%d", kind, c.serial)
}

func refuse(step *plan.Step, kind client.Kind, reason string) error {
	return &client.Error{Kind: kind, Op: string(step.Action), Reason: reason}
}

func moved(step *plan.Step) error {
	return &client.Error{
		Kind: client.Conflict, Op: string(step.Action), Reason: "the revision moved",
		Type: "RevisionNumberConstraintFailed", Status: 412,
	}
}

// Put adds a network to Neutron behind the Inventory's back.
func (c *Cloud) Put(n plan.ObservedNetwork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks.has = append(c.networks.has, n)
}

// Edit changes a network in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) Edit(t *testing.T, id string, change func(*plan.ObservedNetwork)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.networks.find(id) == nil {
		t.Fatalf("there is no network %s", id)
	}
	c.Rival(id, change)
}

// Rival is Edit for the functions Before and After, which run while a step is taken.
func (c *Cloud) Rival(id string, change func(*plan.ObservedNetwork)) {
	n := c.networks.find(id)
	change(n)
	n.Revision++
}

// Remove deletes a network or a port in Neutron behind the Inventory's back.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks.remove(id)
	c.ports.remove(id)
}

// Has gives the networks that Neutron has, in order of creation.
func (c *Cloud) Has() []plan.ObservedNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.networks.has)
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

func cloneNetwork(n plan.ObservedNetwork) plan.ObservedNetwork {
	n.Shares = slices.Clone(n.Shares)
	n.Subnets = slices.Clone(n.Subnets)
	for i := range n.Subnets {
		n.Subnets[i].Pools = slices.Clone(n.Subnets[i].Pools)
		n.Subnets[i].DNSServers = slices.Clone(n.Subnets[i].DNSServers)
		n.Subnets[i].HostRoutes = slices.Clone(n.Subnets[i].HostRoutes)
	}
	return n
}

// Fails makes a Before or After that fails the steps of one action, the given number of times.
func Fails(action plan.Action, times int, err error) func(plan.Step) error {
	return func(step plan.Step) error {
		if step.Action != action || times == 0 {
			return nil
		}
		times--
		return err
	}
}
