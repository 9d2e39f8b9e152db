package app

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// standingLog tells operators whether another cluster has this cluster's UID.
type standingLog struct {
	ref     managed.CloudRef
	cluster string
	// recorder is nil in a process of one namespace, which has no right to Events about the cluster.
	recorder record.EventRecorder
	logger   klog.Logger
	// resumed is called when a dispute ends: objects wait for that.
	resumed func()
	// was is what was told last.
	was inventory.Standing
}

// log implements inventory.Options.Standing. An Inventory calls it for one change at a time.
func (s *standingLog) log(now inventory.Standing) {
	was := s.was
	s.was = now
	gauge := disputed.WithLabelValues(labelsOf(s.ref)...)
	switch {
	case now.Disputed && !was.Disputed:
		gauge.Set(1)
		s.logger.Error(nil, "Another controller acts, or may act, for a cluster with this cluster's UID, such as a "+
			"restored copy; changing and removing nothing in this project meanwhile. Stop the controller of one of the two "+
			"clusters. After a long outage without a copy, this ends by itself after three audits",
			"uid", s.cluster)
		// Else the conditions of the objects suffice: a user can forge what their cloud says.
		if s.recorder != nil && s.ref.IsOwn() {
			s.recorder.Eventf(&corev1.ObjectReference{
				APIVersion: "v1", Kind: "Namespace", Name: "kube-system", UID: types.UID(s.cluster),
			}, corev1.EventTypeWarning, cloudteamv1.ReasonIdentityDisputed, "Another controller acts, or may act, for a "+
				"cluster with the same UID, such as a restored copy of this one. The network-controllers of both change and "+
				"remove nothing. Stop one of them. After a long outage without a copy, this ends by itself after three audits.")
		}
	case was.Disputed && !now.Disputed:
		gauge.Set(0)
		s.logger.Info("No other controller acts for this cluster's UID any more; resuming")
		s.resumed()
	}
	switch {
	case now.Unknown != nil && was.Unknown == nil:
		s.logger.Info("Another cluster with this cluster's UID, such as a restored copy, would not be detected now",
			"err", now.Unknown)
	case now.Unknown == nil && was.Unknown != nil:
		s.logger.Info("Another cluster with this cluster's UID would be detected again")
	}
}
