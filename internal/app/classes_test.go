package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// The controller starts in a cluster without the CRD of NetworkClasses, which is installed later.
func TestClassesJudgeOnceTheirCRDIsInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := &playedDiscovery{group: classResource.GroupVersion().String()}
		client, kube := fake.NewSimpleClientset(controllertest.OpenClass()), kubefake.NewClientset()
		ctx, cancel := context.WithCancel(quietly(t))
		p := &process{
			client: client, kube: kube, discovery: &discoverer{ServerResourcesInterfaceWithContext: served},
			readiness: &readiness{}, election: alone(), classes: classes.New("controllers"), baseCtx: ctx,
			factory:      informers.NewSharedInformerFactory(client, 0),
			kubeFactory:  kubeinformers.NewSharedInformerFactory(kube, 0),
			namespaces:   following(ctx, t, kube, ""),
			classesKnown: make(chan struct{}),
		}
		p.group, p.runCtx = errgroup.WithContext(ctx)
		var enqueued []string
		p.classed = append(p.classed, func(namespace string) { enqueued = append(enqueued, namespace) })
		defer func() {
			cancel()
			if err := p.group.Wait(); err != nil {
				t.Error(err)
			}
			p.factory.Shutdown()
			p.kubeFactory.Shutdown()
			p.namespaces.factory.Shutdown()
		}()
		obj := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
		obj.Spec.CIDR = "8.8.8.0/24" // only the open class allows it
		want := func(reason string) {
			t.Helper()
			synctest.Wait()
			if _, _, is, message := p.classes.Judge(obj); is != reason {
				t.Errorf("the Network is judged %q (%s), want %q", is, message, reason)
			}
		}
		p.startClasses()
		p.awaitClasses(ctx) // Networks do not wait for a CRD that may never come.
		want(cloudteamv1.ReasonForbiddenByClass)
		served.mu.Lock()
		served.resource = classResource.Resource
		served.mu.Unlock()
		<-time.After(attachmentPoll + time.Second)
		want("")
		if len(enqueued) != 1 || enqueued[0] != "" {
			t.Errorf("the namespaces %q were enqueued, want all once", enqueued)
		}
	})
}
