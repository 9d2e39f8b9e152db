package controllertest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// Latency is what each call of the Cloud takes of the synthetic time.
const Latency = 10 * time.Millisecond

// Cloud is an Inventory before a Neutron with networks, both played. What Neutron has and what the Inventory holds of
// it are apart, as they are in life: others' changes are unknown until a list or Reread brings them in. Make it with
// NewCloud. Its fields may be set while no sync runs.
type Cloud struct {
	diary   *Diary
	cluster string

	mu sync.Mutex
	// Credentials are where the credentials lead.
	Credentials neutron.Identity
	// Missed are ids that lists do not show though they are there.
	Missed map[string]bool
	// Before may fail a step that is then not carried out; After may fail one that has been, and whose outcome then
	// stays unknown to the Inventory. Deaf steps are answered with success and not carried out.
	Before, After func(step network.Step) error
	Deaf          func(step network.Step) bool

	// down, where set, fails the calls that learn something.
	down error
	// networks are what Neutron has, in order of creation.
	networks []network.ObservedNetwork
	// index is what the Inventory holds, as of listed.
	index  map[string]network.ObservedNetwork
	listed time.Time
	serial int

	handedOut []handOut
}

type handOut struct{ given, copy network.Observed }

// NewCloud makes a Cloud without networks, and an Inventory of what is the cluster's. What it is asked goes into the
// diary.
func NewCloud(diary *Diary, credentials neutron.Identity, cluster string) *Cloud {
	return &Cloud{
		diary: diary, cluster: cluster, Credentials: credentials, index: map[string]network.ObservedNetwork{},
	}
}

func pass() { <-time.After(Latency) }

// SetDown has the calls that learn something fail; with nil, no more.
func (c *Cloud) SetDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
}

// Identity is the Inventory's.
func (c *Cloud) Identity(context.Context) (neutron.Identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Credentials, c.down
}

// Observed is the Inventory's.
func (c *Cloud) Observed(_ context.Context, owner network.Owner, since time.Time) (network.Observed, error) {
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
		if known && owner.Owns(held.Description) {
			observed.Networks = append(observed.Networks, clone(held))
		}
	}
	// What is held of a network that is gone is handed out, too.
	for id, held := range c.index {
		if c.at(id) < 0 && owner.Owns(held.Description) {
			observed.Networks = append(observed.Networks, clone(held))
		}
	}
	given := handOut{given: observed}
	for _, n := range observed.Networks {
		given.copy.Networks = append(given.copy.Networks, clone(n))
	}
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
	c.index = map[string]network.ObservedNetwork{}
	for _, n := range c.networks {
		if !c.Missed[n.ID] {
			c.hold(n)
		}
	}
	c.listed = began
	return nil
}

// hold takes a network into the Inventory if it is the cluster's, and reports whether it is.
func (c *Cloud) hold(n network.ObservedNetwork) bool {
	_, owner, marked := network.ParseDescription(n.Description)
	if !marked || owner.Cluster != c.cluster {
		return false
	}
	c.index[n.ID] = clone(n)
	return true
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
func (c *Cloud) Reread(_ context.Context, resource network.Resource) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diary.Note("reread %s", resource)
	pass()
	if c.down != nil {
		return false, c.down
	}
	if resource.Kind != network.KindNetwork {
		return false, fmt.Errorf("there are no %ss", resource.Kind)
	}
	delete(c.index, resource.ID)
	at := c.at(resource.ID)
	if at < 0 {
		return false, nil
	}
	if !c.hold(c.networks[at]) {
		return true, neutron.ErrUnmarked
	}
	return true, nil
}

// Apply is the Inventory's.
func (c *Cloud) Apply(_ context.Context, change network.Change) (done network.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	created := ""
	for _, step := range change {
		c.diary.Note("apply %s", step.Action)
		pass()
		if step.Action == network.CreateSubnet && step.NetworkID == "" {
			step.NetworkID = created
		}
		if c.Before != nil {
			if err := c.Before(step); err != nil {
				return done, err
			}
		}
		if c.Deaf != nil && c.Deaf(step) {
			done = append(done, step)
			continue
		}
		touched, err := c.take(&step)
		if err != nil {
			return done, err
		}
		if c.After != nil {
			if err := c.After(step); err != nil {
				return done, err
			}
		}
		delete(c.index, touched)
		if at := c.at(touched); at >= 0 {
			c.hold(c.networks[at])
		}
		if step.Action == network.CreateNetwork {
			created = step.ID
		}
		done = append(done, step)
	}
	return done, nil
}

// take carries a step out and returns the id of the network that it touched.
func (c *Cloud) take(step *network.Step) (string, error) {
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
	default:
		return "", fmt.Errorf("%s: there are no ports", step.Action)
	}
	n.Revision++
	return networkID, nil
}

func (c *Cloud) at(id string) int {
	return slices.IndexFunc(c.networks, func(n network.ObservedNetwork) bool { return n.ID == id })
}

// Put adds a network to Neutron behind the Inventory's back.
func (c *Cloud) Put(n network.ObservedNetwork) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks = append(c.networks, n)
}

// Edit changes a network in Neutron as somebody else would, behind the Inventory's back.
func (c *Cloud) Edit(t *testing.T, id string, change func(*network.ObservedNetwork)) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at(id) < 0 {
		t.Fatalf("there is no network %s", id)
	}
	c.Rival(id, change)
}

// Rival is Edit for the functions Before and After, which run while a step is taken.
func (c *Cloud) Rival(id string, change func(*network.ObservedNetwork)) {
	n := &c.networks[c.at(id)]
	change(n)
	n.Revision++
}

// Remove deletes a network in Neutron behind the Inventory's back.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks = slices.DeleteFunc(c.networks, func(n network.ObservedNetwork) bool { return n.ID == id })
}

// Has gives what Neutron has, in order of creation.
func (c *Cloud) Has() []network.ObservedNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.networks)
}

// CheckUntouched fails the test where what the Inventory handed out was changed.
func (c *Cloud) CheckUntouched(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handedOut {
		if diff := cmp.Diff(h.copy, h.given, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
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

// Fails makes a Before or After that fails the steps of one action, the given number of times.
func Fails(action network.Action, times int, err error) func(network.Step) error {
	return func(step network.Step) error {
		if step.Action != action || times == 0 {
			return nil
		}
		times--
		return err
	}
}
