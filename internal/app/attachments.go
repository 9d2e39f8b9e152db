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
	// attachmentPoll is how often a cluster without Multus is asked whether it has it now.
	attachmentPoll = 30 * time.Second
	// attachmentPatience is how long Pods and Deployments wait for the NetworkAttachmentDefinitions to be known. Should
	// they not be, because their CRD has just gone or may not be read, most can do without.
	attachmentPatience = 30 * time.Second
)

// Has is consumer.Attachments'. Before the controller of NetworkAttachmentDefinitions runs, there are none.
func (p *process) Has(namespace, name string) bool {
	c := p.attachments.Load()
	return c != nil && c.Has(namespace, name)
}

// startAttachment runs the controller of NetworkAttachmentDefinitions in a cluster that knows them. Others do without:
// the process is ready all the same.
func (p *process) startAttachment() {
	p.group.Go(func() error {
		if err := p.discovery.await(p.running, networkResource); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD came
		}
		installed, err := p.discovery.installed(p.running, attachmentcontroller.Resource)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the API server told
		}
		if !installed {
			close(p.attachmentsKnown)
		}
		err = attachmentcontroller.AwaitCRD(p.running, p.discovery.until(p.running), attachmentPoll)
		if err != nil {
			return nil //nolint:nilerr // told to stop before the CRD came
		}
		klog.FromContext(p.running).Info("Keeping NetworkAttachmentDefinitions: the cluster knows them")
		c, err := p.buildAttachment()
		if err != nil {
			return fmt.Errorf("controller %s: %w", attachmentcontroller.Name, err)
		}
		if installed {
			p.group.Go(func() error {
				if cache.WaitForCacheSync(p.running.Done(), c.HasSynced) {
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
	attachments := dynamicinformer.NewDynamicSharedInformerFactory(p.dynamic, p.options.ResyncPeriod)
	_, err = p.build(func() (started, error) {
		informer := attachments.ForResource(attachmentcontroller.Resource)
		err := informer.Informer().SetTransform(trim)
		if err == nil {
			_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: p.tellDeclaring, DeleteFunc: p.tellDeclaring,
			})
		}
		if err != nil {
			return nil, err
		}
		c, err = attachmentcontroller.NewController(
			p.dynamic, informer, p.factory.Cloudteam().V1().Networks(), p.recorder, p.options.Attachment)
		return c, err
	})
	if err != nil {
		return nil, err
	}
	p.attachments.Store(c)
	p.readiness.add(attachmentcontroller.Name, c.HasSynced)
	p.base.Go(func() error {
		attachments.Start(p.ground.Done())
		<-p.ground.Done()
		attachments.Shutdown()
		return nil
	})
	return c, nil
}

// tellDeclaring has whatever declares the name of a NetworkAttachmentDefinition looked at again. A new leader looks at
// everything anyway.
func (p *process) tellDeclaring(obj any) {
	if !p.election.leads() {
		return
	}
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return // nothing without a name is served
	}
	p.building.Lock()
	defer p.building.Unlock()
	for _, tell := range p.declaring {
		tell(name)
	}
}

// resolving is a controller whose syncs tell what names stand for. It begins when NetworkAttachmentDefinitions are
// known: before, each that is not a Network's would pass for a name that nothing bears.
type resolving struct {
	started
	known <-chan struct{}
}

// Run is started.Run.
func (r resolving) Run(ctx context.Context, workers int) error {
	patience := time.NewTimer(attachmentPatience)
	defer patience.Stop()
	select {
	case <-r.known:
	case <-patience.C:
	case <-ctx.Done():
	}
	return r.started.Run(ctx, workers)
}
