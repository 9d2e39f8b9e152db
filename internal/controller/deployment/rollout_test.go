package deployment

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestRolling(t *testing.T) {
	// seen is a Deployment of 2 replicas in one of the states that its controller leads it through.
	seen := func(image string, generation, observed int64, replicas, updated int32) *appsv1.Deployment {
		d := declaring("blue", 2)
		d.Generation, d.Spec.Template.Labels = generation, map[string]string{"image": image}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated}
		return d
	}
	scaled := func(d *appsv1.Deployment, replicas int32) *appsv1.Deployment {
		d.Spec.Replicas = new(replicas)
		return d
	}
	for name, c := range map[string]struct {
		states []*appsv1.Deployment
		want   []bool
	}{
		"a first rollout replaces nothing": {
			[]*appsv1.Deployment{seen("a", 1, 0, 0, 0), seen("a", 1, 1, 1, 1), seen("a", 1, 1, 2, 2)},
			[]bool{false, false, false},
		},
		"another template is told before the status does, and until all are replaced": {
			[]*appsv1.Deployment{
				seen("a", 1, 1, 2, 2), seen("b", 2, 1, 2, 2), seen("b", 2, 2, 3, 1), seen("b", 2, 2, 3, 2), seen("b", 2, 2, 2, 2),
			},
			[]bool{false, true, true, true, false},
		},
		"a change of the scale replaces nothing": {
			[]*appsv1.Deployment{
				seen("a", 1, 1, 2, 2), scaled(seen("a", 2, 1, 2, 2), 5), scaled(seen("a", 2, 2, 4, 4), 5),
				scaled(seen("a", 2, 2, 5, 5), 5), scaled(seen("a", 3, 2, 5, 5), 1),
			},
			[]bool{false, false, false, false, false},
		},
		"taken over in the middle, the status tells": {
			[]*appsv1.Deployment{seen("b", 2, 2, 3, 1), seen("b", 2, 2, 2, 2)}, []bool{true, false},
		},
		"a rollout back is one": {
			[]*appsv1.Deployment{seen("a", 1, 1, 2, 2), seen("b", 2, 2, 3, 1), seen("a", 3, 2, 3, 1), seen("a", 3, 3, 2, 2)},
			[]bool{false, true, true, false},
		},
		"without Pods there is nothing to replace": {
			[]*appsv1.Deployment{scaled(seen("a", 1, 1, 0, 0), 0), scaled(seen("b", 2, 1, 0, 0), 0)}, []bool{false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			for i, d := range c.states {
				expect.Equal(t, c.want[i], m.rolling(d), "in state %d rolling", i)
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
