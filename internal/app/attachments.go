package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
)

const (
	// attachmentPoll is how often the process checks whether Multus was installed in a cluster without it.
	attachmentPoll = 30 * time.Second
	// attachmentTimeout is how long Pods and Deployments wait until the cache of NetworkAttachmentDefinitions is full. It
	// may never be, for example without the right to list them. Most Pods do not need one.
	attachmentTimeout = 30 * time.Second
)

// Has implements consumer.Attachments. It returns false before the controller of NetworkAttachmentDefinitions runs.
func (p *process) Has(namespace, name string) bool {
	c := p.attachments.Load()
	return c != nil && c.Has(namespace, name)
}

// startAttachment runs the controller of NetworkAttachmentDefinitions once their CRD is installed. The process is
// ready without it.
func (p *process) startAttachment() {
	p.group.Go(func() error {
		if err := p.discovery.await(p.runCtx, discoveryPoll, crdMissing, networkResource); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD was there
		}
		installed, err := p.discovery.installed(p.runCtx, attachmentcontroller.Resource)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the API server answered
		}
		if !installed {
			close(p.attachmentsKnown)
		}
		err = p.discovery.await(p.runCtx, attachmentPoll, "NetworkAttachmentDefinitions are not installed; the controller "+
			"starts when Multus installs them", attachmentcontroller.Resource)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the CRD was there
		}
		klog.FromContext(p.runCtx).Info("Multus is installed; creating a NetworkAttachmentDefinition for each Network")
		c, err := p.buildAttachment()
		if err != nil {
			return fmt.Errorf("controller %s: %w", attachmentcontroller.Name, err)
		}
		if installed {
			p.group.Go(func() error {
				if cache.WaitForCacheSync(p.runCtx.Done(), c.HasSynced) {
					close(p.attachmentsKnown)
				}
				return nil
			})
		}
		return p.lead(c)
	})
}

// buildAttachment builds the controller and starts its informers.
func (p *process) buildAttachment() (c *attachmentcontroller.Controller, err error) {
	attachments := dynamicinformer.NewFilteredDynamicSharedInformerFactory(
		p.dynamic, p.options.ResyncPeriod, p.options.Namespace, nil)
	_, err = p.build(func() (started, error) {
		informer := attachments.ForResource(attachmentcontroller.Resource)
		err := informer.Informer().SetTransform(trim)
		if err == nil {
			_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: p.enqueueDeclaring, DeleteFunc: p.enqueueDeclaring,
			})
		}
		if err != nil {
			return nil, err
		}
		c, err = attachmentcontroller.NewController(
			p.dynamic, informer, p.factory.Cloudteam().V1().Networks(), p.recorder, p.options.Attachment)
		if err == nil {
			p.share(c.Loop)
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	p.attachments.Store(c)
	p.readiness.add(attachmentcontroller.Name, c.HasSynced)
	p.runInformers(attachments)
	return c, nil
}

// runInformers runs the informers of a factory until what depends on them has ended.
func (p *process) runInformers(factory interface {
	Start(stop <-chan struct{})
	Shutdown()
}) {
	p.base.Go(func() error {
		factory.Start(p.baseCtx.Done())
		<-p.baseCtx.Done()
		factory.Shutdown()
		return nil
	})
}

// enqueueDeclaring enqueues the Pods and Deployments that declare the name of a NetworkAttachmentDefinition. Their
// informers do not see it come or go. A new leader syncs everything anyway.
func (p *process) enqueueDeclaring(obj any) {
	if !p.election.leads() {
		return
	}
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return // every object that is served has a name
	}
	p.building.Lock()
	defer p.building.Unlock()
	for _, enqueue := range p.declaring {
		enqueue(name)
	}
}

// awaitAttachments waits until the cache of NetworkAttachmentDefinitions is full. A declared name that is in no cache
// counts as not found.
func (p *process) awaitAttachments(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attachmentTimeout)
	defer cancel()
	awaitClosed(ctx, p.attachmentsKnown)
}
