package bundle

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport/spdy"
)

// maxMetrics bounds the metrics of a Pod, in bytes.
const maxMetrics = 4 << 20

// Metrics reads the metrics of a Pod at a port of its loopback. Only there, programs serve them without a token. The
// user needs the right to forward ports of the Pod. It ends with the context, though the SPDY client does not.
func Metrics(
	ctx context.Context, config *rest.Config, kube kubernetes.Interface, pod *corev1.Pod, port int32,
) (content string, err error) {
	done := make(chan func(), 1) // nobody may wait any more
	go func() {
		read, failed := metrics(ctx, config, kube, pod, port)
		done <- func() { content, err = read, failed }
	}()
	select {
	case take := <-done:
		take()
	case <-ctx.Done():
		err = ctx.Err()
	}
	return content, err
}

func metrics(
	ctx context.Context, config *rest.Config, kube kubernetes.Interface, pod *corev1.Pod, port int32,
) (string, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return "", err
	}
	forward := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, forward.URL().String(), nil)
	if err != nil {
		return "", err
	}
	connection, _, err := spdy.Negotiate(upgrader, &http.Client{Transport: transport}, request,
		portforward.PortForwardV1Name)
	if err != nil {
		return "", err
	}
	closed := func() { _ = connection.Close() } // nobody writes there afterwards
	defer closed()
	defer context.AfterFunc(ctx, closed)()
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	failure, err := connection.CreateStream(headers)
	if err != nil {
		return "", err
	}
	_ = failure.Close() // this side only reads it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(data, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(data), nil)
	if err != nil {
		if why, _ := io.ReadAll(io.LimitReader(failure, 1<<10)); len(why) > 0 {
			err = fmt.Errorf("%s", why)
		}
		return "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, content)
	}
	return string(content), err
}
