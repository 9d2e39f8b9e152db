// Package inventory holds what one Kubernetes cluster owns in one project of one cloud, as an informer's cache holds
// what is declared, and applies the steps of a plan. Package client carries its calls, package batch its writes.
//
// It knows the domain (internal/plan) and no Kubernetes type.
package inventory
