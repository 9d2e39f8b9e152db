package chart

import (
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
	kubefake "k8s.io/client-go/kubernetes/fake"

	appsv1 "k8s.io/api/apps/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
