package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
)

// networkPolicies gives what MultiNetworkPolicies decide, for the controllers that share it; nil where nobody makes
// their groups, or where there are none: without their CRD, that of SecurityGroups, or the controller of Pods, which
// knows the Pods that they select. The caller holds building.
func (p *process) networkPolicies() (*netpolicy.Policies, error) {
	if p.policies != nil || !p.options.enabled(netpolicy.Name) || !p.options.enabled(podcontroller.Name) ||
		!p.installed(netpolicy.Resource) || !p.installed(groupResource) {
		return p.policies, nil
	}
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(
		p.dynamic, p.options.ResyncPeriod, p.options.Namespace, nil)
	informer := factory.ForResource(netpolicy.Resource).Informer()
	if err := informer.SetTransform(netpolicy.Transform); err != nil {
		return nil, err
	}
	p.policies, err = netpolicy.NewPolicies(
		informer, p.factory.Cloudteam().V1().SecurityGroups().Lister(), caches, p.labelsOfNamespace)
	if err != nil {
		return nil, err
	}
	p.base.Go(func() error {
		factory.Start(p.baseCtx.Done())
		<-p.baseCtx.Done()
		factory.Shutdown()
		return nil
	})
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
		var c *netpolicy.Controller
		_, err := p.build(func() (started, error) {
			by, err := p.networkPolicies()
			if err != nil || by == nil {
				return nil, err
			}
			c, err = netpolicy.NewController(p.client.CloudteamV1(), by, p.factory.Cloudteam().V1().SecurityGroups(),
				p.namespaces.factory.Core().V1().Namespaces().Informer(), p.recorder)
			if err == nil {
				c.ActIn(p.namespaces.within)
			}
			return c, err
		})
		if err != nil {
			return fmt.Errorf("controller %s: %w", netpolicy.Name, err)
		}
		if c == nil {
			klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are not served or not handled; restart the controller " +
				"after their CRD and that of SecurityGroups are installed")
			return nil
		}
		klog.FromContext(p.runCtx).Info("MultiNetworkPolicies are served; keeping SecurityGroups for them")
		return p.lead(c)
	})
}
