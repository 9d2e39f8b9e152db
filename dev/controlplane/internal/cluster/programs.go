// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
)

const (
	// loopback is the only address that anything listens on.
	loopback = "127.0.0.1"
	// serviceCIDR is the range of the cluster IPs of Services; serviceIP is its first address, which the API server
	// takes for the Service "kubernetes". Nothing routes them.
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	// nodeIP is the address of the Node, of RFC 5737's range for documentation: nobody answers there.
	nodeIP = "192.0.2.1"
	// frontProxyUser is the name in the certificate with which kube-apiserver speaks to aggregated API servers.
	frontProxyUser = "front-proxy-client"
)

// podRange has the addresses that Pods get. Nothing routes them.
var podRange = netip.MustParsePrefix("10.244.0.0/16")

// program is how one component is started and how it is known to be ready.
type program struct {
	args []string
	// ready returns nil once the program serves. It looks once and is called again until it does.
	ready func(ctx context.Context) error
}

// ports says how many ports a component needs.
func ports(component assets.Component) int {
	switch component {
	case assets.Etcd:
		return 2
	case assets.Node:
		return 0
	}
	return 1
}

// program returns how the component is started on the ports.
func (c *Cluster) program(component assets.Component, ports []int) program {
	switch component {
	case assets.Etcd:
		return c.etcd(ports[0], ports[1])
	case assets.KubeAPIServer:
		return c.kubeAPIServer(ports[0])
	case assets.KubeControllerManager:
		return c.kubeControllerManager(ports[0])
	case assets.KubeScheduler:
		return c.kubeScheduler(ports[0])
	}
	panic("no program for component " + string(component))
}

func (c *Cluster) etcd(clientPort, peerPort int) program {
	client, peer := httpsURL(clientPort), httpsURL(peerPort)
	c.etcdURL = client
	return program{
		// Anyone who reaches etcd passes by all of Kubernetes' authorization, and loopback is open to every user of the
		// machine: so its clients and peers have to show a certificate.
		args: []string{
			"--name=controlplane",
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=controlplane=" + peer,
			"--cert-file=" + c.pki("etcd.crt"),
			"--key-file=" + c.pki("etcd.key"),
			"--trusted-ca-file=" + c.pki("ca.crt"),
			"--client-cert-auth",
			"--peer-cert-file=" + c.pki("etcd.crt"),
			"--peer-key-file=" + c.pki("etcd.key"),
			"--peer-trusted-ca-file=" + c.pki("ca.crt"),
			"--peer-client-cert-auth",
			// Development data is not worth a disk flush per write; a crash of the machine may lose it.
			"--unsafe-no-fsync",
			// A test fills it with the largest objects that Kubernetes admits, and their history stays for minutes.
			"--quota-backend-bytes=8589934592",
			"--log-level=warn",
		},
		ready: func(ctx context.Context) error { return c.api.healthy(ctx, client+"/health") },
	}
}

func (c *Cluster) kubeAPIServer(port int) program {
	c.url = httpsURL(port)
	args := []string{
		"--etcd-servers=" + c.etcdURL,
		"--etcd-cafile=" + c.pki("ca.crt"),
		"--etcd-certfile=" + c.pki("etcd.crt"),
		"--etcd-keyfile=" + c.pki("etcd.key"),
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		// Without these the server looks for an address of the machine that is not loopback, to publish it as the
		// endpoint of the Service "kubernetes", and does not start where there is none.
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + c.pki("kube-apiserver.key"),
		"--client-ca-file=" + c.pki("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.pki("sa.key"),
		"--service-account-key-file=" + c.pki("sa.key"),
		"--allow-privileged",
		// The aggregation of APIs. kube-controller-manager and kube-scheduler log an error without end where it is
		// not configured.
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy.key"),
	}
	if !c.has(assets.KubeControllerManager) {
		// Nobody would make the service account "default" of a namespace, and this plugin refuses every Pod
		// without it.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return program{
		args:  append(args, c.options.APIServerArgs...),
		ready: func(ctx context.Context) error { return c.api.healthy(ctx, c.url+"/readyz") },
	}
}

func (c *Cluster) kubeControllerManager(port int) program {
	return program{
		args: append(c.servingArgs("kube-controller-manager", port),
			"--service-account-private-key-file="+c.pki("sa.key"),
			"--root-ca-file="+c.pki("ca.crt"),
			// Each controller with its own rights, as in a real cluster.
			"--use-service-account-credentials",
			// The default is a system directory that the volume controllers would make.
			"--flex-volume-plugin-dir="+c.path("flexvolume"),
		),
		ready: func(ctx context.Context) error {
			if err := c.api.healthy(ctx, httpsURL(port)+"/healthz"); err != nil {
				return err
			}
			// Until this exists, a Pod in the namespace is refused.
			return c.api.get(ctx, c.url+"/api/v1/namespaces/default/serviceaccounts/default", nil)
		},
	}
}

func (c *Cluster) kubeScheduler(port int) program {
	return program{
		args:  c.servingArgs("kube-scheduler", port),
		ready: func(ctx context.Context) error { return c.api.healthy(ctx, httpsURL(port)+"/readyz") },
	}
}

// servingArgs are what kube-controller-manager and kube-scheduler have in common.
func (c *Cluster) servingArgs(name string, port int) []string {
	kubeconfig := c.path(name + ".kubeconfig")
	return []string{
		"--leader-elect=false",
		"--kubeconfig=" + kubeconfig,
		// The defaults spare a server that many use. kube-controller-manager takes 5 s to start with its 20 requests a
		// second, which is when it makes a service account and a token for each of its controllers.
		"--kube-api-qps=1000",
		"--kube-api-burst=1000",
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.pki("serving.crt"),
		"--tls-private-key-file=" + c.pki("serving.key"),
	}
}

func httpsURL(port int) string {
	return fmt.Sprintf("https://%s:%d", loopback, port)
}
