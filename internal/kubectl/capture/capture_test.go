package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// execBy is an Exec by an API server that has no WebSockets. The program in the container reads its standard input to the
// end, says how it was called, and ends with a status.
func execBy(t *testing.T, status metav1.Status) Exec {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "no WebSockets pass here", http.StatusBadRequest)
			return
		}
		if status.Code == http.StatusForbidden {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(status)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
			return
		}
		opened := make(chan httpstream.Stream, 4)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			opened <- s
			return nil
		})
		defer connection.Close()
		of := map[string]httpstream.Stream{}
		for range cap(opened) {
			s := <-opened
			of[s.Headers().Get(corev1.StreamType)] = s
		}
		read, err := io.ReadAll(of[corev1.StreamTypeStdin])
		fmt.Fprintf(of[corev1.StreamTypeStdout], "%s %v read %q, %v", r.URL.Path, r.URL.Query(), read, err)
		fmt.Fprint(of[corev1.StreamTypeStderr], "1 packet")
		_ = json.NewEncoder(of[corev1.StreamTypeError]).Encode(status)
		for _, s := range of {
			_ = s.Close()
		}
		<-connection.CloseChan()
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	return ExecBy(config, kube)
}

func TestAProgramRunsThroughTheAPIServer(t *testing.T) {
	failure := metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: "1"}}}}
	forbidden := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `pods "web-0" is forbidden: User "dora" cannot create resource "pods/exec"`}
	for says, status := range map[string]metav1.Status{
		"": {Status: metav1.StatusSuccess}, "exit code 1": failure, `cannot create resource "pods/exec"`: forbidden,
	} {
		var out, errs bytes.Buffer
		err := execBy(t, status)(t.Context(), "shop", "web-0", "capture-x", []string{"network-agent", "capture"},
			Streams{Stdin: strings.NewReader("all"), Stdout: &out, Stderr: &errs})
		if says != "" {
			expect.ErrorSays(t, err, says)
		} else {
			expect.NoError(t, err)
		}
		if status.Code == http.StatusForbidden {
			continue
		}
		expect.Equal(t, `/api/v1/namespaces/shop/pods/web-0/exec map[command:[network-agent capture] container:[capture-x] `+
			`stderr:[true] stdin:[true] stdout:[true]] read "all", <nil>`, out.String(), "the standard output")
		expect.Equal(t, "1 packet", errs.String(), "the standard error")
	}
}
