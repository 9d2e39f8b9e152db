package network

import (
	"context"
	"errors"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Resolve is managed.Declaration's: it puts ids in the place of names. What cannot be told by its name stays as it is,
// be it the QoS policy, a subnet from a pool or the router, and all else is made and kept: the error is a
// *managed.Unresolved then, and tells of each such name.
func (d declaration) Resolve(ctx context.Context, in managed.Inventory) (managed.Declaration, error) {
	var unresolved []error
	for _, part := range []func(context.Context, managed.Inventory, *declaration) error{
		resolveQoSPolicy, resolvePools, resolveRouter,
	} {
		err := part(ctx, in, &d)
		if err != nil && !meansNothing(err) {
			return d, err
		}
		if err != nil {
			unresolved = append(unresolved, err)
		}
	}
	if len(unresolved) > 0 {
		return d, &managed.Unresolved{Err: errors.Join(unresolved...)}
	}
	return d, nil
}

// meansNothing reports whether the cloud was asked for a name and knows nothing, or no one thing, that it means.
func meansNothing(err error) bool { return client.KindOf(err) == client.Invalid }

// resolveQoSPolicy puts the policy's id in the place of its name, or leaves the network's policy undeclared where that
// means nothing.
func resolveQoSPolicy(ctx context.Context, in managed.Inventory, d *declaration) error {
	if d.QoSPolicy == nil || *d.QoSPolicy == "" {
		return nil
	}
	id, err := in.QoSPolicy(ctx, *d.QoSPolicy)
	if err != nil {
		d.QoSPolicy = nil
		return err
	}
	d.QoSPolicy = &id
	return nil
}

// resolvePools puts the pools in the place of what the spec calls them. It writes to copies. Errors of names that mean
// nothing are joined, one for each subnet; another ends it.
func resolvePools(ctx context.Context, in managed.Inventory, d *declaration) error {
	if !slices.ContainsFunc(d.Subnets, func(s plan.Subnet) bool { return s.From != nil }) {
		return nil // as a rule
	}
	d.Subnets = slices.Clone(d.Subnets)
	var unresolved []error
	for i, s := range d.Subnets {
		if s.From == nil {
			continue
		}
		from := *s.From
		pool, err := in.SubnetPool(ctx, plan.SubnetField(i, plan.FieldSubnetPool), from.Name)
		switch {
		case err == nil:
			from.Pool = pool
		case meansNothing(err):
			from.Unresolved = true
			unresolved = append(unresolved, err)
		default:
			return err
		}
		d.Subnets[i].From = &from
	}
	return errors.Join(unresolved...)
}

// resolveRouter puts the id of the router, or of the external network that it leads to, in the place of its name.
func resolveRouter(ctx context.Context, in managed.Inventory, d *declaration) error {
	if d.Router == nil {
		return nil
	}
	router := *d.Router
	var err error
	switch {
	case router.Existing != "":
		router.Existing, err = in.Router(ctx, router.Existing)
	case router.ExternalNetwork != "":
		router.ExternalNetwork, err = in.ExternalNetwork(ctx, router.ExternalNetwork)
	}
	if err != nil {
		router = plan.RouterSpec{Unresolved: true}
	}
	d.Router = &router
	return err
}
