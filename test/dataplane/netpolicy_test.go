//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aPolicyClosesAndOpens has a MultiNetworkPolicy decide who may open a connection to a Pod, and change its mind.
func (w *world) aPolicyClosesAndOpens() {
	first, second := w.nodes.All[0].Name, w.nodes.All[1].Name
	server := podFor("server", second, "both")
	server.Spec.Containers[0].Command = []string{"sh", "-c",
		`trap "exit 0" TERM; hostname >/tmp/name; httpd -p 80 -h /tmp; while :; do sleep 1; done`}
	for _, pod := range []*corev1.Pod{
		server, podFor("friend", first, "both"), podFor("neighbor", second, "both"), podFor("stranger", first, "both"),
	} {
		pod.Labels = map[string]string{"app": pod.Name}
		w.create(pod)
	}
	to, friend, neighbor, stranger := w.guest("server"), w.guest("friend"), w.guest("neighbor"), w.guest("stranger")
	connects := func(from *guest, address netip.Addr) error {
		answer, err := from.node.Exec(from.Status.ContainerStatuses[0].ContainerID, "sh", "-c",
			fmt.Sprintf(`printf "GET /name HTTP/1.0\r\n\r\n" | nc -w 2 %s 80`, address))
		if err == nil && !strings.Contains(answer, "server") {
			err = fmt.Errorf("got %q", answer)
		}
		return err
	}
	passes := func(from *guest) {
		w.Helper()
		for _, address := range to.addresses(0) {
			w.eventually(func() error { return connects(from, address) })
		}
	}
	timesOut := func(from *guest) {
		w.Helper()
		for _, address := range to.addresses(0) {
			w.eventually(func() error {
				if connects(from, address) == nil {
					return fmt.Errorf("Pod %s still opens connections to %s", from.Name, address)
				}
				return nil
			})
			if err := connects(from, address); err == nil {
				w.Errorf("Pod %s opens connections to %s again", from.Name, address)
			}
		}
	}
	for _, from := range []*guest{friend, neighbor, stranger} {
		passes(from)
	}

	allow := func(names string) time.Time {
		w.Helper()
		began := time.Now()
		surroundings.PutPolicy(w, w.namespace, "server", "both", `
podSelector: {matchLabels: {app: server}}
ingress:
- from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [`+names+`]}]}}]
  ports: [{port: 80}]
`)
		return began
	}
	began := allow("friend, neighbor")
	timesOut(stranger)
	w.Logf("a new policy holds after %s", time.Since(began).Round(100*time.Millisecond))
	passes(friend)
	passes(neighbor)
	for _, address := range to.addresses(0) {
		if friend.ping(address) == nil {
			w.Errorf("the policy allows port 80 alone, and %s answers a ping", address)
		}
	}
	// What it opens itself is answered: no policy restricts what it sends.
	w.eventually(func() error { return to.ping(netip.MustParseAddr("10.30.0.1")) })

	began = allow("stranger")
	passes(stranger)
	w.Logf("a changed policy lets in after %s", time.Since(began).Round(100*time.Millisecond))
	timesOut(friend)
	timesOut(neighbor) // on the same node
	w.Logf("and keeps out after %s", time.Since(began).Round(100*time.Millisecond))

	surroundings.RemovePolicy(w, w.namespace, "server")
	for _, from := range []*guest{friend, neighbor, stranger} {
		passes(from)
	}
	w.eventually(func() error {
		groups, err := surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace).List(w.Context(), metav1.ListOptions{})
		if err == nil && len(groups.Items) > 0 {
			err = errors.New("SecurityGroups of the policy are left: " + groups.Items[0].Name)
		}
		return err
	})
	w.removePods("server", "friend", "neighbor", "stranger")
}
