package controllertest

import (
	"context"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Names is the part of an Inventory that tells the ids of what users call by name, of a cloud in which each is called
// by its id and in which no router is ours.
type Names struct{}

// QoSPolicy is the Inventory's.
func (Names) QoSPolicy(_ context.Context, id string) (string, error) { return id, nil }

// SecurityGroup is the Inventory's.
func (Names) SecurityGroup(_ context.Context, _, id string) (string, error) { return id, nil }

// ExternalNetwork is the Inventory's.
func (Names) ExternalNetwork(_ context.Context, _, id string) (string, error) { return id, nil }

// Router is the Inventory's.
func (Names) Router(_ context.Context, id string) (string, error) { return id, nil }

// SubnetPool is the Inventory's. A pool is one of IPv6 where its name ends so, and gives a /26 or a /64 to who does not
// ask for another.
func (Names) SubnetPool(_ context.Context, _, id string) (plan.SubnetPool, error) {
	if strings.HasSuffix(id, "v6") {
		return plan.SubnetPool{
			ID: id, IPVersion: 6, MinPrefixLength: 48, MaxPrefixLength: 128, DefaultPrefixLength: 64,
		}, nil
	}
	return plan.SubnetPool{ID: id, IPVersion: 4, MinPrefixLength: 8, MaxPrefixLength: 32, DefaultPrefixLength: 26}, nil
}
