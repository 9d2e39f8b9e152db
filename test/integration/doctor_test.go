package integration

import (
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
)

// TestDoctorFindsNoDifferenceInTheCRDsOfThisVersion holds what an API server publishes against the CRDs that it was
// given: it may add defaults and drop what it does not know.
func TestDoctorFindsNoDifferenceInTheCRDsOfThisVersion(t *testing.T) {
	cluster := &ask.Cluster{Kubernetes: kubeClient, Networks: networkAPI}
	for _, check := range doctor.Run(t.Context(), cluster, doctor.Options{Version: "v1.2.0", Now: time.Now()}) {
		if check.Name == "CRDs' schema" {
			if check.State != doctor.OK {
				t.Errorf("%+v", check)
			}
			return
		}
	}
	t.Error("the schemas were not compared")
}
