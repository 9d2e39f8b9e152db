package deployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestRolling(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, updated int32
		want              bool
	}{
		"without Pods there is nothing to replace":    {0, 0, false},
		"a first rollout replaces nothing":            {1, 1, false},
		"Pods of another template are to be replaced": {2, 0, true},
		"so they are while new ones are added":        {3, 1, true},
		"until all are new":                           {2, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := declaring("blue", 2)
			d.Status = appsv1.DeploymentStatus{Replicas: c.replicas, UpdatedReplicas: c.updated}
			if got := rolling(d); got != c.want {
				t.Errorf("rolling is %t, want %t", got, c.want)
			}
		})
	}
}

func TestFenceposts(t *testing.T) {
	rolling := func(surge, unavailable *intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: surge, MaxUnavailable: unavailable}}
	}
	percent := func(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	for name, c := range map[string]struct {
		strategy           appsv1.DeploymentStrategy
		replicas           int32
		surge, unavailable int
	}{
		"percentages of the surge are rounded up, the others down": {rolling(percent("25%"), percent("25%")), 5, 2, 1},
		"of one replica, a quarter is one more and none fewer":     {rolling(percent("25%"), percent("25%")), 1, 1, 0},
		"numbers are numbers":                            {rolling(number(3), number(0)), 1, 3, 0},
		"both 0 would stand still":                       {rolling(number(0), percent("1%")), 5, 0, 1},
		"what is not set is 0":                           {rolling(nil, nil), 5, 0, 1},
		"what cannot be read is 0":                       {rolling(percent("x"), number(2)), 5, 0, 2},
		"the strategy Recreate takes all away":           {appsv1.DeploymentStrategy{Type: "Recreate"}, 5, 0, 5},
		"a rolling update without parameters surges not": {appsv1.DeploymentStrategy{Type: "RollingUpdate"}, 5, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			d := declaring("blue", c.replicas)
			d.Spec.Strategy = c.strategy
			if surge, unavailable := fenceposts(d); surge != c.surge || unavailable != c.unavailable {
				t.Errorf("surge %d and unavailable %d, want %d and %d", surge, unavailable, c.surge, c.unavailable)
			}
		})
	}
}
