package app

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	fakeclientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// forgetful is an API server that is out of reach at first.
type forgetful struct {
	discovery.ServerResourcesInterfaceWithContext
	failures int
}

func (f *forgetful) ServerResourcesForGroupVersionWithContext(
	ctx context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	if f.failures--; f.failures >= 0 {
		return nil, apierrors.NewServiceUnavailable("it starts")
	}
	return f.ServerResourcesInterfaceWithContext.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
}

// What is decided once, whether there are NetworkPorts to wait for, is not decided by an answer that failed.
func TestACRDIsMissingOnlyIfTheAPIServerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fakeclientset.NewSimpleClientset()
		client.Resources = []*metav1.APIResourceList{{
			GroupVersion: portResource.GroupVersion().String(),
			APIResources: []metav1.APIResource{{Name: portResource.Resource}},
		}}
		d := newDiscoverer(client.Discovery())
		d.ServerResourcesInterfaceWithContext = &forgetful{d.ServerResourcesInterfaceWithContext, 2}
		if yes, err := d.installed(t.Context(), portResource); !yes || err != nil {
			t.Errorf("the CRD of NetworkPorts is installed: %t, %v, want true", yes, err)
		}
		if yes, err := d.installed(t.Context(), fooResource); yes || err != nil {
			t.Errorf("the CRD of Foos is installed: %t, %v, want false", yes, err)
		}
	})
}

// playedDiscovery is an API server that serves one group, and counts requests.
type playedDiscovery struct {
	discovery.ServerResourcesInterfaceWithContext
	// mu guards the fields below.
	mu       sync.Mutex
	asked    int
	resource string
	err      error
}

func (d *playedDiscovery) ServerResourcesForGroupVersionWithContext(
	_ context.Context, groupVersion string,
) (*metav1.APIResourceList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if groupVersion != "k8s.cni.cncf.io/v1" {
		return nil, apierrors.NewNotFound(attachmentcontroller.Resource.GroupResource(), "")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: d.resource}}}, d.err
}

func TestAwaitPollsUntilTheResourceIsServed(t *testing.T) {
	resource := attachmentcontroller.Resource
	for name, c := range map[string]struct {
		resource string
		err      error
	}{
		"the group is not served":             {"", apierrors.NewNotFound(resource.GroupResource(), "")},
		"the API server does not answer":      {"", errors.New("connection refused")},
		"the group is served for another CRD": {"multi-networkpolicies", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served := &playedDiscovery{resource: c.resource, err: c.err}
				d := &discoverer{ServerResourcesInterfaceWithContext: served}
				done := make(chan error, 1)
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx := klog.NewContext(t.Context(), logger)
				go func() { done <- d.await(ctx, 30*time.Second, "missing", resource) }()
				<-time.After(95 * time.Second)
				synctest.Wait()
				served.mu.Lock()
				asked := served.asked
				served.mu.Unlock()
				if asked != 4 || len(done) > 0 {
					t.Fatalf("asked %d times in 95 s, done %t; want 4, at the start and then each 30 s", asked, len(done) > 0)
				}
				if lines := logger.GetSink().(ktesting.Underlier).GetBuffer().Data(); len(lines) != 1 {
					t.Errorf("%d lines are logged, want one: %v", len(lines), lines)
				}
				served.mu.Lock()
				served.resource, served.err = resource.Resource, nil
				served.mu.Unlock()
				<-time.After(30 * time.Second)
				synctest.Wait()
				if len(done) == 0 {
					t.Fatal("it still waits")
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &discoverer{ServerResourcesInterfaceWithContext: &playedDiscovery{}}
	if err := d.await(ctx, time.Second, "missing", networkResource); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// A pool counts a Pod once the Pod's ReplicaSet is known, whose event is the last that tells of either.
func TestATrimmedReplicaSetEnqueuesItsDeployment(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        int
	}{
		"whose Pods declare networks":    {map[string]string{selection.Annotation: "example-network"}, 1},
		"whose Pods declare no networks": {map[string]string{"other": "example-network"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kube := kubefake.NewClientset(&appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "web-1", UID: "set", OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: new(true),
					}},
				},
			}, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "web-1-x", UID: "pod", Annotations: c.annotations,
					OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "set", Controller: new(true),
					}},
				},
			})
			client := fakeclientset.NewSimpleClientset()
			factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
			kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0, kubeinformers.WithTransform(trim))
			caches, err := consumer.NewCaches(consumer.Informers{
				Networks:    factory.Cloudteam().V1().Networks(),
				Ports:       factory.Cloudteam().V1().NetworkPorts(),
				Pods:        kubeFactory.Core().V1().Pods(),
				ReplicaSets: kubeFactory.Apps().V1().ReplicaSets(),
				Deployments: kubeFactory.Apps().V1().Deployments(),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			deployments, err := deploymentcontroller.NewController(
				client.CloudteamV1(), kube.AppsV1(), kube.CoreV1(), caches, record.NewFakeRecorder(1), 0)
			if err != nil {
				t.Fatal(err)
			}
			factory.StartWithContext(t.Context())
			kubeFactory.StartWithContext(t.Context())
			synced, err := deployments.Follow()
			if err != nil {
				t.Fatal(err)
			}
			if !cache.WaitFor(t.Context(), "", synced...) {
				t.Fatal("the caches are not filled")
			}
			deadline := time.After(10 * time.Second)
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			for !deployments.HasSynced() || deployments.Len() < c.want {
				select {
				case <-poll.C:
				case <-deadline:
					t.Fatalf("caches filled: %t; %d Deployments wait to be looked at, want %d",
						deployments.HasSynced(), deployments.Len(), c.want)
				}
			}
			if got := deployments.Len(); got != c.want {
				t.Errorf("%d Deployments wait to be looked at, want %d", got, c.want)
			}
		})
	}
}

// A proxy in front of the API server may answer with a page that quotes the request.
func TestAnErrorPageShowsNoServiceAccountToken(t *testing.T) {
	const canary = "canary-service-account-token"
	// A token is sent over TLS alone.
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintln(w, "no server is available for", r.Header)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: server.URL, CertificateAuthorityData: authority},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: canary}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.Kubeconfig = path
	config, err := kubeConfig(o)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "no server is available") || strings.Contains(err.Error(), canary) {
		t.Errorf("the error is %v, want one that quotes the page without the token", err)
	}
}
