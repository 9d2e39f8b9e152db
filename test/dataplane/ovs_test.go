//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// envOVSClouds names the clouds.yaml of `dev/openstack/openstack up --dataplane=ovs`.
const envOVSClouds = "DATAPLANE_OVS_CLOUDS"

// neutronAgent is the name of Neutron's agent on the nodes.
const neutronAgent = "neutron-openvswitch-agent"

// TestPodsOnNeutronsOVSAgent is TestPortsCarryPackets without OVN: Neutron has the Open vSwitch mechanism driver, and its
// agent runs on each node.
func TestPodsOnNeutronsOVSAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	needsNodes(t)
	clouds := os.Getenv(envOVSClouds)
	if clouds == "" {
		nodetest.Skip(t, "no Neutron with the Open vSwitch mechanism driver; run `make test-dataplane-all`")
	}
	if missing := nodes.MissingForNeutronAgents(); missing != "" {
		nodetest.Skip(t, "%s", missing)
	}
	broker, err := os.ReadFile(filepath.Join(filepath.Dir(clouds), "broker", "url"))
	expect.NoError(t, err)
	const level = "Neutron's Open vSwitch agent"
	w := openWorld(t, level, clouds, cloudteamv1.AttachmentOVS)
	w.startNodes(level, nodes.Options{Broker: string(broker)}, func() error { return nil })
	w.removeNodes()
	w.addNodes()
	w.startAgents()
	w.startController()
	network := w.network([]byte(strings.Replace(twoFamilies, "  router: {}\n", "", 1))) // no L3 agent runs
	left, right := w.pod("left", network.Name, w.nodes.All[0]), w.pod("right", network.Name, w.nodes.All[1])

	t.Run("Pods on two nodes reach each other by each family", func(t *testing.T) {
		w := w.in(t)
		for _, address := range right.addresses {
			w.reaches(left, address)
			w.speaksTCP(left, right, address)
		}
		w.podsAreActive(left, right)
	})
	t.Run("a SecurityGroup closes and opens", func(t *testing.T) { w.in(t).aGroupClosesAndOpens(left, right) })
	reach := func(w *world) {
		w.Helper()
		for _, address := range right.addresses {
			w.reaches(left, address)
		}
	}
	nextSandbox := func(w *world) {
		w.Helper()
		w.plugin(right, "DEL")
		w.plugin(right, "ADD")
		reach(w)
		w.podsAreActive(right)
	}
	t.Run("the next sandbox follows at once", func(t *testing.T) { nextSandbox(w.in(t)) })
	t.Run("somebody removes the port from Open vSwitch", func(t *testing.T) {
		w := w.in(t)
		if _, err := right.node.Run("ovs-vsctl", "--timeout=30", "del-port", "tap"+right.port[:11]); err != nil {
			t.Fatal(err)
		}
		reach(w)
		w.podsAreActive(right)
	})
	t.Run("somebody deletes a port in Neutron, and binds another elsewhere", func(t *testing.T) {
		w := w.in(t)
		was := right.port
		w.admin.Remove("ports", was)
		w.admin.Update("ports", left.port, harness.Resource{"binding:host_id": "elsewhere"})
		w.eventually(func() error {
			ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).List(w.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, port := range ports.Items {
				if port.Status.BoundTo != nil && port.Status.BoundTo.Name == right.name && port.Status.PortID != was &&
					port.Status.PortID != "" {
					right.port = port.Status.PortID
					return nil
				}
			}
			return errors.New("the port was not made again")
		})
		reach(w)
		w.podsAreActive(left, right)
		nextSandbox(w)
	})
	t.Run("programs are killed", func(t *testing.T) {
		w := w.in(t)
		expect.NoError(t, right.node.Kill(neutronAgent))
		reach(w)
		expect.NoError(t, errors.Join(right.node.Restart(neutronAgent), right.node.Restart("ovs-vswitchd")))
		reach(w)
		w.podsAreActive(right)
	})
	for _, p := range []*pod{left, right} {
		w.plugin(p, "DEL")
		bridge, err := p.node.Run("ovs-vsctl", "list-ports", "br-int")
		if err != nil || strings.Contains(bridge, "tap") {
			t.Errorf("after DEL the bridge on %s has %q, %v", p.node.Name, bridge, err)
		}
		w.eventually(func() error {
			flows, err := p.node.Run("ovs-ofctl", "dump-flows", "br-int")
			if err == nil && strings.Contains(flows, p.mac) {
				err = fmt.Errorf("after DEL br-int on %s has flows with %s:\n%s", p.node.Name, p.mac, flows)
			}
			return err
		})
	}
}
