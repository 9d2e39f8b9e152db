package transitions

import (
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// isPaused reports whether the annotation pauses an object.
func isPaused(object metav1.Object) bool {
	value, stands := object.GetAnnotations()[cloudteamv1.AnnotationPaused]
	return stands && value != "false"
}

// pause puts the annotation on an object, with one of the values that it may have, or takes it off.
func (s *sequence) pause(t *rapid.T) {
	var value any
	if rapid.IntRange(0, 2).Draw(t, "whether") > 0 {
		value = rapid.SampledFrom([]string{"true", "", "yes", "false"}).Draw(t, "value")
	}
	ofPort := rapid.Bool().Draw(t, "of a port")
	network := rapid.SampledFrom(networkSlots).Draw(t, "network")
	port := rapid.SampledFrom(portSlots).Draw(t, "port")
	wait := rapid.Bool().Draw(t, "wait")
	var object metav1.Object
	if n, exists := s.getNetwork(t, s.reached, network); exists && !ofPort {
		object = n
	}
	if p, exists := s.getPort(t, s.reached, port); exists && ofPort {
		object = p
	}
	if object == nil {
		return
	}
	t.Logf("annotate %s %s/%s: paused %v", kindOf(object), s.reached.drawn(object.GetNamespace()), object.GetName(), value)
	s.annotate(t, object, value)
	if wait {
		s.settle(t)
	}
}

// settle is the world's, after which all that was under way for what is paused has ended.
func (s *sequence) settle(t *rapid.T) {
	t.Helper()
	s.world.settle(t)
	s.holdPaused(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	see := func(object metav1.Object) {
		if uid := string(object.GetUID()); isPaused(object) {
			s.pausedAt[uid] = s.applied[uid]
		}
	}
	for _, n := range s.networks(t, s.reached) {
		see(&n)
	}
	for _, p := range s.ports(t, s.reached) {
		see(&p)
	}
}

func kindOf(object metav1.Object) string {
	if _, is := object.(*cloudteamv1.Network); is {
		return "Network"
	}
	return "NetworkPort"
}

// annotate gives the annotation a value, or takes it off with nil. An object that has just gone needs none.
func (s *sequence) annotate(t *rapid.T, object metav1.Object, value any) {
	t.Helper()
	s.holdPaused(t)
	s.mu.Lock()
	delete(s.pausedAt, string(object.GetUID()))
	s.mu.Unlock()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": object.GetUID(), "annotations": map[string]any{cloudteamv1.AnnotationPaused: value},
		},
	})
	expect.NoError(t, err)
	of := s.client.CloudteamV1()
	if kindOf(object) == "Network" {
		_, err = of.Networks(object.GetNamespace()).Patch(
			s.ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = of.NetworkPorts(object.GetNamespace()).Patch(
			s.ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
}

// holdPaused holds that nothing was written to Neutron for objects that were paused when all had settled, and have been
// since.
func (s *sequence) holdPaused(t *rapid.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, then := range s.pausedAt {
		if now := s.applied[uid]; now != then {
			t.Fatalf("%s is paused, and %d steps were taken for it", uid, now-then)
		}
	}
}
