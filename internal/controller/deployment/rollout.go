package deployment

import (
	"encoding/json"
	"hash/fnv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
)

// memory is what this process knows of one Deployment beyond the caches. It may be lost: then a pool is larger for one
// cool-down, or smaller until the Deployment's status shows the rollout.
type memory struct {
	uid types.UID
	// complete is the hash of the last Pod template that was completely rolled out, nil for none.
	complete *uint64
	// demands are how many ports the pools needed recently.
	demands map[consumer.Request]demand
	// stops are how many ports of a pool were Ready when the last one could not be created; see observed.paced.
	stops map[consumer.Request]int
	// creates and deletes say when failed creates and deletes are retried. refused is the result of the last creates.
	creates, deletes backoff
	refused          refusal
	// told is when the condition was last written.
	told time.Time
}

// rolling reports whether a rolling update replaces the Deployment's Pods, and remembers the template once the update
// is complete. The status alone is too late: it changes when the first new Pod is created, and the ports for the surge
// should exist by then. A first rollout and a change of the scale replace no Pod.
func (m *memory) rolling(deployment *appsv1.Deployment) bool {
	status, template := deployment.Status, hashOf(&deployment.Spec.Template)
	if status.ObservedGeneration >= deployment.Generation && status.Replicas == status.UpdatedReplicas &&
		status.Replicas == replicasOf(deployment) {
		m.complete = &template
	}
	return status.Replicas > 0 &&
		(status.Replicas != status.UpdatedReplicas || m.complete != nil && *m.complete != template)
}

func hashOf(template *corev1.PodTemplateSpec) uint64 {
	sum := fnv.New64a()
	text, _ := json.Marshal(template) // an API type never fails to marshal
	_, _ = sum.Write(text)
	return sum.Sum64()
}

// replicasOf is the number of replicas that a Deployment declares.
func replicasOf(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1 // the API server's default
	}
	return *deployment.Spec.Replicas
}

// fenceposts gives how many Pods a rolling update may have beyond the replicas, and how many fewer may be available. It
// resolves both as the controller of Deployments does (ResolveFenceposts in
// k8s.io/kubernetes/pkg/controller/deployment/util): percentages of the replicas, the surge rounded up and the other
// rounded down, and not both 0. A strategy other than RollingUpdate has no surge, and removes all Pods first.
func fenceposts(deployment *appsv1.Deployment) (surge, unavailable int) {
	strategy, replicas := deployment.Spec.Strategy, int(replicasOf(deployment))
	if strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || strategy.RollingUpdate == nil {
		return 0, replicas
	}
	surge = resolved(strategy.RollingUpdate.MaxSurge, replicas, true)
	unavailable = resolved(strategy.RollingUpdate.MaxUnavailable, replicas, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func resolved(value *intstr.IntOrString, replicas int, roundUp bool) int {
	number, err := intstr.GetScaledValueFromIntOrPercent(
		intstr.ValueOrDefault(value, intstr.FromInt32(0)), replicas, roundUp)
	if err != nil {
		return 0 // the API server refuses what cannot be read
	}
	return max(number, 0)
}
