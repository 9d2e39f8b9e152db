// Package ui has the page of kubectl network ui shown by Chromium, on a real control plane with a controller, and the
// emulator as Neutron. With -update it takes the pictures of the documentation.
package ui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

var (
	update       = flag.Bool("update", false, "take the pictures in docs/images")
	surroundings *harness.Surroundings
	// plugin is the path of kubectl-network.
	plugin string
)

func TestMain(m *testing.M) {
	flag.Parse()
	harness.Exit(run(m))
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "network-controller-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	// The harness looks for the product's go.mod above the working directory, and this folder has one of its own.
	if err := os.Chdir("../.."); err != nil {
		return 1, err
	}
	plugin = filepath.Join(dir, "kubectl-network")
	if output, err := exec.Command("go", "build", "-o", plugin, "./cmd/kubectl-network").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the plugin: %w\n%s", err, output)
	}
	return harness.Run(harness.Options{Components: harness.AllComponents(), OpenClass: true},
		func(s *harness.Surroundings) (int, error) {
			surroundings = s
			return m.Run(), nil
		})
}

// startController runs the controller until the test ends. It looks for drift every second.
func startController(t *testing.T) {
	t.Helper()
	surroundings.Start(t, []string{"OS_CLIENT_CONFIG_FILE=" + surroundings.CloudsFile},
		append(harness.LongLease(), "--kubeconfig", surroundings.Kubeconfig, "--cloud", "tenant",
			"--bind-address", "127.0.0.1:0", "--audit-interval", "1s")...)
}

// startPage runs kubectl network ui until the test ends, and gives the address that it prints.
func startPage(t *testing.T, arguments ...string) string {
	t.Helper()
	address := make(chan string, 1)
	var output process.Buffer
	p, err := process.Start(process.Program{
		Name: "kubectl-network", Path: plugin, Output: &output,
		Args: append([]string{"ui", "--kubeconfig", surroundings.AdminKubeconfig}, arguments...),
		Env:  append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+surroundings.CloudsFile, "OS_CLOUD=tenant"),
	})
	expect.NoError(t, err)
	t.Cleanup(func() { p.Kill() })
	go func() {
		_ = harness.Poll(p.Done(), harness.Patience, 20*time.Millisecond, func() error {
			line, _, whole := strings.Cut(output.String(), "\n")
			if !whole || !strings.HasPrefix(line, "http://") {
				return fmt.Errorf("it prints no address: %s", output.String())
			}
			address <- line
			return nil
		})
		close(address)
	}()
	at := <-address
	if at == "" {
		t.Fatalf("it prints no address: %s", output.String())
	}
	return at
}

// browse starts a browser. What the page says to its console as an error fails the test.
func browse(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.WSURLReadTimeout(harness.Patience),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", false))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", event.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if event.Type == runtime.APITypeError {
				t.Errorf("the page's console has an error: %s", event.Args[0].Value)
			}
		case *log.EventEntryAdded:
			if event.Entry.Level == log.LevelError {
				t.Errorf("the browser's log has an error: %s %s", event.Entry.Text, event.Entry.URL)
			}
		}
	})
	if err := chromedp.Run(ctx, log.Enable()); err != nil {
		t.Fatalf("starting Chromium, of Debian's package chromium: %v", err)
	}
	return ctx
}
