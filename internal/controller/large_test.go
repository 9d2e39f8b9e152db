package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAStatusIsLimited(t *testing.T) {
	status := &cloudteamv1.ResourceStatus{Conditions: []metav1.Condition{{Message: strings.Repeat("数", 5000)}, {Message: "short"}}}
	for range 100 {
		status.Drift = append(status.Drift, cloudteamv1.Drift{Resource: "network", Field: "tags", Actual: strings.Repeat("x", 5000)})
	}
	LimitStatus(status)
	if got := status.Conditions[0].Message; len(got) > MaxMessage || !strings.HasSuffix(got, "数…") {
		t.Errorf("the message has %d bytes: %.20s", len(got), got)
	}
	size := 0
	for _, d := range status.Drift {
		size += len(d.Resource + d.Field + d.Declared + d.Actual)
	}
	if len(status.Drift) == 0 || size > maxDrift {
		t.Errorf("%d differences of %d bytes are left, want some of at most %d", len(status.Drift), size, maxDrift)
	}
	again := status.DeepCopy()
	LimitStatus(again)
	expect.Equal(t, status, again, "a second time changes it")
}
