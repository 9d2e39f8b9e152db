package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"helm.sh/helm/v3/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/kubectl"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestREADMEGivesOneVersion reads what README's commands build and install, and has kubectl network doctor compare it.
func TestREADMEGivesOneVersion(t *testing.T) {
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		t.Run(page, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join("..", page))
			expect.NoError(t, err)
			text := strings.ReplaceAll(strings.ReplaceAll(string(content), "\\\n", ""), "$REGISTRY", "registry.test:5000/team")
			made := regexp.MustCompile(`(?m)^make (.* IMAGE=.*)$`).FindStringSubmatch(text)
			installed := regexp.MustCompile(`(?m)^helm install .*$`).FindString(text)
			if made == nil || installed == "" {
				t.Fatal("it has no command that makes the image, or none that installs it")
			}
			command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, strings.Fields(made[1])...)...)
			command.Dir = ".."
			// A reader's shell has no variables of another make.
			command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
				name, _, _ := strings.Cut(variable, "=")
				return slices.Contains([]string{"VERSION", "LDFLAGS", "IMAGE", "MAKEFLAGS", "MAKEOVERRIDES"}, name)
			})
			printed, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, printed)
			}
			versions := regexp.MustCompile(`version\.Version=([^ ']+)`).FindAllStringSubmatch(string(printed), -1)
			if len(versions) != 2 { // of the image's programs, and of the plugin
				t.Fatalf("it builds %d times: %s", len(versions), printed)
			}
			var set []string
			for _, value := range regexp.MustCompile(`--set(?:-string)? (\S+)`).FindAllStringSubmatch(installed, -1) {
				set = append(set, value[1])
			}
			deployment := as[*appsv1.Deployment](t, render(t, set...)["Deployment/"+name])
			if got, want := deployment.Labels["app.kubernetes.io/version"], versions[0][1]; got != want {
				t.Errorf("the Deployment has the version %s, the image %s", got, want)
			}
			now := time.Now()
			checks := doctor.Run(t.Context(), &ask.Cluster{
				Networks: fake.NewSimpleClientset(),
				Kubernetes: kubefake.NewClientset(deployment, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "leader"}, Spec: deployment.Spec.Template.Spec,
				}, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: new("leader_1"), LeaseDurationSeconds: new(int32(15)),
						RenewTime: &metav1.MicroTime{Time: now},
					},
				}),
			}, doctor.Options{Version: versions[1][1], Now: now})
			for _, check := range checks {
				if check.Name == "versions" && check.State != doctor.OK {
					t.Errorf("doctor says %+v", check)
				}
			}
		})
	}
}

// TestREADMEToTheLetterEndsWithADoctorWithoutWarnings does what README's commands do, on an API server that has nothing of
// ours, and then leaves as docs/install.md says. This machine has neither a registry nor a kubelet. So nothing is pushed,
// the binary runs as the Deployment says, and a Pod without a node stands for the one that the Deployment makes.
func TestREADMEToTheLetterEndsWithADoctorWithoutWarnings(t *testing.T) {
	if surroundings == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-install`")
	}
	content, err := os.ReadFile(filepath.Join("..", "README.md"))
	expect.NoError(t, err)
	text := strings.ReplaceAll(strings.ReplaceAll(string(content), "\\\n", ""), "$REGISTRY", "registry.test:5000/team")
	tag := regexp.MustCompile(`--set-string image.tag=(\S+)`).FindStringSubmatch(text)
	applied := regexp.MustCompile(`(?m)^kubectl apply -f (\S+)`).FindStringSubmatch(text)
	awaited := regexp.MustCompile(`networks.cloudteam.ztgame.com/(\S+)`).FindStringSubmatch(text)
	if tag == nil || applied == nil || awaited == nil {
		t.Fatal("README installs no image, applies no Network, or awaits none")
	}
	emulator := neutrontest.New(neutrontest.Options{})
	in := &harness.Surroundings{
		ControlPlane: surroundings.StartEmptyControlPlane(t), Emulator: emulator, Binary: surroundings.Binary,
		CloudsFile: filepath.Join(t.TempDir(), "clouds.yaml"),
	}
	clouds := strings.Replace(emulator.Start(t).CloudsYAML(), "  tenant:", "  openstack:", 1)
	expect.NoError(t, os.WriteFile(in.CloudsFile, []byte(clouds), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", in.CloudsFile)
	c := newEmptyCluster(t, in)
	harness.Create(t, in.Kube.CoreV1().Secrets(name), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "network-controller-clouds"}, StringData: map[string]string{"clouds.yaml": clouds}})
	install := action.NewInstall(c.actions)
	install.ReleaseName, install.Namespace = name, name
	var set []string
	command := regexp.MustCompile(`(?m)^helm install .*$`).FindString(text)
	for _, value := range regexp.MustCompile(`--set(?:-string)? (\S+)`).FindAllStringSubmatch(command, -1) {
		set = append(set, value[1])
	}
	_, err = install.Run(loadChart(t), values(t, set...))
	expect.NoError(t, err)
	process := c.start()
	network := &cloudteamv1.Network{}
	sample, err := os.ReadFile(filepath.Join("..", applied[1]))
	expect.NoError(t, err)
	expect.NoError(t, yaml.UnmarshalStrict(sample, network))
	in.Eventually(t, func() error { // the API server serves a new kind a moment later
		_, err := in.Networks.CloudteamV1().Networks(metav1.NamespaceDefault).Create(t.Context(), network, metav1.CreateOptions{})
		return err
	})
	id := c.await(awaited[1], cloudteamv1.ReasonAvailable)

	lease := harness.Get(t, in.Kube.CoordinationV1().Leases(name), name)
	host, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	harness.Create(t, in.Kube.CoreV1().Pods(name), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: host}, Spec: c.deployment().Spec.Template.Spec})
	defer func(was string) { version.Version = was }(version.Version)
	version.Version = tag[1] // as the same make builds it: see TestREADMEGivesOneVersion
	plugin := func(arguments ...string) (printed string, code int) {
		t.Helper()
		var out bytes.Buffer
		command := kubectl.NewCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
		command.SetArgs(append(arguments, "--kubeconfig", in.AdminKubeconfig))
		err := command.ExecuteContext(t.Context())
		return fmt.Sprint(out.String(), err), kubectl.ExitCode(err)
	}
	out, code := plugin("doctor", "--cloud", "openstack")
	if code != 0 || regexp.MustCompile(`(?m)^(WARN|FAIL|UNKNOWN)`).MatchString(out) || !strings.Contains(out, "OK") {
		t.Errorf("doctor exits with %d and says\n%s", code, out)
	}

	// Leave, and keep the network.
	if out, code := plugin("uninstall", "--keep"); code != 2 || !strings.Contains(out, id) {
		t.Errorf("uninstall --keep exits with %d and says\n%s", code, out)
	}
	if out, code := plugin("uninstall", "--keep", "--yes"); code != 0 || !strings.Contains(out, "1 objects are gone") {
		t.Errorf("uninstall --keep --yes exits with %d and says\n%s", code, out)
	}
	if kept := harness.Open(t, in.CloudsFile, "openstack").One("networks", "id="+id); strings.Contains(fmt.Sprint(kept["description"]), "owner=") {
		t.Errorf("what was kept has a marker: %v", kept)
	}
	if out, code := plugin("export", "--cloud", "openstack", "--name", id); code != 0 || !strings.Contains(out, "id: "+id) {
		t.Errorf("export of it exits with %d and says\n%s", code, out)
	}
	c.kill(process)
	c.uninstall()
}
