package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	applyv1 "cloudteam.ztgame.com/network-controller/pkg/client/applyconfiguration/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// fieldManager owns the condition Attached.
const fieldManager = "network-agent"

// tellAgain is how long the cache may take to show what was told.
const tellAgain = 10 * time.Second

// condition is the condition Attached of a NetworkPort.
type condition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// telling is what was last told about a port.
type telling struct {
	condition
	at time.Time
}

func plugged(w ovs.Wanted, mode cloudteamv1.AttachmentMode, node string) condition {
	message := fmt.Sprintf("Interface %s of the Pod is plugged on node %s, as %s.", w.Mark.IfName, node, w.Name)
	if mode == cloudteamv1.AttachmentOVNUnbound {
		// The controller does not bind a port that is plugged: it would stay DOWN.
		message += " Packets flow, and the port's status in Neutron stays DOWN: the controller was not permitted to bind " +
			"it. Give the controller credentials that may bind ports, by --binding-cloud, and then replace the Pod."
	}
	return condition{metav1.ConditionTrue, cloudteamv1.ReasonPlugged, message}
}

func failed(message string) condition {
	return condition{metav1.ConditionFalse, cloudteamv1.ReasonPlugFailed, message}
}

func failedLater(w ovs.Wanted, why string) condition {
	return failed(fmt.Sprintf("No packets flow at interface %s of the Pod, %s on the node: %s. Retrying.",
		w.Mark.IfName, w.Name, why))
}

func isPlugged(p *cloudteamv1.NetworkPort) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, cloudteamv1.ConditionAttached)
}

// writeCondition writes the condition Attached if it differs. A later repair repeats what fails: packets do not wait
// for it.
func (a *Agent) writeCondition(ctx context.Context, p *cloudteamv1.NetworkPort, c condition) {
	have := meta.FindStatusCondition(p.Status.Conditions, cloudteamv1.ConditionAttached)
	if have != nil && have.Status == c.status && have.Reason == c.reason && have.Message == c.message {
		return
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	if last, ok := a.told[p.UID]; ok && last.condition == c && !expired(last.at, tellAgain) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := a.write(ctx, p, c); err != nil {
		klog.FromContext(ctx).Error(err, "Writing the condition Attached failed; retrying", "networkPort", klog.KObj(p))
		return
	}
	now := time.Now()
	for uid, last := range a.told {
		if expired(last.at, tellAgain) {
			delete(a.told, uid)
		}
	}
	a.told[p.UID] = telling{c, now}
}

// writer writes the condition by server-side apply: it is the only field that the agent owns.
func writer(client versioned.Interface) func(context.Context, *cloudteamv1.NetworkPort, condition) error {
	return func(ctx context.Context, p *cloudteamv1.NetworkPort, c condition) error {
		since := metav1.Now()
		have := meta.FindStatusCondition(p.Status.Conditions, cloudteamv1.ConditionAttached)
		if have != nil && have.Status == c.status {
			since = have.LastTransitionTime
		}
		_, err := client.CloudteamV1().NetworkPorts(p.Namespace).ApplyStatus(ctx,
			applyv1.NetworkPort(p.Name, p.Namespace).WithUID(p.UID).WithStatus(applyv1.NetworkPortStatus().WithConditions(
				applymetav1.Condition().WithType(cloudteamv1.ConditionAttached).WithStatus(c.status).WithReason(c.reason).
					WithMessage(c.message).WithLastTransitionTime(since).WithObservedGeneration(p.Generation),
			)), metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		return err
	}
}
