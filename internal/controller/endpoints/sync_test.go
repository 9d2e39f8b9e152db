package endpoints

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var webKey = cache.NewObjectName("shop", "web")

// world is a controller that runs against an API server that is played. Its example is the Service "web".
type world struct {
	*controllertest.World[*corev1.Service]
	controller *Controller
	classes    *controllertest.Classes
}

func inWorld(t *testing.T, test func(w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*corev1.Service](t, webKey), classes: controllertest.NewClasses(
			controllertest.OpenClass(), &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: "closed"}})}
		made := 0
		controllertest.Serve(w.API, w.Kube, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
			controllertest.Rules[*discoveryv1.EndpointSlice]{
				Line: func(action clienttesting.Action) string { return action.GetVerb() },
				Default: func(slice *discoveryv1.EndpointSlice) {
					if slice.Name == "" {
						made++
						slice.Name = fmt.Sprint(slice.GenerateName, made)
					}
				},
			})
		core := corev1.SchemeGroupVersion
		controllertest.Serve(w.API, w.Kube, core.WithResource("services"), controllertest.Rules[*corev1.Service]{})
		controllertest.Serve(w.API, w.Kube, core.WithResource("pods"), controllertest.Rules[*corev1.Pod]{})
		w.Create(network("net"))
		w.Create(objects...)
		w.restart()
		test(w)
	})
}

// restart ends the controller, if one runs, and runs a new one.
func (w *world) restart() {
	w.T.Helper()
	w.Stop()
	w.NewInformers()
	caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
	expect.NoError(w.T, err)
	services, own := w.KubeInformers.Core().V1().Services(), w.KubeInformers.Discovery().V1().EndpointSlices()
	c, err := NewController(w.Kube.DiscoveryV1(), w.Kube.CoreV1(), services, own, caches, w.classes.Classes, w.Events)
	expect.NoError(w.T, err)
	w.controller = c
	w.Start(controllertest.Process{Loop: c.Loop, Caches: []cache.Indexer{
		services.Informer().GetIndexer(), own.Informer().GetIndexer(), caches.Pods.Informer().GetIndexer(),
		caches.Ports.Informer().GetIndexer(),
	}})
	w.Run(c.Run, 2)
	w.settle()
}

func (w *world) settle() { controllertest.Settle(3 * time.Second) }

func network(name string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1,
	}}
	n.Spec.CIDR = "10.0.0.0/16"
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "v4", CIDR: "10.0.0.0/16"}, {ID: "v6", CIDR: "fd00::/64"}}
	return n
}

// service asks for endpoints at the Pods with app=web on the Network "net".
func service(edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"}}
	s.Annotations = map[string]string{
		cloudteamv1.AnnotationEndpointsNetwork: "net", cloudteamv1.AnnotationEndpointsSelector: "app=web",
	}
	s.Labels = map[string]string{"team": "shop"}
	s.Spec = corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web")},
			{Name: "metrics", Port: 9000, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9100)},
		},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// pod is the i-th Pod with the label app=web, which runs and is ready.
func pod(i int) *corev1.Pod {
	name := fmt.Sprint("web-", i)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{
			selection.Annotation: "net", cloudteamv1.AnnotationAllocations: `{"ports":{}}`,
		},
		Finalizers: []string{"test/stays"}, CreationTimestamp: metav1.Unix(int64(1000+i), 0),
	}}
	p.Spec.NodeName, p.Spec.Hostname, p.Spec.Subdomain = "node", name, "web"
	p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: 8080},
	}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// port is the NetworkPort of the i-th Pod.
func port(i int) *cloudteamv1.NetworkPort {
	name := fmt.Sprint("web-", i)
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name + "-net", UID: types.UID("uid-port-" + name), Finalizers: []string{"test/stays"},
	}}
	p.Spec.NetworkName = "net"
	p.Status.PortID = "id-" + name
	p.Status.Addresses = []cloudteamv1.PortAddress{
		{Address: fmt.Sprintf("10.0.%d.%d/16", i/200, 10+i%200), SubnetID: "v4"}, {Address: fmt.Sprintf("fd00::%d/64", i), SubnetID: "v6"},
	}
	p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: name, UID: types.UID("uid-" + name)}
	return p
}

func podKey(i int) cache.ObjectName { return cache.NewObjectName("shop", fmt.Sprint("web-", i)) }
func portKey(i int) cache.ObjectName {
	return cache.NewObjectName("shop", fmt.Sprintf("web-%d-net", i))
}

// all are the EndpointSlices that exist.
func (w *world) all() []discoveryv1.EndpointSlice {
	w.T.Helper()
	list, err := w.Kube.DiscoveryV1().EndpointSlices("shop").List(w.T.Context(), metav1.ListOptions{})
	expect.NoError(w.T, err)
	return list.Items
}

// has gives the endpoints of the Service, as "address hostname state ports", without those of the other IP family.
func (w *world) has(family discoveryv1.AddressType) (all []string) {
	w.T.Helper()
	for _, slice := range w.all() {
		if slice.AddressType != family {
			continue
		}
		var ports []string
		for _, p := range slice.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
		}
		for _, e := range slice.Endpoints {
			state := ""
			for text, is := range map[string]*bool{
				"ready": e.Conditions.Ready, "serving": e.Conditions.Serving, "terminating": e.Conditions.Terminating,
			} {
				if *is {
					state += text[:1]
				}
			}
			sorted := []byte(state)
			slices.Sort(sorted)
			all = append(all, fmt.Sprint(e.Addresses[0], " ", *e.Hostname, " ", string(sorted), " ", strings.Join(ports, ",")))
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) want(want ...string) {
	w.T.Helper()
	w.settle()
	if have := w.has(discoveryv1.AddressTypeIPv4); !slices.Equal(have, want) {
		w.T.Errorf("the endpoints are\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if have := w.has(discoveryv1.AddressTypeIPv6); len(have) != len(want) {
		w.T.Errorf("of IPv6, there are %d endpoints, want %d: %v", len(have), len(want), have)
	}
}

const (
	first  = "10.0.0.11 web-1 rs http:8080,metrics:9100"
	second = "10.0.0.12 web-2 rs http:8080,metrics:9100"
)

func TestEndpointsFollowPods(t *testing.T) {
	inWorld(t, func(w *world) {
		w.want(first, second)
		for _, slice := range w.all() {
			expect.Equal(t, consumer.EndpointsManagedBy, slice.Labels[discoveryv1.LabelManagedBy], "who manages a slice")
			expect.Equal(t, "web", slice.Labels[discoveryv1.LabelServiceName], "a slice's Service")
			expect.Equal(t, "shop", slice.Labels["team"], "a label of the Service")
			if _, headless := slice.Labels[corev1.IsHeadlessService]; !headless {
				t.Error("kube-proxy would read a slice")
			}
			if !metav1.IsControlledBy(&slice, w.Get()) {
				t.Error("a slice is not the Service's")
			}
		}
		w.Calls.Take()
		w.restart()
		expect.Empty(t, w.Calls.Take(), "what a restart writes")

		ready := func(i int, is corev1.ConditionStatus) {
			controllertest.Edit(t, w.API, podKey(i), func(p *corev1.Pod) { p.Status.Conditions[0].Status = is })
		}
		ready(1, corev1.ConditionFalse)
		w.want(strings.Replace(first, " rs ", "  ", 1), second)
		expect.Equal(t, 2, len(w.Calls.Take()), "writes for a Pod that is not ready, one for each family")
		ready(1, corev1.ConditionTrue)
		w.want(first, second)

		w.API.Delete(t, controllertest.Get[*corev1.Pod](t, w.API, podKey(1)))
		w.want(strings.Replace(first, " rs ", " st ", 1), second)
		controllertest.Edit(t, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo = nil })
		w.want(second)
		w.API.DeleteByForce(t, controllertest.Get[*corev1.Pod](t, w.API, podKey(1)))
		w.Create(port(3), pod(3))
		w.want(second, "10.0.0.13 web-3 rs http:8080,metrics:9100")
		w.API.DeleteByForce(t, controllertest.Get[*corev1.Pod](t, w.API, podKey(2)))
		w.want("10.0.0.13 web-3 rs http:8080,metrics:9100")
		w.API.DeleteByForce(t, controllertest.Get[*corev1.Pod](t, w.API, podKey(3)))
		w.want()
		w.Calls.Take()
		w.restart()
		expect.Empty(t, w.Calls.Take(), "what a restart writes")
		expect.Empty(t, w.Events.Take(), "Events")
	}, service(), pod(1), port(1), pod(2), port(2))
}

// TestOnlyAttachedPortsAreEndpoints takes an endpoint away and gives it back.
func TestOnlyAttachedPortsAreEndpoints(t *testing.T) {
	attached := func(status metav1.ConditionStatus) func(*cloudteamv1.NetworkPort) {
		return func(p *cloudteamv1.NetworkPort) {
			p.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionAttached, Status: status}}
		}
	}
	for sentence, edit := range map[string]func(w *world){
		"a port that is not attached": func(w *world) {
			controllertest.Edit(w.T, w.API, portKey(1), attached(metav1.ConditionFalse))
		},
		"a port of another Pod of the name": func(w *world) {
			controllertest.Edit(w.T, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) { p.Status.BoundTo.UID = "earlier" })
		},
		"a port that is being deleted": func(w *world) {
			w.API.Delete(w.T, controllertest.Get[*cloudteamv1.NetworkPort](w.T, w.API, portKey(1)))
		},
		"a port that is not in Neutron": func(w *world) {
			controllertest.Edit(w.T, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) { p.Status.PortID = "" })
		},
		"a port in another project": func(w *world) {
			controllertest.Edit(w.T, w.API, cache.NewObjectName("shop", "net"), func(n *cloudteamv1.Network) {
				n.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: "b"}
			})
			controllertest.Edit(w.T, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) {
				p.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: "a"}
			})
		},
		"a port of a tenant's cloud": func(w *world) {
			controllertest.Edit(w.T, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) {
				p.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "shop"}
			})
		},
		"addresses that no endpoint may have": func(w *world) {
			controllertest.Edit(w.T, w.API, portKey(1), func(p *cloudteamv1.NetworkPort) {
				p.Status.Addresses = nil
				for _, a := range []string{"127.0.0.1/8", "169.254.169.254/16", "fe80::1/64", "::/0", "224.0.0.1/4", "::1/128", "?"} {
					p.Status.Addresses = append(p.Status.Addresses, cloudteamv1.PortAddress{Address: a, SubnetID: "v4"})
				}
			})
		},
		"a Pod without the label": func(w *world) {
			controllertest.Edit(w.T, w.API, podKey(1), func(p *corev1.Pod) { p.Labels["app"] = "other" })
		},
		"a Pod that has ended": func(w *world) {
			controllertest.Edit(w.T, w.API, podKey(1), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.want(first)
				edit(w)
				w.want()
				w.Create(port(2), pod(2)) // others are not concerned
				if !strings.Contains(sentence, "project") {
					w.want(second)
				}
			}, service(), pod(1), port(1))
		})
	}
	t.Run("a port that is attached", func(t *testing.T) {
		p := port(1)
		attached(metav1.ConditionTrue)(p)
		inWorld(t, func(w *world) { w.want(first) }, service(), pod(1), p)
	})
	t.Run("a Pod that is not scheduled", func(t *testing.T) {
		p := pod(1)
		p.Spec.NodeName = ""
		inWorld(t, func(w *world) { w.want() }, service(), p, port(1))
	})
}

// TestServicesWithoutEndpoints has a Service with endpoints become one that can have none, and back.
func TestServicesWithoutEndpoints(t *testing.T) {
	annotate := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Annotations = map[string]string{
				cloudteamv1.AnnotationEndpointsNetwork: "net", cloudteamv1.AnnotationEndpointsSelector: "app=web", key: value,
			}
		}
	}
	const onNetwork, selector = cloudteamv1.AnnotationEndpointsNetwork, cloudteamv1.AnnotationEndpointsSelector
	var many []string
	for i := range consumer.MaxEndpointsSelector + 1 {
		many = append(many, fmt.Sprintf("l%d=v", i))
	}
	for sentence, c := range map[string]struct {
		edit func(*corev1.Service)
		told string
	}{
		"no annotation":     {func(s *corev1.Service) { s.Annotations = nil }, ""},
		"no selector":       {func(s *corev1.Service) { delete(s.Annotations, selector) }, "selects no Pods"},
		"a wrong selector":  {annotate(selector, "app in (web)"), "selects no Pods"},
		"a long selector":   {annotate(selector, strings.Join(many, ",")), "more than 32 labels"},
		"no name":           {annotate(onNetwork, ""), "names no Network"},
		"no such Network":   {annotate(onNetwork, "none"), "there is no Network none in this namespace"},
		"another namespace": {annotate(onNetwork, "shop/net"), "there is no Network shop/net in this namespace"},
		"spec.selector":     {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }, "spec.selector is set"},
		"a clusterIP":       {func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" }, "has a clusterIP"},
		"many ports":        {func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, consumer.MaxEndpointsPorts+1) }, "more than 8 ports"},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.want(first)
				w.Edit(c.edit)
				w.settle()
				expect.Empty(t, w.all(), "slices are left")
				w.restart()
				expect.Empty(t, w.all(), "slices of a restart")
				events := w.Events.Take()
				if c.told == "" {
					expect.Empty(t, events, "Events")
				} else if len(events) != 2 { // one for each process
					t.Errorf("Events: %v", events)
				} else {
					expect.Contains(t, events[0], c.told, "the Event")
				}
				w.Edit(func(s *corev1.Service) { *s = *with(service(), s) })
				w.want(first)
			}, service(), pod(1), port(1))
		})
	}
}

// with gives a Service the identity of another.
func with(s, of *corev1.Service) *corev1.Service {
	s.ResourceVersion, s.UID, s.Generation = of.ResourceVersion, of.UID, of.Generation
	return s
}

// TestAClassAllowsEndpoints also takes them away when the permission goes.
func TestAClassAllowsEndpoints(t *testing.T) {
	netKey := cache.NewObjectName("shop", "net")
	for sentence, c := range map[string]struct {
		edit func(w *world)
		told string
	}{
		"another class": {func(w *world) {
			controllertest.Edit(w.T, w.API, netKey, func(n *cloudteamv1.Network) { n.Spec.ClassName = "closed" })
		}, `NetworkClass "closed" forbids endpoints of Services on Network net. The Service has no endpoints there.`},
		"no such class": {func(w *world) {
			controllertest.Edit(w.T, w.API, netKey, func(n *cloudteamv1.Network) { n.Spec.ClassName = "none" })
		}, `There is no NetworkClass "none"`},
		"a class that is tightened": {func(w *world) {
			class := controllertest.OpenClass()
			class.Spec.AllowedFields = nil
			w.classes.Set(class)
			w.controller.EnqueueNamespace("")
		}, `NetworkClass "open" forbids endpoints`},
		"a class of other ranges": {func(w *world) {
			class := controllertest.OpenClass()
			class.Spec.AllowedRanges = []string{"172.16.0.0/12"}
			w.classes.Set(class)
			w.controller.EnqueueNamespace("shop")
		}, `NetworkClass "open" forbids spec.cidr`},
		"a class of other ranges than a subnet that is left": {func(w *world) {
			class := controllertest.OpenClass()
			class.Spec.AllowedRanges = []string{"10.0.0.0/16", "fd00::/64"}
			w.classes.Set(class)
			controllertest.Edit(w.T, w.API, netKey, func(n *cloudteamv1.Network) {
				n.Status.Subnets = append(n.Status.Subnets, cloudteamv1.SubnetStatus{ID: "old", CIDR: "10.244.0.0/24"})
			})
		}, `NetworkClass "open" forbids endpoints of Services in subnet 10.244.0.0/24 of Network net.`},
		"a class for other namespaces": {func(w *world) {
			class := controllertest.OpenClass()
			class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
			w.classes.Set(class)
			w.controller.EnqueueNamespace("shop")
		}, `NetworkClass "open" forbids objects in namespace shop`},
		"a cloud of its own": {func(w *world) {
			controllertest.Edit(w.T, w.API, netKey, func(n *cloudteamv1.Network) {
				n.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "mine"}
			})
		}, "Network net has its own credentials (spec.cloud)"},
		"a cloud that was its own": {func(w *world) {
			controllertest.Edit(w.T, w.API, netKey, func(n *cloudteamv1.Network) {
				n.Status.Credentials = &cloudteamv1.CredentialsStatus{Namespace: "shop", SecretName: "mine"}
			})
		}, "Network net was made with its namespace's own credentials"},
		"no Network": {func(w *world) {
			w.API.DeleteByForce(w.T, controllertest.Get[*cloudteamv1.Network](w.T, w.API, netKey))
		}, "there is no Network net"},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.want(first)
				c.edit(w)
				w.settle()
				expect.Empty(t, w.all(), "slices are left")
				expect.Contains(t, strings.Join(w.Events.Take(), "\n"), c.told, "the Event")
			}, service(), pod(1), port(1))
		})
	}
}

// TestWritesThatFail has each kind of write refused, and its answer lost, once.
func TestWritesThatFail(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("try again"))
	for _, verb := range []string{"create", "patch", "delete"} {
		for way, fail := range map[string]func(w *world, with func(string) error){
			"refused": func(w *world, with func(string) error) { w.API.Refuse(with) },
			"lost":    func(w *world, with func(string) error) { w.API.Lose(with) },
		} {
			t.Run(verb+" "+way, func(t *testing.T) {
				inWorld(t, func(w *world) {
					failed := 0
					fail(w, func(line string) error {
						if line == verb && failed == 0 {
							failed++
							return broken
						}
						return nil
					})
					w.Create(service())
					w.want(first)
					controllertest.Edit(t, w.API, podKey(1), func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False" })
					w.want(strings.Replace(first, " rs ", "  ", 1))
					expect.Equal(t, 2, len(w.all()), "slices, one for each family")
					w.Edit(func(s *corev1.Service) { s.Annotations = nil })
					w.settle()
					w.settle()
					expect.Empty(t, w.all(), "slices are left")
					expect.Equal(t, 1, failed, "failures")
				}, pod(1), port(1))
			})
		}
	}
	t.Run("a refusal is told", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.API.Refuse(controllertest.Refusing("create", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a quota"))))
			w.Create(service())
			w.settle()
			expect.Contains(t, strings.Join(w.Events.Take(), "\n"), "a quota", "the Event")
			w.API.Refuse(nil)
			controllertest.Settle(time.Minute)
			w.want(first)
		}, pod(1), port(1))
	})
}

// TestARefusedCreateKeepsNoPodThatIsNotReady holds that a full quota, which keeps the slice of one IP family away, does
// not keep the other one as it was.
func TestARefusedCreateKeepsNoPodThatIsNotReady(t *testing.T) {
	inWorld(t, func(w *world) {
		w.want(first)
		w.API.Refuse(controllertest.Refusing("create", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("a quota"))))
		for _, slice := range w.all() {
			if slice.AddressType == discoveryv1.AddressTypeIPv6 {
				expect.NoError(t, w.Kube.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), slice.Name, metav1.DeleteOptions{}))
			}
		}
		controllertest.Edit(t, w.API, podKey(1), func(p *corev1.Pod) { p.Status.Conditions[0].Status = "False" })
		w.settle()
		want := []string{strings.Replace(first, " rs ", "  ", 1)}
		expect.Equal(t, want, w.has(discoveryv1.AddressTypeIPv4), "the endpoints of IPv4")
		controllertest.Settle(time.Minute)
		expect.Equal(t, 1, strings.Count(strings.Join(w.Events.Take(), "\n"), "a quota"), "Events about the quota")
	}, service(), pod(1), port(1))
}

// TestOthersEditsAreTakenBack of what makes a slice the Service's.
func TestOthersEditsAreTakenBack(t *testing.T) {
	for sentence, edit := range map[string]func(*discoveryv1.EndpointSlice){
		"endpoints":           func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		"an address":          func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.0.0.66"} },
		"ports":               func(s *discoveryv1.EndpointSlice) { s.Ports = s.Ports[:1] },
		"the Service's label": func(s *discoveryv1.EndpointSlice) { delete(s.Labels, "team") },
		"the Service's name":  func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "other" },
		"a label and a stranger's annotation": func(s *discoveryv1.EndpointSlice) {
			s.Labels["more"], s.Annotations = "", map[string]string{"a": "b"}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.want(first)
				slice := w.all()[0]
				controllertest.Edit(t, w.API, cache.MetaObjectToName(&slice), edit)
				w.want(first)
				for _, s := range w.all() {
					_, more := s.Labels["more"]
					if s.Labels["team"] != "shop" || s.Labels[discoveryv1.LabelServiceName] != "web" || more {
						t.Errorf("the labels are %v", s.Labels)
					}
					if len(edited(edit).Annotations) > 0 && s.Name == slice.Name && s.Annotations["a"] != "b" {
						t.Error("what is another's is gone")
					}
				}
			}, service(), pod(1), port(1))
		})
	}
	t.Run("what a Service leaves", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.API.Delete(t, w.Get())
			for _, slice := range w.all() {
				controllertest.Edit(t, w.API, cache.MetaObjectToName(&slice), func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil })
			}
			w.settle()
			expect.Empty(t, w.all(), "slices that nobody owns")
		}, service(), pod(1), port(1))
	})
	t.Run("an owner", func(t *testing.T) {
		inWorld(t, func(w *world) {
			slice := w.all()[0]
			controllertest.Edit(t, w.API, cache.MetaObjectToName(&slice), func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil })
			w.want(first)
			for _, s := range w.all() {
				if !metav1.IsControlledBy(&s, w.Get()) {
					t.Error("a slice is not the Service's")
				}
			}
		}, service(), pod(1), port(1))
	})
	t.Run("a deletion", func(t *testing.T) {
		inWorld(t, func(w *world) {
			for _, slice := range w.all() {
				w.API.DeleteByForce(t, &slice)
			}
			w.want(first)
		}, service(), pod(1), port(1))
	})
}

// edited is a slice after an edit.
func edited(edit func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{Ports: make([]discoveryv1.EndpointPort, 2), Endpoints: make([]discoveryv1.Endpoint, 1)}
	s.Labels = map[string]string{}
	edit(s)
	return s
}

// TestServicesAndPodsAreBounded has more of both than have endpoints.
func TestServicesAndPodsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range maxServices + 2 {
			s := service()
			s.Name, s.UID, s.CreationTimestamp = fmt.Sprint("s", i), types.UID(fmt.Sprint("s", i)), metav1.Unix(int64(i), 0)
			w.Create(s)
			if i%20 == 0 {
				w.settle() // a watch that is played has a short queue
			}
		}
		w.settle()
		of := map[string]bool{}
		for _, slice := range w.all() {
			of[slice.Labels[discoveryv1.LabelServiceName]] = true
		}
		if len(of) != maxServices || of[fmt.Sprint("s", maxServices)] {
			t.Errorf("%d Services have endpoints, want the oldest %d", len(of), maxServices)
		}
		expect.Contains(t, strings.Join(w.Events.Take(), "\n"), "at most 256 Services of a namespace", "the Event")
		if keys := w.controller.ofPod(pod(1)); len(keys) > maxServices {
			t.Errorf("an event of a Pod names %d Services", len(keys))
		}
		w.Calls.Take()
		for i := range 100 {
			is := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[i%2]
			controllertest.Edit(t, w.API, podKey(1), func(p *corev1.Pod) { p.Status.Conditions[0].Status = is })
			controllertest.Settle(10 * time.Millisecond)
		}
		if n := len(w.Calls.Take()); n > 2*2*maxServices {
			t.Errorf("a Pod that %d Services select changed for a second, and that took %d writes", maxServices, n)
		}
		w.API.Delete(t, controllertest.Get[*corev1.Service](t, w.API, cache.NewObjectName("shop", "s0")))
		w.settle()
		if !slices.ContainsFunc(w.all(), func(s discoveryv1.EndpointSlice) bool {
			return s.Labels[discoveryv1.LabelServiceName] == fmt.Sprint("s", maxServices)
		}) {
			t.Error("the next Service has no turn")
		}
		s := service()
		s.Name, s.UID = "oldest", "oldest"
		w.Create(s)
		w.settle()
		of = map[string]bool{}
		for _, slice := range w.all() {
			of[slice.Labels[discoveryv1.LabelServiceName]] = true
		}
		if !of["oldest"] || of[fmt.Sprint("s", maxServices)] {
			t.Error("the youngest Service keeps its turn")
		}
	}, pod(1), port(1))
	var objects []controllertest.Object
	for i := range maxPods + 1 {
		objects = append(objects, pod(i), port(i))
	}
	t.Run("Pods", func(t *testing.T) {
		inWorld(t, func(w *world) {
			n := 0
			for _, slice := range w.all() {
				if n += len(slice.Endpoints); len(slice.Endpoints) > consumer.MaxEndpointsPerSlice {
					t.Errorf("a slice has %d endpoints", len(slice.Endpoints))
				}
			}
			expect.Equal(t, 2*maxPods, n, "endpoints of both families")
			expect.Contains(t, strings.Join(w.Events.Take(), "\n"), "more than 1000 Pods", "the Event")

			// A Pod that changes again and again is followed ten times in a second, and at last as it is.
			w.Calls.Take()
			for i := range 200 {
				is := corev1.ConditionTrue
				if i%2 == 0 {
					is = corev1.ConditionFalse
				}
				controllertest.Edit(t, w.API, podKey(1), func(p *corev1.Pod) { p.Status.Conditions[0].Status = is })
				controllertest.Settle(5 * time.Millisecond)
			}
			if n := len(w.Calls.Take()); n < 2 || n > 2*12 {
				t.Errorf("%d writes in a second, want at most one in 100 ms for each family", n)
			}
			w.settle()
			if !slices.ContainsFunc(w.has(discoveryv1.AddressTypeIPv4), func(e string) bool {
				return strings.HasPrefix(e, "10.0.0.11 web-1 rs ")
			}) {
				t.Error("the last change is not followed")
			}
		}, append(objects, service())...)
	})
}
