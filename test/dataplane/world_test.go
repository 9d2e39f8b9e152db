//go:build linux

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/dev/process"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// patience is how long a test waits for what takes seconds on an idle machine.
const patience = 10 * time.Minute

// world is two nodes, the controller, and a namespace.
type world struct {
	*testing.T
	// clouds is the path of the clouds.yaml with the clouds admin and tenant.
	clouds string
	// mode is that of the nodes.
	mode      cloudteamv1.AttachmentMode
	nodes     *nodes.Nodes
	admin     *harness.Cloud
	tenant    *harness.Cloud
	namespace string
	// controller runs; a part of a test may put another one in its place.
	controller **harness.Process
}

// newWorld starts nodes without kubelets. level is for the line that tells how long the test took.
func newWorld(t *testing.T, level string) *world {
	t.Helper()
	needsNodes(t)
	w := openWorld(t, level, surroundings.CloudsFile, cloudteamv1.AttachmentOVN)
	ovn := filepath.Join(filepath.Dir(w.clouds), "ovn")
	w.startNodes(level, nodes.Options{Southbound: filepath.Join(ovn, "sb.sock")}, func() error {
		// Neutron asks OVN's agents for a sign of life each 37 s, and takes one that is new for dead until then. This asks
		// them now.
		_, err := exec.Command("ovn-nbctl", "--timeout=10", "--db=unix:"+filepath.Join(ovn, "nb.sock"), "--wait=sb", "sync").
			Output()
		return err
	})
	return w
}

// openWorld is a world of a cloud, without nodes.
func openWorld(t *testing.T, level, clouds string, mode cloudteamv1.AttachmentMode) *world {
	t.Helper()
	started := time.Now()
	t.Cleanup(func() { fmt.Printf("%s: %s\n", level, nightly.Since(started)) })
	return &world{
		T: t, clouds: clouds, mode: mode, admin: harness.Open(t, clouds, "admin"), tenant: harness.Open(t, clouds, "tenant"),
	}
}

// startNodes starts two nodes, and waits until Neutron knows them. wake has Neutron look for them.
func (w *world) startNodes(level string, options nodes.Options, wake func() error) {
	w.Helper()
	started := time.Now()
	options.Dir, options.Names = w.TempDir(), []string{"node1", "node2"}
	root, err := os.ReadFile(filepath.Join(filepath.Dir(w.clouds), "root"))
	expect.NoError(w, err)
	options.Root = string(root)
	if w.nodes, err = nodes.Start(options); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.showLogs(options.Dir)
		}
		if err := w.nodes.Stop(context.WithoutCancel(w.Context())); err != nil {
			w.Error(err)
		}
	})
	w.relay()
	running := nightly.Since(started)
	for _, node := range w.nodes.All {
		// Until Neutron has heard of an agent there, it binds no port to its host: it answers 200, and the port's
		// binding:vif_type is binding_failed.
		w.eventually(func() error {
			for _, agent := range w.admin.List("agents", "host="+node.Name) {
				if agent["alive"] == true {
					return nil
				}
			}
			return errors.Join(fmt.Errorf("Neutron knows no agent on %s that lives", node.Name), wake())
		})
	}
	fmt.Printf("%s: the nodes run after %s, and Neutron knows them after %s\n", level, running,
		nightly.Since(started))
}

// relay gives the nodes a way to the API server, and it one to them.
func (w *world) relay() {
	w.Helper()
	server, err := url.Parse(surroundings.Admin.Host)
	expect.NoError(w, err)
	for _, node := range w.nodes.All {
		expect.NoError(w, node.Relay(server.Host, server.Host))
	}
	expect.NoError(w, w.nodes.Proxy(egressSocket()))
}

// showLogs repeats the ends of the nodes' logs.
func (w *world) showLogs(dir string) {
	for _, name := range []string{"agent", "kubelet", "multus", "ovn-controller", neutronAgent} {
		files, _ := filepath.Glob(filepath.Join(dir, "*", "logs", name+".log"))
		for _, file := range files {
			content, err := os.ReadFile(file)
			w.Logf("%s ends with (%v):\n%s", file, err, content[max(0, len(content)-4000):])
		}
	}
}

// agentName is the name of the agents' ServiceAccount, and of its namespace.
const agentName = "network-agent"

// agentKubeconfig writes a kubeconfig of the agents' account on a node, with the claim of the node that a Pod's token has.
func (w *world) agentKubeconfig(node *nodes.Node) {
	w.Helper()
	core := surroundings.Kube.CoreV1()
	object := harness.Get(w, core.Nodes(), node.Name)
	answer, err := core.ServiceAccounts(agentName).CreateToken(w.Context(), agentName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Node", Name: object.Name, UID: object.UID,
		}},
	}, metav1.CreateOptions{})
	expect.NoError(w, err)
	config, err := clientcmd.LoadFromFile(surroundings.AdminKubeconfig)
	expect.NoError(w, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	}
	expect.NoError(w, clientcmd.WriteToFile(*config, agentKubeconfigPath(node)))
}

// agentFlags are those of the agent of a node. It waits less than the default: a test waits for a failed ADD.
func agentFlags(node *nodes.Node, more ...string) []string {
	return append([]string{"--node-name=" + node.Name, "--kubeconfig=" + agentKubeconfigPath(node), "--wait=10s", "-v=2"}, more...)
}

func agentKubeconfigPath(node *nodes.Node) string { return filepath.Join(node.Dir, "agent.kubeconfig") }

// startAgents starts the agent of each node. The Nodes MUST exist.
func (w *world) startAgents(flags ...string) []*process.Process {
	w.Helper()
	var agents []*process.Process
	for _, node := range w.nodes.All {
		w.agentKubeconfig(node)
		agent, err := node.Start("agent", nil, filepath.Join(programs, "network-agent"), agentFlags(node, flags...)...)
		expect.NoError(w, err)
		agents = append(agents, agent)
	}
	w.eventually(func() error {
		for _, node := range w.nodes.All {
			object, err := surroundings.Kube.CoreV1().Nodes().Get(w.Context(), node.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if mode := object.Annotations[cloudteamv1.AnnotationDataplane]; mode != string(w.mode) {
				return fmt.Errorf("Node %s has the data plane %q", node.Name, mode)
			}
		}
		return nil
	})
	return agents
}

// startController starts the controller, and makes the namespace whose Pods wait for their ports.
func (w *world) startController() {
	w.Helper()
	surroundings.KnowAttachments(w.T)
	w.controller = new(*harness.Process)
	w.runController("--binding-cloud=admin")
	w.Cleanup(func() {
		(*w.controller).Process.Kill()
		if w.Failed() {
			w.Logf("the controller printed:\n%s", (*w.controller).Output.String())
		}
	})
	w.makeNamespace()
}

// makeNamespace makes a namespace whose Pods wait for their ports.
func (w *world) makeNamespace() {
	w.Helper()
	namespace, err := surroundings.Kube.CoreV1().Namespaces().
		Create(w.Context(), harness.Namespace("dataplane-"), metav1.CreateOptions{})
	expect.NoError(w, err)
	w.namespace = namespace.Name
	w.eventually(func() error {
		_, err := surroundings.Kube.CoreV1().ServiceAccounts(w.namespace).Get(w.Context(), "default", metav1.GetOptions{})
		return err
	})
	surroundings.AwaitGate(w.T, w.namespace)
	w.Cleanup(w.clear)
}

// runController runs the controller in the place of the one that runs, which it kills.
func (w *world) runController(more ...string) {
	w.Helper()
	if *w.controller != nil {
		(*w.controller).Process.Kill()
	}
	var err error
	*w.controller, err = surroundings.Launch([]string{"OS_CLIENT_CONFIG_FILE=" + w.clouds},
		append([]string{"--kubeconfig", surroundings.Kubeconfig, "--cloud=tenant", "--leader-elect=false",
			"--attachment-plugin=neutron-port", "--bind-address=127.0.0.1:0", "--pool-cooldown=2s", "--audit-interval=5s",
			"-v=2"}, more...)...)
	expect.NoError(w, err)
}

// clear removes what the test made in Neutron, as users do: Pods, then Networks, with policies and SecurityGroups.
func (w *world) clear() {
	began := time.Now()
	defer func() { fmt.Printf("  all was removed after %s\n", nightly.Since(began)) }()
	ctx := context.WithoutCancel(w.Context())
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	apps, core := surroundings.Kube.AppsV1(), surroundings.Kube.CoreV1()
	policies := surroundings.Policies(w, w.namespace)
	networks := surroundings.Networks.CloudteamV1().Networks(w.namespace)
	groups := surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace)
	err := errors.Join(
		policies.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		apps.Deployments(w.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		apps.ReplicaSets(w.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		apps.StatefulSets(w.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		core.Pods(w.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
		networks.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		groups.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
	if err != nil {
		w.Error(err)
	}
	err = harness.Poll(nil, patience, time.Second, func() error {
		return errors.Join(harness.NoneLeft(ctx, networks), harness.NoneLeft(ctx, groups))
	})
	if err != nil {
		w.Error(err)
	}
}

// eventually polls until check gives nil.
func (w *world) eventually(check func() error) {
	w.Helper()
	expect.NoError(w, harness.Poll(w.Context().Done(), patience, 200*time.Millisecond, check))
}

// network makes a Network of a manifest, and returns it once it is Ready.
func (w *world) network(manifest []byte) *cloudteamv1.Network {
	w.Helper()
	network := &cloudteamv1.Network{}
	expect.NoError(w, yaml.UnmarshalStrict(manifest, network))
	networks := surroundings.Networks.CloudteamV1().Networks(w.namespace)
	harness.Create(w, networks, network)
	return harness.Await(w, surroundings, networks, network.Name, harness.Ready)
}

// addNodes makes Nodes that no kubelet serves. The scheduler leaves them alone.
func (w *world) addNodes() {
	w.Helper()
	client := surroundings.Kube.CoreV1().Nodes()
	for _, node := range w.nodes.All {
		harness.Create(w, client, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: corev1.NodeSpec{Unschedulable: true},
		})
	}
}

// removeNodes removes the Nodes when the test ends.
func (w *world) removeNodes() {
	w.Cleanup(func() {
		for _, node := range w.nodes.All {
			err := surroundings.Kube.CoreV1().Nodes().
				Delete(context.WithoutCancel(w.Context()), node.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				w.Error(err)
			}
		}
	})
}
