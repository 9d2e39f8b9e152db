package app

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/endpoints"
)

// buildEndpoints makes a controller whose cache has no EndpointSlices but its own.
func (p *process) buildEndpoints() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	own := kubeinformers.NewSharedInformerFactoryWithOptions(p.kube, p.options.ResyncPeriod,
		kubeinformers.WithTransform(p.transform), kubeinformers.WithNamespace(p.options.Namespace),
		kubeinformers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.LabelSelector = discoveryv1.LabelManagedBy + "=" + consumer.EndpointsManagedBy
		}))
	c, err := endpoints.NewController(p.kube.DiscoveryV1(), p.kube.CoreV1(), p.kubeFactory.Core().V1().Services(),
		own.Discovery().V1().EndpointSlices(), caches, p.classes, p.recorder)
	if err != nil {
		return nil, err
	}
	p.runInformers(own)
	p.share(c.Loop)
	p.classed = append(p.classed, c.EnqueueNamespace)
	return delayed{c, p.awaitClasses}, nil
}
