package agent

import (
	"context"
	"errors"
	"sync"

	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
)

// killed is a switch whose agent dies right after a number of writes.
type killed struct {
	vswitch

	// mu guards the following.
	mu sync.Mutex
	// kill waits for the agent's end, so it is called by a goroutine of its own.
	kill func()
	left int
}

// survives reports whether the agent has made fewer writes than it may make.
func (k *killed) survives() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.left > 0
}

var errKilled = errors.New("the agent was killed")

// write lets a write happen, and kills the agent after the last one that it may do.
func (k *killed) write(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left <= 0 {
		return errKilled
	}
	err := do()
	if k.left--; k.left == 0 {
		go k.kill()
		return errKilled
	}
	return err
}

func (k *killed) Put(ctx context.Context, w ovs.Wanted, remove ...ovs.Port) error {
	return k.write(func() error { return k.vswitch.Put(ctx, w, remove...) })
}

func (k *killed) Remove(ctx context.Context, ports ...ovs.Port) error {
	if len(ports) == 0 {
		return nil
	}
	return k.write(func() error { return k.vswitch.Remove(ctx, ports...) })
}
