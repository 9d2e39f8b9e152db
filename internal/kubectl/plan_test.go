package kubectl

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	markers "cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestAPlanFindsTheClusterInWhatItPlans has a user with rights in one namespace alone.
func TestAPlanFindsTheClusterInWhatItPlans(t *testing.T) {
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	expect.NoError(t, cloud.Do(t.Context(), client.Request{Op: "create network", Method: http.MethodPost, Path: "networks",
		Body: map[string]any{"network": map[string]any{"description": markers.Owner{Cluster: "c9", Object: "uid"}.Marker()}}}))
	n := &cloudteamv1.Network{}
	n.Namespace, n.Name, n.UID = "shop", "net", "uid"
	other, coming := n.DeepCopy(), n.DeepCopy()
	other.Name, other.UID, coming.Name = "other", "another", "coming"
	kube := kubefake.NewClientset()
	kube.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", nil)
	})
	c := &ask.Cluster{Kubernetes: kube, Networks: fake.NewSimpleClientset(n, other)}
	for _, try := range []struct {
		want, given string
		file        []kinds.Object
	}{
		{"c9", "", []kinds.Object{coming, n}}, {nobody, "", []kinds.Object{coming, other}}, {"given", "given", []kinds.Object{n}},
	} {
		uid, err := clusterOf(t.Context(), c, cloud, try.file, try.given)
		expect.NoError(t, err)
		expect.Equal(t, try.want, uid, "the cluster")
	}
}

func TestExitOfAPlan(t *testing.T) {
	something := planning.Result{Steps: []planning.Step{{}}}
	for sentence, c := range map[string]struct {
		plan plan
		want int
	}{
		"something would be done":        {plan{Objects: []planning.Result{{}, something}, Quotas: []planning.Quota{{Resource: "network", After: 1, Limit: 1}}}, 2},
		"a quota is too small":           {plan{Objects: []planning.Result{something}, Quotas: []planning.Quota{{Resource: "network", After: 2, Limit: 1}}}, 1},
		"an object would not be applied": {plan{Objects: []planning.Result{something, {Problem: "none"}}}, 1},
		"nothing would be done":          {plan{Objects: []planning.Result{{}}}, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := 0
			if exit, ok := errors.AsType[*ExitError](c.plan.exit()); ok {
				got = exit.Code
			}
			expect.Equal(t, c.want, got, "exit code")
		})
	}
}
