package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/capture"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// room plays the API server, the kubelet and the container of a capture.
type room struct {
	// edit changes the API server before the command runs.
	edit func(kube *kubefake.Clientset)
	// state is the container's; by default it runs.
	state corev1.ContainerState
	// exec is what the program in the container does; by default, it writes pcap and says so.
	exec func(ctx context.Context, streams capture.Streams) error
	// ctrlC is called by exec.
	ctrlC context.CancelFunc

	// added are the containers that were asked for, and command is what ran in the last one.
	added   []corev1.EphemeralContainer
	command []string
}

// pcap is what the program in the container writes.
const pcap = "the packets"

func captured(_ context.Context, streams capture.Streams) error {
	_, _ = io.WriteString(streams.Stdout, pcap)
	_, _ = io.WriteString(streams.Stderr, "42 packets in 5120 bytes. 0 packets lost.\n")
	return nil
}

// onNetworks is a Pod with its ports on these Networks.
func onNetworks(networks ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named("web-0")}
	pod.Spec.NodeName, pod.Status.Phase = "node1", corev1.PodRunning
	var all []cloudteamv1.Allocation
	for i, network := range networks {
		all = append(all, cloudteamv1.Allocation{Name: "shop/" + network, IPs: []string{fmt.Sprintf("192.168.0.%d/29", 3+i)},
			MAC: fmt.Sprintf("fa:16:3e:00:00:0%d", i), Port: fmt.Sprintf("web-0-%d", i)})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	pod.Annotations = map[string]string{cloudteamv1.AnnotationAllocations: string(text)}
	return pod
}

// run runs a command in virtual time.
func (r *room) run(t *testing.T, objects []runtime.Object, command string) (out string, code int) {
	t.Helper()
	return inVirtualTime(t, objects, command, r.attach, func(f *factory, ctrlC context.CancelFunc) {
		r.ctrlC = ctrlC
		f.exec = func(ctx context.Context, _, _, _ string, command []string, streams capture.Streams) error {
			r.command = command
			if r.exec == nil {
				r.exec = captured
			}
			return r.exec(ctx, streams)
		}
	})
}

// attach has the API server allow all and add containers to Pods, which are then in the state of the test.
func (r *room) attach(kube *kubefake.Clientset) {
	answersReviews(kube, anything)
	kube.PrependReactor("patch", "pods/ephemeralcontainers", func(a clienttesting.Action) (bool, runtime.Object, error) {
		patch := a.(clienttesting.PatchAction)
		object, err := kube.Tracker().Get(podsResource, patch.GetNamespace(), patch.GetName())
		if err != nil {
			return true, nil, err
		}
		pod, asked := object.(*corev1.Pod).DeepCopy(), corev1.Pod{}
		if err := json.Unmarshal(patch.GetPatch(), &asked); err != nil || asked.UID != pod.UID {
			return true, nil, errors.Join(err, errors.New("another Pod"))
		}
		r.added = append(r.added, asked.Spec.EphemeralContainers...)
		if r.state == (corev1.ContainerState{}) {
			r.state.Running = &corev1.ContainerStateRunning{}
		}
		pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debugger-other"},
			{Name: asked.Spec.EphemeralContainers[0].Name, State: r.state}}
		return true, pod, kube.Tracker().Update(podsResource, pod, pod.Namespace)
	})
	if r.edit != nil {
		r.edit(kube)
	}
}

// podSecurity refuses containers, as a namespace of that level does.
func (r *room) podSecurity(level string) *room {
	r.edit = func(kube *kubefake.Clientset) {
		kube.PrependReactor("patch", "pods/ephemeralcontainers", func(a clienttesting.Action) (bool, runtime.Object, error) {
			var asked corev1.Pod
			err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &asked)
			if err != nil || level == "restricted" || len(asked.Spec.EphemeralContainers[0].SecurityContext.Capabilities.Add) > 0 {
				return true, nil, errors.Join(err, apierrors.NewForbidden(podsResource.GroupResource(), "web-0",
					errors.New(`violates PodSecurity "`+level+`:latest": non-default capabilities`)))
			}
			return false, nil, nil
		})
	}
	return r
}

// lacking has the API server say that the user may not do a verb.
func lacking(verb string) func(*kubefake.Clientset) {
	return func(kube *kubefake.Clientset) {
		answersReviews(kube, func(asks *authorizationv1.ResourceAttributes) bool { return asks.Verb != verb })
	}
}

// waitingFor is the state of a container that waits.
func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func TestPacketsAreCaptured(t *testing.T) {
	pending, leaving := onNetworks("frontend"), onNetworks("frontend")
	pending.Status.Phase = corev1.PodPending
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: now}, []string{"example.org/waits"}
	both, one := onNetworks("frontend", "backend"), onNetworks("frontend")
	endless := func(ctx context.Context, _ capture.Streams) error { <-ctx.Done(); return ctx.Err() }
	for sentence, tc := range map[string]struct {
		room  room
		pod   *corev1.Pod
		flags string
		code  int
		// has are parts of the output, and mac is of the interface that is captured, if one is.
		has []string
		mac string
	}{
		"the Pod's only port": {pod: one, mac: "fa:16:3e:00:00:00", has: []string{
			"Container capture-x7k2p is added to the Pod, and starts on node1.", "42 packets in 5120 bytes. 0 packets lost.",
			"It captures at web-0-0 on Network shop/frontend (192.168.0.3/29), for 10s. Ctrl-C ends it.", "keep it as you keep a Secret"}},
		"a port by its Network":               {pod: both, flags: "--network backend", mac: "fa:16:3e:00:00:01"},
		"a port by its Network and namespace": {pod: both, flags: "--network shop/backend", mac: "fa:16:3e:00:00:01"},
		"a port by its name":                  {pod: both, flags: "--network web-0-1", mac: "fa:16:3e:00:00:01"},
		"several ports, and none is named": {pod: both, code: 1, has: []string{"Error: Pod shop/web-0 has 2 such ports",
			"--network. It has web-0-0 on shop/frontend, web-0-1 on shop/backend"}},
		"two ports on the Network that is named": {pod: onNetworks("frontend", "frontend"), flags: "--network frontend", code: 1,
			has: []string{"has 2 such ports"}},
		"no port on the Network that is named": {pod: one, flags: "--network other", code: 1, has: []string{"has 0 such ports"}},

		"a Pod without networks": {pod: onNetworks(), code: 1, has: []string{"Error: Pod shop/web-0 has no port on a Network"}},
		"a Pod that waits": {pod: pending, code: 1,
			has: []string{"Error: Pod shop/web-0 does not run, so it sends no packets. See kubectl network why pod/web-0"}},
		"a Pod that is being deleted": {pod: leaving, code: 1, has: []string{"does not run"}},
		"no such Pod":                 {pod: &corev1.Pod{ObjectMeta: named("other")}, code: 1, has: []string{`Pod shop/web-0: pods "web-0" not found`}},
		"the user may not add containers": {pod: one, code: 1, room: room{edit: lacking("patch")},
			has: []string{"Error: you may not patch pods/ephemeralcontainers in namespace shop", "Ask an administrator"}},
		"the user may not run programs": {pod: one, code: 1, room: room{edit: lacking("create")},
			has: []string{"Error: you may not create pods/exec in namespace shop"}},
		"the user may not read the agents' image": {pod: one, code: 1,
			room: room{edit: func(kube *kubefake.Clientset) { forbid(kube, "get", "daemonsets") }},
			has:  []string{"DaemonSet network-agent/network-agent, whose image the command uses", "--image"}},
		"and names it": {pod: one, flags: "--image a/b:v1", mac: "fa:16:3e:00:00:00",
			room: room{edit: func(kube *kubefake.Clientset) { forbid(kube, "get", "daemonsets") }}},
		"a namespace of the level baseline": {pod: one, mac: "fa:16:3e:00:00:00", room: *new(room).podSecurity("baseline")},
		"a namespace of the level restricted": {pod: one, code: 1, room: *new(room).podSecurity("restricted"), has: []string{
			`violates PodSecurity "restricted:latest"`, "Pod Security Standard has to be baseline or privileged"}},

		"the image cannot be pulled": {pod: one, code: 1, room: room{state: waitingFor("ImagePullBackOff", "not found")},
			has: []string{"Error: container capture-x7k2p does not run: ImagePullBackOff: not found", "--image"}},
		"the image has no such program": {pod: one, code: 1,
			room: room{state: waitingFor("RunContainerError", "executable file not found in $PATH")},
			has:  []string{"The image has no network-agent that knows the command capture."}},
		"the image is older": {pod: one, code: 1, room: room{state: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "unknown command \"capture\""}}},
			has: []string{"The capture has ended with the code 1. It said: unknown command", "upgrade the data plane"}},
		"the container never starts": {pod: one, code: 1, room: room{state: waitingFor("ContainerCreating", "")},
			has: []string{"it has not started after 2m0s: ContainerCreating. See", "kubectl describe pod web-0"}},
		"the API server does not answer once": {pod: one, mac: "fa:16:3e:00:00:00", room: room{edit: func(kube *kubefake.Clientset) {
			asked := 0
			kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return asked == 2, nil, apierrors.NewServiceUnavailable("it restarts")
			})
		}}},
		"the program fails": {pod: one, code: 1, room: room{exec: func(_ context.Context, streams capture.Streams) error {
			_, _ = io.WriteString(streams.Stderr, "network-agent: opening a packet socket: operation not permitted\n")
			return errors.New("command terminated with exit code 1")
		}}, has: []string{"exit code 1: network-agent: opening a packet socket: operation not permitted"}},
		"the container does not answer": {pod: one, code: 1, room: room{exec: endless},
			has: []string{"the container does not answer, so the end of the pcap is missing"}},

		"too long":    {pod: one, flags: "--duration 1h", code: 1, has: []string{"--duration 1h0m0s: write 1s to 10m"}},
		"a used file": {pod: one, flags: "-o used.pcap", code: 1, has: []string{"used.pcap", "name another file with -o"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "used.pcap", "")
			out, code := tc.room.run(t, []runtime.Object{tc.pod}, strings.TrimSpace("capture web-0 -n shop "+tc.flags))
			expect.Equal(t, tc.code, code, "the exit code of\n%s", out)
			for _, words := range tc.has {
				expect.Contains(t, out, words, "the output")
			}
			content, err := os.ReadFile("web-0-20260301T120000Z.pcap")
			if is := string(content); tc.code == 0 && is != pcap || tc.code != 0 && err == nil {
				t.Errorf("the file has %q, %v", is, err)
			}
			if tc.code != 0 {
				return
			}
			expect.Equal(t, []string{"network-agent", "capture", "--mac=" + tc.mac, "--duration=10s", "--bytes=10485760", "--snaplen=262144"},
				tc.room.command, "the program")
		})
	}
}

// TestTheContainerAsksForLittle reads what is added to a Pod: it ends by itself, and gets no more than it needs.
func TestTheContainerAsksForLittle(t *testing.T) {
	t.Chdir(t.TempDir())
	r := room{}
	if out, code := r.run(t, []runtime.Object{onNetworks("frontend")}, "capture pod/web-0 -n shop --duration 2m"); code != 0 {
		t.Fatal(out)
	}
	expect.Len(t, 1, r.added, "containers")
	text, err := json.Marshal(r.added[0])
	expect.NoError(t, err)
	expect.Equal(t, `{"name":"capture-x7k2p","image":"registry.example.org/network-controller:v1",`+
		`"command":["network-agent","capture","--hold=2m30s"],"resources":{},"terminationMessagePolicy":"FallbackToLogsOnError",`+
		`"imagePullPolicy":"IfNotPresent","securityContext":{"capabilities":{"add":["NET_RAW"],"drop":["ALL"]},"runAsUser":0,`+
		`"runAsNonRoot":false,"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}}`, string(text), "the container")
}

// TestCtrlCEndsACapture has the program in the container see the end of its standard input, and complete the pcap.
func TestCtrlCEndsACapture(t *testing.T) {
	t.Chdir(t.TempDir())
	r := &room{}
	r.exec = func(ctx context.Context, streams capture.Streams) error {
		r.ctrlC()
		if _, err := io.ReadAll(streams.Stdin); err != nil {
			return err
		}
		return captured(ctx, streams)
	}
	out, code := r.run(t, []runtime.Object{onNetworks("frontend")}, "capture web-0 -n shop -o -")
	if lines := strings.Split(out, "\n"); code != 0 || !slices.Contains(lines, pcap+"42 packets in 5120 bytes. 0 packets lost.") {
		t.Errorf("it ends with %d:\n%s", code, out)
	}
	r.exec = func(ctx context.Context, streams capture.Streams) error {
		r.ctrlC()
		_, _ = io.WriteString(streams.Stdout, pcap)
		soon := time.Now().Add(6 * time.Second)
		<-ctx.Done()
		if now := time.Now(); now.After(soon) { // virtual time
			t.Errorf("the user waits until %s, and not until %s", now, soon)
		}
		return ctx.Err()
	}
	out, code = r.run(t, []runtime.Object{onNetworks("frontend")}, "capture web-0 -n shop -o part.pcap")
	part, err := os.ReadFile("part.pcap")
	if code != 1 || string(part) != pcap || err != nil || !strings.Contains(out, "the end of the pcap is missing") {
		t.Errorf("it ends with %d and %q, %v:\n%s", code, part, err, out)
	}
}

// TestNoMoreIsCapturedThanWasAskedFor has something else write into the pcap, as root on the node or in the Pod can.
func TestNoMoreIsCapturedThanWasAskedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	for what, to := range map[string]func(capture.Streams) io.Writer{
		"packets": func(s capture.Streams) io.Writer { return s.Stdout },
		"words":   func(s capture.Streams) io.Writer { return s.Stderr },
	} {
		r := &room{exec: func(ctx context.Context, streams capture.Streams) error {
			for {
				if _, err := to(streams).Write(make([]byte, 1000)); err != nil {
					return err
				}
			}
		}}
		out, code := r.run(t, []runtime.Object{onNetworks("frontend")}, "capture web-0 -n shop --bytes 100000 -o "+what+".pcap")
		if code != 1 || !strings.Contains(out, "writes more than it may") {
			t.Errorf("%s: it ends with %d: %s", what, code, out)
		}
	}
}

// TestAFullDiskIsSaid has the library ignore that the pcap cannot be written, as it does.
func TestAFullDiskIsSaid(t *testing.T) {
	f, _ := factoryOf(t, []runtime.Object{onNetworks("frontend")})
	kube, _, err := f.clients()
	expect.NoError(t, err)
	r := room{}
	r.attach(kube.(publishing).Clientset)
	cluster, err := f.cluster()
	expect.NoError(t, err)
	cluster.Kubernetes = kube
	o := capture.Options{Namespace: "shop", Pod: "web-0", Image: "agent", Container: "capture", To: full{}, Progress: func(string) {},
		Exec: func(ctx context.Context, _, _, _ string, _ []string, streams capture.Streams) error {
			return captured(ctx, streams)
		}}
	o.Limits.Time, o.Limits.Bytes, o.Limits.Length = 1e9, 1<<20, 96
	expect.ErrorSays(t, capture.Run(t.Context(), cluster, o), "no space left on device")
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
