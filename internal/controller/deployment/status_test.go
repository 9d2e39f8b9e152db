package deployment

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestNextCondition(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier := metav1.NewTime(now.Add(-time.Hour))
	condition := func(status corev1.ConditionStatus, reason, message string, since metav1.Time) *appsv1.DeploymentCondition {
		return &appsv1.DeploymentCondition{
			Type: cloudteamv1.ConditionNetworksReady, Status: status, Reason: reason, Message: message,
			LastTransitionTime: since, LastUpdateTime: metav1.NewTime(now),
		}
	}
	const waiting = "Ports are being created. kubectl get networkports shows their progress."
	for name, c := range map[string]struct {
		was  *appsv1.DeploymentCondition
		say  verdict
		want *appsv1.DeploymentCondition
	}{
		"where all is well there is nothing to say":    {nil, verdict{total: 2, settled: true}, nil},
		"where ports are made there is nothing to say": {nil, verdict{total: 2}, nil},
		"what stands in the way is said": {
			nil, verdict{reason: "NetworkNotFound", message: "m"},
			condition("False", "NetworkNotFound", "m", metav1.NewTime(now)),
		},
		"and said once": {
			condition("False", "NetworkNotFound", "m", earlier), verdict{reason: "NetworkNotFound", message: "m"}, nil,
		},
		"another reason is no transition": {
			condition("False", "NetworkNotFound", "m", earlier), verdict{reason: "PortsFailed", message: "n"},
			condition("False", "PortsFailed", "n", earlier),
		},
		"once it is over, ports are waited for": {
			condition("False", "NetworkNotFound", "m", earlier), verdict{total: 2},
			condition("False", "PortsNotReady", waiting, earlier),
		},
		"which is said once, too": {
			condition("False", "PortsNotReady", waiting, earlier), verdict{total: 2}, nil,
		},
		"until all are there": {
			condition("False", "PortsNotReady", waiting, earlier), verdict{total: 2, settled: true},
			condition("True", "Allocated", "All ports are Ready.", metav1.NewTime(now)),
		},
		"or none are wanted": {
			condition("False", "InvalidNetworks", "m", earlier), verdict{settled: true},
			condition("True", "Allocated", "No ports are needed.", metav1.NewTime(now)),
		},
		"what is well stays so while ports are made": {
			condition("True", "Allocated", "All ports are Ready.", earlier), verdict{total: 2}, nil,
		},
		"what was well can fail again": {
			condition("True", "Allocated", "All ports are Ready.", earlier), verdict{reason: "PortsFailed", message: "m"},
			condition("False", "PortsFailed", "m", metav1.NewTime(now)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := declaring("blue", 2)
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "False"}}
			if c.was != nil {
				d.Status.Conditions = append(d.Status.Conditions, *c.was)
			}
			expect.Equal(t, c.want, nextCondition(d, c.say, now), "condition")
		})
	}
}

func TestWhatIsToldOfWrites(t *testing.T) {
	forbidden := apierrors.NewForbidden(portsResource, "web-blue-3", errors.New("exceeded quota: few"))
	missing := verdict{reason: "NetworkNotFound", message: "m", total: 5}
	failing := verdict{reason: "PortsFailed", message: "1 of 5 ports cannot be created", total: 5}
	failed := backoff{due: time.Unix(1, 0)}
	refused := func(err error, ports int) memory {
		return memory{creates: failed, refused: refusal{err, ports}}
	}
	for name, c := range map[string]struct {
		err     error
		memory  memory
		planned verdict
		say     verdict
		known   bool
	}{
		"without failures the plan's":          {nil, memory{}, failing, failing, true},
		"a cache that is behind tells nothing": {controller.ErrStale, memory{}, failing, failing, false},
		"an API server that fails tells nothing": {
			errors.New("timeout"), memory{}, verdict{total: 5}, verdict{total: 5}, false,
		},
		"a create that failed and is not retried yet tells nothing": {
			nil, memory{creates: failed}, verdict{total: 5}, verdict{total: 5}, false,
		},
		"a delete that failed and is not retried yet tells nothing": {
			nil, memory{deletes: failed}, verdict{total: 5}, verdict{total: 5}, false,
		},
		"a refusal that is over tells nothing": {
			nil, memory{refused: refusal{forbidden, 2}}, verdict{total: 5}, verdict{total: 5}, true,
		},
		"a wrong declaration is told whatever happens": {
			controller.ErrStale, refused(forbidden, 2), missing, missing, true,
		},
		"a quota": {
			nil, refused(forbidden, 2), failing,
			verdict{reason: "PortsFailed", total: 5, message: "2 of 5 ports cannot be created; the API server refuses them: " +
				`networkports.cloudteam.ztgame.com "web-blue-3" is forbidden: exceeded quota: few; ` +
				"check the namespace's ResourceQuota and the controller's RBAC, or lower spec.replicas"}, true,
		},
		"a rule of the CRD": {
			nil, refused(errInvalid, 5), verdict{total: 5},
			verdict{reason: "PortsFailed", total: 5, message: "5 of 5 ports cannot be created; the API server refuses them: " +
				`NetworkPort.cloudteam.ztgame.com "web-blue-3" is invalid; ` +
				"correct the Pod template's annotation k8s.v1.cni.cncf.io/networks"}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			say, known := c.memory.verdict(c.planned, c.err)
			expect.Equal(t, c.known, known, "known")
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(verdict{})}, c.say, say, "verdict")
		})
	}
}
