package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	announceInterval = 10 * time.Minute
	announceRetry    = 5 * time.Second
)

// announce keeps on the Node how its Pods are attached, until ctx is done. The annotations stay when the agent stops:
// it comes back, and what it plugged works without it.
func (a *Agent) announce(ctx context.Context, kube kubernetes.Interface) {
	logger := klog.FromContext(ctx)
	var done map[string]any
	var at time.Time
	for ctx.Err() == nil {
		changed := a.vswitch.Changed()
		retry := announceInterval
		if s, err := a.look(ctx); err == nil {
			// nil removes what the node had in another mode.
			wanted := map[string]any{
				cloudteamv1.AnnotationDataplane: string(s.mode), cloudteamv1.AnnotationDataplaneHost: s.host,
				cloudteamv1.AnnotationDataplaneParent: nil, cloudteamv1.AnnotationDataplaneParentPort: nil,
				cloudteamv1.AnnotationDataplaneVersion: version.Version,
			}
			if s.mode == cloudteamv1.AttachmentTrunk {
				// Neutron binds a subport with its parent.
				wanted[cloudteamv1.AnnotationDataplaneHost], wanted[cloudteamv1.AnnotationDataplaneParent] = nil, s.Parent
				if id := a.learn(ctx, s.Parent); id != "" {
					wanted[cloudteamv1.AnnotationDataplaneParentPort] = id
				} else if a.networkData != "" {
					retry = unknownInterval
				}
			}
			same := maps.Equal(done, wanted)
			if !same || expired(at, announceInterval) {
				if err := annotate(ctx, kube, a.node, wanted); err != nil {
					logger.Error(err, "Annotating the Node failed; no Pod is attached on it until this succeeds; retrying")
					retry = announceRetry
				} else {
					if !same {
						logger.Info("Announced the data plane on the Node", "node", a.node, "mode", s.mode, "host", s.host,
							"parent", s.Parent, "parentPort", wanted[cloudteamv1.AnnotationDataplaneParentPort])
					}
					done, at = wanted, time.Now()
				}
			}
		} else if ctx.Err() == nil {
			logger.V(1).Info("The node's mode is unknown", "err", err)
		}
		if retry == announceRetry {
			changed = nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(retry):
		}
	}
}

// annotate writes annotations of a Node if they differ.
func annotate(ctx context.Context, kube kubernetes.Interface, name string, wanted map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	have, err := kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("reading the Node %s (--node-name): %w", name, err)
	}
	differs := false
	for key, value := range wanted {
		has, ok := have.Annotations[key]
		differs = differs || ok != (value != nil) || ok && has != value
	}
	if !differs {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": wanted}})
	if err != nil {
		return err
	}
	if _, err := kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("annotating the Node %s: %w", name, err)
	}
	return nil
}
