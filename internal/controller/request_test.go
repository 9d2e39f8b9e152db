package controller

import (
	"fmt"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

type refusal string

func (r refusal) Error() string     { return "create network: no" }
func (r refusal) RequestID() string { return string(r) }

// TestAConditionKeepsTheFirstRequestOfAFailure writes no status for a retry that fails as the attempt before.
func TestAConditionKeepsTheFirstRequestOfAFailure(t *testing.T) {
	const first, second = refusal("req-00000000-0000-4000-8000-000000000001"), refusal("req-00000000-0000-4000-8000-000000000002")
	quota := Reconciling(cloudteamv1.ReasonQuotaExceeded, "No room. Raise the quota.")
	mention := func(s State, err error, was State) string {
		t.Helper()
		return s.Mention(err, SetState(nil, 1, was)).Message
	}
	told := quota.Mention(fmt.Errorf("applying: %w", first), nil)
	if want := "No room. Raise the quota. (Neutron's request: " + string(first) + ")"; told.Message != want {
		t.Errorf("the first failure: %q, want %q", told.Message, want)
	}
	expect.Equal(t, told.Message, mention(quota, second, told), "what a retry says")
	expect.Equal(t, told.Message, mention(quota, nil, told), "what a retry says that was not sent")
	expect.Equal(t, quota.Message, mention(quota, second, quota), "the condition after an id alone")
	other := Stalled(cloudteamv1.ReasonRejected, "No room. Raise the quota.")
	if got := mention(other, second, told); WithoutRequest(got) != other.Message || got == told.Message {
		t.Errorf("another failure says %q", got)
	}
	ready := Ready(cloudteamv1.ReasonAvailable, "The network is as declared")
	expect.Equal(t, ready.Message, mention(ready, nil, told), "what the end of the failure says")
}
