package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Running counts the Pods that run.
func Running(pods []corev1.Pod) (running int) {
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodRunning {
			running++
		}
	}
	return running
}

// AwaitPods waits until as many Pods as wanted fit a label selector ("" is all), each Running, and none being deleted
// or one of before. It gives them in the order of their names.
func AwaitPods(
	t testing.TB, w waiter, kube kubernetes.Interface, namespace, selector string, want int, before ...corev1.Pod,
) (pods []corev1.Pod) {
	t.Helper()
	w.Eventually(t, func() error {
		list, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if pods = list.Items; len(pods) != want || Running(pods) != want {
			return fmt.Errorf("of %d Pods %d run, want %d", len(pods), Running(pods), want)
		}
		for _, pod := range pods {
			isOld := slices.ContainsFunc(before, func(was corev1.Pod) bool { return was.UID == pod.UID })
			if isOld || pod.DeletionTimestamp != nil {
				return fmt.Errorf("there is still Pod %s", pod.Name)
			}
		}
		return nil
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// Ungated is nil where a Pod does not wait for its ports any more.
func Ungated(pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) > 0 {
		return fmt.Errorf("%s waits: %s", nameOf(pod), asJSON(pod.Status))
	}
	return nil
}

// AllocationsOf reads what a Pod was given.
func AllocationsOf(t testing.TB, pod *corev1.Pod) []cloudteamv1.Allocation {
	t.Helper()
	var allocations []cloudteamv1.Allocation
	if text := pod.Annotations[cloudteamv1.AnnotationAllocations]; text != "" {
		if err := json.Unmarshal([]byte(text), &allocations); err != nil {
			t.Errorf("Pod %s: allocations %q: %v", pod.Name, text, err)
		}
	}
	return allocations
}

// HoldApart watches the Pods of a namespace until the test ends, and fails it where two that live have one address.
func (s *Surroundings) HoldApart(t testing.TB, namespace string) {
	t.Helper()
	pods := s.Kube.CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	watcher, err := pods.Watch(context.WithoutCancel(t.Context()),
		metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	expect.NoError(t, err)
	var wg sync.WaitGroup
	var stopped atomic.Bool
	wg.Go(func() {
		holders := map[string]*corev1.Pod{}
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				if !stopped.Load() {
					t.Errorf("the watch of Pods broke: %+v", event.Object)
				}
				return
			}
			over := event.Type == watch.Deleted ||
				pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if over {
				// Whatever it says at its end: somebody may have taken that off.
				maps.DeleteFunc(holders, func(_ string, holder *corev1.Pod) bool { return holder.UID == pod.UID })
				continue
			}
			for _, a := range AllocationsOf(t, pod) {
				for _, ip := range a.IPs {
					if holder := holders[ip]; holder != nil && holder.UID != pod.UID {
						t.Errorf("%s is Pod %s's (%+v), and Pod %s has it, which still lives (%+v)", ip, pod.Name,
							AllocationsOf(t, pod), holder.Name, AllocationsOf(t, holder))
					}
					holders[ip] = pod
				}
			}
		}
	})
	t.Cleanup(func() { stopped.Store(true); watcher.Stop(); wg.Wait() })
}
