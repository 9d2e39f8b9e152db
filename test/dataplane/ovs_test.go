//go:build linux

package dataplane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestPodsOnNeutronsOVSAgent(t *testing.T) {
	needsNodes(t)
	clouds := os.Getenv("TRIAL_CLOUDS")
	broker, err := os.ReadFile(filepath.Join(filepath.Dir(clouds), "broker", "url"))
	if err != nil {
		t.Fatal(err)
	}
	const level = "Neutron's Open vSwitch agent"
	w := openWorld(t, level, clouds, cloudteamv1.AttachmentOVS)
	w.startNodes(level, nodes.Options{Broker: string(broker)}, func() error { return nil })
	w.removeNodes()
	w.addNodes()
	w.startAgents()
	w.startController()
	network := w.network([]byte(twoFamilies))
	left, right := w.pod("left", network.Name, w.nodes.All[0]), w.pod("right", network.Name, w.nodes.All[1])
	for _, address := range right.addresses {
		w.reaches(left, address)
		w.speaksTCP(left, right, address)
	}
	for _, p := range []*pod{left, right} {
		w.eventually(func() error {
			port := w.admin.One("ports", "id="+p.port)
			if port["status"] != "ACTIVE" || port["binding:host_id"] != p.node.Name {
				return fmt.Errorf("port of %s is %v on %v", p.name, port["status"], port["binding:host_id"])
			}
			return nil
		})
	}
}
