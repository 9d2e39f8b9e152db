package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// A file may create the namespace of what is planned.
func TestAPlanNeedsNoNamespaceThatTheFileCreates(t *testing.T) {
	network := &cloudteamv1.Network{}
	network.Namespace, network.Name, network.Spec.CIDR = "coming", "net", "10.0.0.0/24"
	cluster := &ask.Cluster{Kubernetes: kubeClient, Networks: networkAPI}
	if _, err := planning.Stored(t.Context(), cluster, network); err == nil || !strings.Contains(err.Error(), `"coming" not found`) {
		t.Errorf("without its namespace: %v", err)
	}
	cluster.NewNamespaces = map[string]labels.Set{"coming": nil}
	stored, err := planning.Stored(t.Context(), cluster, network)
	expect.NoError(t, err)
	if stored.GetNamespace() != "coming" || network.Namespace != "coming" || stored.(*cloudteamv1.Network).Spec.DHCP == nil {
		t.Errorf("it would be stored as %+v", stored)
	}
	network.Spec.Gateway = "10.0.1.1"
	if _, err := planning.Stored(t.Context(), cluster, network); err == nil || !strings.Contains(err.Error(), "not inside 10.0.0.0/24") {
		t.Errorf("with a mistake: %v", err)
	}
}
