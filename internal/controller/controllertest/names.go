package controllertest

import "context"

// Names is the part of an Inventory that tells the ids of what users call by name, of a cloud in which each is called
// by its id and in which no router is ours.
type Names struct{}

// CoverRouters is the Inventory's.
func (Names) CoverRouters() {}

// ExternalNetwork is the Inventory's.
func (Names) ExternalNetwork(_ context.Context, id string) (string, error) { return id, nil }

// Router is the Inventory's.
func (Names) Router(_ context.Context, id string) (string, error) { return id, nil }
