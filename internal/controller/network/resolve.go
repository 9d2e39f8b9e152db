package network

import (
	"context"
	"errors"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Resolve implements managed.Declaration. It replaces names by ids. An unknown or ambiguous name of a QoS policy, a
// subnet pool or a router leaves that part as it is; everything else is created and kept.
func (d declaration) Resolve(ctx context.Context, in managed.Inventory) (managed.Declaration, error) {
	var unresolved []error
	for _, part := range []func(context.Context, managed.Inventory, *declaration) error{
		resolveQoSPolicy, resolvePools, resolveRouter,
	} {
		err := part(ctx, in, &d)
		if err != nil && !meansNothing(err) {
			return nil, err
		}
		if err != nil {
			unresolved = append(unresolved, err)
		}
	}
	return d, errors.Join(unresolved...)
}

// meansNothing reports whether the cloud has no match for a name, or more than one.
func meansNothing(err error) bool { return client.KindOf(err) == client.Invalid }

// resolveQoSPolicy replaces the policy's name by its id. If the name cannot be resolved, the policy becomes undeclared.
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

// resolvePools replaces the names of subnet pools by the pools, in copies. It joins the errors of names that cannot be
// resolved, one for each subnet; any other error ends it.
func resolvePools(ctx context.Context, in managed.Inventory, d *declaration) error {
	if !slices.ContainsFunc(d.Subnets, func(s plan.Subnet) bool { return s.From != nil }) {
		return nil // the usual case
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

// resolveRouter replaces the name of the router, or of its external network, by the id.
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
		router.ExternalNetwork, err = in.ExternalNetwork(ctx, "spec.router.externalNetwork", router.ExternalNetwork)
	}
	if err != nil {
		router = plan.RouterSpec{Unresolved: true}
	}
	d.Router = &router
	return err
}
