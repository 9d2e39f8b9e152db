// Package inventory caches what one Kubernetes cluster owns in one project of one cloud, as an informer caches objects.
// It also executes the steps of a plan. Package client sends its calls, package batch schedules its writes.
//
// It knows the domain (internal/plan) and no Kubernetes type.
package inventory
