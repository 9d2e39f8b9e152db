package adversary

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// deputy is a controller with an administrator's credentials, and what an attacker would like it to reach.
type deputy struct {
	*world
	t *testing.T
	// operator looks at Neutron with the controller's own credentials.
	operator         *harness.Cloud
	victim, attacker *tenant
	// network and router are the operator's own, which no object has.
	network, router harness.Resource
}

// TestTheOperatorsRightsReachNothingOfOthers has a tenant ask the controller, which is an administrator of the cloud,
// for what the tenant may not do. There is no class at first.
func TestTheOperatorsRightsReachNothingOfOthers(t *testing.T) {
	inTime(t, rightsReachNothingOfOthers)
}

func rightsReachNothingOfOthers(t *testing.T) {
	w := newWorld(t, "--cloud=admin")
	d := &deputy{world: w, t: t, operator: harness.Open(t, w.CloudsFile, "admin")}
	d.victim, d.attacker = w.newTenant(), w.newTenant()
	d.network = d.operator.Create("networks", harness.Resource{"name": "of-the-operator-" + d.victim.name})
	d.operator.Create("subnets", harness.Resource{
		"network_id": d.network.ID(), "name": "of-the-operator", "ip_version": 4, "cidr": "10.81.1.0/24",
	})
	d.router = d.operator.Create("routers", harness.Resource{"name": "router-of-the-operator-" + d.victim.name})
	d.victim.credentials(w.CloudsFile)
	d.victim.network("net", "10.81.0.0/24", "10.81.0.1")
	d.victim.awaitReady("net")

	d.changesNothing(func() {
		d.privilegedFields()
		d.privilegedPorts()
		d.floatingIPs()
		d.credentialsOfOthers()
	})
	d.guestPorts()
	d.victim.leave() // no other test has an administrator's credentials
}

// changesNothing has the attacker do something and leave, and holds that Neutron is as it was before.
func (d *deputy) changesNothing(do func()) {
	d.t.Helper()
	before := d.sees()
	do()
	d.attacker.leave()
	expect.Equal(d.t, before, d.sees(), "the attacker changed in Neutron")
}

// sees is all that is in the cloud, less what others than this test may change.
func (d *deputy) sees() map[string][]harness.Resource {
	d.t.Helper()
	all := map[string][]harness.Resource{}
	for collection, query := range map[string]string{
		"networks": "", "subnets": "", "ports": "", "routers": "", "rbac-policies": "", "floatingips": "",
		"security-groups": "", "security-group-rules": "sort_key=id&sort_dir=asc",
	} {
		for _, resource := range d.operator.List(collection, query) {
			delete(resource, "updated_at")
			delete(resource, "security_group_rules") // a list of their own has them, in order
			all[collection] = append(all[collection], resource)
		}
	}
	return all
}

// tells fails unless a message has all of the parts, and none that tells of others.
func (d *deputy) tells(message string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(message, part) {
			return fmt.Errorf("want %q in: %s", part, message)
		}
	}
	for _, others := range []string{
		d.victim.name, d.network["name"].(string), d.operator.Project, d.router["name"].(string),
	} {
		if strings.Contains(message, others) {
			d.t.Errorf("it tells of %q, which is another's: %s", others, message)
		}
	}
	return nil
}

// stalls waits until an object is Stalled for a reason. check judges it and the message.
func stalls[T metav1.Object](
	d *deputy, api harness.Getter[T], name, reason string, check func(object T, message string) error,
) {
	d.t.Helper()
	harness.Await(d.t, d, api, name, func(object T) error {
		status := harness.StatusOf(object)
		is := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionStalled)
		if is == nil || is.Reason != reason {
			return fmt.Errorf("%s has the status %+v, want Stalled %s", name, status, reason)
		}
		return check(object, is.Message)
	})
}

// networkStalls is stalls for a Network of the attacker's, with a message that has all of the parts.
func (d *deputy) networkStalls(name, reason string, parts ...string) {
	d.t.Helper()
	stalls(d, d.attacker.networks.CloudteamV1().Networks(d.attacker.name), name, reason,
		func(_ *cloudteamv1.Network, message string) error { return d.tells(message, parts...) })
}

// privilegedFields asks for what only a class allows.
func (d *deputy) privilegedFields() {
	for i, c := range []struct {
		set   func(*cloudteamv1.NetworkSpec)
		field string
	}{
		{func(s *cloudteamv1.NetworkSpec) {
			s.Import = &cloudteamv1.NetworkImport{ID: d.network.ID(), Overwrite: true}
		}, "spec.import"},
		{func(s *cloudteamv1.NetworkSpec) {
			s.Import, s.ManagementPolicy = &cloudteamv1.NetworkImport{ID: d.network.ID()}, cloudteamv1.ManagementPolicyObserve
		}, "spec.import"},
		{func(s *cloudteamv1.NetworkSpec) {
			s.Router = &cloudteamv1.RouterSpec{Existing: d.router["name"].(string)}
			s.CIDR, s.Gateway = "8.8.8.0/24", "8.8.8.1"
		}, "spec.router.existing, spec.cidr 8.8.8.0/24"},
		{func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{d.operator.Project} }, "spec.sharedWith"},
		{func(s *cloudteamv1.NetworkSpec) { s.Shared = new(true) }, "spec.shared"},
		{func(s *cloudteamv1.NetworkSpec) { s.External = new(true) }, "spec.external"},
		{func(s *cloudteamv1.NetworkSpec) {
			s.Provider = &cloudteamv1.ProviderSpec{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: new(int64(7))}
		}, "spec.provider"},
		{func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{HA: new(true)} }, "spec.router.ha"},
	} {
		name := fmt.Sprint("privileged-", i)
		d.attacker.network(name, "10.82.0.0/24", "10.82.0.1", c.set)
		d.networkStalls(name, cloudteamv1.ReasonForbiddenByClass, "The built-in class forbids "+c.field+".",
			"name a class whose allowedFields have")
		// A port on it gets nothing either.
		ports := d.attacker.networks.CloudteamV1().NetworkPorts(d.attacker.name)
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}}
		port.Spec.NetworkName = name
		harness.Create(d.t, ports, port)
		harness.Await(d.t, d, ports, name, func(port *cloudteamv1.NetworkPort) error {
			ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
			if ready == nil || ready.Reason != cloudteamv1.ReasonNetworkNotReady || port.Status.PortID != "" {
				return fmt.Errorf("NetworkPort %s has the status %+v", name, port.Status)
			}
			return d.tells(ready.Message)
		})
	}
}

// privilegedOfPort is what only a class allows of a NetworkPort, and only in the Network's namespace, by the field.
var privilegedOfPort = map[cloudteamv1.PrivilegedField]func(*cloudteamv1.NetworkPortSpec){
	cloudteamv1.FieldFloatingIP: func(s *cloudteamv1.NetworkPortSpec) {
		s.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "outside"}
	},
	cloudteamv1.FieldPortSecurity: func(s *cloudteamv1.NetworkPortSpec) { s.PortSecurity = new(false) },
	cloudteamv1.FieldAddressPairs: func(s *cloudteamv1.NetworkPortSpec) {
		s.AllowedAddressPairs = []cloudteamv1.AddressPair{{Address: "10.81.0.9"}}
	},
}

// privilegedPorts asks for what only a class allows of a port, on a Network of the attacker's own, which has no class.
func (d *deputy) privilegedPorts() {
	d.attacker.network("own", "10.85.0.0/24", "10.85.0.1")
	d.attacker.awaitReady("own")
	for field, set := range privilegedOfPort {
		spec := cloudteamv1.NetworkPortSpec{NetworkName: "own"}
		set(&spec)
		name := "own-" + strings.ToLower(string(field))
		d.portStalls(name, spec, cloudteamv1.ReasonForbiddenByClass, func(says string) error {
			return d.tells(says, fmt.Sprintf("The built-in class forbids spec.%s.", field),
				fmt.Sprintf("has %s in allowedFields", field))
		})
	}
}

// floatingIPs asks for addresses that the built-in class forbids, and for one with credentials of another namespace.
func (d *deputy) floatingIPs() {
	for name, c := range map[string]struct {
		spec   cloudteamv1.FloatingIPSpec
		reason string
		parts  []string
	}{
		"floats": {
			cloudteamv1.FloatingIPSpec{}, cloudteamv1.ReasonForbiddenByClass,
			[]string{"The built-in class forbids FloatingIPs.", "have floatingIP"},
		},
		"leads": {
			cloudteamv1.FloatingIPSpec{PortName: "any"}, cloudteamv1.ReasonForbiddenByClass,
			[]string{"The built-in class forbids FloatingIPs."},
		},
		"secret": {
			cloudteamv1.FloatingIPSpec{Cloud: &cloudteamv1.CloudReference{SecretName: secretName}},
			cloudteamv1.ReasonCredentialsUnavailable, []string{secretName, "in this namespace"},
		},
	} {
		c.spec.ExternalNetwork = "outside"
		harness.Create(d.t, d.attacker.networks.CloudteamV1().FloatingIPs(d.attacker.name),
			&cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: c.spec})
		d.floatStalls(name, c.reason, func(f *cloudteamv1.FloatingIP, says string) error {
			if f.Status.FloatingIPID != "" {
				return fmt.Errorf("it has the floating IP %s", f.Status.FloatingIPID)
			}
			return d.tells(says, c.parts...)
		})
	}
}

// guestFloatingIP has a floating IP, which a class of the operator's allows the attacker, lead to a port of the attacker's
// on the victim's Network. It has an address, and leads nowhere.
func (d *deputy) guestFloatingIP(outside string) {
	class := d.classFor(d.attacker, "floating-", cloudteamv1.FieldFloatingIP)
	harness.Create(d.t, d.attacker.networks.CloudteamV1().NetworkPorts(d.attacker.name), &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Name: "guest"},
		Spec:       cloudteamv1.NetworkPortSpec{NetworkName: "guests", NetworkNamespace: d.victim.name},
	})
	floatingIPs := d.Networks.CloudteamV1().FloatingIPs(d.attacker.name)
	harness.Create(d.t, floatingIPs, &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "guest"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: outside, PortName: "guest", ClassName: class},
	})
	d.floatStalls("guest", cloudteamv1.ReasonInvalidSpec, func(f *cloudteamv1.FloatingIP, says string) error {
		if !strings.Contains(says, "only its own ports may have a floating IP") || f.Status.FloatingIPID == "" {
			return fmt.Errorf("it says %q, with the status %+v", says, f.Status)
		}
		if is := d.operator.One("floatingips", "id="+f.Status.FloatingIPID); is["port_id"] != nil {
			d.t.Errorf("the floating IP leads to the Network of another namespace: %v", is)
		}
		return nil
	})

	// An import takes nothing of another owner's, whatever the class allows.
	const theirs = "[owner=another-cluster/its-object]"
	taken := d.operator.Create("floatingips", harness.Resource{"floating_network_id": outside, "description": theirs}).ID()
	harness.Create(d.t, floatingIPs, &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "thief"},
		Spec: cloudteamv1.FloatingIPSpec{
			ExternalNetwork: outside, Import: &cloudteamv1.FloatingIPImport{ID: taken},
			ClassName: d.classFor(d.attacker, "importing-", cloudteamv1.FieldFloatingIP, cloudteamv1.FieldImport),
		},
	})
	d.floatStalls("thief", cloudteamv1.ReasonAlreadyOwned, func(*cloudteamv1.FloatingIP, string) error {
		if is := d.operator.One("floatingips", "id="+taken); is["description"] != theirs {
			d.t.Errorf("the floating IP of another cluster is %v", is)
		}
		return nil
	})
	d.operator.Remove("floatingips", taken)
}

// floatStalls is stalls for a FloatingIP of the attacker's.
func (d *deputy) floatStalls(name, reason string, check func(f *cloudteamv1.FloatingIP, message string) error) {
	d.t.Helper()
	stalls(d, d.attacker.networks.CloudteamV1().FloatingIPs(d.attacker.name), name, reason, check)
}

// guestPorts asks for the same on a Network of the victim's that the attacker may use. Its class allows that to the
// victim's own ports.
func (d *deputy) guestPorts() {
	open := d.classFor(d.victim, "open-", slices.Collect(maps.Keys(privilegedOfPort))...)
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "guests"}}
	network.Spec.CIDR, network.Spec.Gateway, network.Spec.ClassName = "10.86.0.0/24", "10.86.0.1", open
	network.Spec.AllowedNamespaces = []string{d.attacker.name}
	harness.Create(d.t, d.Networks.CloudteamV1().Networks(d.victim.name), network)
	d.victim.awaitReady("guests")
	outside := d.operator.CreateOutside("outside-" + d.victim.name).ID()
	d.changesNothing(func() {
		d.guestFloatingIP(outside)
		for field, set := range privilegedOfPort {
			spec := cloudteamv1.NetworkPortSpec{NetworkName: "guests", NetworkNamespace: d.victim.name}
			set(&spec)
			name := "guest-" + strings.ToLower(string(field))
			d.portStalls(name, spec, cloudteamv1.ReasonInvalidSpec, func(says string) error {
				if !strings.Contains(says, string(field)) || !strings.Contains(says, "only its own ports may have it") {
					return fmt.Errorf("it says %q of %s", says, field)
				}
				return nil
			})
		}
	})
}

// portStalls creates a NetworkPort of the attacker's, and waits until it is Stalled for a reason, with nothing in
// Neutron. check judges the message.
func (d *deputy) portStalls(
	name string, spec cloudteamv1.NetworkPortSpec, reason string, check func(message string) error,
) {
	d.t.Helper()
	ports := d.attacker.networks.CloudteamV1().NetworkPorts(d.attacker.name)
	harness.Create(d.t, ports, &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	stalls(d, ports, name, reason, func(port *cloudteamv1.NetworkPort, message string) error {
		if port.Status.PortID != "" {
			return fmt.Errorf("NetworkPort %s has port %s", name, port.Status.PortID)
		}
		return check(message)
	})
}

// credentialsOfOthers names a Secret that another namespace has.
func (d *deputy) credentialsOfOthers() {
	d.attacker.network("secret", "10.83.0.0/24", "10.83.0.1", func(s *cloudteamv1.NetworkSpec) {
		s.Cloud = &cloudteamv1.CloudReference{SecretName: secretName}
	})
	d.networkStalls("secret", cloudteamv1.ReasonCredentialsUnavailable, secretName, "in this namespace")
}

// classFor makes a class for a tenant's namespace, until the test ends, and gives its name.
func (d *deputy) classFor(who *tenant, prefix string, allowed ...cloudteamv1.PrivilegedField) string {
	d.t.Helper()
	classes := d.Networks.CloudteamV1().NetworkClasses()
	class := harness.Create(d.t, classes, &cloudteamv1.NetworkClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix},
		Spec: cloudteamv1.NetworkClassSpec{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: who.name}},
			AllowedFields:     allowed,
		},
	})
	d.t.Cleanup(func() { harness.Delete(d.t, classes, class.Name) })
	return class.Name
}
