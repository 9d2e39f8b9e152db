package networkport

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTheStatusLeavesOutWhatOthersWrite: a field that this controller applied would be its own. It would then put back
// what others have changed since.
func TestTheStatusLeavesOutWhatOthersWrite(t *testing.T) {
	port := &cloudteamv1.NetworkPort{}
	port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-0", UID: "pod"}
	port.Status.Attachment = &cloudteamv1.PortAttachment{Node: "node1", Mode: cloudteamv1.AttachmentOVN}
	port.Status.Standby = &cloudteamv1.PortStandby{Node: "node2"}
	port.Status.Conditions = []metav1.Condition{
		{Type: cloudteamv1.ConditionAttached, Status: metav1.ConditionTrue, Reason: cloudteamv1.ReasonPlugged},
		{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue, Reason: cloudteamv1.ReasonAvailable},
	}
	written := statusToWrite(port).(cloudteamv1.NetworkPortStatus)
	if written.BoundTo != nil || written.Attachment != nil || written.Standby != nil {
		t.Errorf("the status has boundTo or attachment: %+v", written)
	}
	if got := written.Conditions; len(got) != 1 || got[0].Type != cloudteamv1.ConditionReady {
		t.Errorf("the status has the conditions %+v, want Ready only", got)
	}
	expect.Len(t, 2, port.Status.Conditions, "the object of the cache was changed")
}
