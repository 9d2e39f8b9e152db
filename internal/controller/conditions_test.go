package controller

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestSetState(t *testing.T) {
	const (
		ready       = cloudteamv1.ConditionReady
		reconciling = cloudteamv1.ConditionReconciling
		stalled     = cloudteamv1.ConditionStalled
		yes, no     = metav1.ConditionTrue, metav1.ConditionFalse
	)
	synctest.Test(t, func(t *testing.T) {
		before := metav1.Now()
		<-time.After(time.Hour)
		now := metav1.Now()
		condition := func(kind string, status metav1.ConditionStatus, generation int64, reason, message string,
			since metav1.Time,
		) metav1.Condition {
			return metav1.Condition{
				Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: message,
				LastTransitionTime: since,
			}
		}
		other := condition("Other", yes, 1, "Theirs", "left alone", before)
		wasReady := []metav1.Condition{other, condition(ready, yes, 1, "Available", "ok", before)}
		wasStalled := []metav1.Condition{
			condition(ready, no, 1, "Rejected", "no", before), other, condition(stalled, yes, 1, "Rejected", "no",
				before),
		}
		for name, c := range map[string]struct {
			was   []metav1.Condition
			state State
			want  []metav1.Condition
		}{
			"Ready alone stands on a new object": {
				nil, Ready("Available", "ok"), []metav1.Condition{condition(ready, yes, 2, "Available", "ok", now)}},
			"Reconciling stands beside Ready False": {
				nil, Reconciling("ReconcileFailed", "soon"), []metav1.Condition{
					condition(ready, no, 2, "ReconcileFailed", "soon", now), condition(reconciling, yes, 2, "ReconcileFailed", "soon",
						now)}},
			"Stalled stands beside Ready False": {
				nil, Stalled("Rejected", "no"), []metav1.Condition{
					condition(ready, no, 2, "Rejected", "no", now), condition(stalled, yes, 2, "Rejected", "no", now)}},
			"the same status keeps its time though the message and the generation move": {
				wasReady, Ready("DriftDetected", "mtu"), []metav1.Condition{
					other, condition(ready, yes, 2, "DriftDetected", "mtu", before)}},
			"another status has another time, and what others wrote stays": {
				wasReady, Reconciling("ReconcileFailed", "soon"), []metav1.Condition{
					other, condition(ready, no, 2, "ReconcileFailed", "soon", now),
					condition(reconciling, yes, 2, "ReconcileFailed", "soon", now)}},
			"Stalled goes when Reconciling comes, and Ready stays False since before": {
				wasStalled, Reconciling("ReconcileFailed", "soon"), []metav1.Condition{
					condition(ready, no, 2, "ReconcileFailed", "soon", before), other,
					condition(reconciling, yes, 2, "ReconcileFailed", "soon", now)}},
			"Stalled goes when all is well": {
				wasStalled, Ready("Available", "ok"), []metav1.Condition{
					condition(ready, yes, 2, "Available", "ok", now), other}},
			"Stalled that goes on keeps its time": {
				wasStalled, Stalled("Blocked", "by a subnet"), []metav1.Condition{
					condition(ready, no, 2, "Blocked", "by a subnet", before), other,
					condition(stalled, yes, 2, "Blocked", "by a subnet", before)}},
		} {
			// The name goes into each message: subtests may not run in a bubble of synthetic time.
			kept := slices.Clone(c.was)
			got := SetState(c.was, 2, c.state)
			expect.Equal(t, c.want, got, "%s: conditions", name)
			expect.Equal(t, kept, c.was, "%s: the argument was written to", name)
			again := SetState(got, 2, c.state)
			expect.Equal(t, got, again, "%s: the same state once more changes something", name)
		}
	})
}

func TestSetStateLeavesSpareRoomOfItsArgumentAlone(t *testing.T) {
	backing := make([]metav1.Condition, 1, 8)
	backing[0] = metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Theirs"}
	SetState(backing, 1, Stalled("Rejected", "no"))
	for i, c := range backing[:cap(backing)][1:] {
		expect.Equal(t, "", c.Type, "place %d behind the argument: %+v", i+1, c)
	}
}
