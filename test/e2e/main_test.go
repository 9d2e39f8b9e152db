// Package e2e runs the network-controller binary, as a user would start it, against a real etcd and kube-apiserver and
// a cloud: the emulator, or with E2E_OPENSTACK=1 the Keystone and Neutron whose clouds "admin" and "tenant" are in the
// file that OS_CLIENT_CONFIG_FILE names. The process has no rights at the API server but those of config/rbac.
//
// What is in Neutron is looked at with gophercloud's own client and not with the project's.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// What all tests of this package share. TestMain sets it, and nothing changes it afterwards.
var (
	// binary is the network-controller under test.
	binary string
	// kubeconfig is of the ServiceAccount that config/rbac defines.
	kubeconfig string
	// kube and networks are an administrator's clients.
	kube     kubernetes.Interface
	networks clientset.Interface
	// cloudsFile is a clouds.yaml with the clouds admin and tenant.
	cloudsFile string
	// emulator is nil where the cloud is a real one.
	emulator *neutrontest.Server
)

func TestMain(m *testing.M) {
	code, err := setUp(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func setUp(run func() int) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: run `make test`, which " +
			"builds both and sets it")
	}
	dir, err := os.MkdirTemp("", "network-controller-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join("..", "..")

	binary = filepath.Join(dir, "network-controller")
	build := exec.Command("go", "build", "-o", binary, "./cmd/network-controller")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building network-controller: %w\n%s", err, output)
	}

	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	defer func() { err = errors.Join(err, environment.Stop()) }()
	if err != nil {
		return 1, fmt.Errorf("starting etcd and kube-apiserver: %w", err)
	}
	config.QPS = -1
	kube = kubernetes.NewForConfigOrDie(config)
	networks = clientset.NewForConfigOrDie(config)
	ctx, core, rbac := context.Background(), kube.CoreV1(), kube.RbacV1()
	account := core.ServiceAccounts("network-controller")
	err = errors.Join(
		install(ctx, "manager/namespace.yaml", core.Namespaces().Create),
		install(ctx, "rbac/service_account.yaml", account.Create),
		install(ctx, "rbac/role.yaml", rbac.ClusterRoles().Create),
		install(ctx, "rbac/role_binding.yaml", rbac.ClusterRoleBindings().Create),
	)
	if err != nil {
		return 1, err
	}
	user, err := environment.AddUser(envtest.User{
		Name:   "system:serviceaccount:network-controller:network-controller",
		Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}, nil)
	if err != nil {
		return 1, fmt.Errorf("making a user for the controller: %w", err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		return 1, err
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return 1, err
	}

	if os.Getenv("E2E_OPENSTACK") != "" {
		cloudsFile = os.Getenv("OS_CLIENT_CONFIG_FILE")
		return run(), nil
	}
	emulator = neutrontest.New(neutrontest.Options{})
	listener, err := emulator.Listen("127.0.0.1:0", nil)
	if err != nil {
		return 1, err
	}
	defer listener.Close()
	cloudsFile = filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(cloudsFile, []byte(listener.CloudsYAML()), 0o600); err != nil {
		return 1, err
	}
	return run(), nil
}
