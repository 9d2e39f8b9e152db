package chart

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// upgradedFrom is the commit whose chart TestUpgrade installs, and whose binary it runs: the last one without
// SecurityGroups. After a release it is the release's tag.
const upgradedFrom = "fae4ed506e79c9c9909ed72e00d2f5dfb60d5e7b"

// upgradeCommand is `helm upgrade` as docs/install.md writes it: the chart, and what is set.
var upgradeCommand = regexp.MustCompile("`helm upgrade network-controller (\\S+) --namespace network-controller " +
	"--reset-then-reuse-values((?: --set \\S+)+)`")

// documented gives what the commands of the page set: to upgrade, to go back to an earlier chart, and to upgrade again.
func documented(t *testing.T, page string) (upgrade, back, again []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	expect.NoError(t, err)
	var commands [][]string
	var charts []string
	for _, command := range upgradeCommand.FindAllStringSubmatch(string(text), -1) {
		charts = append(charts, command[1])
		commands = append(commands, strings.Split(command[2], " --set ")[1:])
	}
	want := []string{"charts/network-controller", "OLDER-CHART", "charts/network-controller"}
	if diff := cmp.Diff(want, charts); diff != "" {
		t.Fatalf("%s has other upgrades, to these charts (-want +is):\n%s", page, diff)
	}
	return commands[0], commands[1], commands[2]
}

// change runs `helm upgrade` with --reset-then-reuse-values.
func (c *cluster) change(to *helmchart.Chart, set ...string) {
	c.t.Helper()
	upgrade := action.NewUpgrade(c.actions)
	upgrade.Namespace, upgrade.ResetThenReuseValues = name, true
	if _, err := upgrade.Run(c.release, to, values(c.t, set...)); err != nil {
		c.t.Fatal(err)
	}
}

// takeOver does what the Deployment does with a Pod of another template: the new process is ready before the old one
// gets SIGTERM.
func (c *cluster) takeOver(old *harness.Process) *harness.Process {
	c.t.Helper()
	process := c.start()
	c.in.Eventually(c.t, func() error {
		status, body, err := process.Get(c.t.Context(), "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, body)
		}
		return err
	})
	old.Signal(syscall.SIGTERM)
	expect.Equal(c.t, 0, old.AwaitExit(c.t), "the exit code of the former controller")
	return process
}

// TestUpgrade installs an earlier commit's chart with Helm, on a control plane that has no CRDs before, and runs that
// commit's own binary as its Deployment says. Then it follows the upgrade of docs/install.md, and the way back.
func TestUpgrade(t *testing.T) {
	if surroundings == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-install`")
	}
	t.Parallel() // it has a control plane of its own
	ctx := t.Context()
	checkout := surroundings.Checkout(t, upgradedFrom)
	earlierChart, err := loader.Load(filepath.Join(checkout, "charts", name))
	expect.NoError(t, err)
	upgrade, back, again := documented(t, filepath.Join("..", "docs", "install.md"))
	u, b, a := documented(t, filepath.Join("..", "docs", "zh", "install.md"))
	if diff := cmp.Diff([][]string{upgrade, back, again}, [][]string{u, b, a}); diff != "" {
		t.Errorf("docs/zh/install.md upgrades otherwise than docs/install.md (-install +zh):\n%s", diff)
	}
	earlier, today := surroundings.Earlier(t, upgradedFrom), surroundings.Binary
	emulator := neutrontest.New(neutrontest.Options{})
	in := &harness.Surroundings{
		ControlPlane: surroundings.StartEmptyControlPlane(t), Emulator: emulator,
		Binary: earlier, CloudsFile: filepath.Join(t.TempDir(), "clouds.yaml"),
	}
	expect.NoError(t, os.WriteFile(in.CloudsFile, []byte(emulator.Start(t).CloudsYAML()), 0o600))
	cloud := harness.Open(t, in.CloudsFile, "tenant")
	held := func() map[string]harness.Resource {
		t.Helper()
		all := map[string]harness.Resource{}
		for _, collection := range []string{"networks", "subnets", "routers", "ports", "security-groups"} {
			for _, r := range cloud.List(collection, "") {
				all[r.ID()] = r
			}
		}
		return all
	}
	c := newEmptyCluster(t, in)
	c.install(earlierChart, false, "cloud.name=tenant", "image.tag=OLD")
	process := c.start()
	networks := in.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	ports := in.Networks.CloudteamV1().NetworkPorts(metav1.NamespaceDefault)
	create := func(network string, spec cloudteamv1.NetworkSpec) {
		t.Helper()
		in.Eventually(t, func() error { // the API server serves a new kind a moment later
			_, err := networks.Create(ctx, &cloudteamv1.Network{
				ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: spec,
			}, metav1.CreateOptions{})
			return err
		})
	}
	edit := func(network, patch string) error {
		_, err := networks.Patch(ctx, network, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	create("frontend", cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.1.0.0/24"}, Router: &cloudteamv1.RouterSpec{},
	})
	create("backend", cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.2.0.0/24"}})
	harness.Create(t, ports, &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Name: "reserved"}, Spec: cloudteamv1.NetworkPortSpec{NetworkName: "frontend"},
	})
	// ready gives the ids in the statuses, once a controller that sees the last edit finds all Ready.
	ready := func() map[string]string {
		t.Helper()
		ids := map[string]string{}
		for _, network := range []string{"frontend", "backend"} {
			ids[network] = c.await(network, cloudteamv1.ReasonAvailable)
		}
		ids["reserved"] = harness.Await(t, in, ports, "reserved", harness.Ready).Status.PortID
		return ids
	}
	// settled waits until the controller has audited what is there.
	settled := func() {
		t.Helper()
		from := emulator.Calls("GET", "/v2.0/ports")
		in.Eventually(t, func() error {
			if audits := emulator.Calls("GET", "/v2.0/ports") - from; audits < 3 {
				return fmt.Errorf("%d audits of 3", audits)
			}
			return nil
		})
	}
	ids, was := ready(), held()
	const newField = `{"spec":{"securityGroupRefs":["web"]}}`
	if err := edit("frontend", newField); err == nil {
		t.Fatal("the earlier CRDs know securityGroupRefs, so the test shows nothing: choose another field or commit")
	}

	// The upgrade. The old Pod runs on with the new CRDs and rights until the new one is ready.
	c.change(loadChart(t), upgrade...)
	container := c.deployment().Spec.Template.Spec.Containers[0]
	if container.Image != "network-controller:NEW" || !slices.Contains(container.Args, "--cloud=tenant") {
		t.Errorf("after the upgrade, the Deployment has the image %s and the flags %v", container.Image, container.Args)
	}
	in.Binary = today
	process = c.takeOver(process)
	settled()
	expect.Equal(t, ids, ready(), "after the upgrade, the ids are others")
	expect.Equal(t, was, held(), "the upgrade changes what is in Neutron")
	groups := in.Networks.CloudteamV1().SecurityGroups(metav1.NamespaceDefault)
	harness.Create(t, groups, &cloudteamv1.SecurityGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
	})
	if err := edit("frontend", newField); err != nil {
		t.Fatalf("after the upgrade, a new field is refused: %v", err)
	}
	// grouped waits until the port is in the group.
	grouped := func() {
		t.Helper()
		harness.Await(t, in, groups, "web", func(group *cloudteamv1.SecurityGroup) error {
			port := cloud.One("ports", "id="+ids["reserved"])
			if in, _ := port["security_groups"].([]any); len(in) != 1 || in[0] != group.Status.SecurityGroupID {
				return fmt.Errorf("the port is in the groups %v, the SecurityGroup is %+v", in, group.Status)
			}
			return nil
		})
	}
	grouped()
	expect.Equal(t, ids, ready(), "with a new field, the ids are others")

	// The way back, with the newer CRDs, and forth again. The new field stays.
	c.change(earlierChart, back...)
	in.Binary = earlier
	process = c.takeOver(process)
	settled()
	expect.Equal(t, ids, ready(), "on the way back, the ids are others")
	c.change(loadChart(t), again...)
	in.Binary = today
	process = c.takeOver(process)
	settled()
	expect.Equal(t, ids, ready(), "after another upgrade, the ids are others")
	if n, err := networks.Get(ctx, "frontend", metav1.GetOptions{}); err != nil || len(n.Spec.SecurityGroupRefs) != 1 {
		t.Errorf("after the way back and forth, the spec is %+v, %v", n.Spec, err)
	}
	grouped()
	c.kill(process)

	// Why the page does not say `helm rollback`.
	rollback := action.NewRollback(c.actions)
	rollback.Version = 1
	expect.NoError(t, rollback.Run(name))
	harness.Await(t, in, networks, "frontend", func(n *cloudteamv1.Network) error {
		if len(n.Spec.SecurityGroupRefs) > 0 {
			return errors.New("after helm rollback, the spec has the new field: the page may recommend it")
		}
		return nil
	})
}
