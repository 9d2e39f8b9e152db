// Package neutron is the only door to OpenStack. Cloud speaks to Keystone and Neutron through gophercloud, one request
// at a time; Inventory holds what is there of ours, the way a Kubernetes informer's cache holds what is declared, and
// takes the steps of a plan. Errors carry a Kind, which decides what a caller does next.
//
// The package knows the domain (internal/plan) and no Kubernetes type.
package neutron
