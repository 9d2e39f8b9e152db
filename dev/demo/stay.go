//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	s.introduce()
	if s.real {
		n.warn("This is a real cloud. Each Network becomes a network in it, and each Pod on one gets a port.")
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	example, err := loadSample(s.root, s.dir)
	if err != nil {
		return err
	}
	pods, err := loadDeploymentSample(s.root)
	if err != nil {
		return err
	}
	s.teach(example, pods)

	n.step("The controller's log, until Ctrl-C", s.controller.Log)
	logged, logOver := context.WithCancel(context.WithoutCancel(ctx))
	defer logOver()
	followed := make(chan error, 1)
	go func() { followed <- follow(logged, s.controller.Log, n) }()
	<-ctx.Done()
	stopping()
	// The log is shown to its end: how the controller lets go is part of what it shows.
	s.warnOfNetworks(hurry)
	tidied = s.controller.Stop(hurry)
	if hurry.Err() != nil {
		tidied = nil // killing was what the second signal asked for
	}
	logOver()
	tidied = errors.Join(tidied, <-followed)
	return context.Cause(ctx)
}

// teach prints where everything is, and what to try.
func (s *surroundings) teach(example, pods sample) {
	s.n.step("Try it", "In another terminal, in this folder:")
	s.n.command(s.exportKube())
	s.n.command("kubectl apply -f " + example.path)
	s.n.command("kubectl get networks -o wide -w")
	s.n.command("kubectl get events -w")
	s.n.say("\nRun Pods on that network, each with its own port and address:")
	s.n.command("kubectl apply -f " + pods.path)
	s.n.command("kubectl get networkports -o wide -w")
	s.n.command("kubectl scale deployment " + pods.object.GetName() + " --replicas=1")
	s.n.say("\nShow Neutron, and change it by hand:")
	if !s.real {
		s.n.command(s.exportCloud())
	}
	s.n.command("openstack network list; openstack port list")
	if !s.real {
		s.n.say("or without the OpenStack client (the token only works for the emulator):")
		// The token is shown because it is worth nothing; that of a real cloud would not be.
		s.n.command("curl -s -H 'X-Auth-Token: " + s.cloud.token() + "' \\\n       " +
			s.cloud.client.ServiceURL("networks"))
	}
	s.n.command("openstack network set --name " + nameByHand + " " + example.object.GetName())
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
		s.n.warn("Cannot list what remains in %s (%v); check with openstack network list --long", s.cloudName, err)
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
	left := func(kind, id string, object metav1.Object) {
		if id != "" {
			lines = append(lines, fmt.Sprintf("$ openstack %s delete %s   # %s/%s",
				kind, id, object.GetNamespace(), object.GetName()))
		}
	}
	for _, port := range ports {
		left("port", port.Status.PortID, &port)
	}
	for _, network := range networks {
		left("network", network.Status.NetworkID, &network)
	}
	return lines
}

// follow copies a file to out, from its start, and then what is appended to it, until ctx is done and its end reached.
func follow(ctx context.Context, path string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		over := ctx.Err() != nil
		if _, err := io.Copy(out, file); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
