package app

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTheLeaseIsRenewedWhileAllProcessorsCompute has more syncs compute than there are processors, more handlers beside
// them, and all of them make garbage, until the leader has renewed its Lease ten times. It does not lose it meanwhile.
func TestTheLeaseIsRenewedWhileAllProcessorsCompute(t *testing.T) {
	ctx, cancel := context.WithCancel(quietly(t))
	var over atomic.Bool
	defer over.Store(true) // also where the test fails
	var computing atomic.Int64
	compute := func() {
		computing.Add(1)
		for text := ""; !over.Load(); {
			if text += "x"; len(text) > 1<<16 {
				text = ""
			}
		}
	}
	loop := controller.NewLoop("test", func(context.Context, cache.ObjectName) (controller.Result, error) {
		compute()
		return controller.Result{}, nil
	})
	processors := runtime.GOMAXPROCS(0)
	for i := range 64 {
		loop.Enqueue(cache.NewObjectName(fmt.Sprint("team-", i), "net"))
	}
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx, processors) }()
	handler := loop.HandlerOf(func(metav1.Object) []cache.ObjectName {
		compute()
		return nil
	})
	for range 4 * processors {
		go handler.OnAdd(&cloudteamv1.Network{}, false)
	}

	config := newLeaderElection()
	config.RetryPeriod = 50 * time.Millisecond
	lease := &playedLease{}
	leader, err := newElectionOver(config, &seat{lease: lease, identity: "a"})
	expect.NoError(t, err)
	go leader.run(ctx)
	renewals := func() int {
		lease.mu.Lock()
		defer lease.mu.Unlock()
		return lease.version
	}
	eventually(t, func() error {
		if n := renewals(); n < 10 {
			return fmt.Errorf("it renewed its Lease %d times", n)
		}
		return nil
	})
	if least := int64(5 * processors); computing.Load() < least {
		t.Errorf("%d computed, want %d at least", computing.Load(), least)
	}
	if err := leader.permit(); err != nil {
		t.Errorf("it does not lead: %v", err)
	}
	over.Store(true)
	cancel()
	expect.NoError(t, <-ended)
	<-leader.over
}
