package why

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clusterOf has the given objects and a controller that runs.
func clusterOf(objects ...runtime.Object) *ask.Cluster {
	var kube, ours []runtime.Object
	kube = append(kube, lease(now.Add(-2*time.Second)))
	for _, o := range objects {
		_, row := kinds.OfAny(o)
		if _, class := o.(*cloudteamv1.NetworkClass); class || row {
			ours = append(ours, o)
		} else {
			kube = append(kube, o)
		}
	}
	return &ask.Cluster{Kubernetes: kubefake.NewClientset(kube...), Networks: fake.NewSimpleClientset(ours...)}
}

func lease(renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "network-controller"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), LeaseDurationSeconds: new(int32(15)),
			RenewTime: &metav1.MicroTime{Time: renewed}},
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name),
		CreationTimestamp: metav1.NewTime(now.Add(-10 * time.Minute))}
}

func condition(of string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: of, Status: status, Reason: reason, Message: "what the controller says",
		LastTransitionTime: metav1.NewTime(now.Add(-5 * time.Minute))}
}

// network is a Network with the reason, of a Ready that is True or not.
func network(status metav1.ConditionStatus, reason string, edits ...func(*cloudteamv1.Network)) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: named("frontend")}
	n.Status.Conditions = []metav1.Condition{condition("Ready", status, reason)}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func good() *cloudteamv1.Network { return network("True", "Available") }

// port is a NetworkPort on frontend with the reason.
func port(name string, status metav1.ConditionStatus, reason string, edits ...func(*cloudteamv1.NetworkPort),
) *cloudteamv1.NetworkPort {
	p := &cloudteamv1.NetworkPort{ObjectMeta: named(name)}
	p.Spec.NetworkName = "frontend"
	p.Status.Conditions = []metav1.Condition{condition("Ready", status, reason)}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// group is a SecurityGroup with a rule about each of other groups.
func group(name string, status metav1.ConditionStatus, reason string, about ...string) *cloudteamv1.SecurityGroup {
	g := &cloudteamv1.SecurityGroup{ObjectMeta: named(name)}
	for _, other := range about {
		g.Spec.Rules = append(g.Spec.Rules, cloudteamv1.SecurityGroupRule{RemoteGroup: other})
	}
	g.Status.Conditions = []metav1.Condition{condition("Ready", status, reason)}
	return g
}

// attached is a port of web-1 on node1 whose condition Attached has the reason.
func attached(status metav1.ConditionStatus, reason string) *cloudteamv1.NetworkPort {
	return port("web-a", "True", "Available", boundTo("web-1"), func(p *cloudteamv1.NetworkPort) {
		p.Status.Conditions = append(p.Status.Conditions, condition("Attached", status, reason))
		p.Status.Attachment = &cloudteamv1.PortAttachment{Node: "node1", Mode: "ovn"}
	})
}

func boundTo(pod string) func(*cloudteamv1.NetworkPort) {
	return func(p *cloudteamv1.NetworkPort) {
		p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: pod, UID: types.UID("uid-of-" + pod)}
	}
}

func ownedBy(kind, version, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID("uid-of-" + name),
		Controller: new(true)}}
}

// pod declares frontend. Its condition NetworksReady has the reason, if any.
func pod(reason string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: named("web-1")}
	p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "frontend"}
	p.Status.Phase = corev1.PodPending
	if reason != "" {
		status := corev1.ConditionFalse
		if reason == cloudteamv1.ReasonAllocated {
			status = corev1.ConditionTrue
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: cloudteamv1.ConditionNetworksReady, Status: status,
			Reason: reason, Message: "what the controller says"}}
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// runs makes a Pod one that has its ports and runs on node1.
func runs(p *corev1.Pod) {
	p.Annotations[cloudteamv1.AnnotationAllocations] =
		`[{"name":"shop/frontend","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:07","portID":"p","port":"web-a"}]`
	p.Spec.NodeName, p.Status.Phase = "node1", corev1.PodRunning
}

// starts makes a Pod one that has its ports and a node, and does not run.
func starts(p *corev1.Pod) { runs(p); p.Status.Phase = corev1.PodPending }

func deployment(reason string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: named("web")}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "frontend"}
	if reason != "" {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: cloudteamv1.ConditionNetworksReady,
			Status: corev1.ConditionFalse, Reason: reason, Message: `1 of 3 ports: NetworkPort "web-b"`}}
	}
	return d
}

func node(annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Annotations: annotations}}
}

func agent(ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "network-agent-1"},
		Spec:       corev1.PodSpec{NodeName: "node1"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func aClass(edits ...func(*cloudteamv1.NetworkClass)) *cloudteamv1.NetworkClass {
	c := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}}
	c.Spec.AllowedRanges = []string{"10.20.0.0/16"}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func withClass(name string) func(*cloudteamv1.Network) {
	return func(n *cloudteamv1.Network) { n.Spec.ClassName = name }
}

func withCloud(n *cloudteamv1.Network) {
	n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
}

func withCounts(n *cloudteamv1.Network) {
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{CIDR: "192.168.0.0/29", UsedAddresses: new(int64(5)),
		TotalAddresses: new(int64(5))}}
}

func withCondition(of, reason string) func(*cloudteamv1.Network) {
	return func(n *cloudteamv1.Network) {
		n.Status.Conditions = append(n.Status.Conditions, condition(of, "True", reason))
	}
}

// a test asks about one object.
type question struct {
	// reason is the Reason that the question is about.
	reason  string
	ask     string
	objects []runtime.Object
	// chain has the objects and reasons, from the symptom to the cause; empty if nothing is wrong.
	chain string
	// says is a part of what the last link says.
	says string
	// remedy is a part of the remedy, or of the summary if nothing is wrong.
	remedy string
	// warning is a part of a warning.
	warning string
}

func on(objects ...runtime.Object) []runtime.Object { return objects }

// caused is the question about the object and the reason that a chain begins with.
func caused(chain, remedy string, objects ...runtime.Object) question {
	words := strings.Fields(chain)
	return question{
		reason: words[2], ask: words[0] + " " + strings.TrimPrefix(words[1], "shop/"),
		objects: objects, chain: chain, remedy: remedy,
	}
}

// self are the reasons of which the Network, or the port, itself is the cause.
func self(reason, remedy string) []question {
	return []question{
		{reason: reason, ask: "Network frontend", objects: on(network("False", reason)),
			chain: "Network shop/frontend " + reason, remedy: remedy},
		{reason: reason, ask: "NetworkPort web-a", objects: on(good(), port("web-a", "False", reason)),
			chain: "NetworkPort shop/web-a " + reason, remedy: remedy},
		// A Pod that waits for such a Network, and a Deployment of which such a port fails.
		{reason: reason, ask: "Pod web-1", objects: on(network("False", reason), pod("PortsNotReady")),
			chain: "Pod shop/web-1 PortsNotReady > Network shop/frontend " + reason, remedy: remedy},
		{reason: reason, ask: "Deployment web", objects: on(good(), deployment("PortsFailed"), port("web-b", "False", reason,
			func(p *cloudteamv1.NetworkPort) { p.OwnerReferences = ownedBy("Deployment", "apps/v1", "web") })),
			chain: "Deployment shop/web PortsFailed > NetworkPort shop/web-b " + reason, remedy: remedy},
	}
}

// credentials are the reasons of which the credentials are the cause.
func credentials(reason, remedy string) []question {
	return append(self(reason, remedy),
		question{reason: reason, ask: "Network frontend", objects: on(network("False", reason, withCloud)),
			chain: "Network shop/frontend " + reason + " > Secret shop/openstack Credentials", remedy: remedy},
		question{reason: reason, ask: "NetworkPort web-a",
			objects: on(network("True", "Available", withCloud), port("web-a", "False", reason)),
			chain:   "NetworkPort shop/web-a " + reason + " > Secret shop/openstack Credentials", remedy: remedy})
}

func questions() (all []question) {
	add := func(more ...question) { all = append(all, more...) }
	add(question{reason: "Available", ask: "Network frontend", objects: on(good()), remedy: "the Network is Ready"})
	add(question{reason: "Available", ask: "NetworkPort web-a", objects: on(good(), port("web-a", "True", "Available")),
		remedy: "the port exists"})
	add(question{reason: "Observed", ask: "Network frontend", objects: on(network("True", "Observed")),
		remedy: "the Network is Ready"})
	for _, status := range []metav1.ConditionStatus{"True", "False"} {
		add(caused("Network shop/frontend DriftDetected", "Undo the change there", network(status, "DriftDetected")))
		add(caused("Network shop/frontend Paused", "", network(status, "Paused")))
	}
	// A Network that was Ready before its pause serves ports.
	add(question{reason: "Paused", ask: "NetworkPort web-a",
		objects: on(network("True", "Paused"), port("web-a", "True", "Available")), remedy: "the port exists"})
	// What others deleted in Neutron meanwhile comes back after the pause.
	add(question{reason: "Paused", ask: "NetworkPort web-a",
		objects: on(network("True", "Paused"), port("web-a", "False", "Conflict")),
		chain:   "NetworkPort shop/web-a Conflict > Network shop/frontend Paused"})
	for reason, remedy := range map[string]string{
		"ImportNotFound": "spec.import.id", "ImportAmbiguous": "", "ImportMismatch": "", "AlreadyOwned": "",
		"ProjectMismatch": "", "InvalidSpec": "", "Rejected": "",
		"Forbidden": "", "QuotaExceeded": "", "CloudUnavailable": "Neutron and Keystone",
		"RateLimited": "", "Pending": "", "IdentityDisputed": "", "Conflict": "Wait a minute",
		"Blocked": "", "OwnershipLost": "", "NotConverged": "",
		"MarkerNotKept":   "",
		"ReconcileFailed": "Read the message", "Planned": "",
	} {
		add(self(reason, remedy)...)
	}
	for reason, remedy := range map[string]string{
		"CredentialsRejected": "Correct the password", "CredentialsUnavailable": "",
		"CloudMismatch": "",
	} {
		add(credentials(reason, remedy)...)
	}

	// Classes.
	add(caused("Network shop/frontend ForbiddenByClass > NetworkClass team-b Class", "",
		network("False", "ForbiddenByClass", withClass("team-b")), aClass()))
	add(caused("Network shop/frontend ForbiddenByClass > NetworkClass team-b Class", "", // the default class
		network("False", "ForbiddenByClass"), aClass(func(c *cloudteamv1.NetworkClass) {
			c.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
		})))
	add(caused("Network shop/frontend ForbiddenByClass", "", // the built-in rules
		network("False", "ForbiddenByClass")))
	add(question{reason: "ForbiddenByClass", ask: "Network frontend", // of a Network that is kept
		objects: on(network("True", "Available", withCondition("ClassViolated", "ForbiddenByClass"))),
		remedy:  "the Network is Ready", warning: "ForbiddenByClass"})
	add(caused("NetworkPort shop/web-a ForbiddenByClass > NetworkClass team-b Class", "",
		network("True", "Available", withClass("team-b")), aClass(), port("web-a", "False", "ForbiddenByClass")))
	add(caused("NetworkPort shop/web-a ForbiddenByClass", "", // the built-in rules
		good(), port("web-a", "False", "ForbiddenByClass")))
	add(caused("Network shop/frontend ClassNotFound > NetworkClass gold NotFound", "Create it, or correct the name",
		network("False", "ClassNotFound", withClass("gold")), aClass()))
	add(caused("Network shop/frontend ClassNotFound", "", network("False", "ClassNotFound"), aClass()))
	add(caused("Network shop/frontend ClassLimitReached > NetworkClass team-b Class", "",
		network("False", "ClassLimitReached", withClass("team-b")), aClass()))
	add(caused("NetworkPort shop/web-a ClassLimitReached > NetworkClass team-b Class", "",
		network("True", "Available", withClass("team-b")), aClass(), port("web-a", "False", "ClassLimitReached")))

	// What is in use.
	deleted := func(n *cloudteamv1.Network) {
		n.DeletionTimestamp = new(metav1.NewTime(now))
		n.Finalizers = []string{"x"}
	}
	add(question{reason: "InUse", ask: "Network frontend",
		objects: on(network("False", "InUse", deleted), port("web-0", "True", "Available"),
			port("web-a", "True", "Available", boundTo("web-1"))),
		chain:  "Network shop/frontend InUse > NetworkPort shop/web-a Uses > Pod shop/web-1 Uses",
		remedy: "Delete it", warning: "1 more NetworkPorts"})
	add(caused("Network shop/frontend InUse", "", // others' ports, which the message names
		network("False", "InUse"), port("web-a", "True", "Available")))
	usedBy := func(what string) func(*cloudteamv1.Network) {
		return func(n *cloudteamv1.Network) {
			n.Status.Conditions[0].Message = "update router gateway: in use by " + what + ". Retrying with backoff."
		}
	}
	floats := func(id string) func(*cloudteamv1.NetworkPort) {
		return func(p *cloudteamv1.NetworkPort) {
			p.Status.PortID = "port-" + p.Name
			p.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{ID: id, Address: "203.0.113.20"}
		}
	}
	// The router's gateway, which a floating IP needs. Another external network has the same address.
	add(caused("Network shop/frontend InUse > NetworkPort shop/web-b HasFloatingIP", "Remove spec.floatingIP",
		network("False", "InUse", usedBy("floating IP 203.0.113.20 (5d0c)")),
		port("web-a", "True", "Available", floats("5d0")),
		port("web-b", "True", "Available", floats("5d0c"), boundTo("web-1"))))
	add(caused("Network shop/frontend InUse > NetworkPort shop/web-b HasFloatingIP",
		"Remove spec.floatingIP", // a port on another Network behind the router
		network("False", "InUse", usedBy("floating IP 203.0.113.20 (5d0c)")),
		port("web-b", "True", "Available", floats("5d0c"),
			func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkName = "backend" })))
	add(caused("Network shop/frontend InUse", "", // a server's port of the same name, and of a longer id
		network("False", "InUse", usedBy(`port port-web-a-2 "web-a" (compute:nova, device 9)`)),
		port("web-a", "True", "Available", floats("5d0c"))))
	add(caused("Network shop/frontend InUse > NetworkPort shop/web-a Uses > Pod shop/web-1 Uses",
		"Delete it", // a message of Neutron
		network("False", "InUse", usedBy("port port-web-a")),
		port("web-a", "True", "Available", floats("5d0c"), boundTo("web-1"))))
	add(caused("Network shop/frontend InUse", "", // "port" is a word in it
		network("False", "InUse", usedBy("a port of another object of this cluster")),
		port("port", "True", "Available", floats("5d0c"))))
	add(caused("NetworkPort shop/web-a InUse > Pod shop/web-1 Uses", "Delete it",
		good(), port("web-a", "False", "InUse", boundTo("web-1"))))

	// What ports wait for.
	add(caused("NetworkPort shop/web-a NetworkNotReady > Network shop/frontend QuotaExceeded", "",
		network("False", "QuotaExceeded"), port("web-a", "False", "NetworkNotReady")))
	add(caused("NetworkPort shop/web-a NetworkNotReady > Network shop/frontend NotFound", "Create it",
		port("web-a", "False", "NetworkNotReady")))
	add(caused("NetworkPort shop/web-a NetworkNotReady > Network shop/frontend Deleting", "end of the deletion",
		network("True", "Available", deleted), port("web-a", "False", "NetworkNotReady")))
	elsewhere := func(n *cloudteamv1.Network) { n.Namespace = "net"; n.Spec.AllowedNamespaces = []string{"team-a"} }
	there := func(p *cloudteamv1.NetworkPort) { p.Spec.NetworkNamespace = "net" }
	add(caused("NetworkPort shop/web-a NamespaceNotAllowed > Network net/frontend NotAllowed", "spec.allowedNamespaces",
		network("True", "Available", elsewhere), port("web-a", "False", "NamespaceNotAllowed", there)))
	add(caused("NetworkPort shop/web-a NamespaceNotAllowed > Network net/frontend NotFound", "Create it",
		port("web-a", "False", "NamespaceNotAllowed", there)))
	add(caused("Pod shop/web-1 NamespaceNotAllowed > Network net/frontend NotAllowed", "spec.allowedNamespaces",
		network("True", "Available", elsewhere), pod("NamespaceNotAllowed", func(p *corev1.Pod) {
			p.Annotations["k8s.v1.cni.cncf.io/networks"] = "net/frontend"
		})))
	add(caused("NetworkPort shop/web-a AddressesExhausted > Network shop/frontend Full", "Declare another subnet",
		network("True", "Available", withCounts), port("web-a", "False", "AddressesExhausted")))
	floating := func(p *cloudteamv1.NetworkPort) {
		p.Spec.FloatingIP, p.Status.PortID = &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}, "p0"
	}
	add(caused("NetworkPort shop/web-a AddressesExhausted > NetworkPort shop/web-a ExternalNetworkFull",
		"have addresses added to the external network",
		network("True", "Available", withCounts), port("web-a", "False", "AddressesExhausted", floating)))
	add(caused("Network shop/frontend AddressesExhausted", "", network("False", "AddressesExhausted")))
	add(question{reason: "AddressesLow", ask: "Network frontend",
		objects: on(network("True", "Available", withCounts, withCondition("AddressesLow", "AddressesLow"))),
		remedy:  "the Network is Ready", warning: "AddressesLow: what the controller says."})
	address := func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.7"} }
	holds := func(p *cloudteamv1.NetworkPort) {
		p.Status.Addresses, p.Status.MAC = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16"}}, "fa:16:3e:00:00:07"
	}
	add(caused("NetworkPort shop/web-a AddressInUse > NetworkPort shop/web-b HasAddress", "Delete this NetworkPort",
		good(), port("web-a", "False", "AddressInUse", address), port("web-b", "True", "Available", holds)))
	add(caused("NetworkPort shop/web-a AddressInUse > NetworkPort shop/web-b HasAddress > Pod shop/web-1 Uses", "Delete it",
		good(), port("web-b", "True", "Available", holds, boundTo("web-1")), port("web-a", "False", "AddressInUse",
			func(p *cloudteamv1.NetworkPort) { p.Spec.MAC = "FA:16:3E:00:00:07" })))
	add(caused("NetworkPort shop/web-a AddressInUse", "", // somebody else's port
		good(), port("web-a", "False", "AddressInUse", address)))
	add(caused("NetworkPort shop/web-a AddressInUse > NetworkPort shop/web-a FloatingIPTaken", "Remove that floating IP",
		good(), port("web-a", "False", "AddressInUse", floating)))
	routeless := func(p *cloudteamv1.NetworkPort) {
		floating(p)
		p.Status.Conditions[0].Message = "create floating IP: no router leads there (ExternalGatewayForFloatingIPNotFound)"
	}
	add(caused("NetworkPort shop/web-a Rejected > Network shop/frontend NoRouter", "Set spec.router.externalNetwork",
		good(), port("web-a", "False", "Rejected", routeless)))
	add(caused("NetworkPort shop/web-a Rejected", "", // something else than its router
		good(), port("web-a", "False", "Rejected", floating)))

	// Pods and Deployments.
	add(caused("Pod shop/web-1 InvalidNetworks", "", good(), pod("InvalidNetworks")))
	add(caused("Deployment shop/web InvalidNetworks", "", good(), deployment("InvalidNetworks")))
	add(caused("Deployment shop/web PortLimitReached", "", good(), deployment("PortLimitReached")))
	add(caused("Pod shop/web-1 NetworkNotFound > Network shop/frontend NotFound", "Create it", pod("NetworkNotFound")))
	add(caused("Deployment shop/web NetworkNotFound > Network shop/frontend NotFound", "Create it",
		deployment("NetworkNotFound")))
	replica := func(p *corev1.Pod) { p.OwnerReferences = ownedBy("ReplicaSet", "apps/v1", "web-rs") }
	set := &appsv1.ReplicaSet{ObjectMeta: named("web-rs")}
	set.OwnerReferences = ownedBy("Deployment", "apps/v1", "web")
	pooled := func(p *cloudteamv1.NetworkPort) { p.OwnerReferences = ownedBy("Deployment", "apps/v1", "web") }
	add(caused("Pod shop/web-1 PortsNotReady > Deployment shop/web PortsFailed > "+
		"NetworkPort shop/web-b AddressesExhausted > Network shop/frontend Full",
		"Declare another subnet", // its Deployment's port fails
		network("True", "Available", withCounts), pod("PortsNotReady", replica), set, deployment("PortsFailed"),
		port("web-a", "True", "Available", pooled), port("web-b", "False", "AddressesExhausted", pooled)))
	add(caused("Pod shop/web-1 PortsNotReady", "Wait: ports are being created", good(), pod("PortsNotReady")))
	add(caused("Deployment shop/web PortsNotReady > Network shop/frontend Forbidden", "",
		network("False", "Forbidden"), deployment("")))
	add(caused("Pod shop/web-1 PortsFailed > NetworkPort shop/web-1-frontend Rejected",
		"", // a port of its own
		good(), pod("PortsFailed"), port("web-1-frontend", "False", "Rejected",
			func(p *cloudteamv1.NetworkPort) { p.OwnerReferences = ownedBy("Pod", "v1", "web-1") })))
	add(caused("Deployment shop/web PortsFailed", "Correct what the message says", // the API server refuses the ports
		good(), deployment("PortsFailed")))
	add(caused("Pod shop/web-1 ReconcileFailed", "Read the message", good(), pod("ReconcileFailed")))
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	labelled := space.DeepCopy()
	labelled.Labels = map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled}
	add(caused("Pod shop/web-1 SchedulingGateMissing > Namespace shop NoLabel", "Label the namespace",
		good(), space, pod("SchedulingGateMissing", runs)))
	add(caused("Pod shop/web-1 SchedulingGateMissing > Namespace shop NoGate", "Replace the Pod",
		good(), labelled, pod("SchedulingGateMissing", runs)))
	for kind, version := range map[string]string{
		"StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "VirtualMachine": "kubevirt.io/v1",
	} {
		of := func(p *corev1.Pod) {
			p.OwnerReferences = ownedBy(strings.Replace(kind, "Machine", "MachineInstance", 1), version, "db")
		}
		add(caused(kind+" shop/db PortsNotReady > Pod shop/web-1 PortsNotReady > Network shop/frontend Forbidden",
			"", network("False", "Forbidden"), pod("PortsNotReady", of)))
		add(question{reason: "Allocated", ask: kind + " db", remedy: "each of its 1 Pods has its networks",
			objects: on(good(), pod("Allocated", of, runs), attached("True", "Plugged"))})
	}
	add(question{reason: noDataplane, ask: "Node node1", chain: "Node node1 NoDataplane", remedy: "Install the node agent",
		objects: on(node(nil))})
	add(question{reason: noDataplane, ask: "Node node1", remedy: "the node has a data plane",
		objects: on(node(map[string]string{cloudteamv1.AnnotationDataplane: "ovs"}))})
	add(question{reason: "Allocated", ask: "Pod web-1",
		objects: on(good(), pod("Allocated", runs), attached("True", "Plugged")),
		remedy:  "the Pod has its networks: 192.168.0.7/16 on shop/frontend"})

	// Security groups.
	waits := group("web", "False", "SecurityGroupNotReady", "web", "db")
	add(caused("SecurityGroup shop/web SecurityGroupNotReady > SecurityGroup shop/db NotFound",
		"Create it, or correct the name",
		waits))
	add(caused("SecurityGroup shop/web SecurityGroupNotReady > SecurityGroup shop/db QuotaExceeded", "",
		waits, group("db", "False", "QuotaExceeded", "web")))
	add(caused("SecurityGroup shop/web SecurityGroupNotReady", "", waits, group("db", "True", "Available")))
	inGroup := func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroupRefs = []string{"web"} }
	add(caused("NetworkPort shop/a SecurityGroupNotReady > SecurityGroup shop/web NotFound", "Create it",
		good(), port("a", "False", "SecurityGroupNotReady", inGroup)))
	add(caused("NetworkPort shop/a SecurityGroupNotReady > SecurityGroup shop/web QuotaExceeded", "",
		good(), port("a", "False", "SecurityGroupNotReady", inGroup), group("web", "False", "QuotaExceeded")))
	add(caused("NetworkPort shop/a SecurityGroupNotReady > SecurityGroup shop/db NotFound", "Create it",
		network("True", "Available", func(n *cloudteamv1.Network) { n.Spec.SecurityGroupRefs = []string{"db"} }),
		port("a", "False", "SecurityGroupNotReady"), group("web", "True", "Available")))
	add(caused("SecurityGroup shop/web Rejected", "", group("web", "False", "Rejected")))
	ofClass := func(name, reason string) *cloudteamv1.SecurityGroup {
		g := group("web", "False", reason)
		g.Spec.ClassName = name
		return g
	}
	add(question{reason: "ClassLimitReached", ask: "SecurityGroup web",
		objects: on(ofClass("team-b", "ClassLimitReached"), aClass(func(c *cloudteamv1.NetworkClass) {
			c.Spec.Limits = &cloudteamv1.ClassLimits{SecurityGroupsPerNamespace: new(int32(3))}
		})),
		chain: "SecurityGroup shop/web ClassLimitReached > NetworkClass team-b Class",
		says:  "At most 3 SecurityGroups in a namespace."})
	add(caused("SecurityGroup shop/web ClassNotFound > NetworkClass gold NotFound", "Create it, or correct the name",
		ofClass("gold", "ClassNotFound"), aClass()))
	add(caused("SecurityGroup shop/web ForbiddenByClass > NetworkClass team-b Class", "",
		ofClass("team-b", "ForbiddenByClass"), aClass()))
	ofSecret := group("web", "False", "CredentialsRejected")
	ofSecret.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"}
	add(caused("SecurityGroup shop/web CredentialsRejected > Secret shop/openstack Credentials", "Correct the password",
		ofSecret))
	exists := func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "p0" }
	given := func(n *cloudteamv1.Network) { n.Spec.SecurityGroupRefs = []string{"web"} }
	used := group("web", "False", "InUse")
	add(question{reason: "InUse", ask: "SecurityGroup web",
		objects: on(used, network("True", "Available", given), port("a", "True", "Available", inGroup), // not made yet
			port("b", "True", "Available", inGroup, exists)),
		chain: "SecurityGroup shop/web InUse > NetworkPort shop/b HasGroup", remedy: "Remove the group from spec"})
	add(caused("SecurityGroup shop/web InUse > Network shop/frontend HasGroup", "Remove the group from spec", // by its Network
		used, network("True", "Available", given), port("b", "True", "Available", exists)))
	add(caused("SecurityGroup shop/web InUse",
		"", // a port that has others, and one of another namespace's group
		used, network("True", "Available", given),
		port("a", "True", "Available", exists, func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroups = []string{"id"} }),
		port("b", "True", "Available", exists, inGroup, func(p *cloudteamv1.NetworkPort) { p.Namespace = "team" })))
	add(question{reason: "Available", ask: "SecurityGroup db", objects: on(group("db", "True", "Available")),
		remedy: "the SecurityGroup is Ready"})

	add(floatingIPQuestions()...)
	add(serviceQuestions()...)
	add(endpointsQuestions()...)
	add(classQuestions()...)

	// Packets.
	add(question{reason: "Plugged", ask: "NetworkPort web-a", objects: on(good(), attached("True", "Plugged")),
		remedy: "the port exists"})
	add(question{reason: "WaitingForPlug", ask: "Pod web-1",
		objects: on(good(), pod("Allocated", starts), attached("False", "WaitingForPlug")),
		chain:   "Pod shop/web-1 PortsFailed > NetworkPort shop/web-a WaitingForPlug > Node node1 NoAgent",
		remedy:  "Start the agent"})
	add(caused("NetworkPort shop/web-a WaitingForPlug", "containers start",
		good(), attached("False", "WaitingForPlug"), agent("True")))
	add(caused("NetworkPort shop/web-a BindingFailed > Node node1 DataplaneHost", "openstack network agent list",
		good(), attached("False", "BindingFailed"), node(map[string]string{
			cloudteamv1.AnnotationDataplaneHost: "compute-1"})))
	add(caused("NetworkPort shop/web-a PlugFailed", "ovn-controller", good(), attached("False", "PlugFailed"), agent("True")))
	add(caused("NetworkPort shop/web-a PlugFailed > Node node1 NoAgent", "Start the agent",
		good(), attached("False", "PlugFailed"), agent("False")))
	return all
}

func TestEachReasonHasItsCauseAndRemedy(t *testing.T) {
	asked := map[string]bool{}
	for i, q := range questions() {
		asked[q.reason] = true
		t.Run(fmt.Sprintf("%s/%d", q.reason, i), func(t *testing.T) { q.check(t, clusterOf(q.objects...)) })
	}
	for reason, where := range documentedReasons(t) {
		if !asked[reason] {
			t.Errorf("no question is about the Reason %s, which %s documents", reason, where)
		}
	}
}

// A kind without causes of its own needs no explanation of its own.
func TestAKindIsExplainedPlainly(t *testing.T) {
	own := explained[KindSecurityGroup]
	delete(explained, KindSecurityGroup)
	t.Cleanup(func() { explained[KindSecurityGroup] = own })
	asked := 0
	for _, q := range questions() {
		its := q.reason == cloudteamv1.ReasonSecurityGroupNotReady || q.reason == cloudteamv1.ReasonInUse
		if strings.HasPrefix(q.ask, "SecurityGroup ") && !its {
			q.check(t, clusterOf(q.objects...))
			asked++
		}
	}
	if asked < 6 {
		t.Errorf("there are %d questions about the causes that all kinds have", asked)
	}
}

func (q question) check(t *testing.T, c *ask.Cluster) Answer {
	t.Helper()
	kind, name, _ := strings.Cut(q.ask, " ")
	a, err := Explain(t.Context(), c, ask.New(kind, "shop", name), now)
	expect.NoError(t, err)
	expect.Equal(t, q.chain, chainOf(a), "the chain")
	expect.Contains(t, a.Cause().Message, q.says, "what the cause says")
	said := a.Remedy
	if a.Healthy {
		said = a.Summary
	}
	if !strings.Contains(said, q.remedy) || said == "" && a.Cause().Message == "" {
		t.Errorf("the remedy is %q, want one with %q, or a message that says it", said, q.remedy)
	}
	warnings := strings.Join(a.Warnings, "\n")
	if !strings.Contains(warnings, q.warning) || q.warning == "" && q.chain == "" && warnings != "" {
		t.Errorf("the warnings are %q, want %q", warnings, q.warning)
	}
	for _, command := range a.Commands {
		if strings.Contains(command, "{") && !strings.Contains(command, "jsonpath") || strings.Contains(command, "-n ''") {
			t.Errorf("a command is not filled in: %s", command)
		}
	}
	return a
}

func chainOf(a Answer) string {
	var links []string
	for _, l := range a.Chain {
		links = append(links, l.Object.String()+" "+l.Reason)
	}
	return strings.Join(links, " > ")
}

// documentedReasons are those of the API and those in the tables of the docs, and where they stand.
func documentedReasons(t *testing.T) map[string]string {
	root := "../../.."
	reasons := map[string]string{}
	files, err := filepath.Glob(root + "/pkg/apis/cloudteam/v1/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no API types:", err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		expect.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
				value := spec.Values[0].(*ast.BasicLit).Value
				reasons[strings.Trim(value, `"`)] = filepath.Base(file)
			}
			return true
		})
	}
	pages, err := filepath.Glob(root + "/docs/*.md")
	expect.NoError(t, err)
	for _, page := range pages {
		for _, reason := range reasonsIn(t, page) {
			reasons[reason] = filepath.Base(page)
		}
	}
	if len(reasons) < 40 || reasons["IdentityDisputed"] != "network.md" || reasons["PlugFailed"] != "dataplane.md" {
		t.Fatalf("the Reasons are not found any more: %v", reasons)
	}
	delete(reasons, "ErrResourceExists") // of the sample kind Foo
	return reasons
}

// TestThePageHasEachCauseWithoutAReason compares the words for causes that no condition says with their tables.
func TestThePageHasEachCauseWithoutAReason(t *testing.T) {
	var words []string
	for _, file := range []string{"advice.go", "floatingip.go", "securitygroup.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		expect.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				value, ok := spec.Values[0].(*ast.BasicLit)
				if word := regexp.MustCompile(`^"([A-Z][A-Za-z]+)"$`); ok && word.MatchString(value.Value) {
					words = append(words, strings.Trim(value.Value, `"`))
				}
			}
			return true
		})
	}
	slices.Sort(words)
	if len(words) < 20 {
		t.Fatalf("the words are not found any more: %q", words)
	}
	for page, heading := range map[string]string{"kubectl-network.md": "word", "zh/kubectl-network.md": "词"} {
		has := wordsIn(t, "../../../docs/"+page, heading)
		slices.Sort(has)
		expect.Equal(t, words, has, "docs/%s has other words (+) than why (-)", page)
	}
}

// reasonsIn are the words in the first column of the tables of a page whose first heading begins with "reason".
func reasonsIn(t *testing.T, page string) []string {
	if filepath.Base(page) == "foo.md" {
		return nil
	}
	return wordsIn(t, page, "reason")
}

// wordsIn are the words in the first column of the tables of a page whose first heading begins with a word.
func wordsIn(t *testing.T, page, heading string) (words []string) {
	t.Helper()
	file, err := os.Open(page)
	expect.NoError(t, err)
	defer file.Close()
	word := regexp.MustCompile("`([A-Z][A-Za-z]+)`")
	in := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		cells := strings.Split(lines.Text(), "|")
		switch {
		case len(cells) < 3:
			in = false
		case strings.HasPrefix(strings.TrimSpace(cells[1]), heading):
			in = true
		case in:
			for _, found := range word.FindAllStringSubmatch(cells[1], -1) {
				words = append(words, found[1])
			}
		}
	}
	return words
}

// gated gives a Pod the scheduling gates of this controller and of another one.
func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}, {Name: "example.com/theirs"}}
}

func TestCausesWithoutAReason(t *testing.T) {
	events := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: "FailedCreatePodSandBox",
		InvolvedObject: corev1.ObjectReference{UID: "uid-of-web-1"}, Message: "dial unix /run/network-agent/agent.sock: no"}
	unprepared := events.DeepCopy()
	unprepared.Message = "no NetworkPort of the Pod is prepared for node node1"
	unseen := good()
	unseen.Generation, unseen.Status.ObservedGeneration = 2, 1
	bare := good()
	bare.Status.Conditions = nil
	for name, q := range map[string]question{
		"a Pod that declares nothing": {ask: "Pod web-1", objects: on(pod("", func(p *corev1.Pod) { p.Annotations = nil })),
			remedy: "declares no networks"},
		"a Deployment that declares nothing": {ask: "Deployment web", objects: on(&appsv1.Deployment{ObjectMeta: named("web")}),
			remedy: "declares no networks"},
		"a Pod that has ended": {ask: "Pod web-1", objects: on(pod("", func(p *corev1.Pod) { p.Status.Phase = "Failed" })),
			remedy: "has ended"},
		"a Deployment that has its ports": {ask: "Deployment web", objects: on(good(), deployment(""), port("web-a", "True",
			"Available", func(p *cloudteamv1.NetworkPort) { p.OwnerReferences = ownedBy("Deployment", "apps/v1", "web") })),
			remedy: "all 1 ports"},
		"a Deployment that has its ports on a Network that is not as declared": {ask: "Deployment web", objects: on(
			network("False", "Rejected"), deployment(""), port("web-a", "True", "Available",
				func(p *cloudteamv1.NetworkPort) { p.OwnerReferences = ownedBy("Deployment", "apps/v1", "web") })),
			remedy: "all 1 ports"},
		"a Network that was just made": {ask: "Network frontend", objects: on(bare), chain: "Network shop/frontend NotSeen",
			remedy: "Wait some seconds"},
		"a change that was not seen": {ask: "Network frontend", objects: on(unseen), chain: "Network shop/frontend NotSeen",
			remedy: "Wait some seconds"},
		"a Pod that waits without a condition": {ask: "Pod web-1", objects: on(good(), pod("")),
			chain: "Pod shop/web-1 WaitsForPort", remedy: "Wait some seconds"},
		"a Pod without a gate that no controller has seen": {ask: "Pod web-1", objects: on(good(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, pod("", func(p *corev1.Pod) { p.Spec.NodeName = "node1" })),
			chain: "Pod shop/web-1 SchedulingGateMissing > Namespace shop NoLabel", remedy: "Label the namespace"},
		"a Pod that the scheduler holds": {ask: "Pod web-1", objects: on(good(), pod("Allocated", starts,
			func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "PodScheduled", Status: "False"})
			})), chain: "Pod shop/web-1 Unscheduled", remedy: "scheduler"},
		"a Pod that a scheduling gate of others holds": {ask: "Pod web-1", objects: on(good(), pod("Allocated", func(p *corev1.Pod) {
			starts(p)
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "example.com/theirs"}}
		})), chain: "Pod shop/web-1 SchedulingGated", remedy: "Have what set the gate take it off"},
		"a Pod that waits for its ports and for others": {ask: "Pod web-1", objects: on(good(), pod("", gated)),
			chain: "Pod shop/web-1 WaitsForPort", warning: "waits for scheduling gates of others: example.com/theirs."},
		"a node without an agent": {ask: "Pod web-1", objects: on(good(), pod("Allocated", starts), events),
			chain: "Pod shop/web-1 SandboxFailed > Node node1 NoAgent", remedy: "Start the agent"},
		"a node without a data plane": {ask: "Pod web-1", objects: on(good(), node(nil), pod("Allocated", starts), unprepared),
			chain: "Pod shop/web-1 SandboxFailed > Node node1 NoDataplane", remedy: "Install the node agent"},
		"a Pod that runs on a node without a data plane": {ask: "Pod web-1", objects: on(good(), node(nil),
			pod("Allocated", runs), port("web-a", "True", "Available", boundTo("web-1"))), remedy: "has its networks",
			warning: "no packets reach the Pod"},
		"containers that do not start": {ask: "Pod web-1", objects: on(good(), pod("Allocated", starts)),
			chain: "Pod shop/web-1 NotStarted", remedy: "containers"},
		"a Deployment of which a Pod waits": {ask: "Deployment web", objects: on(good(), deployment(""), pod("",
			func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })),
			chain: "Deployment shop/web PortsNotReady > Pod shop/web-1 WaitsForPort", remedy: "Wait some seconds"},
	} {
		t.Run(name, func(t *testing.T) { q.check(t, clusterOf(q.objects...)) })
	}
}

func TestASilentControllerIsTheCause(t *testing.T) {
	bare := good()
	bare.Status.Conditions = nil
	silent := func(c *ask.Cluster) *ask.Cluster {
		err := c.Kubernetes.(*kubefake.Clientset).Tracker().Update(
			schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
			lease(now.Add(-5*time.Minute)), "network-controller")
		expect.NoError(t, err)
		return c
	}
	question{ask: "Network frontend", chain: "Network shop/frontend NotSeen > Lease network-controller/network-controller " +
		"NoController", remedy: "Start the controller"}.check(t, silent(clusterOf(bare)))
	// What a Network says while no controller runs may be old.
	question{ask: "Network frontend", chain: "Network shop/frontend CloudUnavailable", remedy: "Neutron",
		warning: "may be old"}.check(t, silent(clusterOf(network("False", "CloudUnavailable"))))
	// A controller without election has no Lease. What it has written shows that there was one.
	c := clusterOf(network("False", "CloudUnavailable"))
	err := c.Kubernetes.(*kubefake.Clientset).Tracker().Delete(
		schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		"network-controller", "network-controller")
	expect.NoError(t, err)
	a := question{ask: "Network frontend", chain: "Network shop/frontend CloudUnavailable", remedy: "Neutron"}.check(t, c)
	expect.Empty(t, a.Warnings, "without a Lease, it warns")
}

func TestForbiddenReadsAreToldAndNotFatal(t *testing.T) {
	c := clusterOf(port("web-a", "False", "NetworkNotReady"), network("False", "Rejected"))
	forbidden := func(resource, name string) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, nil)
		}
	}
	c.Networks.(*fake.Clientset).PrependReactor("get", "networks", forbidden("networks", "frontend"))
	c.Kubernetes.(*kubefake.Clientset).PrependReactor("get", "leases", forbidden("leases", "network-controller"))
	a := question{ask: "NetworkPort web-a", chain: "NetworkPort shop/web-a NetworkNotReady", remedy: "Make the Network Ready"}.
		check(t, c)
	if len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "You may not read Network shop/frontend") {
		t.Errorf("the notes are %q, want one about the Network and none about the Lease", a.Notes)
	}
	_, err := Explain(t.Context(), c, ask.New(KindNetwork, "shop", "frontend"), now)
	expect.ErrorSays(t, err, "you may not read Network shop/frontend")
}

func TestAMissingObjectOrKindIsAnError(t *testing.T) {
	c := clusterOf()
	_, err := Explain(t.Context(), c, ask.New(KindNetwork, "shop", "frontend"), now)
	expect.ErrorSays(t, err, "does not exist")
	_, err = Explain(t.Context(), c, ask.New(KindJob, "shop", "db"), now)
	expect.ErrorSays(t, err, "has no Pods")
	c.Networks.(*fake.Clientset).PrependReactor("get", "networks",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "networks"},
				"frontend", "404 page not found", 0, true)
		})
	_, err = Explain(t.Context(), c, ask.New(KindNetwork, "shop", "frontend"), now)
	expect.ErrorSays(t, err, "install the CRDs")
}

func TestTheGateOfAConditionIsNamed(t *testing.T) {
	for _, gate := range client.Gates {
		// The other gates are known by the Reason: their condition says what the cloud said first.
		condition := metav1.Condition{Message: client.HeldBack(gate, "create network", "because").Error() + ". Retrying."}
		for reason, by := range gates {
			if by == gate {
				condition = metav1.Condition{Reason: reason}
			}
		}
		expect.Equal(t, string(gate), link(Object{}, condition).Gate, "the gate of %+v", condition)
	}
	if got := link(Object{}, metav1.Condition{Reason: "Created", Message: "not sent by anybody"}).Gate; got != "" {
		t.Errorf("gate %q of a condition that has none", got)
	}
}
