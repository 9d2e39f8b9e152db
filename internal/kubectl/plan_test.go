package kubectl

import (
	"errors"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

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
