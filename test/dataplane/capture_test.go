//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/capture"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// aUserCaptures has a user do `kubectl network capture` of a Pod that another one pings. Who may only edit the namespace
// gets nothing, and a namespace of the level restricted refuses the container. At the level baseline it runs.
func (w *world) aUserCaptures(guests []*guest) {
	pod, other := guests[1], guests[2]
	expect.NoError(w, pod.node.Import(imageAgent, filepath.Join(programs, "network-agent")))
	user, config := w.editor("dave")
	ctx, end := context.WithCancel(w.Context())
	defer end()
	replied := ethernet(other.mac(0), pod.mac(0), etherIPv4)
	o := capture.Options{
		Namespace: w.namespace, Pod: pod.Name, Network: "both", Image: imageAgent, Container: "capture-lab",
		Progress: func(line string) { w.Log(line) }, Exec: capture.ExecBy(config, user.Kubernetes),
	}
	// The header of the file comes first, when the capture has begun. The user ends it when a
	// second reply begins: the first one is whole then.
	var pcap bytes.Buffer
	var begun sync.Once
	o.To = writer(func(p []byte) (int, error) {
		begun.Do(func() {
			go func() {
				for ctx.Err() == nil {
					_ = other.ping(v4(pod))
				}
			}()
		})
		n, err := pcap.Write(p)
		if bytes.Count(pcap.Bytes(), replied) > 1 {
			end()
		}
		return n, err
	})
	o.Limits.Time, o.Limits.Bytes, o.Limits.Length = 5*time.Minute, 1<<20, 128
	w.eventually(func() error { // the API server learns of a RoleBinding a moment later
		_, err := user.Kubernetes.CoreV1().Pods(w.namespace).Get(w.Context(), pod.Name, metav1.GetOptions{})
		return err
	})
	expect.ErrorSays(w, capture.Run(w.Context(), user, o), "you may not patch pods/ephemeralcontainers in namespace")
	w.mayAddContainers("dave", user)
	several := o
	several.Pod = guests[0].Name
	expect.ErrorSays(w, capture.Run(w.Context(), user, several), "has 2 such ports")
	defer w.restrict("privileged")
	for _, level := range []string{"restricted", "baseline"} {
		w.restrict(level)
		w.eventually(func() error { // the API server learns of a label a moment later
			_, err := surroundings.Kube.CoreV1().Pods(w.namespace).Create(w.Context(), podFor("dry", "", ""),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if (err == nil) != (level == "baseline") {
				return fmt.Errorf("in a namespace of the level %s: %w", level, err)
			}
			return nil
		})
		if err := capture.Run(ctx, user, o); level == "baseline" {
			expect.NoError(w, err)
		} else {
			expect.ErrorSays(w, err, "PodSecurity")
		}
	}

	frames := nodetest.Frames(w, pcap.Bytes())
	for what, is := range map[string]func(frame []byte) bool{
		"request": func(frame []byte) bool { return echoes(frame, 8, other, pod) },
		"reply":   func(frame []byte) bool { return echoes(frame, 0, pod, other) },
	} {
		if !slices.ContainsFunc(frames, is) {
			w.Errorf("of %d frames, none is an echo %s", len(frames), what)
		}
	}
}

// v4 is the address of a guest on its first interface.
func v4(g *guest) netip.Addr { return g.addresses(0)[0] }

// echoes reports whether a frame has an ICMP message of a kind that a guest sends to another.
func echoes(frame []byte, kind byte, from, to *guest) bool {
	const protocolICMP = 1
	return len(frame) > 34 && bytes.HasPrefix(frame, ethernet(to.mac(0), from.mac(0), etherIPv4)) &&
		frame[23] == protocolICMP && frame[34] == kind &&
		bytes.Equal(frame[26:34], slices.Concat(v4(from).AsSlice(), v4(to).AsSlice()))
}

// mayAddContainers gives a user the right that a capture needs and the role edit lacks.
func (w *world) mayAddContainers(name string, user *ask.Cluster) {
	w.Helper()
	does := authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers"}
	meta := metav1.ObjectMeta{Name: "add-containers"}
	harness.Create(w, surroundings.Kube.RbacV1().Roles(w.namespace), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{does.Resource + "/" + does.Subresource}, Verbs: []string{does.Verb}},
	}})
	harness.Create(w, surroundings.Kube.RbacV1().RoleBindings(w.namespace), &rbacv1.RoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}})
	w.eventually(func() error {
		if lacks := ask.Lacks(w.Context(), user.Kubernetes, w.namespace, does); len(lacks) > 0 {
			return fmt.Errorf("%s may not %v yet", name, lacks)
		}
		return nil
	})
}

// writer is an io.Writer.
type writer func(p []byte) (int, error)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) { return w(p) }
