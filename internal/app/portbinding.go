package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/portbinding"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// forbiddenFor is how long credentials that may not bind ports are not tried again. Each Pod would cost a call.
const forbiddenFor = 10 * time.Minute

// openBindingCloud opens the cloud of --binding-cloud, if it is set.
func (p *process) openBindingCloud(logger klog.Logger) error {
	name := p.options.BindingCloud
	if name == "" {
		return nil
	}
	load := func() (client.Credentials, error) { return p.options.credentials(name) }
	credentials, err := load()
	if err != nil {
		return fmt.Errorf("--binding-cloud: %w", err)
	}
	p.bindingAccess = p.newCloudAccess(managed.CloudRef{Entry: name}, credentials, load, logger)
	return nil
}

// buildPortBinding builds the controller of where ports are, and starts its informer of Nodes.
func (p *process) buildPortBinding() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewSharedInformerFactory(p.metadata, p.options.ResyncPeriod)
	nodes := factory.ForResource(corev1.SchemeGroupVersion.WithResource("nodes")).Informer()
	if err := nodes.SetTransform(trim); err != nil {
		return nil, err
	}
	p.inventory()
	b := &binder{p: p, same: p.options.sameClouds(), forbidden: map[managed.CloudRef]refusal{}}
	b.reach = b.of
	c, err := portbinding.NewController(p.client.CloudteamV1(), caches, nodes, b, p.recorder)
	if err != nil {
		return nil, err
	}
	p.share(c.Loop)
	p.runInformers(factory)
	return delayed{delayed{c, func(ctx context.Context) {
		p.shared.audits.awaitFirst(ctx)
		p.bindings.Store(c)
	}}, p.awaitClasses}, nil
}

// binder implements portbinding.Clouds.
type binder struct {
	p *process
	// same are the names of one Neutron.
	same managed.SameClouds
	// reach is of, except in tests.
	reach func(port *cloudteamv1.NetworkPort, removing bool) (inventory.Binder, managed.CloudRef, error)

	mu sync.Mutex
	// forbidden has the clouds whose credentials may not bind.
	forbidden map[managed.CloudRef]refusal
}

// refusal is what a cloud said, and until when it is not asked again.
type refusal struct {
	err   error
	until time.Time
}

// Attach implements portbinding.Clouds.
func (b *binder) Attach(
	ctx context.Context, port *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment, parent inventory.Parent,
) error {
	ctx, in, ref, err := b.enter(ctx, port, false)
	if err != nil {
		return err
	}
	// ErrForbidden may have the port plugged unbound, by the id alone.
	if err := b.refused(ref); err != nil {
		return cmp.Or(in.Confirm(ctx, b.ownerOf(port), at.PortID), err)
	}
	if at.Mode == cloudteamv1.AttachmentTrunk {
		var vlan int
		vlan, err = in.AddSubport(ctx, b.ownerOf(port), at.PortID, parent)
		at.VLAN = int32(vlan) //nolint:gosec // at most 4094
	} else {
		err = in.Bind(ctx, b.ownerOf(port), at.PortID, at.Host)
	}
	if inventory.IsInTrunk(err) {
		err = fmt.Errorf("%w (%w)", portbinding.ErrInTrunk, err)
	}
	if client.IsKind(err, client.Forbidden) {
		if unconfirmed := in.Confirm(ctx, b.ownerOf(port), at.PortID); unconfirmed != nil {
			return unconfirmed
		}
		err = fmt.Errorf("%w (%w)", portbinding.ErrForbidden, err)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forbidden[ref] = refusal{err, time.Now().Add(forbiddenFor)}
	}
	return err
}

// Detach implements portbinding.Clouds. Ports of a cloud that is not the nodes' are in none of their trunks. Such a
// cloud is not searched, and learns no hardware address of the nodes.
func (b *binder) Detach(
	ctx context.Context, port *cloudteamv1.NetworkPort, portID string, parents ...inventory.Parent,
) error {
	ctx, in, _, err := b.enter(ctx, port, true)
	if _, elsewhere := errors.AsType[*elsewhereError](err); elsewhere {
		return nil
	}
	if err != nil {
		return err
	}
	return in.RemoveSubport(ctx, b.ownerOf(port), portID, parents...)
}

// Verify implements portbinding.Clouds.
func (b *binder) Verify(
	ctx context.Context, port *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment,
) (bool, error) {
	ctx, in, _, err := b.enter(ctx, port, false)
	if err != nil {
		return false, err
	}
	place, found, err := in.Locate(ctx, b.ownerOf(port), at.PortID)
	switch {
	case err != nil:
		return false, err
	case !found, at.Mode == cloudteamv1.AttachmentOVNUnbound:
		return true, nil
	case at.Mode == cloudteamv1.AttachmentTrunk:
		return place.Subport, nil
	}
	return place.Host == nil || *place.Host == at.Host, nil
}

// enter returns what attaches a port, with a context for its calls; see reach and ofTheNodes.
func (b *binder) enter(
	ctx context.Context, port *cloudteamv1.NetworkPort, removing bool,
) (context.Context, inventory.Binder, managed.CloudRef, error) {
	in, ref, err := b.reach(port, removing)
	if err == nil {
		ctx, err = b.ofTheNodes(ctx, ref, in)
	}
	return inventory.WithFlow(ctx, port.Namespace), in, ref, err
}

// elsewhereError says that a port is in a user's cloud that is not the nodes'. It has the endpoints of both.
type elsewhereError struct{ port, nodes string }

// Error tells the cause and the remedies.
func (e *elsewhereError) Error() string {
	return fmt.Sprintf("the port is in the cloud at %s, and the nodes are in the one at %s. Use a Network without "+
		"spec.cloud for Pods here. If both are names of one Neutron, have the operator start the controller with "+
		"--same-cloud=%[1]s=%[2]s; if the nodes are in another cloud than the controller's, with --binding-cloud", e.port,
		e.nodes)
}

// ofTheNodes returns a context whose calls reach only the nodes' Neutron, which is the controller's own or that of
// --binding-cloud. A user's Keystone may name that Neutron in one log-in's catalog and her own in the next, and each
// call may log in again. The error is an *elsewhereError if ports of the cloud are nothing to the nodes: a user's own
// cloud may give a port the id of somebody else's in the nodes' cloud, and a node plugs by the id.
//
// The credentials of --binding-cloud are not confined: their Keystone is the operator's.
func (b *binder) ofTheNodes(
	ctx context.Context, ref managed.CloudRef, in inventory.Binder,
) (confined context.Context, err error) {
	port, err := in.Identity(ctx)
	if err != nil {
		return ctx, err
	}
	if !ref.IsOwn() {
		cloud := b.p.access.cloud
		if in.As != nil {
			cloud = in.As
		}
		nodes, err := cloud.Identity(ctx)
		if err != nil {
			return ctx, err
		}
		if !b.same.SameNeutron(port, nodes) {
			return ctx, &elsewhereError{port.Endpoint, nodes.Endpoint}
		}
	}
	if in.As == nil {
		ctx = client.Within(ctx, port)
	}
	return ctx, nil
}

func (b *binder) ownerOf(port *cloudteamv1.NetworkPort) plan.Owner {
	return plan.Owner{Cluster: b.p.cluster, Object: string(port.UID)}
}

// of returns what attaches a port in its cloud. removing is as in managed.Clouds.
func (b *binder) of(port *cloudteamv1.NetworkPort, removing bool) (inventory.Binder, managed.CloudRef, error) {
	on := b.p.caches.Network(consumer.NetworkOf(port))
	if on == nil {
		return inventory.Binder{}, managed.CloudRef{}, portbinding.ErrNotYet
	}
	ref, known := managed.CloudOf(on, b.p.classes)
	if !known {
		return inventory.Binder{}, ref, portbinding.ErrNotYet
	}
	in := inventory.Binder{Inventory: b.p.shared.Inventory, Own: b.p.access.cloud, Same: b.same.SameNeutron}
	if !ref.IsOwn() {
		reached, err := b.p.clouds.In(ref, removing)
		s, ok := reached.(*sharedInventory)
		if err != nil || !ok {
			return in, ref, portbinding.ErrNotYet // the port's own condition says why
		}
		in.Inventory = s.Inventory
	}
	if b.p.bindingAccess != nil {
		in.As = b.p.bindingAccess.cloud
	}
	return in, ref, nil
}

// refused returns what a cloud said lately, or nil.
func (b *binder) refused(ref managed.CloudRef) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().After(b.forbidden[ref].until) {
		delete(b.forbidden, ref)
	}
	return b.forbidden[ref].err
}
