package app

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var classResource = cloudteamv1.SchemeGroupVersion.WithResource("networkclasses")

// namespaceFile is where the kubelet writes the namespace of a Pod's ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace is where the Secrets of NetworkClasses are: the ServiceAccount's namespace in a Pod, and elsewhere that
// of the Lease.
func (o *Options) ownNamespace() (string, error) {
	if o.Kubeconfig != "" || o.Master != "" {
		return o.LeaderElection.ResourceNamespace, nil
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("finding the controller's own namespace: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// startClasses fills the caches of NetworkClasses and of namespaces, once the CRD is installed. Until then the built-in
// class judges all Networks. A CRD that is there from the start is waited for: see awaitClasses.
func (p *process) startClasses() {
	p.readiness.add("networkclasses", func() bool { return isClosed(p.classesKnown) })
	p.group.Go(func() error {
		installed, err := p.discovery.installed(p.runCtx, classResource)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the API server answered
		}
		if !installed {
			close(p.classesKnown)
			if err := p.discovery.await(p.runCtx, attachmentPoll,
				"NetworkClasses are not installed; the built-in class is used until they are", classResource); err != nil {
				return nil //nolint:nilerr // told to stop before the CRD was there
			}
		}
		synced, err := p.followClasses()
		if err != nil {
			return err
		}
		if !cache.WaitForCacheSync(p.runCtx.Done(), synced...) {
			return nil // told to stop before the caches were full
		}
		p.classes.Use(p.factory.Cloudteam().V1().NetworkClasses().Informer().GetStore(), p.namespaces.store)
		if installed {
			close(p.classesKnown)
		}
		klog.FromContext(p.runCtx).Info("Networks are judged by their NetworkClasses")
		p.enqueueClassed("")
		return nil
	})
}

// followClasses starts the informer of NetworkClasses. That of namespaces runs already.
func (p *process) followClasses() (synced []cache.InformerSynced, err error) {
	p.building.Lock()
	defer p.building.Unlock()
	classes := p.factory.Cloudteam().V1().NetworkClasses().Informer()
	namespaces := p.namespaces.factory.Core().V1().Namespaces().Informer()
	all := func(any) { p.enqueueClassed("") }
	_, err = classes.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initially bool) {
			if !initially {
				all(obj)
			}
		},
		DeleteFunc: all,
		UpdateFunc: func(was, is any) {
			before, after := was.(*cloudteamv1.NetworkClass), is.(*cloudteamv1.NetworkClass)
			if before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) {
				all(is)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	_, err = namespaces.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initially bool) {
			if !initially {
				p.enqueueClassed(obj.(*corev1.Namespace).Name)
			}
		},
		UpdateFunc: func(was, is any) {
			if !maps.Equal(was.(metav1.Object).GetLabels(), is.(metav1.Object).GetLabels()) {
				p.enqueueClassed(is.(metav1.Object).GetName())
			}
		},
	})
	if err != nil {
		return nil, err
	}
	p.factory.StartWithContext(p.baseCtx)
	return []cache.InformerSynced{classes.HasSynced, namespaces.HasSynced}, nil
}

// enqueueClassed enqueues the objects of a namespace, or all, after a change that may concern them. A new leader syncs
// everything anyway.
func (p *process) enqueueClassed(namespace string) {
	if !p.election.leads() {
		return
	}
	p.building.Lock()
	defer p.building.Unlock()
	for _, enqueue := range p.classed {
		enqueue(namespace)
	}
}

// awaitClasses waits until the caches are full, if the CRD is installed. Without them a Network could be judged by the
// wrong class.
func (p *process) awaitClasses(ctx context.Context) { awaitClosed(ctx, p.classesKnown) }
