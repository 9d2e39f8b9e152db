// Command walk counts the code that one key runs through: the functions and files of this project between an object's
// creation and the first request for it in Neutron, and a Pod's and its allocation. It is what a reader has to follow;
// docs/how-it-works.md names the steps of the way. `make walk` builds it with instrumented code, and holds the counts
// to a limit.
package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
	"cloudteam.ztgame.com/network-controller/test/simulation"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

func main() {
	simulation.Install()
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "TestWalks", F: walks}}, nil, nil)
}

// walk is a way through the code, and the most that it may have.
type walk struct{ functions, files, packages int }

// walks holds the ways to what they have. A new mechanism on the way of each key shows here.
func walks(t *testing.T) {
	for _, way := range []struct {
		what, controllers string
		most              walk
		between           func(t *testing.T, w *world) walk
	}{
		{"a Network to its first POST", "network", walk{functions: 340, files: 80, packages: 16}, toPost},
		{"a Pod to its allocation", "network,networkport,pod", walk{functions: 630, files: 120, packages: 21}, toAllocation},
	} {
		synctest.Test(t, func(t *testing.T) {
			is := way.between(t, newWorld(t, "--controllers="+way.controllers))
			fmt.Printf("%-28s %d functions in %d files of %d packages\n", way.what, is.functions, is.files, is.packages)
			most := way.most
			if is.functions == 0 || is.functions > most.functions || is.files > most.files || is.packages > most.packages {
				t.Errorf("%s runs through %+v, want at most %+v", way.what, is, most)
			}
		})
	}
}

// toPost is the way of a Network to its first request.
func toPost(t *testing.T, w *world) walk {
	t.Helper()
	dir := t.TempDir()
	posts := func(c proxy.Call) bool { return c.Method == http.MethodPost && c.Shape == "/v2.0/networks" }
	rule := w.neutron.Break(posts, 1, proxy.Meanwhile(func() { write(t, dir) }))
	expect.NoError(t, coverage.ClearCounters())
	w.network(t)
	await(t, func() bool { return rule.Hits() > 0 })
	return counted(t, dir)
}

// toAllocation is the way of a Pod to what it gets on a Network that is there.
func toAllocation(t *testing.T, w *world) walk {
	t.Helper()
	dir := t.TempDir()
	w.network(t)
	settle()
	expect.NoError(t, coverage.ClearCounters())
	_, err := w.Kube.CoreV1().Pods(w.namespace).Create(t.Context(), harness.PodOn("pod", "net"), metav1.CreateOptions{})
	expect.NoError(t, err)
	await(t, func() bool {
		pod, err := w.Kube.CoreV1().Pods(w.namespace).Get(t.Context(), "pod", metav1.GetOptions{})
		expect.NoError(t, err)
		return pod.Annotations[cloudteamv1.AnnotationAllocations] != ""
	})
	write(t, dir)
	return counted(t, dir)
}

// await waits until something is true, for a minute of virtual time at most.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for range time.Minute / time.Millisecond {
		virtual.Elapse(time.Millisecond)
		if is() {
			return
		}
	}
	t.Fatal("it does not happen")
}

// write writes what ran since the counters were cleared.
func write(t *testing.T, dir string) {
	t.Helper()
	expect.NoError(t, coverage.WriteMetaDir(dir))
	expect.NoError(t, coverage.WriteCountersDir(dir))
}

func (w *world) network(t *testing.T) {
	t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "net"}}
	network.Spec.CIDR, network.Spec.Gateway = "10.64.0.0/24", "10.64.0.1"
	_, err := w.Networks.CloudteamV1().Networks(w.namespace).Create(t.Context(), network, metav1.CreateOptions{})
	expect.NoError(t, err)
}

type world struct {
	*harness.Surroundings
	neutron   *proxy.Proxy
	namespace string
}

func newWorld(t *testing.T, arguments ...string) *world {
	t.Helper()
	w := &world{Surroundings: harness.Virtual(t, harness.Options{})}
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	cloud := harness.Open(t, w.CloudsFile, "tenant")
	keystone, neutron, err := harness.FrontCloud(w.CloudsFile, clouds, []string{"tenant"}, cloud.Client.Endpoint,
		proxy.Options{Listener: w.Listen("keystone"), Transport: w.Transport},
		proxy.Options{Listener: w.Listen("neutron"), Transport: w.Transport})
	expect.NoError(t, err)
	t.Cleanup(neutron.Close)
	t.Cleanup(keystone.Close)
	w.neutron = neutron
	namespace := harness.Namespace("")
	namespace.Name = "walk"
	_, err = w.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	expect.NoError(t, err)
	w.namespace = namespace.Name
	w.StartFor(t, clouds, append([]string{"--kubeconfig", w.Kubeconfig, "--cloud", "tenant",
		"--bind-address", "127.0.0.1:0", "--audit-interval=24h", "--leader-elect=false"}, arguments...)...)
	settle()
	return w
}

// settle waits until nothing is left to do.
func settle() { virtual.Elapse(time.Minute + time.Second/2) } // not an instant at which periodic work begins

// ran is a line of covdata's for a function that ran.
var ran = regexp.MustCompile(`^(\S+)/internal/(\S+)/([^/\s]+\.go):\d+:\s+(\S+)\s+([0-9.]+)%`)

// counted reads what was written.
func counted(t *testing.T, dir string) walk {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "func", "-i", dir).Output()
	expect.NoError(t, err)
	functions, files, packages := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		found := ran.FindStringSubmatch(line)
		if found == nil || found[5] == "0.0" || strings.HasSuffix(found[2], "test") { // of tests, or conntest
			continue
		}
		functions[line], files[found[2]+"/"+found[3]], packages[found[2]] = true, true, true
	}
	if path := os.Getenv("WALK_FUNCTIONS"); path != "" {
		lines := strings.Join(slices.Sorted(maps.Keys(functions)), "")
		expect.NoError(t, os.WriteFile(path+"."+fmt.Sprint(len(functions)), []byte(lines), 0o600))
	}
	return walk{len(functions), len(files), len(packages)}
}
