// Package e2e runs the network-controller binary, as a user would start it, against a real Kubernetes control plane and
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
	"runtime"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	// The binary under test is built by a command, of which go test knows nothing: without the import it would take the
	// results of an earlier binary from its cache.
	_ "cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// What all tests of this package share. TestMain sets it, and nothing changes it afterwards.
var (
	// binary is the network-controller under test.
	binary string
	// plane serves the Kubernetes API.
	plane *controlPlane
	// kubeconfig is the path of one of the ServiceAccount that config/rbac defines.
	kubeconfig string
	// admin is an administrator's access without a rate limit; kube and networks are clients with it.
	admin    *rest.Config
	kube     kubernetes.Interface
	networks clientset.Interface
	// cloudsFile is a clouds.yaml with the clouds admin and tenant.
	cloudsFile string
	// emulator is nil where the cloud is a real one.
	emulator *neutrontest.Server
)

func TestMain(m *testing.M) {
	// See startControlPlane.
	runtime.LockOSThread()
	code, err := setUp(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func setUp(run func() int) (code int, err error) {
	if err := checkAssets(); err != nil {
		return 1, err
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

	if plane, err = startControlPlane(root, dir); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.stop()) }()
	if admin, err = clientcmd.BuildConfigFromFlags("", plane.kubeconfig); err != nil {
		return 1, err
	}
	admin.QPS = -1
	kube = kubernetes.NewForConfigOrDie(admin)
	networks = clientset.NewForConfigOrDie(admin)
	ctx, core, rbac := context.Background(), kube.CoreV1(), kube.RbacV1()
	account := core.ServiceAccounts(accountName)
	err = errors.Join(
		install(ctx, "manager/namespace.yaml", core.Namespaces().Create),
		install(ctx, "rbac/service_account.yaml", account.Create),
		install(ctx, "rbac/role.yaml", rbac.ClusterRoles().Create),
		install(ctx, "rbac/role_binding.yaml", rbac.ClusterRoleBindings().Create),
		install(ctx, "rbac/lease_role.yaml", rbac.Roles(accountName).Create),
		install(ctx, "rbac/lease_role_binding.yaml", rbac.RoleBindings(accountName).Create),
		installGate(ctx),
	)
	if err != nil {
		return 1, err
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := writeAccountKubeconfig(ctx, kubeconfig); err != nil {
		return 1, fmt.Errorf("making a kubeconfig for the controller: %w", err)
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

// accountName is the name of the controller's ServiceAccount, and of its namespace.
const accountName = "network-controller"

// tokenLife is longer than the tests may take.
const tokenLife = 4 * time.Hour

// writeAccountKubeconfig writes a kubeconfig with a token of the controller's ServiceAccount.
func writeAccountKubeconfig(ctx context.Context, path string) error {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))},
	}
	answer, err := kube.CoreV1().ServiceAccounts(accountName).CreateToken(ctx, accountName, request,
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(plane.kubeconfig)
	if err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	}
	return clientcmd.WriteToFile(*config, path)
}
