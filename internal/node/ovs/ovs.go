// Package ovs reads and writes the ports of a node's Open vSwitch, by its database (OVSDB, RFC 7047). The database is
// the only place where the agent keeps what it plugged.
package ovs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
)

// Keys in external_ids of an Interface. The first four are those by which ovn-controller and Neutron's agent know an
// interface. The others are the agent's mark.
const (
	keyIfaceID     = "iface-id"
	keyAttachedMAC = "attached-mac"
	keyIfaceStatus = "iface-status"
	keyVM          = "vm-uuid"
	keyOwner       = "owner"
	keySandbox     = "sandbox"
	keyIfName      = "ifname"
	keyNetns       = "netns"
	keyPodUID      = "pod-uid"
	keyPortUID     = "networkport-uid"

	// owner is the value of keyOwner.
	owner = "network-controller"

	// keyInstalled and keyInstalledSince are the keys by which ovn-controller says that packets flow. It writes them once.
	keyInstalled      = "ovn-installed"
	keyInstalledSince = "ovn-installed-ts"
	// keyTransient, in other_config of a Port, has Open vSwitch drop the port when the machine starts again.
	keyTransient = "transient"
	// deadVLAN is the tag by which Neutron's agent cuts off a port that it does not know. A port that it has not seen yet
	// begins with it: without a tag, it would have the frames of all VLANs.
	deadVLAN = 4095

	callLimit   = 5 * time.Second
	settleLimit = 5 * time.Second
	retryPause  = time.Second
)

// Port is a port of the integration bridge as the database has it, or a VLAN of a trunk.
type Port struct {
	Name string
	// Ours says that the agent plugged it, for Mark.
	Ours bool
	Mark mark.Mark
	// IfaceID is the port's id in Neutron.
	IfaceID, MAC string
	// Error is why Open vSwitch cannot use the interface.
	Error string
	// Open says that Open vSwitch uses the interface, or that it is connected with its VLAN.
	Open bool
	// Installed says that ovn-controller has installed the port's flows.
	Installed bool
	// Tag is the VLAN that Neutron's Open vSwitch agent gave the port, or that on the trunk; 0 for none.
	Tag int

	uuid, interfaceUUID string
}

// is reports whether two are the same row.
func (p Port) is(other Port) bool { return p.uuid == other.uuid }

// Wired reports whether Neutron's Open vSwitch agent has connected the port.
func (p Port) Wired() bool { return p.Tag != 0 && p.Tag != deadVLAN }

// Wanted is a port that has to be on the bridge.
type Wanted struct {
	// Name is the name of the interface on the node.
	Name, IfaceID, MAC string
	// Netns is the Pod's network namespace. It informs people; the program does not use it.
	Netns string
	Mark  mark.Mark
	// NeutronAgent says that Neutron's Open vSwitch agent connects the port.
	NeutronAgent bool
	// VLAN, ParentMAC and MTU are for trunks: the port's VLAN, the hardware address of the trunk's interface, and the
	// Network's MTU in bytes. 0 means the interface's.
	VLAN      int
	ParentMAC string
	MTU       int
}

// State is what the database has at a moment.
type State struct {
	// Hostname is the node's name as the operator wrote it into external_ids.
	Hostname string
	// OVN says that ovn-controller knows where its database is.
	OVN bool
	// Parent is the hardware address of the trunk's interface; empty without a trunk.
	Parent string
	// Bridge says that the integration bridge exists, or the trunk's interface.
	Bridge bool
	// Down says why no packets can flow at any port now; empty if they can.
	Down string
	// UserSpace says that the bridge's packets are forwarded in user space.
	UserSpace bool
	// Ports are all ports of all bridges, or all VLANs of ours, by the name of the host's end.
	Ports map[string]Port
}

// Find returns the first port, by name, for which a condition holds.
func (s State) Find(condition func(Port) bool) (Port, bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Ports)) {
		if condition(s.Ports[name]) {
			return s.Ports[name], true
		}
	}
	return Port{}, false
}

// Switch is the node's Open vSwitch. It is safe for concurrent use, but writers must take turns.
type Switch struct {
	node.Signal
	endpoint, bridge string

	mu     sync.Mutex
	client client.Client
	held   context.Context
	err    error
	// lost is when the connection was lost; zero while there is one, and before the first.
	lost time.Time
	// configuration is the number of the last one that was written.
	configuration int
	// seen is the state as it was read last; nil if it may have changed since. changes counts how often it did.
	seen    *State
	changes int
}

// ErrUnreachable says that there is no connection to the database. Run reports it by itself.
var ErrUnreachable = errors.New("the database of Open vSwitch is unreachable")

// New makes a Switch. endpoint is where the database listens, such as unix:/run/openvswitch/db.sock. Nothing is read
// before Run.
func New(endpoint, bridge string) *Switch {
	return &Switch{endpoint: endpoint, bridge: bridge, err: errors.New("not connected yet")}
}

// Run holds a connection until ctx is done. A lost one is replaced; then everything is read again.
func (s *Switch) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	failing := false
	for ctx.Err() == nil {
		err := s.hold(ctx, func() { failing = false })
		if ctx.Err() != nil {
			return
		}
		if !failing {
			logger.Error(err, "No connection to Open vSwitch; interfaces cannot be plugged; retrying each second",
				"endpoint", s.endpoint)
			failing = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// hold connects, and returns when the connection ends.
func (s *Switch) hold(ctx context.Context, connected func()) error {
	tables, err := databaseModel()
	if err != nil {
		return err
	}
	// The library logs and repeats what is returned to the callers here.
	quiet := klog.FromContext(ctx).V(4)
	c, err := client.NewOVSDBClient(tables, client.WithEndpoint(s.endpoint), client.WithLogger(&quiet))
	if err != nil {
		return fmt.Errorf("--ovsdb %s: %w", s.endpoint, err)
	}
	fail := func(err error) error {
		s.set(ctx, nil, err)
		c.Close()
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := c.Connect(dialing); err != nil {
		return fail(fmt.Errorf("connecting to Open vSwitch's database: %w", err))
	}
	lost := c.DisconnectNotify()
	c.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { s.changed() },
		UpdateFunc: func(string, model.Model, model.Model) { s.changed() },
		DeleteFunc: func(string, model.Model) { s.changed() },
	})
	root, bridge, port, iface := &rootRow{}, &bridgeRow{}, &portRow{}, &interfaceRow{}
	if _, err := c.Monitor(dialing, c.NewMonitor(
		client.WithTable(root, &root.Bridges, &root.ExternalIDs, &root.NextCfg, &root.CurCfg),
		client.WithTable(bridge, &bridge.Name, &bridge.Ports, &bridge.DatapathType),
		client.WithTable(port, &port.Name, &port.Interfaces, &port.Tag, &port.ExternalIDs, &port.OtherConfig),
		client.WithTable(iface, &iface.Name, &iface.OFPort, &iface.Error, &iface.ExternalIDs),
	)); err != nil {
		return fail(fmt.Errorf("watching Open vSwitch's database: %w", err))
	}
	held, end := context.WithCancel(ctx)
	defer end()
	s.set(held, c, nil)
	connected()
	klog.FromContext(ctx).Info("Connected to Open vSwitch", "endpoint", s.endpoint)
	ticker := time.NewTicker(2 * callLimit)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-lost:
			return fail(errors.New("the database closed the connection"))
		case <-ticker.C:
			if err := echo(ctx, c); err != nil {
				return fail(fmt.Errorf("the database does not answer: %w", err))
			}
		}
	}
}

func echo(ctx context.Context, c client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return c.Echo(ctx)
}

func (s *Switch) set(held context.Context, c client.Client, err error) {
	s.mu.Lock()
	if s.client != nil && c == nil {
		s.lost = time.Now()
	} else if c != nil {
		s.lost = time.Time{}
	}
	s.client, s.held, s.err = c, held, err
	s.mu.Unlock()
	s.changed()
}

// changed has the next State read again, and wakes all waiters.
func (s *Switch) changed() {
	s.outdate()
	s.Change()
}

func (s *Switch) outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = nil
	s.changes++
}

// Lost returns for how long the connection has been lost. It is zero while there is one, and before the first.
func (s *Switch) Lost() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost.IsZero() {
		return 0
	}
	return time.Since(s.lost)
}

// connection returns the client, and a context that ends with its connection.
func (s *Switch) connection() (client.Client, context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil, nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, s.endpoint, s.err)
	}
	return s.client, s.held, nil
}

// rows is what the cache has of each table.
type rows struct {
	root       *rootRow
	bridge     *bridgeRow
	bridges    []bridgeRow
	ports      map[string]portRow
	interfaces map[string]interfaceRow
}

func (s *Switch) rows(ctx context.Context) (client.Client, *rows, error) {
	c, held, err := s.connection()
	if err != nil {
		return nil, nil, err
	}
	// Without this, the library waits for ever for a cache whose connection was lost at this moment.
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	defer context.AfterFunc(held, cancel)() //nolint:contextcheck // it ends with the connection, too
	r := &rows{ports: map[string]portRow{}, interfaces: map[string]interfaceRow{}}
	var roots []rootRow
	var ports []portRow
	var interfaces []interfaceRow
	if err := errors.Join(c.List(ctx, &roots), c.List(ctx, &r.bridges), c.List(ctx, &ports),
		c.List(ctx, &interfaces)); err != nil {
		return nil, nil, fmt.Errorf("reading Open vSwitch's database: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if len(roots) != 1 {
		return nil, nil, errors.New("the database of Open vSwitch is not initialized; start Open vSwitch on this node")
	}
	r.root = &roots[0]
	for i, b := range r.bridges {
		if b.Name == s.bridge {
			r.bridge = &r.bridges[i]
		}
	}
	for _, p := range ports {
		r.ports[p.UUID] = p
	}
	for _, i := range interfaces {
		r.interfaces[i.UUID] = i
	}
	return c, r, nil
}

// State returns what the database had at its last event. A caller that waits for a port asks after each event of any,
// so it is read once for all of them. The caller MUST NOT change its Ports.
func (s *Switch) State(ctx context.Context) (State, error) {
	s.mu.Lock()
	seen, changes := s.seen, s.changes
	s.mu.Unlock()
	if seen != nil {
		return *seen, nil
	}
	_, r, err := s.rows(ctx)
	if err != nil {
		return State{}, err
	}
	state := State{
		Hostname: r.root.ExternalIDs["hostname"], OVN: r.root.ExternalIDs["ovn-remote"] != "", Bridge: r.bridge != nil,
		UserSpace: r.bridge != nil && r.bridge.DatapathType == "netdev", Ports: map[string]Port{},
	}
	for _, p := range r.ports {
		if len(p.Interfaces) == 0 {
			continue
		}
		state.Ports[p.Name] = portOf(p, r.interfaces[p.Interfaces[0]])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes {
		s.seen = &state
	}
	return state, nil
}

func portOf(p portRow, i interfaceRow) Port {
	ids := i.ExternalIDs
	port := Port{
		Name: p.Name, Ours: ids[keyOwner] == owner, IfaceID: ids[keyIfaceID], MAC: ids[keyAttachedMAC],
		Mark: mark.Mark{
			Sandbox: ids[keySandbox], IfName: ids[keyIfName], PodUID: types.UID(ids[keyPodUID]),
			PortUID: types.UID(ids[keyPortUID]),
		},
		Installed: ids[keyInstalled] == "true", uuid: p.UUID, interfaceUUID: i.UUID,
	}
	if i.OFPort != nil && *i.OFPort > 0 {
		port.Open = true
	}
	if i.Error != nil {
		port.Error = *i.Error
	}
	if p.Tag != nil {
		port.Tag = *p.Tag
	}
	return port
}

// Put makes a port be on the bridge, as wanted, in one transaction. In it, it also removes the ports that are in its
// way. It does not wait for Open vSwitch to apply it. If Neutron's agent has to see another id, it takes two
// transactions.
func (s *Switch) Put(ctx context.Context, w Wanted, remove ...Port) error {
	if err := w.Mark.Validate(); err != nil {
		return err
	}
	c, r, err := s.rows(ctx)
	if err != nil {
		return err
	}
	if r.bridge == nil {
		return fmt.Errorf("there is no bridge %s in Open vSwitch; start ovn-controller or Neutron's agent on this node, "+
			"or name its bridge by --bridge", s.bridge)
	}
	operations, err := removal(c, r, remove)
	if err != nil {
		return err
	}
	ids := map[string]string{
		keyIfaceID: w.IfaceID, keyAttachedMAC: w.MAC, keyIfaceStatus: "active", keyVM: string(w.Mark.PodUID),
		keyOwner: owner, keySandbox: w.Mark.Sandbox, keyIfName: w.Mark.IfName, keyNetns: w.Netns,
		keyPodUID: string(w.Mark.PodUID), keyPortUID: string(w.Mark.PortUID),
	}
	if w.Netns == "" {
		delete(ids, keyNetns)
	}
	var more []ovsdb.Operation
	current := r.named(w.Name)
	switch {
	case current == nil || !slices.Contains(r.bridge.Ports, current.uuid) || slices.ContainsFunc(remove, current.is):
		more, err = insert(c, r, w, ids)
	case w.NeutronAgent && current.IfaceID != w.IfaceID:
		// Neutron's agent reads the id of an interface that is new in Open vSwitch, and not again.
		if err := s.Remove(ctx, append(remove, *current)...); err != nil {
			return err
		}
		if err := s.Settle(ctx); err != nil {
			return err
		}
		return s.Put(ctx, w)
	default:
		more, err = update(c, *current, ids)
	}
	if err != nil {
		return err
	}
	return s.transact(ctx, c, r, append(operations, more...))
}

// named returns the port of a name, or nil.
func (r *rows) named(name string) *Port {
	for _, p := range r.ports {
		if p.Name == name && len(p.Interfaces) == 1 {
			port := portOf(p, r.interfaces[p.Interfaces[0]])
			return &port
		}
	}
	return nil
}

// insert adds a port to the bridge.
func insert(c client.Client, r *rows, w Wanted, ids map[string]string) ([]ovsdb.Operation, error) {
	name := w.Name
	i := &interfaceRow{UUID: "newinterface", Name: name, ExternalIDs: ids}
	p := &portRow{
		UUID: "newport", Name: name, Interfaces: []string{i.UUID},
		ExternalIDs: map[string]string{keyOwner: owner}, OtherConfig: map[string]string{keyTransient: "true"},
	}
	if w.NeutronAgent {
		p.Tag = new(deadVLAN)
	}
	created, err := c.Create(i)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	more, err := c.Create(p)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", name, err)
	}
	joined, err := c.Where(r.bridge).Mutate(r.bridge, model.Mutation{
		Field: &r.bridge.Ports, Mutator: ovsdb.MutateOperationInsert, Value: []string{p.UUID},
	})
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", r.bridge.Name, err)
	}
	return slices.Concat(created, more, joined), nil
}

// update rewrites what identifies a port. What ovn-controller wrote about the former identity goes. Each key is written
// by itself: ovn-controller and Neutron's agent write theirs into the same column at any moment, and once only.
func update(c client.Client, current Port, ids map[string]string) ([]ovsdb.Operation, error) {
	// An insert leaves a key as it is that exists.
	old := slices.Collect(maps.Keys(ids))
	if current.IfaceID != ids[keyIfaceID] {
		old = append(old, keyInstalled, keyInstalledSince)
	}
	i := &interfaceRow{UUID: current.interfaceUUID}
	changed, err := c.Where(i).Mutate(i,
		model.Mutation{Field: &i.ExternalIDs, Mutator: ovsdb.MutateOperationDelete, Value: old},
		model.Mutation{Field: &i.ExternalIDs, Mutator: ovsdb.MutateOperationInsert, Value: ids})
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", current.Name, err)
	}
	p := &portRow{UUID: current.uuid}
	marked, err := c.Where(p).Mutate(p,
		model.Mutation{Field: &p.ExternalIDs, Mutator: ovsdb.MutateOperationInsert,
			Value: map[string]string{keyOwner: owner}},
		model.Mutation{Field: &p.OtherConfig, Mutator: ovsdb.MutateOperationInsert,
			Value: map[string]string{keyTransient: "true"}})
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", current.Name, err)
	}
	return append(changed, marked...), nil
}

// Remove removes ports. It does not wait for Open vSwitch to apply it: see Settle.
func (s *Switch) Remove(ctx context.Context, ports ...Port) error {
	if len(ports) == 0 {
		return nil
	}
	c, r, err := s.rows(ctx)
	if err != nil {
		return err
	}
	operations, err := removal(c, r, ports)
	if err != nil || len(operations) == 0 {
		return err
	}
	return s.transact(ctx, c, r, operations)
}

// removal takes ports off their bridges. The database deletes what nothing refers to.
func removal(c client.Client, r *rows, ports []Port) ([]ovsdb.Operation, error) {
	var operations []ovsdb.Operation
	for i := range r.bridges {
		bridge := &r.bridges[i]
		var gone []string
		for _, p := range ports {
			if slices.Contains(bridge.Ports, p.uuid) {
				gone = append(gone, p.uuid)
			}
		}
		if len(gone) == 0 {
			continue
		}
		more, err := c.Where(bridge).Mutate(bridge, model.Mutation{
			Field: &bridge.Ports, Mutator: ovsdb.MutateOperationDelete, Value: gone,
		})
		if err != nil {
			return nil, fmt.Errorf("bridge %s: %w", bridge.Name, err)
		}
		operations = append(operations, more...)
	}
	return operations, nil
}

// transact sends one transaction, and notes the number of the configuration, which Open vSwitch confirms when it has
// applied it.
func (s *Switch) transact(ctx context.Context, c client.Client, r *rows, operations []ovsdb.Operation) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	root := &rootRow{UUID: r.root.UUID}
	next, err := c.Where(root).Mutate(root, model.Mutation{
		Field: &root.NextCfg, Mutator: ovsdb.MutateOperationAdd, Value: 1,
	})
	if err != nil {
		return err
	}
	operations = slices.Concat(operations, next, []ovsdb.Operation{{
		Op: ovsdb.OperationSelect, Table: "Open_vSwitch", Columns: []string{"next_cfg"},
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: r.root.UUID})},
	}})
	results, err := c.Transact(ctx, operations...)
	s.outdate() // the cache may have it before the event
	if err != nil {
		return fmt.Errorf("writing Open vSwitch's database: %w", err)
	}
	if _, err := ovsdb.CheckOperationResults(results, operations); err != nil {
		return fmt.Errorf("writing Open vSwitch's database: %w", err)
	}
	for i, o := range operations {
		if (o.Op == ovsdb.OperationUpdate || o.Op == ovsdb.OperationMutate) && results[i].Count == 0 {
			return fmt.Errorf("somebody else changed Open vSwitch's %s at the same time; retrying", o.Table)
		}
	}
	if selected := results[len(operations)-1].Rows; len(selected) == 1 {
		if number, ok := selected[0]["next_cfg"].(float64); ok {
			s.mu.Lock()
			s.configuration = int(number)
			s.mu.Unlock()
			return nil
		}
	}
	return errors.New("the database of Open vSwitch did not return the number of the configuration")
}

// Settle waits until Open vSwitch has applied what was written before, so that it uses no interface of a removed port.
func (s *Switch) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	s.mu.Lock()
	configuration := s.configuration
	s.mu.Unlock()
	for {
		changed := s.Changed()
		_, r, err := s.rows(ctx)
		if err != nil {
			return err
		}
		if r.root.CurCfg >= configuration {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ovs-vswitchd does not apply its configuration within %s; look at its log on this node",
				settleLimit)
		case <-changed:
		}
	}
}
