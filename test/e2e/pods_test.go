package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// scale scales a Deployment as kubectl scale does.
func scale(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	harness.Scale(t, kube.AppsV1().Deployments(namespace), name, replicas)
}

// awaitPods waits until as many Pods as wanted fit a label selector ("" is all), each Running and none being deleted,
// and returns them.
func awaitPods(t *testing.T, namespace, selector string, want int) []corev1.Pod {
	t.Helper()
	var pods *corev1.PodList
	eventually(t, func() (err error) {
		pods, err = kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		states := map[string]int{}
		for _, pod := range pods.Items {
			state := string(pod.Status.Phase)
			if pod.DeletionTimestamp != nil {
				state = "being deleted"
			}
			states[state]++
		}
		if len(pods.Items) != want || states[string(corev1.PodRunning)] != want {
			return fmt.Errorf("want %d Pods that are Running, have %v", want, states)
		}
		return nil
	})
	return pods.Items
}
