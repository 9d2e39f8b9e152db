package controller_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
)

func TestAReport(t *testing.T) {
	done := []controller.Event{controller.Done("Created", "made %d", 1), {}, controller.Done("Updated", "and changed")}
	turns := []controller.Event{{Type: corev1.EventTypeWarning, Reason: "Drifted", Message: "by hand"}, {}, {
		Type: corev1.EventTypeWarning, Reason: "Filled", Message: "to the brim",
	}}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		report controller.Report
		write  error
		want   []string
	}{
		"of a sync at rest says nothing": {controller.Report{Turns: turns}, broken, nil},
		"tells what was done, then writes the status, then tells the turns that it took": {
			controller.Report{Done: done, Changed: true, Turns: turns}, nil,
			[]string{"Normal Created made 1", "Normal Updated and changed", "write", "Warning Drifted by hand",
				"Warning Filled to the brim"}},
		"tells what was done though the status stays": {
			controller.Report{Done: done, Turns: turns}, broken,
			[]string{"Normal Created made 1", "Normal Updated and changed"}},
		"keeps the turns for the time when the status can be written": {
			controller.Report{Done: done, Changed: true, Turns: turns}, broken,
			[]string{"Normal Created made 1", "Normal Updated and changed", "write"}},
		"of a status that took no turn has no Event": {
			controller.Report{Changed: true}, nil, []string{"write"}},
	} {
		t.Run(name, func(t *testing.T) {
			events := &controllertest.Events{}
			c.report.Write = func(context.Context) error {
				events.Note("write")
				return c.write
			}
			err := c.report.Send(t.Context(), events, &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1"})
			if failed := c.report.Changed && c.write != nil; failed != errors.Is(err, broken) || failed != (err != nil) {
				t.Errorf("error %v, want that of the write: %t", err, failed)
			}
			events.Want(t, c.want...)
		})
	}
}
