// Package capture captures the packets at a Pod's port on a Network, in an ephemeral container that it adds to the
// Pod. Everything is done with the user's own rights.
package capture

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/conntest"
	"cloudteam.ztgame.com/network-controller/internal/node/capture"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// interval is between two looks at the Pod, and patience how long the container may take to start.
	interval, patience = 500 * time.Millisecond, 2 * time.Minute
	// slack is how much longer than the capture its container runs, and farewell how long the capture may take to end.
	slack, farewell = 30 * time.Second, 5 * time.Second
)

// Options say what to capture.
type Options struct {
	Namespace, Pod string
	// Network is the name of a Network, as NAMESPACE/NAME if it is in another namespace, or of a NetworkPort. Empty means
	// the Pod's only port.
	Network string
	// Image has the program network-agent. Empty means that of the nodes' agents.
	Image  string
	Limits capture.Limits
	// Container is the name of the container to add. No two in a Pod MAY have the same.
	Container string
	Exec      Exec
	// To gets the pcap, and Progress a line for each step.
	To       io.Writer
	Progress func(line string)
}

// Exec runs a command in a container, until it ends or ctx does.
type Exec func(ctx context.Context, namespace, pod, container string, command []string, streams Streams) error

// Streams are those of a command in a container.
type Streams = remotecommand.StreamOptions

// ExecBy is the Exec of a user, through the API server: by WebSockets or, where these do not pass, by SPDY.
func ExecBy(config *rest.Config, kube kubernetes.Interface) Exec {
	return func(ctx context.Context, namespace, pod, container string, command []string, streams Streams) error {
		at := kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true,
			}, scheme.ParameterCodec).URL()
		first, webErr := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
		second, spdyErr := remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
		either, err := remotecommand.NewFallbackExecutor(first, second, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err := errors.Join(webErr, spdyErr, err); err != nil {
			return err
		}
		return either.StreamWithContext(ctx, streams)
	}
}

// Run captures until a limit is reached, or until ctx ends, which is no error. The container ends by itself. Nobody can
// remove it from the Pod.
func Run(ctx context.Context, c *ask.Cluster, o Options) error {
	if err := o.Limits.Validate(); err != nil {
		return err
	}
	lacks := ask.Lacks(ctx, c.Kubernetes, o.Namespace,
		authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Name: o.Pod},
		authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers", Name: o.Pod},
		authorizationv1.ResourceAttributes{Verb: "create", Resource: "pods", Subresource: "exec", Name: o.Pod})
	if len(lacks) > 0 {
		return fmt.Errorf("you may not %s in namespace %s: packets are for those who may run programs in the Pod. Ask an "+
			"administrator for these rights, or to capture", strings.Join(lacks, ", "), o.Namespace)
	}
	pod, err := c.Kubernetes.CoreV1().Pods(o.Namespace).Get(ctx, o.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Pod %s/%s: %w", o.Namespace, o.Pod, err)
	}
	port, err := o.port(pod)
	if err == nil && o.Image == "" {
		o.Image, err = conntest.AgentsImage(ctx, c.Kubernetes)
	}
	if err != nil {
		return err
	}
	if err := o.add(ctx, c, pod); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("Container %s is added to the Pod, and starts on %s.", o.Container, pod.Spec.NodeName))
	if err := o.await(ctx, c); err != nil {
		return err
	}
	o.Progress(fmt.Sprintf("It captures at %s on Network %s (%s), for %s. Ctrl-C ends it.", port.Port, port.Name,
		strings.Join(port.IPs, ", "), o.Limits.Time))
	return o.stream(ctx, port.MAC)
}

// port is the Pod's port that is meant.
func (o Options) port(pod *corev1.Pod) (cloudteamv1.Allocation, error) {
	all, err := consumer.Allocations(pod)
	var names []string
	var ports []cloudteamv1.Allocation
	for _, p := range all {
		names = append(names, p.Port+" on "+p.Name)
		switch o.Network {
		case "", p.Port, p.Name, strings.TrimPrefix(p.Name, o.Namespace+"/"):
			ports = append(ports, p)
		}
	}
	switch {
	case pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil:
		err = errors.New("does not run, so it sends no packets. See kubectl network why pod/" + pod.Name)
	case err != nil || len(all) == 0:
		err = errors.New("has no port on a Network, so there is nothing to capture. See kubectl network why pod/" + pod.Name)
	case len(ports) != 1:
		err = fmt.Errorf("has %d such ports: name the Network or the NetworkPort of one with --network. It has %s",
			len(ports), strings.Join(names, ", "))
	default:
		return ports[0], nil
	}
	return cloudteamv1.Allocation{}, fmt.Errorf("%s %w", ask.New("Pod", pod.Namespace, pod.Name), err)
}

// add adds the container. Only root can use NET_RAW, and it asks for nothing else. The Pod Security Standard baseline
// forbids to ask for a capability, and allows what the container runtime gives by default. With containerd, NET_RAW is
// in that.
func (o Options) add(ctx context.Context, c *ask.Cluster, pod *corev1.Pod) (err error) {
	container := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: o.Container, Image: o.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:                  []string{"network-agent", "capture", "--hold=" + (o.Limits.Time + slack).String()},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: new(int64(0)), RunAsNonRoot: new(false), AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem: new(true),
		},
	}}
	netRaw := corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_RAW"}}
	// What containerd and CRI-O give each container, but for NET_RAW.
	fewer := corev1.Capabilities{Drop: []corev1.Capability{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP", "SETUID", "SYS_CHROOT",
	}}
	for _, capabilities := range []*corev1.Capabilities{&netRaw, &fewer} {
		container.SecurityContext.Capabilities = capabilities
		var patch []byte
		patch, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID}, "spec": map[string]any{"ephemeralContainers": []any{container}},
		})
		if err == nil {
			_, err = c.Kubernetes.CoreV1().Pods(o.Namespace).Patch(ctx, o.Pod, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{}, "ephemeralcontainers")
		}
		if err == nil || !strings.Contains(err.Error(), "PodSecurity") {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("adding an ephemeral container, which has to be root and see packets: %w. If a policy refuses it, "+
			"ask an administrator: the namespace's Pod Security Standard has to be baseline or privileged", err)
	}
	return err
}

// await waits until the container runs.
func (o Options) await(ctx context.Context, c *ask.Cluster) error {
	last := "nobody says why"
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		pod, err := c.Kubernetes.CoreV1().Pods(o.Namespace).Get(ctx, o.Pod, metav1.GetOptions{})
		if err != nil { // the API server may fail to answer once
			last, pod = err.Error(), &corev1.Pod{}
		}
		for _, status := range pod.Status.EphemeralContainerStatuses {
			trouble, remedy := conntest.Trouble(status, "capture")
			switch {
			case status.Name != o.Container:
			case trouble != "":
				return false, fmt.Errorf("%s %s", trouble, remedy)
			case status.State.Waiting != nil:
				last = strings.TrimSuffix(status.State.Waiting.Reason+": "+status.State.Waiting.Message, ": ")
			default:
				return status.State.Running != nil, nil
			}
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("it has not started after %s: %s. See kubectl describe pod %s -n %s", patience, last, o.Pod,
			o.Namespace)
	}
	if err != nil {
		err = fmt.Errorf("container %s does not run: %w", o.Container, err)
	}
	return err
}

// stream has the container capture. When ctx ends, so does the program's standard input: it then completes the pcap.
func (o Options) stream(ctx context.Context, mac string) error {
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Limits.Time+slack)
	defer cancel()
	in, end := io.Pipe()
	defer end.Close()
	defer context.AfterFunc(ctx, func() {
		_ = end.Close()
		time.AfterFunc(farewell, cancel)
	})()
	var said bytes.Buffer
	// Who has the node, the image or the Pod may write more than was asked for.
	says := &bounded{to: &said, left: mostSaid, full: cancel}
	packets := &bounded{to: o.To, left: int64(o.Limits.Bytes), full: cancel}
	err := o.Exec(running, o.Namespace, o.Pod, o.Container,
		append([]string{"network-agent", "capture", "--mac=" + mac}, o.Limits.Args()...),
		Streams{Stdin: in, Stdout: packets, Stderr: says})
	switch {
	case errors.Is(says.failure(), errTooMuch), errors.Is(packets.failure(), errTooMuch):
		return fmt.Errorf("container %s writes more than it may: do not trust the file. Compare the container's image with "+
			"that of the data plane", o.Container)
	case running.Err() != nil:
		return errors.New("the container does not answer, so the end of the pcap is missing")
	case err != nil:
		return fmt.Errorf("capturing: %w: %s", err, strings.TrimSpace(said.String()))
	}
	o.Progress(strings.TrimSpace(said.String()))
	return packets.failure()
}

// mostSaid is how much the program in the container may say beside the packets.
const mostSaid = 16 << 10

// bounded passes on so many bytes, and then ends what writes them. It keeps its first error, which the library only
// logs.
type bounded struct {
	to   io.Writer
	left int64
	full func()

	mu  sync.Mutex
	err error
}

// errTooMuch is the error of a write that is more than is passed on.
var errTooMuch = errors.New("too much is written")

func (b *bounded) Write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left -= int64(len(p)); b.left < 0 {
		b.full()
		err = errTooMuch
	} else {
		n, err = b.to.Write(p)
	}
	b.err = cmp.Or(b.err, err)
	return n, err
}

func (b *bounded) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
