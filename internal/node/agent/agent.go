// Package agent is the network-agent of a node. It connects the interfaces that neutron-port makes to their ports, by
// Open vSwitch's database or by the VLANs of a trunk, and keeps them so. It has no credentials of OpenStack, and
// calls nothing of it but the metadata service, on a virtual machine with a trunk.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// repairInterval is how often all is compared without an event.
	repairInterval = time.Minute
	// repairPause lets events gather.
	repairPause = 200 * time.Millisecond
	// silenceLimit is how long no packets flow to a port that was plugged before that is told. Then the controller looks
	// whether the port is still there. A restart of ovn-controller is shorter.
	silenceLimit = 10 * time.Second
)

// vswitch is what the agent needs of ovs.Switch and trunk.Switch.
type vswitch interface {
	// Run holds a connection, where one is needed, until ctx is done.
	Run(ctx context.Context)
	Changed() <-chan struct{}
	State(ctx context.Context) (ovs.State, error)
	Put(ctx context.Context, w ovs.Wanted, remove ...ovs.Port) error
	Remove(ctx context.Context, ports ...ovs.Port) error
	Settle(ctx context.Context) error
	// Lost returns for how long the connection has been lost.
	Lost() time.Duration
}

// Agent is the agent of one node. It keeps no state itself: what is plugged is in Open vSwitch's database or on the
// interfaces, what ought to be in the NetworkPorts.
type Agent struct {
	// node is the Node's name.
	node string
	// mode and host are those of the flags; empty means to look. It is trunk if vswitch is one.
	mode, host string
	// networkData is where the machine's network data is, in the mode trunk; empty means nowhere.
	networkData string
	// parent is the parent of the node's trunk, once it was looked for.
	parent atomic.Pointer[parent]
	// wait is how long a step of an ADD waits.
	wait time.Duration

	vswitch vswitch
	links   func() ([]link.Device, error)
	// linksChanged tells that an interface went.
	linksChanged node.Signal
	// ports are the NetworkPorts of this node, by key and byPod.
	ports cache.Indexer
	// standbys are the NetworkPorts that Pods of this node get next, by key and byPod.
	standbys cache.Indexer
	// synced reports whether ports has all.
	synced       func() bool
	portsChanged node.Signal
	// write writes the condition Attached of a port.
	write func(context.Context, *cloudteamv1.NetworkPort, condition) error

	// turn is held by the goroutine that decides what the switch has to have, until it is written.
	turn sync.Mutex
	// claims has the sandbox that each port was last prepared for. The interface of an older one is not plugged again.
	// turn guards it.
	claims map[types.UID]string
	// names has the name of the interface that each port had last. turn guards it.
	names map[types.UID]string
	// silent has since when no packets flow to a port that was plugged. A restart of ovn-controller looks so for a moment,
	// for all ports of the node. turn guards it.
	silent map[types.UID]time.Time

	writing sync.Mutex
	told    map[types.UID]telling
}

// byPod indexes NetworkPorts by the UID of the Pod that they are bound to.
const byPod = "pod"

// indexers are those of Agent.ports.
func indexers() cache.Indexers {
	return cache.Indexers{
		byPod: func(object any) ([]string, error) {
			if p, ok := object.(*cloudteamv1.NetworkPort); ok && p.Status.BoundTo != nil {
				return []string{string(p.Status.BoundTo.UID)}, nil
			}
			return nil, nil
		},
	}
}

// standbyIndexers are those of Agent.standbys.
func standbyIndexers() cache.Indexers {
	return cache.Indexers{
		byPod: func(object any) ([]string, error) {
			if p, ok := object.(*cloudteamv1.NetworkPort); ok && p.Status.Standby != nil {
				return []string{string(p.Status.Standby.PodUID)}, nil
			}
			return nil, nil
		},
	}
}

// surroundings is what the agent sees of its node.
type surroundings struct {
	ovs.State
	mode cloudteamv1.AttachmentMode
	host string
}

// look reads the switch, and tells the mode of the node.
func (a *Agent) look(ctx context.Context) (surroundings, error) {
	state, err := a.vswitch.State(ctx)
	if err != nil {
		return surroundings{}, err
	}
	s := surroundings{State: state, mode: cloudteamv1.AttachmentMode(a.mode), host: a.host}
	if s.host == "" {
		s.host = state.Hostname
	}
	if s.host == "" {
		s.host = a.node
	}
	if s.mode == "" {
		switch {
		case state.OVN:
			s.mode = cloudteamv1.AttachmentOVN
		case state.Bridge:
			s.mode = cloudteamv1.AttachmentOVS
		default:
			return s, errors.New("neither OVN (external_ids:ovn-remote) nor an integration bridge is set up in Open vSwitch; " +
				"interfaces on this node cannot be attached; install ovn-controller or neutron-openvswitch-agent")
		}
	}
	return s, nil
}

// ready is look, and says why the agent cannot plug anything now.
func (a *Agent) ready(ctx context.Context) (surroundings, error) {
	if !a.synced() {
		return surroundings{}, errors.New("the NetworkPorts of this node are not read yet; " +
			"look at the agent's log, and at its ClusterRole and the CRD if it lasts")
	}
	s, err := a.look(ctx)
	if err == nil && !s.Bridge {
		err = errors.New("the integration bridge does not exist yet; ovn-controller or Neutron's agent creates it")
	}
	if err == nil && s.Down != "" {
		err = fmt.Errorf("%s; interfaces on this node cannot be attached; set it up", s.Down)
	}
	return s, err
}

// Run repairs until ctx is done: at start, after events, and each minute.
func (a *Agent) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	var last string
	for ctx.Err() == nil {
		ports, links, vswitch := a.portsChanged.Changed(), a.linksChanged.Changed(), a.vswitch.Changed()
		message := ""
		if err := a.repair(ctx); err != nil && !errors.Is(err, ovs.ErrUnreachable) {
			message = err.Error()
			if message != last && ctx.Err() == nil {
				logger.Error(err, "Repair failed; retrying")
			}
		}
		last = message
		select {
		case <-ctx.Done():
			return
		case <-ports:
		case <-links:
		case <-vswitch:
		case <-time.After(a.untilRepair()):
		}
		select {
		case <-ctx.Done():
		case <-time.After(repairPause):
		}
	}
}

// untilRepair is how long a repair may wait for an event: until a silence is to be told, and at most repairInterval.
func (a *Agent) untilRepair() time.Duration {
	a.turn.Lock()
	defer a.turn.Unlock()
	wait := repairInterval
	for _, since := range a.silent {
		if left := a.patience() - time.Since(since); left >= 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// patience is how long a silence may last that nobody is told of.
func (a *Agent) patience() time.Duration { return min(a.wait, silenceLimit) }

// status answers whether the next ADD can succeed.
func (a *Agent) status(ctx context.Context) (*agentapi.Status, error) {
	s, err := a.ready(ctx)
	if err != nil {
		return nil, agentapi.Errorf(agentapi.CodeNotAvailable, "%v", err)
	}
	return &agentapi.Status{Version: version.Version, Mode: string(s.mode), Host: s.host}, nil
}

// deviceOf names the host's end of a port's interface, as Nova and Neutron's agents do.
func deviceOf(portID string) string { return fmt.Sprintf("tap%.11s", portID) }
