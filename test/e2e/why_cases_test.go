package e2e

import (
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// What the questions are about, and how chains begin.
const (
	theNetwork    = "Network NET"
	ofTheNetwork  = "Network NS/NET "
	thePort       = "NetworkPort port"
	ofThePort     = "NetworkPort NS/port "
	theAddress    = "FloatingIP public"
	ofTheAddress  = "FloatingIP NS/public "
	theDeployment = "Deployment web"
	ofDeployment  = "Deployment NS/web "
)

// reasonCases are the cases of TestWhyNamesTheCauseOfEachReason, by Reason.
func reasonCases() map[string]reasonCase {
	all := networkCases()
	for _, more := range []map[string]reasonCase{importCases(), cloudCases(), classCases(), portCases(), workloadCases()} {
		maps.Copy(all, more)
	}
	return all
}

func networkCases() map[string]reasonCase {
	return map[string]reasonCase{
		cloudteamv1.ReasonAvailable: {func(w *trouble) { w.ready() }, theNetwork, "", "the Network is Ready (Available)"},
		cloudteamv1.ReasonDriftDetected: {func(w *trouble) {
			w.ready(func(s *cloudteamv1.NetworkSpec) { s.DriftPolicy = cloudteamv1.DriftPolicyReport })
			w.tenant.Update("subnets", get(w.T, w.ns, w.net).Status.Subnets[0].ID,
				resource{"dns_nameservers": []string{"192.168.0.53"}})
		}, theNetwork, ofTheNetwork + "DriftDetected", "Undo the change there"},
		cloudteamv1.ReasonPaused: {func(w *trouble) {
			w.ready()
			annotate(w.T, w.ns, w.net, cloudteamv1.AnnotationPaused, `"true"`)
		}, theNetwork, ofTheNetwork + "Paused", "until the annotation is removed"},
		cloudteamv1.ReasonRejected: {func(w *trouble) {
			w.network(func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(9000)) })
		}, theNetwork, ofTheNetwork + "Rejected", "Change the spec"},
		cloudteamv1.ReasonForbidden: {func(w *trouble) {
			w.network(func(s *cloudteamv1.NetworkSpec) { s.Shared = new(true) })
		}, theNetwork, ofTheNetwork + "Forbidden", "Leave that out of the spec"},
		cloudteamv1.ReasonInUse: {func(w *trouble) {
			w.ready()
			applyPort(w.T, w.ns, "port", on(w.net))
			awaitPortReady(w.T, w.ns, "port")
			harness.Delete(w.T, networks.CloudteamV1().Networks(w.ns), w.net)
		}, theNetwork, ofTheNetwork + "InUse > NetworkPort NS/port Uses", "Delete it"},
		cloudteamv1.ReasonBlocked: {func(w *trouble) {
			id := w.ready()
			w.tenant.Create("subnets", resource{"network_id": id, "ip_version": 4, "cidr": "10.44.0.0/24"})
			edit(w.T, w.ns, w.net, `{"additionalSubnets":[{"cidr":"10.44.0.0/16"}]}`)
		}, theNetwork, ofTheNetwork + "Blocked", "Delete the subnet, or append the marker"},
		cloudteamv1.ReasonOwnershipLost: {func(w *trouble) {
			w.tenant.Update("networks", w.ready(), resource{"description": "mine"})
		}, theNetwork, ofTheNetwork + "OwnershipLost", "End its description with"},
		cloudteamv1.ReasonAddressesLow: {func(w *trouble) {
			w.ready(oneAddress)
			applyPort(w.T, w.ns, "port", on(w.net))
		}, theNetwork, "", "AddressesLow: "},
		cloudteamv1.ReasonSecurityGroupNotReady: {func(w *trouble) {
			applyGroup(w.T, w.ns, "web", cloudteamv1.SecurityGroupRule{Direction: "ingress", RemoteGroup: "db"})
		}, "SecurityGroup web", "SecurityGroup NS/web SecurityGroupNotReady > SecurityGroup NS/db NotFound", "Create it"},
		cloudteamv1.ReasonPortNotReady: {func(w *trouble) {
			w.Cleanup(w.leave)
			w.address(theOutside)
		}, theAddress, ofTheAddress + "PortNotReady > NetworkPort NS/port NotFound", "Create it"},
	}
}

func importCases() map[string]reasonCase {
	return map[string]reasonCase{
		cloudteamv1.ReasonObserved: {func(w *trouble) {
			id, _ := handMade(w.T, w.tenant, w.net+"-by-hand", nil)
			w.network(imports(id), func(s *cloudteamv1.NetworkSpec) {
				s.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
			})
		}, theNetwork, "", "the Network is Ready (Observed)"},
		cloudteamv1.ReasonImportNotFound: {func(w *trouble) {
			w.network(imports("b0b5a1f0-3c2d-4e5f-8a9b-0c1d2e3f4a5b"))
		}, theNetwork, ofTheNetwork + "ImportNotFound", "spec.import.id"},
		cloudteamv1.ReasonImportAmbiguous: {func(w *trouble) {
			for range 2 {
				handMade(w.T, w.tenant, w.net+"-by-hand", nil)
			}
			w.network(func(s *cloudteamv1.NetworkSpec) {
				s.Import = &cloudteamv1.NetworkImport{Filter: &cloudteamv1.NetworkImportFilter{Name: w.net + "-by-hand"}}
			})
		}, theNetwork, ofTheNetwork + "ImportAmbiguous", "2 networks in their project have the name"},
		cloudteamv1.ReasonImportMismatch: {func(w *trouble) {
			id, subnet := handMade(w.T, w.tenant, w.net+"-by-hand", nil)
			w.tenant.Update("subnets", subnet, resource{"dns_nameservers": []string{"192.168.0.53"}})
			w.network(imports(id))
		}, theNetwork, ofTheNetwork + "ImportMismatch", "set import.overwrite to true"},
		cloudteamv1.ReasonAlreadyOwned: {func(w *trouble) {
			id := w.ready()
			spec := example()
			imports(id)(&spec)
			apply(w.T, w.ns, "second", spec)
		}, "Network second", "Network NS/second AlreadyOwned > Network NS/NET Owns", "deletionPolicy Retain"},
		cloudteamv1.ReasonProjectMismatch: {func(w *trouble) {
			id, _ := handMade(w.T, w.admin, w.net+"-shared", resource{"shared": true})
			w.network(imports(id))
		}, theNetwork, ofTheNetwork + "ProjectMismatch", "Name credentials for the former"},
	}
}

func cloudCases() map[string]reasonCase {
	secret := " > Secret NS/" + secretName + " Credentials"
	return map[string]reasonCase{
		cloudteamv1.ReasonQuotaExceeded: {func(w *trouble) { w.at("poor") },
			theNetwork, ofTheNetwork + "QuotaExceeded", "Raise the project's quota"},
		cloudteamv1.ReasonCloudUnavailable: {func(w *trouble) { w.at("down") },
			theNetwork, ofTheNetwork + "CloudUnavailable", "look at Neutron"},
		cloudteamv1.ReasonRateLimited: {func(w *trouble) { w.at("throttled") },
			theNetwork, ofTheNetwork + "RateLimited", "Retrying when the cloud allows it"},
		cloudteamv1.ReasonIdentityDisputed: {func(w *trouble) {
			w.at("disputed")
			awaitReady(w.T, w.ns, w.net)
			// New networks are made all the same, and what was made is not changed once the other leader was heard.
			said := 0
			eventually(w.T, func() error {
				said++
				edit(w.T, w.ns, w.net, fmt.Sprintf(`{"description":"%d"}`, said))
				ready := meta.FindStatusCondition(get(w.T, w.ns, w.net).Status.Conditions, cloudteamv1.ConditionReady)
				if ready.Reason != cloudteamv1.ReasonIdentityDisputed {
					return errors.New("the other leader was not heard yet")
				}
				return nil
			})
		}, theNetwork, ofTheNetwork + "IdentityDisputed", "stop the controller of one of the two clusters"},
		cloudteamv1.ReasonNotConverged: {func(w *trouble) {
			w.at("stubborn")
			awaitReady(w.T, w.ns, w.net)
			edit(w.T, w.ns, w.net, `{"description":"new"}`)
		}, theNetwork, ofTheNetwork + "NotConverged", "find who sets it back"},
		cloudteamv1.ReasonMarkerNotKept: {func(w *trouble) { w.at("forgetful") },
			theNetwork, ofTheNetwork + "MarkerNotKept", "Have the cloud store descriptions"},
		cloudteamv1.ReasonConflict: {func(w *trouble) {
			w.at("raced")
			awaitReady(w.T, w.ns, w.net)
			edit(w.T, w.ns, w.net, `{"description":"new"}`)
		}, theNetwork, ofTheNetwork + "Conflict", "who else changes"},
		cloudteamv1.ReasonCredentialsUnavailable: {func(w *trouble) {
			grant(w.T, w.ns)
			w.network(inSecret)
		}, theNetwork, ofTheNetwork + "CredentialsUnavailable" + secret, "create it, with the key clouds.yaml"},
		cloudteamv1.ReasonCredentialsRejected: {func(w *trouble) {
			grant(w.T, w.ns)
			w.secret(w.clouds, "tenant", auth("password", "wrong"))
			w.network(inSecret)
		}, theNetwork, ofTheNetwork + "CredentialsRejected" + secret, "Correct the password"},
		cloudteamv1.ReasonCloudMismatch: {func(w *trouble) {
			grant(w.T, w.ns)
			w.secret(w.clouds, "tenant", nil)
			w.ready(inSecret)
			w.secret(w.clouds, "admin", nil)
		}, theNetwork, ofTheNetwork + "CloudMismatch" + secret, "Use credentials for the project that has the network"},
	}
}

func classCases() map[string]reasonCase {
	return map[string]reasonCase{
		cloudteamv1.ReasonForbiddenByClass: {func(w *trouble) {
			// The policy refuses what a class forbids. So the class changes while the Network waits.
			w.network(w.class(cloudteamv1.NetworkClassSpec{AllowedRanges: []string{"192.168.0.0/16"}}),
				func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(9000)) })
			awaitReason(w.T, w.ns, w.net, cloudteamv1.ReasonRejected, "")
			harness.Patch(w.T, networks.CloudteamV1().NetworkClasses(), w.ns, `{"spec":{"allowedRanges":["10.0.0.0/8"]}}`)
		}, theNetwork, ofTheNetwork + "ForbiddenByClass > NetworkClass NS Class", "Write a cidr inside"},
		cloudteamv1.ReasonClassNotFound: {func(w *trouble) {
			w.network(func(s *cloudteamv1.NetworkSpec) { s.ClassName = "no-such-class" })
		}, theNetwork, ofTheNetwork + "ClassNotFound > NetworkClass no-such-class NotFound", "Create it"},
		cloudteamv1.ReasonClassLimitReached: {func(w *trouble) {
			w.ready(w.class(cloudteamv1.NetworkClassSpec{Limits: &cloudteamv1.ClassLimits{PortsPerNetwork: new(int32(1))}}))
			applyPort(w.T, w.ns, "first", on(w.net))
			awaitPortReady(w.T, w.ns, "first")
			applyPort(w.T, w.ns, "port", on(w.net))
		}, thePort, ofThePort + "ClassLimitReached > NetworkClass NS Class", "have the limit raised"},
	}
}

func portCases() map[string]reasonCase {
	at := func(w *trouble, name, address string) {
		spec := on(w.net)
		spec.Addresses = []string{address}
		applyPort(w.T, w.ns, name, spec)
	}
	return map[string]reasonCase{
		cloudteamv1.ReasonInvalidSpec: {func(w *trouble) {
			w.ready()
			at(w, "port", "10.1.2.3")
		}, thePort, ofThePort + "InvalidSpec", "write an address of that range"},
		cloudteamv1.ReasonNetworkNotReady: {func(w *trouble) {
			w.network(func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(9000)) })
			applyPort(w.T, w.ns, "port", on(w.net))
		}, thePort, ofThePort + "NetworkNotReady > " + ofTheNetwork + "Rejected", "Change the spec"},
		cloudteamv1.ReasonNamespaceNotAllowed: {func(w *trouble) {
			w.ready()
			spec, other := on(w.net), w.ns
			spec.NetworkNamespace = other
			w.ns = newNamespace(w.T)
			applyPort(w.T, w.ns, "port", spec)
		}, thePort, ofThePort + "NamespaceNotAllowed > Network [^ ]+ NotAllowed", "spec.allowedNamespaces"},
		cloudteamv1.ReasonAddressesExhausted: {func(w *trouble) {
			w.ready(oneAddress)
			applyPort(w.T, w.ns, "first", on(w.net))
			awaitPortReady(w.T, w.ns, "first")
			applyPort(w.T, w.ns, "port", on(w.net))
		}, thePort, ofThePort + "AddressesExhausted > " + ofTheNetwork + "Full", "Declare another subnet"},
		cloudteamv1.ReasonAddressInUse: {func(w *trouble) {
			w.ready()
			at(w, "first", "192.168.7.7")
			awaitPortReady(w.T, w.ns, "first")
			at(w, "port", "192.168.7.7")
		}, thePort, ofThePort + "AddressInUse > NetworkPort NS/first HasAddress", "Delete this NetworkPort"},
		cloudteamv1.ReasonBindingFailed: {func(w *trouble) { w.onHost("dead") },
			"Pod bare", "Pod NS/bare PortsFailed > NetworkPort NS/[^ ]+ BindingFailed > Node node-of-NS DataplaneHost",
			"is not alive"},
		cloudteamv1.ReasonWaitingForPlug: {func(w *trouble) { w.onHost("alive") },
			"Pod bare", "Pod NS/bare PortsFailed > NetworkPort NS/[^ ]+ WaitingForPlug > Node node-of-NS NoAgent",
			"Start the agent"},
	}
}

func workloadCases() map[string]reasonCase {
	return map[string]reasonCase{
		cloudteamv1.ReasonInvalidNetworks: {func(w *trouble) {
			w.ready()
			deploymentOn(w.T, w.ns, "web", `[{"name":"`+w.net+`","ips":["192.168.0.300"]}]`, 1)
		}, theDeployment, ofDeployment + "InvalidNetworks", "write an address such as"},
		cloudteamv1.ReasonReconcileFailed: {func(w *trouble) {
			w.ready()
			awaitGate(w.T, w.ns)
			w.refuseAllocations()
			w.pod(w.net)
		}, "Pod bare", "Pod NS/bare ReconcileFailed", "Read the message"},
		cloudteamv1.ReasonPortLimitReached: {func(w *trouble) {
			w.ready(w.class(cloudteamv1.NetworkClassSpec{Limits: &cloudteamv1.ClassLimits{PortsPerDeployment: new(int32(1))}}))
			deploymentOn(w.T, w.ns, "web", w.net, 2)
		}, theDeployment, ofDeployment + "PortLimitReached", "lower spec.replicas"},
		cloudteamv1.ReasonNetworkNotFound: {func(w *trouble) { deploymentOn(w.T, w.ns, "web", "nowhere", 1) },
			theDeployment, ofDeployment + "NetworkNotFound > Network NS/nowhere NotFound", "Create it, or correct the name"},
		cloudteamv1.ReasonPortsNotReady: {func(w *trouble) {
			awaitGate(w.T, w.ns)
			w.network(func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(9000)) })
			w.pod(w.net)
		}, "Pod bare", "Pod NS/bare PortsNotReady > (NetworkPort NS/[^ ]+ NetworkNotReady > )?" + ofTheNetwork + "Rejected",
			"Change the spec"},
		cloudteamv1.ReasonPortsFailed: {func(w *trouble) {
			w.ready(oneAddress)
			deploymentOn(w.T, w.ns, "web", w.net, 2)
		}, theDeployment, ofDeployment + "PortsFailed > NetworkPort NS/[^ ]+ AddressesExhausted > " + ofTheNetwork + "Full",
			"Declare another subnet"},
		cloudteamv1.ReasonSchedulingGateMissing: {func(w *trouble) {
			w.network(func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(9000)) })
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
			if _, err := kube.CoreV1().Namespaces().Update(w.Context(), space, metav1.UpdateOptions{}); err != nil {
				w.Fatal(err)
			}
			w.pod(w.net)
		}, "Pod bare", "Pod NS/bare SchedulingGateMissing > Namespace NS NoLabel", "Label the namespace"},
		cloudteamv1.ReasonAllocated: {func(w *trouble) {
			awaitGate(w.T, w.ns)
			w.pod(w.net)
			awaitPodSays(w.T, w.ns, "bare", corev1.ConditionFalse, cloudteamv1.ReasonNetworkNotFound, "")
			w.ready()
			awaitPodSays(w.T, w.ns, "bare", corev1.ConditionTrue, cloudteamv1.ReasonAllocated, "")
		}, "Pod bare", "", "the Pod has its networks"},
	}
}

// The external networks of the cases. theFull one has one address, and a router takes it.
const (
	theOutside = "outside"
	theFull    = "full"
)

// makeExternal makes the external networks. A controller that knows none of the name looks for it again after a while,
// so they are there before it starts.
func makeExternal(administrator *cloud) {
	administrator.t.Helper()
	const first = "203.0.113.2"
	for name, last := range map[string]string{theOutside: "203.0.113.250", theFull: first} {
		made := administrator.Create("networks", resource{"name": name, "router:external": true})
		administrator.Create("subnets", resource{
			"network_id": made.ID(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
			"allocation_pools": []resource{{"start": first, "end": last}},
		})
	}
}

// leave deletes the Pods, NetworkPorts and Networks of the namespace, and waits until they are gone.
func (w *trouble) leave() {
	w.Helper()
	ctx, v1, all := contextOf(w.T), networks.CloudteamV1(), metav1.ListOptions{}
	err := errors.Join(
		v1.FloatingIPs(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		kube.CoreV1().Pods(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		v1.NetworkPorts(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		v1.Networks(w.ns).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	if err != nil {
		w.Error(err)
		return
	}
	eventually(w.T, func() error { // a Network waits for its ports
		return errors.Join(harness.NoneLeft(ctx, v1.Networks(w.ns)), harness.NoneLeft(ctx, v1.FloatingIPs(w.ns)))
	})
}

// leadsTo gives a Network a router to an external network.
func leadsTo(external string) func(*cloudteamv1.NetworkSpec) {
	return func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: external} }
}

// floats creates the NetworkPort "port" with a floating IP of an external network.
func (w *trouble) floats(external string) {
	w.Helper()
	spec := on(w.net)
	spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: external}
	applyPort(w.T, w.ns, "port", spec)
}

// address creates the FloatingIP "public" of an external network, for the NetworkPort "port".
func (w *trouble) address(external string) {
	w.Helper()
	harness.Create(w.T, networks.CloudteamV1().FloatingIPs(w.ns), &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "public"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: external, PortName: "port"},
	})
}

// furtherCase is one more case of a Reason.
type furtherCase struct {
	reason string
	reasonCase
	// leaves is whether its objects keep the external networks.
	leaves bool
}

// floatingIPCases are about ports with floating IPs, and about FloatingIPs, by what is wrong with them.
func floatingIPCases() map[string]furtherCase {
	return map[string]furtherCase{
		"no external network has the name": {reason: cloudteamv1.ReasonRejected, reasonCase: reasonCase{func(w *trouble) {
			w.ready()
			w.floats(w.net + "-nowhere")
		}, thePort, ofThePort + "Rejected", "Change the spec"}},
		"the Network has no router": {reason: cloudteamv1.ReasonRejected, reasonCase: reasonCase{func(w *trouble) {
			w.ready()
			w.floats(theOutside)
		}, thePort, ofThePort + "Rejected > " + ofTheNetwork + "NoRouter", "Set spec.router.externalNetwork"}},
		"a Pod's Network has no router": {reason: cloudteamv1.ReasonRejected, reasonCase: reasonCase{func(w *trouble) {
			awaitGate(w.T, w.ns)
			w.ready()
			w.pod(w.net, func(p *corev1.Pod) { p.Annotations[cloudteamv1.AnnotationFloatingIP] = theOutside })
		}, "Pod bare", "Pod NS/bare Ports(NotReady|Failed) > NetworkPort NS/[^ ]+ Rejected > " + ofTheNetwork + "NoRouter",
			"Set spec.router.externalNetwork"}},
		"the external network has no address left": {reason: cloudteamv1.ReasonAddressesExhausted, reasonCase: reasonCase{func(w *trouble) {
			w.ready(leadsTo(theFull))
			w.floats(theFull)
		}, thePort, ofThePort + "AddressesExhausted > " + ofThePort + "ExternalNetworkFull", "have addresses added"}},
		"somebody gave the port a floating IP": {reason: cloudteamv1.ReasonAddressInUse, reasonCase: reasonCase{func(w *trouble) {
			w.ready(leadsTo(theOutside))
			applyPort(w.T, w.ns, "port", on(w.net))
			port := awaitPortReady(w.T, w.ns, "port").Status.PortID
			network := w.tenant.One("networks", "name="+theOutside).ID()
			w.tenant.Create("floatingips", resource{"floating_network_id": network, "port_id": port})
			editPort(w.T, w.ns, "port", `{"floatingIP":{"externalNetwork":"`+theOutside+`"}}`)
		}, thePort, ofThePort + "AddressInUse > " + ofThePort + "FloatingIPTaken", "Remove that floating IP"}},
		"the router is to go": {reason: cloudteamv1.ReasonInUse, reasonCase: reasonCase{func(w *trouble) {
			w.ready(leadsTo(theOutside))
			w.floats(theOutside)
			awaitPortReady(w.T, w.ns, "port")
			edit(w.T, w.ns, w.net, `{"router":null}`)
		}, theNetwork, ofTheNetwork + "InUse > " + ofThePort + "HasFloatingIP", "Remove spec.floatingIP here"}},
		"the project may have no floating IP": {reason: cloudteamv1.ReasonQuotaExceeded, reasonCase: reasonCase{func(w *trouble) {
			w.at("inward", leadsTo(theOutside))
			awaitReady(w.T, w.ns, w.net)
			w.floats(theOutside)
		}, thePort, ofThePort + "QuotaExceeded", "Raise the project's quota"}},

		"the port of a FloatingIP waits": {reason: cloudteamv1.ReasonPortNotReady, reasonCase: reasonCase{func(w *trouble) {
			applyPort(w.T, w.ns, "port", on(w.net))
			w.address(theOutside)
		}, theAddress, ofTheAddress + "PortNotReady > " + ofThePort + "NetworkNotReady > " + ofTheNetwork + "NotFound",
			"Create it"}},
		"the port of a FloatingIP has a floating IP of its own": {reason: cloudteamv1.ReasonAddressInUse, reasonCase: reasonCase{func(w *trouble) {
			w.ready(leadsTo(theOutside))
			w.floats(theOutside)
			awaitPortReady(w.T, w.ns, "port")
			w.address(theOutside)
		}, theAddress, ofTheAddress + "AddressInUse > " + ofThePort + "HasFloatingIP", "Remove spec.floatingIP here"}},
		"a FloatingIP leads to the port that wants one of its own": {reason: cloudteamv1.ReasonAddressInUse,
			reasonCase: reasonCase{func(w *trouble) {
				w.leads()
				editPort(w.T, w.ns, "port", `{"floatingIP":{"externalNetwork":"`+theOutside+`"}}`)
			}, thePort, ofThePort + "AddressInUse > " + ofThePort + "FloatingIPTaken > " + ofTheAddress + "HasFloatingIP",
				"Name another NetworkPort"}},
	}
}

// leads has the FloatingIP "public" lead to the NetworkPort "port", behind the Network's router.
func (w *trouble) leads() {
	w.Helper()
	w.ready(leadsTo(theOutside))
	applyPort(w.T, w.ns, "port", on(w.net))
	port := awaitPortReady(w.T, w.ns, "port")
	w.address(theOutside)
	w.tenant.awaitFloating(w.ns, "public", cloudteamv1.ReasonAvailable, port.Status.PortID)
}
