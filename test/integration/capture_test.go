package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/capture"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestCaptureAtTheAPIServer has users capture in a namespace of each Pod Security Standard. The test plays the kubelet.
func TestCaptureAtTheAPIServer(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]struct{ refusal, capabilities string }{
		"privileged": {"", `{"add":["NET_RAW"],"drop":["ALL"]}`}, "restricted": {"violates PodSecurity", ""},
		// It asks for nothing, and leaves NET_RAW as the container runtime gives it.
		"baseline": {"", `{"drop":["AUDIT_WRITE","CHOWN","DAC_OVERRIDE","FOWNER","FSETID","KILL","MKNOD","NET_BIND_SERVICE",` +
			`"SETFCAP","SETGID","SETPCAP","SETUID","SYS_CHROOT"]}`},
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
			_, err := kubeClient.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
			expect.NoError(t, err)
			runningPod(t, namespace)
			user := podTester(t, namespace, "gina", "get", "list")
			var pcap bytes.Buffer
			o := capture.Options{
				Namespace: namespace, Pod: "web", Image: "agent", Container: "capture-x", To: &pcap, Progress: func(string) {},
				Exec: func(_ context.Context, _, _, _ string, _ []string, streams capture.Streams) error {
					_, err := io.WriteString(streams.Stdout, "packets")
					return err
				},
			}
			o.Limits.Time, o.Limits.Bytes, o.Limits.Length = time.Minute, 1<<20, 96
			expect.ErrorSays(t, capture.Run(t.Context(), user, o),
				"you may not patch pods/ephemeralcontainers, create pods/exec in namespace "+namespace)
			mayCapture(t, namespace, user)

			ctx, cancel := context.WithCancel(t.Context())
			played := make(chan error, 1)
			go func() { played <- startContainers(ctx, namespace) }()
			err = capture.Run(t.Context(), user, o)
			cancel()
			expect.NoError(t, <-played)
			if want.refusal != "" {
				expect.ErrorSays(t, err, want.refusal)
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, "packets", pcap.String(), "the pcap")
			pod, err := kubeClient.CoreV1().Pods(namespace).Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			expect.Len(t, 1, pod.Spec.EphemeralContainers, "ephemeral containers")
			text, err := json.Marshal(pod.Spec.EphemeralContainers[0].SecurityContext.Capabilities)
			expect.NoError(t, err)
			expect.Equal(t, want.capabilities, string(text), "the capabilities")
		})
	}
}

// runningPod makes a Pod that keeps to the standard restricted, and runs with a port.
func runningPod(t *testing.T, namespace string) {
	t.Helper()
	pods := kubeClient.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{
		cloudteamv1.AnnotationAllocations: `[{"name":"` + namespace + `/web","ips":["10.40.0.3/24"],"mac":"fa:16:3e:00:00:01","portID":"p","port":"web-0"}]`,
	}}}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web", SecurityContext: &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	expect.NoError(t, err)
	expect.NoError(t, pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Target: corev1.ObjectReference{Kind: "Node", Name: "node1"}}, metav1.CreateOptions{}))
	_, err = pods.Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	expect.NoError(t, err)
}

// mayCapture gives a user the rights that a capture needs beside those to read Pods.
func mayCapture(t *testing.T, namespace string, user *ask.Cluster) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "capture"}
	_, err := kubeClient.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = kubeClient.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "gina"}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	eventually(t, func() error {
		lacks := ask.Lacks(t.Context(), user.Kubernetes, namespace,
			authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers"},
			authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "exec"})
		if len(lacks) > 0 {
			return fmt.Errorf("gina may not %v yet", lacks)
		}
		return nil
	})
}

// startContainers has the ephemeral containers of a namespace's Pods run, until ctx is done.
func startContainers(ctx context.Context, namespace string) error {
	pods := kubeClient.CoreV1().Pods(namespace)
	watcher, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		if ctx.Err() != nil { // a refused capture ends before there is something to start
			return nil
		}
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		pod, is := event.Object.(*corev1.Pod)
		if !is || len(pod.Status.EphemeralContainerStatuses) == len(pod.Spec.EphemeralContainers) {
			continue
		}
		pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.EphemeralContainers[0].Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
