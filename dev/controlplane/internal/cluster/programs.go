// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
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
	// podCIDR is the range of the addresses that kwok gives to Pods. Nothing routes them.
	podCIDR = "10.244.0.0/16"
	// nodeIP is the address of the fake Node, of RFC 5737's range for documentation: nobody answers there.
	nodeIP = "192.0.2.1"
	// frontProxyUser is the name in the certificate with which kube-apiserver speaks to aggregated API servers.
	frontProxyUser = "front-proxy-client"
	// fakeNodeSelector is the annotation by which kwok knows the Nodes it plays.
	fakeNodeSelector = "kwok.x-k8s.io/node=fake"
)

// program is how one component is started and how it is known to be ready.
type program struct {
	args []string
	// ready returns nil once the program serves. It looks once and is called again until it does.
	ready func(ctx context.Context) error
}

// ports says how many ports a component needs.
func ports(component assets.Component) int {
	if component == assets.Etcd {
		return 2
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
	case assets.Kwok:
		return c.kwok(ports[0])
	}
	panic("no program for component " + string(component))
}

func (c *Cluster) etcd(clientPort, peerPort int) program {
	client, peer := httpsURL(clientPort), httpsURL(peerPort)
	c.etcdURL = client
	return program{
		// Whoever reaches etcd passes by all of Kubernetes' authorization, and loopback is open to every user of the
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

func (c *Cluster) kwok(port int) program {
	address := net.JoinHostPort(loopback, strconv.Itoa(port))
	return program{
		args: []string{
			"--kubeconfig=" + c.path("kwok.kubeconfig"),
			"--config=" + filepath.Join(c.options.Assets, assets.StagesFile),
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=" + fakeNodeSelector,
			// The lease of a Node is renewed like a kubelet's, or the node lifecycle controller would take the
			// Node for lost. 40 s is the kubelet's own default (nodeLeaseDurationSeconds).
			"--node-lease-duration-seconds=40",
			"--cidr=" + podCIDR,
			"--node-ip=" + nodeIP,
			"--server-address=" + address,
		},
		ready: func(ctx context.Context) error {
			if err := c.api.healthy(ctx, "http://"+address+"/healthz"); err != nil {
				return err
			}
			return c.nodeReady(ctx)
		},
	}
}

func httpsURL(port int) string {
	return fmt.Sprintf("https://%s:%d", loopback, port)
}
