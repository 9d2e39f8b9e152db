//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/inside"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// stay runs the surroundings and the controller until a signal comes. It returns nil when that ended it.
func stay(ctx, hurry context.Context, o options, n *narrator) (err error) {
	n.title("network-controller with a Kubernetes control plane and a cloud; Ctrl-C stops it")
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s, err := newSurroundings(o, n, fail)
	if err != nil {
		n.bad(err)
		return err
	}
	log := &tap{}
	s.shown = log
	// It is told as soon as it begins, which is in the midst of the log where that has begun.
	stopping := sync.OnceFunc(func() { n.warn("\nStopping") })
	var tidied error
	defer func() {
		if errors.Is(err, errInterrupted) {
			err = nil
			stopping()
		}
		s.warnOfNetworks(hurry)
		if err = s.end(hurry, err, tidied); err == nil {
			n.title("Stopped all processes.")
		}
	}()

	n.step("Surroundings", standing)
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.awaitComplete(ctx); err != nil {
		return err
	}
	// It begins with the other's path: so the documents' pgrep -f with $KUBECONFIG finds the controller.
	s.fronted = s.kubeconfig + "-controller"
	front, err := inside.StartFront(s.kubeconfig, s.fronted)
	if err != nil {
		return err
	}
	defer front.Close()
	s.introduce()
	if s.real {
		n.warn("This is a real cloud. Each Network becomes a network in it, and each Pod on one gets a port.")
	}
	s.n.step("The controller", installing)
	if err := s.install(ctx); err != nil {
		return err
	}
	samples, err := loadSamples(s.root)
	if err != nil {
		return err
	}
	var starting sync.Mutex
	page := &inside.Server{
		Stream: func() string { return s.inspection.Load().(string) }, StreamToken: s.inspectToken,
		Actions: s.world(front, func(context.Context) error {
			starting.Lock()
			defer starting.Unlock()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.n.command("kill -9 $(pgrep network-controller)")
			s.controller.Kill()
			return s.startController(ctx)
		}).Actions(),
	}
	if err := page.Listen(); err != nil {
		return err
	}
	s.teach(samples)
	n.say("\nSee the controller from inside, with buttons that make things happen. Do not share the address:")
	n.say("  %s", page.URL())

	n.step("The controller's log, until Ctrl-C", s.controller.Log)
	log.open(n)
	serving, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	served := make(chan error, 1)
	go func() { served <- page.Serve(serving) }()
	<-ctx.Done()
	stopping()
	starting.Lock() // no controller is started any more
	defer starting.Unlock()
	// The log is shown to its end: how the controller lets go is part of what it shows.
	s.warnOfNetworks(hurry)
	tidied = s.controller.Stop(hurry)
	if hurry.Err() != nil {
		tidied = nil // killing was what the second signal asked for
	}
	over()
	tidied = errors.Join(tidied, <-served)
	return context.Cause(ctx)
}

// world is what the buttons of the page act on.
func (s *surroundings) world(front *inside.Front, restart func(context.Context) error) inside.World {
	w := inside.World{
		Kube: s.cluster.kube, Networks: s.cluster.networks, Namespace: metav1.NamespaceDefault, Restart: restart,
		Blind: front.Blind,
	}
	if !s.real {
		w.Lose = s.lose
		w.Break = func() { s.emulator.Signal(syscall.SIGUSR2) }
		w.Change = func(ctx context.Context, path string, body any) error {
			return s.cloud.call(ctx, http.MethodPut, path, body, nil)
		}
	}
	return w
}

// teach prints where everything is, and what to try.
func (s *surroundings) teach(samples map[string]sample) {
	s.n.step("Try it", "In another terminal, in this folder:")
	s.n.command(s.exportKube())
	s.n.command(s.exportCloud())
	s.n.command("export PATH=$PWD/bin:$PATH   # for kubectl network")
	s.n.command("kubectl apply -f " + samples["network"].path)
	s.n.command("kubectl get networks -o wide -w")
	s.n.command("kubectl get events -w")
	s.n.say("\nRun Pods on that network, each with its own port and address:")
	s.n.command("kubectl apply -f " + samples["deployment"].path)
	s.n.command("kubectl get networkports -o wide -w")
	s.n.command("kubectl scale deployment " + webName + " --replicas=1")
	s.n.say("\nShow Neutron, and change it by hand:")
	s.n.command(osc.Networks + "; " + osc.Ports)
	if !s.real {
		s.n.say("or without the OpenStack client (the token only works for the emulator):")
		// The token is shown because it is worth nothing; that of a real cloud would not be.
		s.n.command("curl -s -H 'X-Auth-Token: " + s.cloud.token() + "' \\\n       " +
			s.cloud.client.ServiceURL("networks"))
	}
	s.n.command(renameNetwork(networkName))
	s.n.say("\nMetrics: %s/metrics", s.health)
	s.n.say("Logs:\n  %s", strings.Join(s.logs(), "\n  "))
	if wd, err := os.Getwd(); err == nil && wd != s.root {
		s.n.say("Paths are below %s.", s.root)
	}
}

// warnOfNetworks names the Networks and ports that still exist in a real cloud. They are the user's: they stay in
// Neutron.
func (s *surroundings) warnOfNetworks(hurry context.Context) {
	if !s.real || s.cluster == nil || s.warned {
		return
	}
	s.warned = true
	ctx, cancel := context.WithTimeout(hurry, 5*time.Second)
	defer cancel()
	client := s.cluster.networks.CloudteamV1()
	networks, err := client.Networks("").List(ctx, metav1.ListOptions{})
	var ports *cloudteamv1.NetworkPortList
	if err == nil {
		ports, err = client.NetworkPorts("").List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		s.n.warn("Cannot list what remains in %s (%v); check with %s", s.cloudName, err, osc.LongNetworks)
		return
	}
	if lines := leftInCloud(networks.Items, ports.Items); len(lines) > 0 {
		how := "delete them with these commands, because nothing else will"
		if !s.temporary {
			how = fmt.Sprintf("start again with --dir=%s to continue, or delete them with these commands", s.dir)
		}
		s.n.warn("These networks, and the ports on them, stay in %s; %s:\n%s", s.cloudName, how, strings.Join(lines, "\n"))
	}
}

// leftInCloud gives the commands that remove from Neutron what the objects have there, in an order in which it lets
// them go.
func leftInCloud(networks []cloudteamv1.Network, ports []cloudteamv1.NetworkPort) []string {
	var lines []string
	left := func(command func(id string) string, id string, object metav1.Object) {
		if id != "" {
			lines = append(lines, fmt.Sprintf("$ %s   # %s/%s", command(id), object.GetNamespace(), object.GetName()))
		}
	}
	for _, port := range ports {
		left(osc.DeletePort, port.Status.PortID, &port)
	}
	for _, network := range networks {
		left(osc.DeleteNetwork, network.Status.NetworkID, &network)
	}
	return lines
}

// tap holds a log back until it is opened, and lets it flow from then on. It is safe for concurrent use.
type tap struct {
	mu   sync.Mutex
	held bytes.Buffer
	out  io.Writer
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out == nil {
		return t.held.Write(p)
	}
	// The controller must not die of a reader that goes away, which the narrator notes.
	_, _ = t.out.Write(p)
	return len(p), nil
}

func (t *tap) open(out io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = out
	_, _ = t.held.WriteTo(out) // the narrator notes an error
}
