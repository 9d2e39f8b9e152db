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
		return p.find("MultiNetworkPolicies", &p.policiesServed, p.policiesKnown, netpolicy.Resource, groupResource)
	})
}

// find sets whether resources are served, and then closes known. It returns an error when they are installed later. The
// process then exits and is started again: what depends on them is built at the start. It returns nil when the process
// is told to stop.
func (p *process) find(
	what string, served *bool, known chan struct{}, resources ...schema.GroupVersionResource,
) error {
	found, err := p.discovery.installed(p.runCtx, resources...)
	if err != nil {
		return nil //nolint:nilerr // told to stop before the API server answered
	}
	*served = found
	close(known)
	if found {
		return nil
	}
	missing := what + " are not installed; this process ends when they are, to start again with them"
	if err := p.discovery.await(p.runCtx, attachmentPoll, missing, resources...); err != nil {
		return nil //nolint:nilerr // told to stop before
	}
	return fmt.Errorf("%s are installed now; start this process again, so that it handles them", what)
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
	if found, exists := p.namespaces.cached(name); exists {
		return found.Labels
	}
	return nil
}

// buildPolicies builds the controller of MultiNetworkPolicies; nil if their CRD is not there when the process starts.
func (p *process) buildPolicies() (started, error) {
	by, err := p.networkPolicies()
	if err != nil {
		return nil, err
	}
	if by == nil {
		klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are not served or not handled")
		return nil, nil //nolint:nilnil // there is nothing to run
	}
	c, err := netpolicy.NewController(p.client.CloudteamV1(), netpolicy.ReadBy(p.dynamic), by,
		p.factory.Cloudteam().V1().SecurityGroups(), p.namespaces.factory.Core().V1().Namespaces().Informer(), p.recorder)
	if err != nil {
		return nil, err
	}
	klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are served; keeping SecurityGroups for them")
	p.share(c.Loop)
	return c, nil
}
