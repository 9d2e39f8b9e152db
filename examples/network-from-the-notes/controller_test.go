package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// web is the example: a Network of the team "a".
var web = cache.NewObjectName("a", "web")

// settling is longer than a resync, so that all has happened that will.
const settling = time.Minute

// world is the controller between an API server that is played and the emulated cloud, in virtual time.
type world struct {
	*controllertest.World[*cloudteamv1.Network]
	wire *wire
	// byHand changes the cloud as a person does.
	byHand *gophercloud.ServiceClient
	// neutron is the controller's client.
	neutron *gophercloud.ServiceClient
	// stop stops the controller, if it runs.
	stop func()
}

// inWorld runs a test in a bubble of virtual time, with the controller running.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		cloud := neutrontest.New(neutrontest.Options{NewID: func(string) string {
			made++ // the emulator lists by id: the oldest comes first
			return fmt.Sprintf("00000000-0000-4000-8000-%012d", made)
		}})
		w := &world{
			World: controllertest.NewWorld[*cloudteamv1.Network](t, web),
			wire:  &wire{Direct: clienttest.Direct{Handler: cloud}},
		}
		w.Resync = 30 * time.Second
		yaml := cloud.CloudsYAML("http://cloud.invalid")
		w.byHand = w.login(&wire{Direct: clienttest.Direct{Handler: cloud}}, yaml)
		w.neutron = w.login(w.wire, yaml)
		w.start()
		test(t, w)
		w.stop()
	})
}

// login logs in to the cloud as the controller does.
func (w *world) login(transport http.RoundTripper, yaml string) *gophercloud.ServiceClient {
	w.T.Helper()
	neutron, err := newNeutron(w.T.Context(), http.Client{Transport: transport},
		clouds.WithCloudName("tenant"), clouds.WithCloudsYAML(bytes.NewBufferString(yaml)))
	if err != nil {
		w.T.Fatal(err)
	}
	return neutron
}

// start starts the controller, and returns when its work is done.
func (w *world) start() {
	w.T.Helper()
	w.NewInformers()
	factory := w.Informers
	c, err := NewController(w.neutron, factory.Cloudteam().V1().Networks(), w.Events)
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(controllertest.Logged(w.T))
	factory.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, 2) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.T.Error(err)
		}
		factory.Shutdown()
		w.stop = func() {}
	}
	controllertest.Settle(settling)
}

// apply creates or changes a Network as its user does, and returns when all has happened that will.
func (w *world) apply(key cache.ObjectName, description string, gateway ...string) {
	w.T.Helper()
	change := func(n *cloudteamv1.Network) {
		n.Spec.CIDR, n.Spec.Description, n.Spec.Gateway = "10.0.0.0/24", description, strings.Join(gateway, "")
	}
	if _, exists := controllertest.Find[*cloudteamv1.Network](w.API, key); exists {
		controllertest.Edit(w.T, w.API, key, change)
	} else {
		network := &cloudteamv1.Network{}
		network.Namespace, network.Name = key.Namespace, key.Name
		change(network)
		w.Create(network)
	}
	controllertest.Settle(settling)
}

// remove deletes a Network as its user does, and returns when all has happened that will.
func (w *world) remove(key cache.ObjectName) {
	w.T.Helper()
	w.API.Delete(w.T, controllertest.Get[*cloudteamv1.Network](w.T, w.API, key))
	controllertest.Settle(settling)
}

// wantNeutron checks what Neutron has: for each network its name, its description and the gateway of its subnet.
func (w *world) wantNeutron(want ...string) {
	w.T.Helper()
	page, err := networks.List(w.byHand, nil).AllPages(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	all, err := networks.ExtractNetworks(page)
	if err != nil {
		w.T.Fatal(err)
	}
	var has []string
	for _, network := range all {
		line := network.Name + " " + network.Description
		for _, id := range network.Subnets {
			subnet, err := subnets.Get(w.T.Context(), w.byHand, id).Extract()
			if err != nil {
				w.T.Fatal(err)
			}
			line += " " + subnet.GatewayIP
		}
		has = append(has, line)
	}
	slices.Sort(has)
	if !slices.Equal(has, want) {
		w.T.Errorf("Neutron has the networks %q, want %q", has, want)
	}
}

// rename renames the only network of a name, as a person does.
func (w *world) rename(name, to string) {
	w.T.Helper()
	page, err := networks.List(w.byHand, networks.ListOpts{Name: name}).AllPages(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	named, err := networks.ExtractNetworks(page)
	if err != nil || len(named) != 1 {
		w.T.Fatalf("%d networks have the name %s: %v", len(named), name, err)
	}
	if err := networks.Update(w.T.Context(), w.byHand, named[0].ID, networks.UpdateOpts{Name: &to}).Err; err != nil {
		w.T.Fatal(err)
	}
	controllertest.Settle(settling)
}

// wire is the way from the controller to the cloud. It can lose the answer to one create of a network.
type wire struct {
	clienttest.Direct

	mu sync.Mutex
	// lose is what happens to the next create of a network, after which the connection is cut. Nil means that nothing
	// happens to it.
	lose func(carryOut func())
}

// Lose has the next create of a network lose its answer. Neutron carries it out when lose calls carryOut.
func (w *wire) Lose(lose func(carryOut func())) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = lose
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	lose := w.lose
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/networks") {
		w.lose = nil
	} else {
		lose = nil
	}
	w.mu.Unlock()
	if lose == nil {
		response, err := w.Direct.RoundTrip(r)
		if err == nil {
			response.Request = r // gophercloud reads a page's address there
		}
		return response, err
	}
	later := r.Clone(context.WithoutCancel(r.Context()))
	lose(func() {
		if response, err := w.Direct.RoundTrip(later); err == nil {
			response.Body.Close()
		}
	})
	return nil, errors.New("the connection was cut")
}

// atOnce has Neutron carry a request out before the connection is cut.
func atOnce(carryOut func()) { carryOut() }

// late has Neutron carry a request out a second after the connection is cut, as one that is busy does.
func late(carryOut func()) { time.AfterFunc(time.Second, carryOut) }

func TestANetworkIsCreatedUpdatedAndDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(web, "first")
		w.wantNeutron("web first 10.0.0.1")
		w.WantEvents("Normal Synced")
		w.apply(web, "second")
		w.wantNeutron("web second 10.0.0.1")
		w.apply(web, "second", "none")
		w.wantNeutron("web second ")
		w.remove(web)
		w.wantNeutron()
	})
}

func TestARestartChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(web, "ours")
		w.stop()
		w.start()
		w.wantNeutron("web ours 10.0.0.1")
	})
}

func TestAFailedSyncIsRetried(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.neutron.RetryFunc = nil
		w.wire.Lose(func(func()) {}) // Neutron does not get the request
		w.apply(web, "ours")
		w.wantNeutron("web ours 10.0.0.1")
	})
}

func TestFaultOneLostAnswerMakesTwoNetworks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.wire.Lose(atOnce)
		w.apply(web, "ours")
		w.wantNeutron("web ours", "web ours 10.0.0.1")
		w.remove(web)
		w.wantNeutron("web ours 10.0.0.1")
	})
}

// Without retryLost, the lookup by name finds what Neutron made before the controller looks, and nothing else.
func TestWithoutTheClientsRetryTheNameHelpsIfNeutronIsFast(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(carryOut func())
		want []string
	}{
		{"fast", atOnce, []string{"web ours 10.0.0.1"}},
		{"slow", late, []string{"web ours", "web ours 10.0.0.1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.neutron.RetryFunc = nil
				w.wire.Lose(test.lose)
				w.apply(web, "ours")
				w.wantNeutron(test.want...)
			})
		})
	}
}

func TestFaultANetworkRenamedByHandIsNeverRepaired(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(web, "ours")
		w.rename("web", "by-hand")
		w.wantNeutron("by-hand ours 10.0.0.1")
		w.apply(web, "changed")
		w.wantNeutron("by-hand ours 10.0.0.1", "web changed 10.0.0.1")
		w.remove(web)
		w.wantNeutron("by-hand ours 10.0.0.1")
	})
}

func TestFaultANetworkDeletedWhileTheControllerIsStoppedIsLeftBehind(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(web, "ours")
		w.stop()
		w.remove(web)
		w.start()
		w.wantNeutron("web ours 10.0.0.1")
	})
}

func TestFaultTheSameNameInAnotherNamespaceStealsTheNetwork(t *testing.T) {
	other := cache.NewObjectName("b", "web")
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(web, "of a")
		w.apply(other, "of b")
		w.wantNeutron("web of b 10.0.0.1")
		w.remove(other)
		w.wantNeutron()
		controllertest.Get[*cloudteamv1.Network](t, w.API, web)
	})
}
