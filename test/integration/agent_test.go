package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/node/agent"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// kubeconfig writes a configuration that acts as another user.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		Token: config.BearerToken, ClientCertificate: config.CertFile, ClientCertificateData: config.CertData,
		ClientKey: config.KeyFile, ClientKeyData: config.KeyData,
		Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups, ImpersonateUserExtra: config.Impersonate.Extra,
	}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clientcmd.WriteToFile(*file, path))
	return path
}

// TestAgentAtTheAPIServer runs the agent with the rights and the policy of config/node: it sees the ports of its node only,
// announces itself on its Node, and writes the condition Attached. Open vSwitch has a database, and forwards nothing.
func TestAgentAtTheAPIServer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the agent answers nobody else")
	}
	ovs := nodetest.NewOVSDB(t)
	ovs.Ctl("--no-wait", "add-br", "br-int", "--", "set", "Open_vSwitch", ".", "external-ids:hostname=host.example", "external-ids:ovn-remote=unix:/x")
	expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "node")))
	namespace := newNamespace(t)
	node := namespace + "-node"
	harness.Create(t, kubeClient.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	config := impersonating(agentUser)
	config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	dir, err := os.MkdirTemp("", "nd") //nolint:usetesting // the path of a unix socket is short
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	options := agent.NewOptions()
	options.NodeName, options.Kubeconfig, options.OVSDB, options.BindAddress = node, kubeconfig(t, config), ovs.Endpoint(), ""
	options.Socket, options.Wait = filepath.Join(dir, "s"), 3*time.Second
	ctx, cancel := context.WithCancel(logged(t))
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	eventually(t, func() error {
		found, err := kubeClient.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err == nil && (found.Annotations[cloudteamv1.AnnotationDataplane] != "ovn" ||
			found.Annotations[cloudteamv1.AnnotationDataplaneHost] != "host.example" || found.Annotations[cloudteamv1.AnnotationDataplaneVersion] == "") {
			err = fmt.Errorf("the Node's annotations are %v", found.Annotations)
		}
		return err
	})
	plugin := agentapi.NewClient(options.Socket)
	request := agentapi.Request{PodNamespace: namespace, PodName: "web", PodUID: "pod", Sandbox: "c1", IfName: "net1"}
	refusal := (*agentapi.Error)(nil)
	if _, err := plugin.Prepare(t.Context(), request); !errors.As(err, &refusal) || refusal.Code != agentapi.CodeTryAgain {
		t.Errorf("before there is a port: %v", err)
	}
	for name, on := range map[string]string{"here": node, "there": "another"} {
		if _, err := anyAPI.Resource(portKind).Namespace(namespace).Create(t.Context(), object(t,
			`{"apiVersion":"cloudteam.ztgame.com/v1","kind":"NetworkPort","metadata":{"name":"`+name+`"},"spec":{"networkName":"net"}}`),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		status := fmt.Sprintf(`{"status":{"portID":"0a1b2c3d-0000-0000-0000-00000%[1]s","mac":"fa:16:3e:00:00:01","mtu":1400,"boundTo":{"kind":"Pod","name":"web","uid":"pod"},
			"addresses":[{"address":"10.0.0.5/24","subnetID":"s"}],"observedGeneration":1,
			"conditions":[{"type":"Ready","status":"True","reason":"Available","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],
			"attachment":{"node":%[2]q,"mode":"ovn","portID":"0a1b2c3d-0000-0000-0000-00000%[1]s","podUID":"pod"}}}`, name, on)
		if _, err := anyAPI.Resource(portKind).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(status),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	// Of the two, only one is on this node, so there is nothing to choose.
	prepared, err := plugin.Prepare(t.Context(), request)
	if err != nil || prepared.PortID != "0a1b2c3d-0000-0000-0000-00000here" {
		t.Fatalf("prepared %+v, %v", prepared, err)
	}
	request.PortID = prepared.PortID
	expect.ErrorSays(t, plugin.Plug(t.Context(), request), "does not exist")
	eventually(t, func() error {
		p, err := networkAPI.CloudteamV1().NetworkPorts(namespace).Get(t.Context(), "here", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, cloudteamv1.ConditionAttached)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != cloudteamv1.ReasonPlugFailed || p.Status.PortID != "0a1b2c3d-0000-0000-0000-00000here" {
			return fmt.Errorf("the status is %+v", p.Status)
		}
		return nil
	})
	// A DaemonSet's Pod would be on the Node.
	pods := kubeClient.CoreV1().Pods("network-agent")
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}, metav1.CreateOptions{})
	if err == nil {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	}
	expect.NoError(t, err)
	asked := &ask.Cluster{Kubernetes: kubeClient, Networks: networkAPI}
	answer, err := why.Explain(t.Context(), asked, ask.New("NetworkPort", namespace, "here"), time.Now())
	if err != nil || !slices.ContainsFunc(answer.Chain, func(l why.Link) bool {
		return l.Reason == cloudteamv1.ReasonPlugFailed
	}) || !strings.Contains(answer.Remedy, "ovn-controller") {
		t.Errorf("kubectl network why networkport/here: %+v, %v", answer, err)
	}
}

// TestTheAgentAsksWhoReadsItsMetrics serves metrics with the rights of config/node-metrics. Without them, the agent's
// account may not ask.
func TestTheAgentAsksWhoReadsItsMetrics(t *testing.T) {
	expect.NoError(t, plane.Install(t.Context(), filepath.Join("config", "node")))
	namespace := newNamespace(t)
	config := impersonating(agentUser)
	config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"node1"}}
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	served := serving.Metrics{Address: harness.FreeAddress(t)}
	serve, err := served.Listen(kube, "network-agent", 5)
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(logged(t))
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	t.Cleanup(func() { cancel(); expect.NoError(t, <-done) })
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed
	}}
	t.Cleanup(client.CloseIdleConnections)
	account := harness.Create(t, kubeClient.CoreV1().ServiceAccounts(namespace),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}})
	token, err := kubeClient.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expect.NoError(t, err)
	answers := func(want int) {
		t.Helper()
		eventually(t, func() error { // refusals are remembered, and the API server learns of rights later
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+served.Address+"/metrics", nil)
			expect.NoError(t, err)
			request.Header.Set("Authorization", "Bearer "+token.Status.Token)
			answer, err := client.Do(request)
			if err == nil {
				answer.Body.Close()
				if answer.StatusCode != want {
					err = fmt.Errorf("it answers %s, want %d", answer.Status, want)
				}
			}
			return err
		})
	}
	answers(http.StatusServiceUnavailable)
	bind := func(name, role string, subject rbacv1.Subject) {
		t.Helper()
		harness.Create(t, kubeClient.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
		t.Cleanup(func() {
			_ = kubeClient.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
			_ = kubeClient.RbacV1().ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	for _, object := range render(t, "config/node-metrics") {
		if object.GetName() == "network-agent-auth-delegator" {
			binding := &rbacv1.ClusterRoleBinding{}
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding))
			bind(namespace+"-agent", binding.RoleRef.Name, binding.Subjects[0])
		}
	}
	answers(http.StatusForbidden)
	for _, object := range renderConfig(t) {
		if object.GetName() == "network-controller-metrics-reader" && object.GetKind() == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role))
			role.Name = namespace + "-reader"
			harness.Create(t, kubeClient.RbacV1().ClusterRoles(), role)
		}
	}
	bind(namespace+"-reader", namespace+"-reader",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name})
	answers(http.StatusOK)
}
