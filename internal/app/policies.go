package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
)

// findPolicies finds out whether there are MultiNetworkPolicies, and somebody who makes their groups: there are none
// without their CRD, without that of SecurityGroups, and without the controller of Pods, which knows the Pods that they
// select. When they are installed later, the process ends and starts again.
func (p *process) findPolicies() {
	if !p.options.enabled(netpolicy.Name) || !p.options.enabled(podcontroller.Name) {
		close(p.policiesKnown)
		return
	}
	p.group.Go(func() error {
		served, err := p.discovery.installed(p.runCtx, netpolicy.Resource, groupResource)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the API server answered
		}
		p.policiesServed = served
		close(p.policiesKnown)
		if served {
			return nil
		}
		return p.endWhenInstalled("MultiNetworkPolicies", netpolicy.Resource, groupResource)
	})
}

// endWhenInstalled returns an error when resources are installed that this process found missing. The process then
// exits and is started again: what depends on them is built at the start. It returns nil when the process is told to
// stop.
func (p *process) endWhenInstalled(what string, resources ...schema.GroupVersionResource) error {
	missing := what + " are not installed; this process ends when they are, to start again with them"
	if err := p.discovery.await(p.runCtx, attachmentPoll, missing, resources...); err != nil {
		return nil //nolint:nilerr // told to stop before
	}
	return fmt.Errorf("%s are installed now; start this process again, so that it handles them", what)
}

// await waits until a channel is closed, if it is not nil. It returns false if the process is told to stop before.
func (p *process) await(known <-chan struct{}) bool {
	if known == nil {
		return true
	}
	select {
	case <-known:
		return true
	case <-p.runCtx.Done():
		return false
	}
}

// networkPolicies gives what MultiNetworkPolicies decide, for the controllers that share it; nil where there are none.
// The caller holds building, and policiesKnown is closed.
func (p *process) networkPolicies() (*netpolicy.Policies, error) {
	if p.policies != nil || !p.policiesServed {
		return p.policies, nil
	}
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(
		p.dynamic, p.options.ResyncPeriod, p.options.Namespace, nil)
	informer := factory.ForResource(netpolicy.Resource).Informer()
	p.policies, err = netpolicy.NewPolicies(
		informer, p.factory.Cloudteam().V1().SecurityGroups(), caches, p.labelsOfNamespace)
	if err != nil {
		return nil, err
	}
	p.runInformers(factory)
	return p.policies, nil
}

// labelsOfNamespace gives the labels that the cache has of a namespace.
func (p *process) labelsOfNamespace(name string) labels.Set {
	found, err := p.namespaces.lister.Get(name)
	if err != nil {
		return nil
	}
	return found.Labels
}

// startPolicies runs the controller of MultiNetworkPolicies, if their CRD is there when the process starts. The process
// is ready without it.
func (p *process) startPolicies() {
	p.group.Go(func() error {
		if err := p.discovery.await(p.runCtx, discoveryPoll, crdMissing, networkResource, portResource); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD was there
		}
		if !p.await(p.policiesKnown) {
			return nil // told to stop before that was known
		}
		var c *netpolicy.Controller
		_, err := p.build(func() (started, error) {
			by, err := p.networkPolicies()
			if err != nil || by == nil {
				return nil, err
			}
			c, err = netpolicy.NewController(p.client.CloudteamV1(), netpolicy.ReadBy(p.dynamic), by,
				p.factory.Cloudteam().V1().SecurityGroups(), p.namespaces.factory.Core().V1().Namespaces().Informer(),
				p.recorder)
			if err == nil {
				p.share(c.Loop)
			}
			return c, err
		})
		if err != nil {
			return fmt.Errorf("controller %s: %w", netpolicy.Name, err)
		}
		if c == nil {
			klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are not served or not handled")
			return nil
		}
		klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are served; keeping SecurityGroups for them")
		return p.lead(c)
	})
}
