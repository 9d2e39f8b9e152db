package faults

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	foosv1alpha1 "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// TestFoos lives the life of a Foo undisturbed, and then many in which the process dies.
func TestFoos(t *testing.T) {
	t.Parallel()
	if !virtualTime {
		letFoosAudit(t)
	}
	want := foos().undisturbed(t)
	testCrashes(t, foos(), want)
	foos().testScenarios(t, map[string]scenario{"every watch is cut at each of the first writes": {
		prepare: func(w *world) {
			w.kube.Break(func(c proxy.Call) bool { return c.Write > 0 }, 5, proxy.Meanwhile(func() { w.kube.Cut(always) }))
		},
		live: func(w *world) { foos().live(w, want) },
	}}, byItself)
}

// letFoosAudit gives the account of config/foo the controller's rights, too.
func letFoosAudit(t *testing.T) {
	t.Helper()
	// The silence in the end is told by Neutron's audits, for which the account of config/foo lacks the rights.
	for _, role := range []string{harness.AccountName, harness.AccountName + "-cluster"} {
		harness.Create(t, surroundings.Kube.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-foos-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Namespace: harness.AccountName, Name: harness.FooAccountName,
			}},
		})
	}
}

// fooName is also the name of its first Deployment.
const fooName = "foo"

// foos is the course of a Foo: it comes, its Deployment is scaled behind its back, it gets another Deployment and another
// number of replicas, and goes.
func foos() course {
	return course{
		heading: headingFoos, name: "a Foo: ",
		stride: map[string]int{"Kubernetes": 4},
		// A Foo's status counts Pods, which come one by one or together.
		varies:   30,
		sparsely: 4,
		prepare: func(w *world) {
			w.arguments = append(w.arguments, "--controllers=foo")
			expect.NoError(w.t, harness.ActAs(w.kubeconfig, w.around.FooKubeconfig))
			w.secrets.AddAccount(w.t, w.around.FooKubeconfig)
		},
		live: func(w *world, _ reference) state {
			harness.Create(w.t, w.fooClient(), &v1alpha1.Foo{
				ObjectMeta: metav1.ObjectMeta{Name: fooName},
				Spec:       v1alpha1.FooSpec{DeploymentName: fooName, Replicas: new(int32(2))},
			})
			w.awaitFoo(fooName, 2)
			w.scale(fooName, 4)
			w.awaitFoo(fooName, 2)
			harness.Patch(w.t, w.fooClient(), fooName, `{"spec":{"deploymentName":"renamed"}}`)
			w.awaitFoo("renamed", 2)
			harness.Patch(w.t, w.fooClient(), fooName, `{"spec":{"replicas":1}}`)
			w.awaitFoo("renamed", 1)
			w.awaitSilence()
			if err := w.foo("renamed", 1); err != nil {
				w.t.Errorf("when all is silent: %v", err)
			}
			w.deleteFoo()
			w.hold(state{})
			return state{}
		},
	}
}

func (w *world) fooClient() foosv1alpha1.FooInterface {
	return w.around.Networks.SamplecontrollerV1alpha1().Foos(w.namespace)
}

// awaitFoo waits until the Foo has one Deployment, of the name, whose Pods are available and as many as wanted, and says
// so.
func (w *world) awaitFoo(deployment string, replicas int32) {
	w.t.Helper()
	w.await(func() error { return w.foo(deployment, replicas) })
}

func (w *world) foo(deployment string, replicas int32) error {
	foo, err := w.fooClient().Get(w.t.Context(), fooName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	deployments, err := w.deployments()
	if err != nil {
		return err
	}
	pods, err := w.pods("")
	switch {
	case err != nil:
		return err
	case len(deployments) != 1 || deployments[0].Name != deployment || !metav1.IsControlledBy(&deployments[0], foo) ||
		*deployments[0].Spec.Replicas != replicas:
		return fmt.Errorf("want Deployment %s of %d, have %+v", deployment, replicas, deployments)
	case len(pods) != int(replicas):
		return fmt.Errorf("there are %d Pods, want %d", len(pods), replicas)
	case foo.Status.AvailableReplicas != replicas || foo.Status.ObservedGeneration != foo.Generation ||
		!meta.IsStatusConditionTrue(foo.Status.Conditions, v1alpha1.ConditionReady):
		return fmt.Errorf("want %d available replicas, the Foo says %+v", replicas, foo.Status)
	}
	return nil
}

// deleteFoo deletes the Foo as kubectl does, and waits until its Deployment and Pods are gone.
func (w *world) deleteFoo() {
	w.t.Helper()
	harness.Delete(w.t, w.fooClient(), fooName,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	w.await(func() error {
		deployments, err := w.deployments()
		if err != nil {
			return err
		}
		pods, err := w.pods("")
		if err == nil && len(deployments)+len(pods) > 0 {
			err = fmt.Errorf("%d Deployments and %d Pods are left", len(deployments), len(pods))
		}
		return err
	})
}
