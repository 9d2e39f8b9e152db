package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// whereAllIsReal is how to see packets with nothing played.
const whereAllIsReal = "`make run-dataplane` shows packets between real Pods, with kubelets, Multus and a real Neutron."

// sendPackets has two Pods ping each other by their ports, where this machine can run Open vSwitch and OVN. The demo
// plays the container runtime, and Neutron's OVN driver: the emulator carries no packets.
func sendPackets(ctx context.Context, s *story) (err error) {
	missing := nodes.Missing()
	if missing == "" {
		missing = nodes.MissingForCentral()
	}
	ping := []string{"ping"}
	if _, err := exec.LookPath("ping"); err != nil {
		ping = []string{"busybox", "ping"}
	}
	if _, err := exec.LookPath(ping[0]); err != nil {
		missing = "they need ping; install iputils-ping"
	}
	if s.real {
		missing = "in a cloud, they need a node of that cloud"
	}
	if missing != "" {
		s.n.say("\nNo packets are shown here: %s.\n"+whereAllIsReal, missing)
		return nil
	}
	s.n.step("Send packets", "The agent and the CNI plugin connect two Pods to their ports, by Open vSwitch and OVN.")
	began := time.Now()
	// The path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	central, err := nodes.StartCentral(dir)
	if err != nil {
		return err
	}
	ended := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, central.Stop(ended)) }()

	web := s.sorted()[:2]
	pods := s.cluster.kube.CoreV1().Pods(metav1.NamespaceDefault)
	first, err := pods.Get(ctx, web[0].pod, metav1.GetOptions{})
	if err != nil {
		return or(ctx, err)
	}
	running, err := nodes.Start(nodes.Options{
		Dir: dir, Names: []string{first.Spec.NodeName}, Southbound: central.Southbound(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop(ended)) }()
	node := running.All[0]
	if err := s.startAgent(node); err != nil {
		return err
	}
	// The Node runs no containers from now on either, and its annotations would have the next Pods wait for an agent.
	defer func() {
		_, patchErr := s.cluster.kube.CoreV1().Nodes().Patch(ended, node.Name, types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"annotations":{%q:null,%q:null,%q:null,%q:null}}}`, cloudteamv1.AnnotationDataplane,
			cloudteamv1.AnnotationDataplaneHost, cloudteamv1.AnnotationDataplaneParent,
			cloudteamv1.AnnotationDataplaneVersion), metav1.PatchOptions{FieldManager: fieldManager})
		err = errors.Join(err, patchErr)
	}()
	s.n.command("bin/network-agent --node-name=" + node.Name + " &")

	network := []string{"ls-add", "net"}
	for _, a := range web {
		address := a.MAC + " " + a.addresses()
		network = append(network, "--", "lsp-add", "net", a.PortID, "--", "lsp-set-addresses", a.PortID, address,
			"--", "lsp-set-port-security", a.PortID, address)
	}
	if err := central.Do(network...); err != nil {
		return err
	}
	for uid, a := range s.pods {
		if a.pod != web[0].pod && a.pod != web[1].pod {
			continue
		}
		if err := s.plug(ctx, node, uid, a); err != nil {
			return err
		}
	}
	other := web[1].addresses()
	ping = append(ping, "-c1", "-W2", other)
	s.n.command("ip netns exec " + web[0].pod + " ping -c 1 " + other)
	var said string
	err = await(ctx, stepPatience, web[0].pod+" pings "+other, func(context.Context) error {
		said, err = node.Run("ip", append([]string{"netns", "exec", web[0].pod}, ping...)...)
		return err
	})
	if err != nil {
		return err
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "bytes from") {
			s.n.say("%s", strings.TrimSpace(line))
		}
	}
	s.n.good("%s reaches %s by its port, on node %s, after %.1f s", web[0].pod, web[1].pod, node.Name,
		time.Since(began).Seconds())
	s.n.say("The demo plays the container runtime here, and Neutron's OVN driver.\n" + whereAllIsReal)
	return nil
}

// startAgent starts the agent on the node, which gets a way to the API server.
func (s *story) startAgent(node *nodes.Node) error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	if err := node.Relay(server.Host, server.Host); err != nil {
		return err
	}
	_, err = node.Start("agent", nil, filepath.Join(s.bin, "network-agent"), "--node-name="+node.Name,
		"--kubeconfig="+s.kubeconfig)
	return err
}

// plug calls the CNI plugin for a Pod, as the container runtime does.
func (s *story) plug(ctx context.Context, node *nodes.Node, uid types.UID, a attachment) error {
	if _, err := node.Run("ip", "netns", "add", a.pod); err != nil {
		return err
	}
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"neutron-port","runtimeConfig":{"mac":%q}}`,
		networkName, a.MAC)
	env := append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID="+a.pod, "CNI_NETNS=/run/netns/"+a.pod,
		"CNI_IFNAME=net1", "CNI_PATH="+s.bin, "CNI_ARGS=K8S_POD_NAMESPACE="+metav1.NamespaceDefault+";K8S_POD_NAME="+a.pod+
			";K8S_POD_UID="+string(uid))
	return await(ctx, stepPatience, "neutron-port plugs "+a.pod, func(context.Context) error {
		output, err := node.RunWith(config, env, filepath.Join(s.bin, "neutron-port"))
		if err != nil {
			err = fmt.Errorf("%w: %s", err, output)
		}
		return err
	})
}
