package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/class"
	"cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// classUser may create Networks, SecurityGroups and FloatingIPs, and use the classes that the test grants.
const classUser = "class-user"

// TestClassAdmission holds the policy in config/admission to the rule that the controller has.
func TestClassAdmission(t *testing.T) {
	installAdmission(t)
	admin, user := clientset.NewForConfigOrDie(apiServer), clientset.NewForConfigOrDie(impersonating(classUser))
	own := newNamespaceWith(t, map[string]string{"team": "a", "stage": "test"})
	name := func(suffix string) string { return own + "-" + suffix }
	yes := true
	classes := map[string]cloudteamv1.NetworkClassSpec{
		"closed": {},
		"some": {
			AllowedFields: []cloudteamv1.PrivilegedField{cloudteamv1.FieldSharedWith, cloudteamv1.FieldExistingRouter},
			AllowedRanges: []string{"10.20.0.0/16", "2001:db8::/32"},
		},
		"matched": {NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"team": "a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "stage", Operator: metav1.LabelSelectorOpIn, Values: []string{"test", "prod"}},
				{Key: "gone", Operator: metav1.LabelSelectorOpDoesNotExist},
				{Key: "other", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
				{Key: "team", Operator: metav1.LabelSelectorOpExists},
			},
		}},
		"anothers": {NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}},
		"neither": {NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "stage", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"test"}}}}},
		"ungranted": {},
		"floating":  {AllowedFields: []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}},
		"floating-anothers": {
			AllowedFields:     []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}},
		},
		"floating-ungranted": {AllowedFields: []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}},
	}
	var granted []string
	isGranted := func(short string) bool { return !strings.HasSuffix(short, "ungranted") }
	// The policies learn of them in this order. The wait below is for the last one, "ungranted".
	for _, short := range slices.Sorted(maps.Keys(classes)) {
		spec := classes[short]
		harness.Create(t, admin.CloudteamV1().NetworkClasses(), &cloudteamv1.NetworkClass{
			ObjectMeta: metav1.ObjectMeta{Name: name(short)}, Spec: spec})
		if isGranted(short) {
			granted = append(granted, name(short))
		}
	}
	grantClasses(t, own, granted)

	specs := map[string]func(*cloudteamv1.NetworkSpec){
		"a private range": func(*cloudteamv1.NetworkSpec) {},
		"a public range":  func(s *cloudteamv1.NetworkSpec) { s.CIDR = "198.51.100.0/24" },
		"an allowed range": func(s *cloudteamv1.NetworkSpec) {
			s.CIDR = "10.20.30.0/24"
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "2001:db8:1::/64"}}
		},
		"an additional range": func(s *cloudteamv1.NetworkSpec) {
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "2001:db8:1::/64"}}
		},
		"import": func(s *cloudteamv1.NetworkSpec) {
			s.Import = &cloudteamv1.NetworkImport{ID: "3a1b7d2e-0c55-4d57-9a01-6c2f2f3e8a10"}
		},
		"sharedWith":      func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{"p"} },
		"sharedWith none": func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{} },
		"shared":          func(s *cloudteamv1.NetworkSpec) { s.Shared = &yes },
		"external":        func(s *cloudteamv1.NetworkSpec) { s.External = &yes },
		"provider": func(s *cloudteamv1.NetworkSpec) {
			s.Provider = &cloudteamv1.ProviderSpec{NetworkType: "vlan", PhysicalNetwork: "physnet1"}
		},
		"a router":           func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{} },
		"an existing router": func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{Existing: "r"} },
		"ha and distributed": func(s *cloudteamv1.NetworkSpec) {
			s.Router = &cloudteamv1.RouterSpec{HA: &yes, Distributed: &yes}
		},
		"snat": func(s *cloudteamv1.NetworkSpec) {
			s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "public", SNAT: &yes, ExternalIP: "203.0.113.7"}
		},
	}
	labels := map[string]string{"team": "a", "stage": "test"}
	// The policies are in force when a class that is not granted is refused.
	eventually(t, func() error {
		err := tryNetwork(t, user, own, name("ungranted"), specs["a private range"])
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("a class that is not granted: %w", err)
		}
		if err := tryNetwork(t, user, own, name("closed"), specs["a private range"]); err != nil {
			return fmt.Errorf("a class that is granted: %w", err)
		}
		return nil
	})
	for short, of := range classes {
		for sentence, set := range specs {
			t.Run(short+": "+sentence, func(t *testing.T) {
				spec := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.20.0.0/24"}}
				set(&spec)
				forbidden := class.Class{Name: name(short), Spec: of}.Violations(own, labels, &spec)
				err := tryNetwork(t, user, own, name(short), set)
				if refused := err != nil; refused != (len(forbidden) > 0 || !isGranted(short)) {
					t.Errorf("the controller finds %v, the policy %v", forbidden, err)
				}
				if err != nil && !strings.Contains(err.Error(), name(short)) {
					t.Errorf("it does not name the class: %v", err)
				}
			})
		}
	}
	for short, parts := range map[string][]string{
		"ungranted": {"spec.className", "you may not use", `have the verb "use" on it granted to you`},
		"anothers":  {"spec.className", "is not for namespace " + own, "name a class for this namespace"},
	} {
		err := tryNetwork(t, user, own, name(short), specs["a private range"])
		for _, part := range append(parts, fmt.Sprintf("NetworkClass %q", name(short))) {
			expect.ErrorSays(t, err, part)
		}
	}

	// Of a SecurityGroup, a class forbids only the namespace.
	for short, of := range classes {
		t.Run("SecurityGroup: "+short, func(t *testing.T) {
			forbidden := class.Class{Name: name(short), Spec: of}.Violations(own, labels, &cloudteamv1.NetworkSpec{})
			err := tryGroup(t, user, own, cloudteamv1.SecurityGroupSpec{ClassName: name(short)})
			if refused := err != nil; refused != (len(forbidden) > 0 || !isGranted(short)) {
				t.Errorf("the controller finds %v, the policy %v", forbidden, err)
			}
			if err != nil && !strings.Contains(err.Error(), name(short)) {
				t.Errorf("it does not name the class: %v", err)
			}
		})
	}

	// A FloatingIP is a privileged field as a whole.
	account := clientset.NewForConfigOrDie(impersonating(accountUser, "system:masters"))
	for short, of := range classes {
		t.Run("FloatingIP: "+short, func(t *testing.T) {
			for _, spec := range []cloudteamv1.FloatingIPSpec{
				{}, {Address: "203.0.113.7"}, {Import: &cloudteamv1.FloatingIPImport{ID: strings.Repeat("0", 32)}},
			} {
				spec.ClassName = name(short)
				forbidden := class.Class{Name: name(short), Spec: of}.FloatingIPViolations(own, labels, &spec)
				err := tryFloatingIP(t, user, own, spec)
				if refused := err != nil; refused != (len(forbidden) > 0 || !isGranted(short)) {
					t.Errorf("the controller finds %v, the policy %v", forbidden, err)
				}
				if err != nil && !strings.Contains(err.Error(), name(short)) {
					t.Errorf("it does not name the class: %v", err)
				}
			}
			// Those of Services have the class of their Network, for which somebody was asked.
			if err := tryServices(t, account, own, cloudteamv1.FloatingIPSpec{ClassName: name(short)}); err != nil {
				t.Errorf("the controller may not make the FloatingIP of a Service: %v", err)
			}
		})
	}
	t.Run("a FloatingIP moves from port to port, and to no class that is not granted", func(t *testing.T) {
		floating := user.CloudteamV1().FloatingIPs(own)
		made, err := floating.Create(t.Context(), floatingOf(cloudteamv1.FloatingIPSpec{ClassName: name("floating")}),
			metav1.CreateOptions{})
		expect.NoError(t, err)
		made.Spec.PortName = "web-0"
		if made, err = floating.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, short := range []string{"closed", "floating-anothers", "floating-ungranted"} {
			moved := made.DeepCopy()
			moved.Spec.ClassName = name(short)
			if _, err := floating.Update(t.Context(), moved, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("it may move to the class %s: %v", short, err)
			}
		}
	})

	t.Run("the default class judges what names none", func(t *testing.T) {
		marked := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{
			Name: name("default"), Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}}}
		harness.Create(t, admin.CloudteamV1().NetworkClasses(), marked)
		eventually(t, func() error {
			if err := tryNetwork(t, user, own, "", specs["a private range"]); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a default class that is not granted: %w", err)
			}
			if err := tryGroup(t, user, own, cloudteamv1.SecurityGroupSpec{}); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a SecurityGroup of a default class that is not granted: %w", err)
			}
			if err := tryFloatingIP(t, user, own, cloudteamv1.FloatingIPSpec{}); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a FloatingIP of a default class that is not granted: %w", err)
			}
			return nil
		})
		// Credentials of its own need no class. Whoever takes them off asks for one.
		moved := networkOf("", func(s *cloudteamv1.NetworkSpec) { s.Cloud = &cloudteamv1.CloudReference{SecretName: "openstack"} })
		made := harness.Create(t, user.CloudteamV1().Networks(own), moved)
		made.Spec.Cloud = nil
		if _, err := user.CloudteamV1().Networks(own).Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a default class that is not granted, without the credentials: %v", err)
		}
		expect.NoError(t, admin.CloudteamV1().NetworkClasses().Delete(t.Context(), marked.Name, metav1.DeleteOptions{}))
		eventually(t, func() error { return tryNetwork(t, user, own, "", specs["import"]) })
		eventually(t, func() error { return tryGroup(t, user, own, cloudteamv1.SecurityGroupSpec{}) })
		eventually(t, func() error { return tryFloatingIP(t, user, own, cloudteamv1.FloatingIPSpec{}) })
	})
	t.Run("without a class of its name, nothing is refused", func(t *testing.T) {
		expect.NoError(t, tryNetwork(t, user, own, "no-such-class", specs["import"]))
	})
	t.Run("credentials of its own need no class", func(t *testing.T) {
		spec := func(s *cloudteamv1.NetworkSpec) {
			s.Cloud, s.CIDR = &cloudteamv1.CloudReference{SecretName: "openstack"}, "198.51.100.0/24"
		}
		expect.NoError(t, tryNetwork(t, user, own, "", spec))
		of := &cloudteamv1.CloudReference{SecretName: "openstack"}
		expect.NoError(t, tryGroup(t, user, own, cloudteamv1.SecurityGroupSpec{Cloud: of}))
		expect.NoError(t, tryFloatingIP(t, user, own, cloudteamv1.FloatingIPSpec{Cloud: of}))
	})
	t.Run("a tightened class lets a FloatingIP end, and lead to no other port", func(t *testing.T) {
		spec := cloudteamv1.FloatingIPSpec{ClassName: name("floating"), PortName: "web-0", ExternalNetwork: "public"}
		f := floatingOf(spec)
		f.GenerateName, f.Name = "", "kept"
		made := harness.Create(t, user.CloudteamV1().FloatingIPs(own), f)
		of, err := admin.CloudteamV1().NetworkClasses().Get(t.Context(), name("floating"), metav1.GetOptions{})
		expect.NoError(t, err)
		of.Spec.AllowedFields = nil
		if _, err := admin.CloudteamV1().NetworkClasses().Update(t.Context(), of, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		try := func(change func(*cloudteamv1.FloatingIPSpec)) error {
			edited := made.DeepCopy()
			change(&edited.Spec)
			_, err := user.CloudteamV1().FloatingIPs(own).Update(t.Context(), edited,
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		eventually(t, func() error {
			if try(func(s *cloudteamv1.FloatingIPSpec) { s.PortName = "web-1" }) == nil {
				return fmt.Errorf("it may lead to another port")
			}
			return nil
		})
		if err := try(func(s *cloudteamv1.FloatingIPSpec) { s.PortName = "" }); err != nil {
			t.Errorf("its owner may not close the port: %v", err)
		}
		if try(func(s *cloudteamv1.FloatingIPSpec) { s.PortName, s.DeletionPolicy = "", "Retain" }) == nil {
			t.Error("it may be retained")
		}
	})
	t.Run("a tightened class lets metadata change, and no spec", func(t *testing.T) {
		networks := admin.CloudteamV1().Networks(own)
		created := networkOf(name("some"), specs["sharedWith"])
		created.GenerateName, created.Name = "", "kept"
		made := harness.Create(t, networks, created)
		of, err := admin.CloudteamV1().NetworkClasses().Get(t.Context(), name("some"), metav1.GetOptions{})
		expect.NoError(t, err)
		of.Spec.AllowedFields = nil
		if _, err := admin.CloudteamV1().NetworkClasses().Update(t.Context(), of, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			edited := made.DeepCopy()
			edited.Spec.Description = "another"
			_, err := networks.Update(t.Context(), edited, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return fmt.Errorf("the spec may change")
			}
			return nil
		})
		edited := made.DeepCopy()
		edited.Finalizers = []string{cloudteamv1.Finalizer}
		if _, err := networks.Update(t.Context(), edited, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("its metadata cannot change: %v", err)
		}
	})
}

func networkOf(className string, set func(*cloudteamv1.NetworkSpec)) *cloudteamv1.Network {
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{GenerateName: "trial-"}}
	network.Spec.CIDR, network.Spec.ClassName = "10.20.0.0/24", className
	set(&network.Spec)
	return network
}

// tryNetwork creates a Network that is not stored.
func tryNetwork(
	t *testing.T, as clientset.Interface, namespace, className string, set func(*cloudteamv1.NetworkSpec),
) error {
	t.Helper()
	_, err := as.CloudteamV1().Networks(namespace).Create(t.Context(), networkOf(className, set),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// tryGroup creates a SecurityGroup that is not stored.
func tryGroup(t *testing.T, as clientset.Interface, namespace string, spec cloudteamv1.SecurityGroupSpec) error {
	t.Helper()
	_, err := as.CloudteamV1().SecurityGroups(namespace).Create(t.Context(), &cloudteamv1.SecurityGroup{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "trial-"}, Spec: spec,
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func floatingOf(spec cloudteamv1.FloatingIPSpec) *cloudteamv1.FloatingIP {
	spec.ExternalNetwork = "public"
	return &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{GenerateName: "trial-"}, Spec: spec}
}

// tryFloatingIP creates a FloatingIP that is not stored.
func tryFloatingIP(t *testing.T, as clientset.Interface, namespace string, spec cloudteamv1.FloatingIPSpec) error {
	t.Helper()
	_, err := as.CloudteamV1().FloatingIPs(namespace).Create(t.Context(), floatingOf(spec),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// tryServices is tryFloatingIP for the FloatingIP of a Service.
func tryServices(t *testing.T, as clientset.Interface, namespace string, spec cloudteamv1.FloatingIPSpec) error {
	t.Helper()
	floating := floatingOf(spec)
	floating.Name, floating.GenerateName = "shop", ""
	floating.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Service", Name: "shop", UID: "u", Controller: new(true),
	}}
	_, err := as.CloudteamV1().FloatingIPs(namespace).Create(t.Context(), floating,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// TestTheShippedDefaultClassIsTheBuiltInOne holds config/classes to what its comments say.
func TestTheShippedDefaultClassIsTheBuiltInOne(t *testing.T) {
	found := false
	for _, object := range render(t, "config/classes") {
		if object.GetKind() != "NetworkClass" {
			continue
		}
		found = true
		if _, specified := object.Object["spec"]; specified {
			t.Errorf("NetworkClass %s has a spec", object.GetName())
		}
		if object.GetAnnotations()[cloudteamv1.AnnotationDefaultClass] != "true" {
			t.Errorf("NetworkClass %s is not the default", object.GetName())
		}
	}
	if !found {
		t.Error("config/classes has no class")
	}
}

// grantClasses lets the user create and edit Networks and FloatingIPs, create SecurityGroups, and use the classes.
func grantClasses(t *testing.T, namespace string, classes []string) {
	t.Helper()
	user := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: classUser}}
	group := []string{cloudteam.GroupName}
	_, err := kubeClient.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{"networkclasses"}, ResourceNames: classes, Verbs: []string{"use"}},
			{APIGroups: group, Resources: []string{"networks", "floatingips"}, Verbs: []string{"create", "update"}},
			{APIGroups: group, Resources: []string{"securitygroups"}, Verbs: []string{"create"}},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = kubeClient.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: user,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace},
		}, metav1.CreateOptions{})
	}
	expect.NoError(t, err)
}
