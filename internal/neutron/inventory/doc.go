// Package inventory holds what one Kubernetes cluster owns in one project of one cloud, the way an informer's cache holds
// what is declared, and takes the steps of a plan. Package client carries its calls, package batch its writes.
//
// It knows the domain (internal/plan) and no Kubernetes type.
package inventory
