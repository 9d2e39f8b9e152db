package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// startPatience is how long a controller may take to be ready. It lists everything first.
const startPatience = 5 * time.Minute

// controller is a process of network-controller.
type controller struct {
	*harness.Process
	// address is where it serves health and, with --profiling, profiles.
	address string
	ended   bool
}

// alone are the flags of a controller without others to take turns with.
var alone = []string{"--leader-elect=false"}

// launch starts a controller and waits until it says where it serves. It is killed with the group.
func (b *bench) launch(ctx context.Context, s *site, kubeconfig string, flags ...string) (*controller, error) {
	arguments := append([]string{
		"--kubeconfig", kubeconfig, "--cloud", cloudName, "--bind-address", "127.0.0.1:0",
	}, flags...)
	if b.profiles != "" {
		arguments = append(arguments, "--profiling")
	}
	p, err := b.Launch([]string{"OS_CLIENT_CONFIG_FILE=" + s.cloudsFile}, append(arguments, b.flags...)...)
	if err != nil {
		return nil, err
	}
	c := &controller{Process: p}
	b.after(c.kill)
	err = await(ctx, startPatience, func() error {
		_, after, _ := strings.Cut(p.Output.String(), "Serving /livez")
		_, after, _ = strings.Cut(after, `address="`)
		address, _, ok := strings.Cut(after, `"`)
		if ok {
			c.address = address
			return nil
		}
		select {
		case <-p.Done():
			return errors.New("it has ended")
		default:
			return errors.New("it does not say where it serves")
		}
	})
	if err != nil {
		return nil, c.explain(fmt.Errorf("starting network-controller %s: %w", strings.Join(arguments, " "), err))
	}
	return c, nil
}

// start is launch, and waits until the controller is ready.
func (b *bench) start(ctx context.Context, s *site, kubeconfig string, flags ...string) (*controller, error) {
	c, err := b.launch(ctx, s, kubeconfig, flags...)
	if err != nil {
		return nil, err
	}
	return c, c.awaitReady(ctx)
}

// awaitReady waits until /readyz answers 200.
func (c *controller) awaitReady(ctx context.Context) error {
	err := await(ctx, startPatience, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("/readyz: %s: %s", answer.Status, strings.TrimSpace(string(text)))
		}
		return err
	})
	if err != nil {
		return c.explain(err)
	}
	return nil
}

// stop stops it as a Deployment does.
func (c *controller) stop(ctx context.Context) error {
	if c.ended {
		return nil
	}
	c.Signal(syscall.SIGTERM)
	select {
	case <-c.Done():
		c.ended = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(harness.Patience):
		return c.explain(fmt.Errorf("it still runs %s after SIGTERM", harness.Patience))
	}
}

// kill ends it as kill -9 does.
func (c *controller) kill() {
	if !c.ended {
		c.Signal(syscall.SIGKILL)
		<-c.Done()
		c.ended = true
	}
}

// explained is how many bytes of what a controller printed go with an error.
const explained = 4000

// explain adds the end of what the controller printed to an error.
func (c *controller) explain(err error) error {
	text := c.Output.String()
	if len(text) > explained {
		text = "..." + text[len(text)-explained:]
	}
	return fmt.Errorf("%w\nnetwork-controller printed:\n%s", err, text)
}

// profile takes a CPU profile from now on, where that is asked for, and gives what waits for its end. It goes to
// <name>.pprof in the folder of --cpu-profile; the last of one name stays.
func (b *bench) profile(ctx context.Context, c *controller, name string) (done func() error) {
	if b.profiles == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			address := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", c.address, b.profileSeconds)
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return fmt.Errorf("--cpu-profile: %w", err)
			}
			defer answer.Body.Close()
			content, err := io.ReadAll(answer.Body)
			if err == nil && answer.StatusCode != http.StatusOK {
				err = errors.New(answer.Status)
			}
			if err != nil {
				return fmt.Errorf("--cpu-profile: %s: %w", address, err)
			}
			return os.WriteFile(filepath.Join(b.profiles, name+".pprof"), content, 0o644)
		}()
	}()
	return func() error { return <-ended }
}
