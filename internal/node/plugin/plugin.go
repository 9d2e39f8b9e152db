// Package plugin is the CNI plugin neutron-port: it makes a Pod's interface for a port in Neutron, and has the node's
// agent plug it. It keeps nothing and has no credentials.
//
// A tenant can write a NetworkAttachmentDefinition, and so the plugin's configuration. Nothing that matters to anybody
// else comes from there: the agent says which port, which addresses and which hardware address, from what the container
// runtime says about the Pod.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	cniv1 "github.com/containernetworking/cni/pkg/types/100"
	cniversion "github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/version"
)

const (
	// addLimit ends an ADD before the kubelet's own limit of two minutes does.
	addLimit = 90 * time.Second
	// askLimit is for the questions that the agent answers at once. An end of a Pod never waits longer.
	askLimit = 5 * time.Second
)

// Main runs the command in the environment, as the container runtime starts a plugin.
func Main() *cnitypes.Error {
	return skel.PluginMainFuncsWithError(skel.CNIFuncs{
		Add: add, Del: del, Check: check, GC: gc, Status: status,
	}, cniversion.PluginSupports("0.3.1", "0.4.0", "1.0.0", "1.1.0"), "neutron-port "+version.Version)
}

// config is the plugin's configuration. Fields that are not here are ignored, whatever they say.
type config struct {
	cnitypes.NetConf
	// Routes are routes through the interface, in the Pod. Those whose gateway the interface does not reach are left out.
	Routes []struct {
		Dst string `json:"dst"`
		GW  string `json:"gw"`
	} `json:"routes"`
	RuntimeConfig struct {
		// MAC chooses among the Pod's ports where it has several.
		MAC string `json:"mac"`
	} `json:"runtimeConfig"`
}

// podArgs is what the container runtime says in CNI_ARGS.
type podArgs struct {
	cnitypes.CommonArgs
	K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID cnitypes.UnmarshallableString
}

// requestOf is what the agent is asked, with the routes.
func requestOf(args *skel.CmdArgs) (agentapi.Request, *config, error) {
	conf := &config{}
	if err := json.Unmarshal(args.StdinData, conf); err != nil {
		return agentapi.Request{}, nil, agentapi.Errorf(agentapi.CodeInvalidConfig,
			"the configuration of neutron-port is no JSON of the expected form: %v; the interface %s cannot be attached; "+
				"correct the NetworkAttachmentDefinition, or use that of a Network, which the controller writes",
			err, args.IfName)
	}
	pod := podArgs{CommonArgs: cnitypes.CommonArgs{IgnoreUnknown: true}}
	if err := cnitypes.LoadArgs(args.Args, &pod); err != nil {
		return agentapi.Request{}, nil, agentapi.Errorf(agentapi.CodeInvalidEnvironment, "CNI_ARGS %q: %v", args.Args, err)
	}
	if pod.K8S_POD_UID == "" || pod.K8S_POD_NAMESPACE == "" {
		return agentapi.Request{}, nil, agentapi.Errorf(agentapi.CodeInvalidEnvironment,
			"CNI_ARGS has no K8S_POD_UID or no K8S_POD_NAMESPACE; the port of the Pod cannot be found; "+
				"use a container runtime that passes them, such as containerd or CRI-O")
	}
	return agentapi.Request{
		PodNamespace: string(pod.K8S_POD_NAMESPACE), PodName: string(pod.K8S_POD_NAME), PodUID: types.UID(pod.K8S_POD_UID),
		Sandbox: args.ContainerID, IfName: args.IfName, Netns: args.Netns, MAC: conf.RuntimeConfig.MAC,
	}, conf, nil
}

func add(args *skel.CmdArgs) error {
	result, version, err := attach(args)
	if err != nil {
		return asCNI(err)
	}
	return cnitypes.PrintResult(result, version)
}

// attach makes the interface and has it plugged. After an error nothing is left.
func attach(args *skel.CmdArgs) (_ *cniv1.Result, version string, err error) {
	request, conf, err := requestOf(args)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), addLimit)
	defer cancel()
	agent := agentapi.NewClient("")
	wanted, err := agent.Prepare(ctx, request)
	if err != nil {
		return nil, "", err
	}
	p, err := parse(wanted, conf)
	if err != nil {
		return nil, "", err
	}
	netns, err := ns.GetNS(args.Netns)
	if err != nil {
		return nil, "", fmt.Errorf("opening the network namespace %s: %w", args.Netns, err)
	}
	defer netns.Close()

	defer func() {
		if err != nil {
			err = errors.Join(err, detach(agent, request))
		}
	}()
	hostMAC, err := link.Create(link.Pair{
		Device: wanted.Device, Alias: wanted.Alias, IfName: args.IfName, MAC: p.mac, MTU: wanted.MTU,
		TxChecksumOff: wanted.TxChecksumOff,
	}, netns)
	if err != nil {
		return nil, "", err
	}
	request.PortID = wanted.PortID
	if err := agent.Plug(ctx, request); err != nil {
		return nil, "", err
	}
	if err := netns.Do(func(ns.NetNS) error { return link.Configure(args.IfName, p.addresses, p.routes) }); err != nil {
		return nil, "", err
	}

	result := &cniv1.Result{CNIVersion: cniv1.ImplementedSpecVersion, Interfaces: []*cniv1.Interface{
		{Name: wanted.Device, Mac: hostMAC.String(), Mtu: wanted.MTU},
		{Name: args.IfName, Mac: p.mac.String(), Mtu: wanted.MTU, Sandbox: args.Netns},
	}}
	for i, a := range p.addresses {
		result.IPs = append(result.IPs, &cniv1.IPConfig{
			Interface: new(1), Gateway: p.gateways[i].AsSlice(), Address: *netipx.PrefixIPNet(a),
		})
	}
	for _, r := range p.routes {
		result.Routes = append(result.Routes,
			&cnitypes.Route{GW: r.Gateway.AsSlice(), Dst: *netipx.PrefixIPNet(r.Destination)})
	}
	return result, conf.CNIVersion, nil
}

// parsed is what the agent said about an interface, and the configuration's routes.
type parsed struct {
	mac       net.HardwareAddr
	addresses []link.Address
	// gateways are those of the addresses; the zero value where there is none.
	gateways []netip.Addr
	// routes are those whose gateway the interface reaches.
	routes []link.Route
}

func parse(wanted *agentapi.Interface, conf *config) (*parsed, error) {
	p := &parsed{}
	var err error
	if p.mac, err = net.ParseMAC(wanted.MAC); err != nil {
		return nil, fmt.Errorf("the port %s has an unreadable hardware address: %w", wanted.PortID, err)
	}
	if len(wanted.Device) > 15 || wanted.MTU < 0 || wanted.MTU > 65535 {
		return nil, fmt.Errorf("the agent names an impossible interface %q with MTU %d", wanted.Device, wanted.MTU)
	}
	for _, a := range wanted.Addresses {
		address, err := netip.ParsePrefix(a.Address)
		if err != nil {
			return nil, fmt.Errorf("the port %s has an unreadable address: %w", wanted.PortID, err)
		}
		var gateway netip.Addr
		if a.Gateway != "" {
			if gateway, err = netip.ParseAddr(a.Gateway); err != nil {
				return nil, fmt.Errorf("the port %s has an unreadable gateway: %w", wanted.PortID, err)
			}
		}
		p.addresses, p.gateways = append(p.addresses, address), append(p.gateways, gateway)
	}
	for _, r := range conf.Routes {
		destination, err := netip.ParsePrefix(r.Dst)
		if err != nil {
			return nil, agentapi.Errorf(agentapi.CodeInvalidConfig,
				"route to %q: %v; write a range such as 10.0.0.0/8", r.Dst, err)
		}
		gateway, err := netip.ParseAddr(r.GW)
		if err != nil || gateway.Is4() != destination.Addr().Is4() || gateway.Zone() != "" {
			return nil, agentapi.Errorf(agentapi.CodeInvalidConfig,
				"route to %s: the gateway %q is no address of the same family; write one of the port's subnet", r.Dst, r.GW)
		}
		if onLink(gateway, p.addresses) {
			p.routes = append(p.routes, link.Route{Destination: destination.Masked(), Gateway: gateway})
		}
	}
	return p, nil
}

// onLink reports whether an interface with these addresses reaches a gateway without another router. The configuration
// has the routes of all subnets of a Network, and a port is in one of each IP family. The kernel refuses a route by a
// gateway elsewhere, and in IPv6 one by the interface's own address: such a route must not keep the Pod from starting.
func onLink(gateway netip.Addr, addresses []link.Address) bool {
	found := false
	for _, a := range addresses {
		if a.Addr() == gateway {
			return false
		}
		// An interface with an IPv6 address has a link-local one, too.
		found = found || a.Contains(gateway) || a.Addr().Is6() && gateway.Is6() && gateway.IsLinkLocalUnicast()
	}
	return found
}

// detach removes an interface of a sandbox: first the interface, so that the agent does not plug it again.
func detach(agent *agentapi.Client, request agentapi.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	return errors.Join(link.DeleteMarked(request.Sandbox, request.IfName), agent.Unplug(ctx, agentapi.Request{
		Sandbox: request.Sandbox, IfName: request.IfName,
	}))
}

// del never fails: the end of a Pod must not wait for the agent, which collects later what is left here. It goes by the
// marks of this very sandbox, so that a late DEL of an older one harms nothing.
func del(args *skel.CmdArgs) error {
	err := detach(agentapi.NewClient(""), agentapi.Request{Sandbox: args.ContainerID, IfName: args.IfName})
	if err != nil {
		fmt.Fprintf(os.Stderr, "neutron-port: DEL of %s in sandbox %s: %v; the agent removes the rest later\n",
			args.IfName, args.ContainerID, err)
	}
	return nil
}

func check(args *skel.CmdArgs) error {
	request, conf, err := requestOf(args)
	if err != nil {
		return asCNI(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	wanted, err := agentapi.NewClient("").Check(ctx, request)
	if err != nil {
		return asCNI(err)
	}
	p, err := parse(wanted, conf)
	if err != nil {
		return asCNI(err)
	}
	return asCNI(ns.WithNetNSPath(args.Netns, func(ns.NetNS) error { return link.Check(args.IfName, p.mac, p.addresses) }))
}

// status says whether the next ADD can succeed.
func status(*skel.CmdArgs) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	if _, err := agentapi.NewClient("").Status(ctx); err != nil {
		return cnitypes.NewError(agentapi.CodeNotAvailable, err.Error(), "")
	}
	return nil
}

// gc has the agent collect what no Pod has. The agent goes by what it sees, and not by the runtime's list of valid
// attachments: that list is for one network by its name, which Networks of several namespaces share.
func gc(*skel.CmdArgs) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	return asCNI(agentapi.NewClient("").GC(ctx))
}

// asCNI makes an error one of CNI.
func asCNI(err error) error {
	if err == nil {
		return nil
	}
	code := agentapi.CodeInternal
	if refusal := (*agentapi.Error)(nil); errors.As(err, &refusal) {
		code = refusal.Code
	}
	return cnitypes.NewError(code, err.Error(), "")
}
