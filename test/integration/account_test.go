package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// as gives a client that acts as a user of the groups given.
func as(t *testing.T, user string, groups ...string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(impersonating(user, groups...))
	expect.NoError(t, err)
	return client
}

// impersonating is the configuration of a client that acts as a user of the groups given.
func impersonating(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// object makes an object of JSON.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

var (
	podKind        = corev1.SchemeGroupVersion.WithResource("pods")
	deploymentKind = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	accounts       = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	portKind       = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	serviceKind    = corev1.SchemeGroupVersion.WithResource("services")
	sliceKind      = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	networkKind    = cloudteamv1.SchemeGroupVersion.WithResource("networks")
)

// accountUser is the user that the controller's ServiceAccount is.
const accountUser = "system:serviceaccount:" + controllerName + ":" + controllerName

// TestAccountPolicy has the controller's ServiceAccount do what the controller does, and what it does not. RBAC is no
// hindrance here: the user is also a member of system:masters.
func TestAccountPolicy(t *testing.T) {
	installAdmission(t)
	plane.KnowAttachments(t)
	namespace := newNamespace(t)
	admin, account := anyAPI, as(t, accountUser, "system:masters")
	made := map[string]*unstructured.Unstructured{}
	make := func(resource schema.GroupVersionResource, text string) {
		t.Helper()
		created, err := admin.Resource(resource).Namespace(namespace).Create(t.Context(), object(t, text), metav1.CreateOptions{})
		expect.NoError(t, err)
		made[resource.Resource+" "+created.GetName()] = created
	}
	make(networkKind, `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"Network","metadata":{"name":"net"},
		"spec":{"cidr":"10.0.0.0/24"}}`)
	make(securityGroups, `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"SecurityGroup","metadata":{"name":"web"},
		"spec":{}}`)
	make(podKind, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"a":"b"},"finalizers":["example.com/f"],
		"annotations":{"k8s.v1.cni.cncf.io/networks":"net","other":"x"}},
		"spec":{"schedulingGates":[{"name":"cloudteam.ztgame.com/network"},{"name":"example.com/other"}],
		"containers":[{"name":"c","image":"i"}]}}`)
	make(deploymentKind, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	owner := func(kind, version, name, uid string) string {
		return fmt.Sprintf(`"ownerReferences":[{"kind":%q,"apiVersion":%q,"name":%q,"uid":%q,"controller":true}]`,
			kind, version, name, uid)
	}
	uid := func(name string) string { return string(made[name].GetUID()) }
	port := func(name, metadata string) string {
		return `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"NetworkPort","metadata":{"name":"` + name + `"` + metadata +
			`},"spec":{"networkName":"net"}}`
	}
	ofWeb := "," + owner("Deployment", "apps/v1", "web", uid("deployments web"))
	make(accounts, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"another"}}`)
	for _, name := range []string{"shop", "mall"} {
		make(serviceKind, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"`+name+`"},
			"spec":{"selector":{"a":"b"},"ports":[{"port":80}]}}`)
	}
	floating := func(name, metadata string) string {
		return `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"FloatingIP","metadata":{"name":"` + name + `"` + metadata +
			`},"spec":{"externalNetwork":"public","deletionPolicy":"Retain"}}`
	}
	ofShop := "," + owner("Service", "v1", "shop", uid("services shop"))
	ofMall := "," + owner("Service", "v1", "mall", uid("services mall"))
	slice := func(name, manager, service, owner string) string {
		return fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":%q,"labels":{
			"endpointslice.kubernetes.io/managed-by":%q,"kubernetes.io/service-name":%q,"service.kubernetes.io/headless":""}%s},"addressType":"IPv4","endpoints":[]}`,
			name, manager, service, owner)
	}
	const ourSlices, theirSlices = "network-controller.cloudteam.ztgame.com", "endpointslice-controller.k8s.io"
	make(sliceKind, slice("ours", ourSlices, "shop", ofShop))
	make(sliceKind, slice("theirs", theirSlices, "shop", ofShop))
	make(floatingIPs, floating("users", ""))
	make(floatingIPs, floating("shop", ofShop))
	make(floatingIPs, floating("renamed", ofShop)) // it has not the Service's name
	make(portKind, port("users", ""))
	make(portKind, port("pools", ofWeb))
	madeFor := func(what string) string { return `,"annotations":{"cloudteam.ztgame.com/made-for":"` + what + `"}` }
	make(portKind, port("left", madeFor("Deployment/web")))
	nad := func(name, owner, config string) string {
		return fmt.Sprintf(`{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition",
			"metadata":{"name":%q,%s},"spec":{"config":%q}}`, name, owner, config)
	}
	ofNet := owner("Network", "cloudteam.ztgame.com/v1", "net", uid("networks net"))
	const (
		plain = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"macvlan","mode":"bridge","mtu":1450,` +
			`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static"}}]}`
		routes = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"macvlan","master":"eth1","mode":"bridge",` +
			`"capabilities":{"ips":true,"mac":true},"ipam":{"type":"static","routes":[{"dst":"10.9.0.0/16","gw":"10.0.0.9"},` +
			`{"dst":"fd00::/64","gw":"fd00::1"}]}}]}`
		own = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"neutron-port",` +
			`"capabilities":{"ips":true,"mac":true}}]}`
		ownRoutes = `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"neutron-port",` +
			`"capabilities":{"ips":true,"mac":true},"routes":[{"dst":"10.9.0.0/16","gw":"10.0.0.9"}]}]}`
	)

	create := func(resource schema.GroupVersionResource, text string, subresources ...string) func() error {
		return func() error {
			_, err := account.Resource(resource).Namespace(namespace).Create(t.Context(), object(t, text),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			return err
		}
	}
	patch := func(resource schema.GroupVersionResource, name, kind, text string, subresources ...string) func() error {
		return func() error {
			_, err := account.Resource(resource).Namespace(namespace).Patch(t.Context(), name, types.PatchType(kind),
				[]byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			return err
		}
	}
	remove := func(resource schema.GroupVersionResource, name string) func() error {
		return func() error {
			return account.Resource(resource).Namespace(namespace).Delete(t.Context(), name,
				metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}
	}
	const merge, strategic = string(types.MergePatchType), string(types.StrategicMergePatchType)
	const byJSON = string(types.JSONPatchType)
	noGate := `"schedulingGates":[{"$patch":"delete","name":"cloudteam.ztgame.com/network"}]`
	condition := func(kind string) string {
		return `{"status":{"conditions":[{"type":"` + kind + `","status":"False","reason":"R","message":"m"}]}}`
	}

	allowed := map[string]func() error{
		"allocate a Pod": patch(podKind, "web", strategic, `{"metadata":{"annotations":{
			"k8s.v1.cni.cncf.io/networks":"[]","cloudteam.ztgame.com/allocations":"[]"}},"spec":{`+noGate+`}}`),
		"let a Pod go":                 patch(podKind, "web", strategic, `{"spec":{`+noGate+`}}`),
		"write our condition on a Pod": patch(podKind, "web", strategic, condition("cloudteam.ztgame.com/NetworksReady"), "status"),
		"write our condition, Deployment": patch(deploymentKind, "web", strategic,
			condition("cloudteam.ztgame.com/NetworksReady"), "status"),
		"claim a Network": patch(networkKind, "net", merge, `{"metadata":{"finalizers":["cloudteam.ztgame.com/network"],
			"annotations":{"cloudteam.ztgame.com/cloud":"{}"}}}`),
		"claim a port": patch(portKind, "users", merge, `{"metadata":{"finalizers":["cloudteam.ztgame.com/networkport"],
			"annotations":{"cloudteam.ztgame.com/cloud":"{}"}}}`),
		"claim a SecurityGroup": patch(securityGroups, "web", merge, `{"metadata":{
			"finalizers":["cloudteam.ztgame.com/securitygroup"],"annotations":{"cloudteam.ztgame.com/cloud":"{}"}}}`),
		"write a SecurityGroup's status": patch(securityGroups, "web", merge, `{"status":{"securityGroupID":"x"}}`, "status"),
		"write a Network's status":       patch(networkKind, "net", merge, `{"status":{"networkID":"x"}}`, "status"),
		"bind a port":                    patch(portKind, "pools", merge, `{"status":{"boundTo":{"kind":"Pod","name":"web","uid":"x"}}}`, "status"),
		"create a Deployment's port":     create(portKind, port("new", ofWeb)),
		"create a StatefulSet's port":    create(portKind, port("new", madeFor("StatefulSet/db/0"))),
		"create a virtual machine's":     create(portKind, port("new", madeFor("VirtualMachine/db"))),
		"create a Pod's port":            create(portKind, port("new", ","+owner("Pod", "v1", "web", uid("pods web")))),
		"delete a Deployment's port":     remove(portKind, "pools"),
		"delete a port left behind":      remove(portKind, "left"),
		"create an attachment":           create(attachment.Resource, nad("net", ofNet, plain)),
		"create one with all there is":   create(attachment.Resource, nad("net", ofNet, routes)),
		"create one of our own plugin":   create(attachment.Resource, nad("net", ofNet, own)),
		"create one of it with routes":   create(attachment.Resource, nad("net", ofNet, ownRoutes)),
		"claim a FloatingIP": patch(floatingIPs, "users", merge, `{"metadata":{
			"finalizers":["cloudteam.ztgame.com/floatingip"],"annotations":{"cloudteam.ztgame.com/cloud":"{}"}}}`),
		"write a FloatingIP's status": patch(floatingIPs, "users", merge, `{"status":{"floatingIPID":"x"}}`, "status"),
		"create a Service's FloatingIP": create(floatingIPs, strings.Replace(floating("mall", ofMall), `"spec":{`,
			`"spec":{"portName":"p","className":"gold",`, 1)),
		"delete a Service's FloatingIP":         remove(floatingIPs, "shop"),
		"lead a Service's FloatingIP to a port": patch(floatingIPs, "shop", merge, `{"spec":{"portName":"p","className":"gold"}}`),
		"lead it to a port of another cloud": patch(floatingIPs, "shop", merge,
			`{"spec":{"portName":"p","cloud":{"secretName":"openstack"}}}`),
		"lead it nowhere":                  patch(floatingIPs, "shop", merge, `{"spec":{"portName":null}}`),
		"create a Service's EndpointSlice": create(sliceKind, slice("mall", ourSlices, "mall", ofMall)),
		"write one":                        patch(sliceKind, "ours", merge, `{"metadata":{"labels":{"team":"a"}},"endpoints":[{"addresses":["10.0.0.7"]}]}`),
		"delete one":                       remove(sliceKind, "ours"),
	}
	pod := func(spec string) func() error { return patch(podKind, "web", strategic, `{"spec":{`+spec+`}}`) }
	evil := strings.Replace(plain, "macvlan", "evil", 1)
	refused := map[string]func() error{
		"change a Pod's image":              pod(`"containers":[{"name":"c","image":"evil"}]`),
		"change it with the gate":           pod(noGate + `,"containers":[{"name":"c","image":"evil"}]`),
		"change a deadline":                 pod(`"activeDeadlineSeconds":1`),
		"add a toleration":                  patch(podKind, "web", byJSON, `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`),
		"select a Pod's node":               pod(`"nodeSelector":{"a":"b"}`),
		"remove another's gate":             pod(`"schedulingGates":[{"$patch":"delete","name":"example.com/other"}]`),
		"change a Pod's labels":             patch(podKind, "web", merge, `{"metadata":{"labels":{"a":"c"}}}`),
		"add a Pod's labels":                patch(podKind, "web", merge, `{"metadata":{"labels":{"c":"c"}}}`),
		"remove a Pod's labels":             patch(podKind, "web", merge, `{"metadata":{"labels":null}}`),
		"change another annotation":         patch(podKind, "web", merge, `{"metadata":{"annotations":{"other":"y"}}}`),
		"remove another annotation":         patch(podKind, "web", merge, `{"metadata":{"annotations":{"other":null}}}`),
		"remove all annotations":            patch(podKind, "web", merge, `{"metadata":{"annotations":null}}`),
		"remove a Pod's finalizer":          patch(podKind, "web", merge, `{"metadata":{"finalizers":null}}`),
		"add our finalizer to a Pod":        patch(podKind, "web", byJSON, `[{"op":"add","path":"/metadata/finalizers/-","value":"cloudteam.ztgame.com/network"}]`),
		"own a Pod":                         patch(podKind, "web", merge, `{"metadata":{`+ofNet+`}}`),
		"write another condition":           patch(podKind, "web", strategic, condition("Ready"), "status"),
		"write a Pod's phase":               patch(podKind, "web", merge, `{"status":{"phase":"Succeeded"}}`, "status"),
		"annotate by the status":            patch(podKind, "web", merge, `{"metadata":{"annotations":{"cloudteam.ztgame.com/allocations":"x"}}}`, "status"),
		"delete a Pod":                      remove(podKind, "web"),
		"create a Pod":                      create(podKind, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`),
		"create a Deployment":               create(deploymentKind, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`),
		"scale a Deployment":                patch(deploymentKind, "web", merge, `{"spec":{"replicas":3}}`),
		"delete a Deployment":               remove(deploymentKind, "web"),
		"write a Deployment's replicas":     patch(deploymentKind, "web", merge, `{"status":{"replicas":3}}`, "status"),
		"write another of its conditions":   patch(deploymentKind, "web", strategic, condition("Available"), "status"),
		"change a Network's spec":           patch(networkKind, "net", merge, `{"spec":{"description":"x"}}`),
		"label a Network":                   patch(networkKind, "net", merge, `{"metadata":{"labels":{"a":"b"}}}`),
		"add another's finalizer":           patch(networkKind, "net", merge, `{"metadata":{"finalizers":["example.com/f"]}}`),
		"delete a Network":                  remove(networkKind, "net"),
		"create a Network":                  create(networkKind, `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"Network","metadata":{"name":"n"},"spec":{"cidr":"10.0.0.0/24"}}`),
		"change a SecurityGroup's spec":     patch(securityGroups, "web", merge, `{"spec":{"description":"x"}}`),
		"label a SecurityGroup":             patch(securityGroups, "web", merge, `{"metadata":{"labels":{"a":"b"}}}`),
		"add another's finalizer to one":    patch(securityGroups, "web", merge, `{"metadata":{"finalizers":["example.com/f"]}}`),
		"delete a SecurityGroup":            remove(securityGroups, "web"),
		"create a SecurityGroup":            create(securityGroups, `{"apiVersion":"cloudteam.ztgame.com/v1","kind":"SecurityGroup","metadata":{"name":"g"},"spec":{}}`),
		"lead a user's FloatingIP":          patch(floatingIPs, "users", merge, `{"spec":{"portName":"p"}}`),
		"change a FloatingIP's class":       patch(floatingIPs, "users", merge, `{"spec":{"className":"gold"}}`),
		"give a user's FloatingIP an owner": patch(floatingIPs, "users", merge, `{"metadata":{`+ofShop[1:]+`}}`),
		"label a FloatingIP":                patch(floatingIPs, "users", merge, `{"metadata":{"labels":{"a":"b"}}}`),
		"add another's finalizer to it":     patch(floatingIPs, "users", merge, `{"metadata":{"finalizers":["example.com/f"]}}`),
		"delete a user's FloatingIP":        remove(floatingIPs, "users"),
		"change its deletion policy":        patch(floatingIPs, "shop", merge, `{"spec":{"deletionPolicy":"Delete"}}`),
		"change its management policy":      patch(floatingIPs, "shop", merge, `{"spec":{"managementPolicy":"Manage"}}`),
		"lead one of another name":          patch(floatingIPs, "renamed", merge, `{"spec":{"portName":"p"}}`),
		"delete one of another name":        remove(floatingIPs, "renamed"),
		"create one of another name":        create(floatingIPs, floating("new", ofMall)),
		"create a FloatingIP":               create(floatingIPs, floating("new", "")),
		"create one that none controls":     create(floatingIPs, floating("mall", strings.Replace(ofMall, `"controller":true`, `"controller":false`, 1))),
		"create one of a Pod":               create(floatingIPs, floating("web", ","+owner("Pod", "v1", "web", uid("pods web")))),
		"create one of an evil Service":     create(floatingIPs, floating("mall", ","+owner("Service", "evil/v1", "mall", "x"))),
		"change a Service":                  patch(serviceKind, "shop", merge, `{"spec":{"selector":{"a":"c"}}}`),
		"annotate a Service":                patch(serviceKind, "shop", merge, `{"metadata":{"annotations":{"cloudteam.ztgame.com/floating-ip":"public"}}}`),
		"write a Service's status":          patch(serviceKind, "shop", merge, strings.Replace(condition("Ready"), `"R"`, `"R","lastTransitionTime":"2026-01-01T00:00:00Z"`, 1), "status"),
		"delete a Service":                  remove(serviceKind, "shop"),
		"create Kubernetes' EndpointSlice":  create(sliceKind, slice("new", theirSlices, "mall", ofMall)),
		"create one of another Service":     create(sliceKind, slice("new", ourSlices, "shop", ofMall)),
		"add to a Service with a clusterIP": create(sliceKind, strings.Replace(slice("new", ourSlices, "mall", ofMall),
			`,"service.kubernetes.io/headless":""`, "", 1)),
		"create an EndpointSlice of none":   create(sliceKind, slice("new", ourSlices, "shop", "")),
		"write Kubernetes' EndpointSlice":   patch(sliceKind, "theirs", merge, `{"endpoints":[{"addresses":["10.0.0.7"]}]}`),
		"take Kubernetes' EndpointSlice":    patch(sliceKind, "theirs", merge, `{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"`+ourSlices+`"}}}`),
		"have one lead another's clients":   patch(sliceKind, "ours", merge, `{"metadata":{"labels":{"kubernetes.io/service-name":"mall"}}}`),
		"delete Kubernetes' EndpointSlice":  remove(sliceKind, "theirs"),
		"create a port without an owner":    create(portKind, port("new", "")),
		"create a Deployment's without one": create(portKind, port("new", madeFor("Deployment/web"))),
		"create a StatefulSet's with another's owner": create(portKind, port("new",
			madeFor("StatefulSet/db/0")+","+owner("Network", "cloudteam.ztgame.com/v1", "net", uid("networks net")))),
		"create a port of something else": create(portKind, port("new", ","+owner("Deployment", "evil/v1", "web", "x"))),
		"delete a user's port":            remove(portKind, "users"),
		"mark a user's port as made for something": patch(portKind, "users", merge,
			`{"metadata":{"annotations":{"cloudteam.ztgame.com/made-for":"StatefulSet/db/0"}}}`),
		"change a port's spec":              patch(portKind, "users", merge, `{"spec":{"securityGroups":["9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11"]}}`),
		"attach by another plugin":          create(attachment.Resource, nad("net", ofNet, evil)),
		"attach by a second plugin":         create(attachment.Resource, nad("net", ofNet, strings.Replace(plain, `}]}`, `},{"type":"evil"}]}`, 1))),
		"give our plugin an IPAM beside":    create(attachment.Resource, nad("net", ofNet, strings.Replace(ownRoutes, `}]}]}`, `}],"ipam":{"type":"evil"}}]}`, 1))),
		"give our plugin a socket":          create(attachment.Resource, nad("net", ofNet, strings.Replace(own, `"capabilities"`, `"socket":"/run/containerd.sock","capabilities"`, 1))),
		"attach by a second type":           create(attachment.Resource, nad("net", ofNet, strings.Replace(plain, `"mode"`, `"type":"evil","mode"`, 1))),
		"attach by a master with a quote":   create(attachment.Resource, nad("net", ofNet, strings.Replace(plain, `"mode"`, `"master":"x\",\"type":"evil","mode"`, 1))),
		"attach by another IPAM":            create(attachment.Resource, nad("net", ofNet, strings.Replace(plain, `"static"`, `"evil"`, 1))),
		"attach what no Network owns":       create(attachment.Resource, nad("net", `"labels":{}`, plain)),
		"attach what another Network owns":  create(attachment.Resource, nad("other", ofNet, plain)),
		"create a ConfigMap":                create(corev1.SchemeGroupVersion.WithResource("configmaps"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`),
		"create a Secret":                   create(corev1.SchemeGroupVersion.WithResource("secrets"), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`),
		"create a RoleBinding":              create(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"edit"}}`),
		"create an account":                 create(accounts, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}`),
		"create a token of another account": create(accounts, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","metadata":{"name":"another"},"spec":{}}`, "token"),
		"bind a Pod to a node":              create(podKind, `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n"}}`, "binding"),
		"evict a Pod":                       create(podKind, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"web"}}`, "eviction"),
		"run a container in a Pod":          patch(podKind, "web", strategic, `{"spec":{"ephemeralContainers":[{"name":"e","image":"evil"}]}}`, "ephemeralcontainers"),
		"run a command in a Pod": func() error {
			client, err := kubernetes.NewForConfig(impersonating(accountUser, "system:masters"))
			if err != nil {
				return err
			}
			return client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name("web").SubResource("exec").
				Param("command", "sh").Param("stdout", "true").Do(t.Context()).Error()
		},
	}
	holdPolicy(t, "network-controller-account", refused["delete a Pod"], allowed, refused)
}

// holdPolicy holds that a policy lets all of allowed through and refuses all of refused, once it refuses probe.
func holdPolicy(t *testing.T, policy string, probe func() error, allowed, refused map[string]func() error) {
	t.Helper()
	// The API server takes a moment to see a policy.
	eventually(t, func() error {
		if err := probe(); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if err := allowed[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if err := refused[name](); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), policy) {
			t.Errorf("%s: want it refused by the policy, got %v", name, err)
		}
	}
}
