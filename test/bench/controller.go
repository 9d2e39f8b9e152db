package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// startPatience is how long a controller may take to be ready. It lists everything first.
const startPatience = 15 * time.Minute

// controller is a process of network-controller.
type controller struct{ *harness.Process }

// alone are the flags of a controller without others to take turns with.
var alone = []string{"--leader-elect=false"}

// launch starts a controller. It is killed with the group.
func (b *bench) launch(s *site, kubeconfig string, flags ...string) (*controller, error) {
	arguments := append([]string{
		"--kubeconfig", kubeconfig, "--cloud", cloudName, "--bind-address", "127.0.0.1:0",
	}, flags...)
	p, err := b.Launch(append(b.environment, "OS_CLIENT_CONFIG_FILE="+s.cloudsFile), append(arguments, b.flags...)...)
	if err != nil {
		return nil, err
	}
	b.after(p.Process.Kill)
	return &controller{p}, nil
}

// start is launch, and waits until /readyz answers 200.
func (b *bench) start(ctx context.Context, s *site, kubeconfig string, flags ...string) (*controller, error) {
	c, err := b.launch(s, kubeconfig, flags...)
	if err != nil {
		return nil, err
	}
	return c, c.await(ctx, startPatience, func() error {
		status, body, err := c.Get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = errors.New(body)
		}
		return err
	})
}

// await is await while the process runs. An error has the end of what it printed.
func (c *controller) await(ctx context.Context, patience time.Duration, check func() error) error {
	return c.explain(await(ctx, patience, func() error {
		if c.Ended() {
			return errors.New("the process has ended")
		}
		return check()
	}))
}

// stop stops it as a Deployment does.
func (c *controller) stop(ctx context.Context) error {
	c.Signal(syscall.SIGTERM)
	return c.explain(await(ctx, harness.Patience, func() error {
		if !c.Ended() {
			return errors.New("it still runs after SIGTERM")
		}
		return nil
	}))
}

// explained is how many bytes of what a controller printed go with an error.
const explained = 4000

// explain adds the end of what the controller printed to an error. Nil stays nil.
func (c *controller) explain(err error) error {
	if err == nil {
		return nil
	}
	text := c.Output.String()
	if len(text) > explained {
		text = "..." + text[len(text)-explained:]
	}
	return fmt.Errorf("%w\nnetwork-controller printed:\n%s", err, text)
}
