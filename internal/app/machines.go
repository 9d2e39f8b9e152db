package app

import (
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
)

// findMachines finds out whether KubeVirt is installed. If it is installed later, the process ends and starts again.
func (p *process) findMachines() {
	if !p.options.enabled(podcontroller.Name) {
		return // nobody asks
	}
	p.group.Go(func() error {
		if !awaitClosed(p.runCtx, p.policiesKnown) {
			return nil // told to stop before that was known
		}
		return p.find("KubeVirt's virtual machines", &p.machinesServed, p.machinesKnown, consumer.MachineResource,
			consumer.InstanceResource)
	})
}

// machines makes the informers of KubeVirt's virtual machines and starts them; nil where there are none. The caller
// holds building, and machinesKnown is closed.
func (p *process) machines() (*consumer.Machines, error) {
	if !p.machinesServed {
		return nil, nil //nolint:nilnil // there is nothing to watch
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(
		p.metadata, p.options.ResyncPeriod, p.options.Namespace, nil)
	m := &consumer.Machines{
		All:       factory.ForResource(consumer.MachineResource).Informer(),
		Instances: factory.ForResource(consumer.InstanceResource).Informer(),
	}
	if err := m.All.SetTransform(trim); err != nil {
		return nil, err
	}
	if err := m.Instances.SetTransform(trim); err != nil {
		return nil, err
	}
	klog.FromContext(p.runCtx).Info("KubeVirt is installed; virtual machines keep their ports")
	p.runInformers(factory)
	return m, nil
}
