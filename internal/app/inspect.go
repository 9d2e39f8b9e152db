package app

import (
	"context"
	"fmt"
	"net"
	"os"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/serving"
)

// serveInspection records what happens in this process, and serves it at an address on loopback, until stop.
func serveInspection(ctx context.Context, address string) (stop func(), err error) {
	token := os.Getenv(inspect.EnvToken)
	if token == "" {
		return nil, fmt.Errorf("--inspect-address: the variable %s is empty: set it to a random text, which the readers "+
			"of the stream have to send", inspect.EnvToken)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--inspect-address: %w: use another address, or an empty one to record nothing", err)
	}
	recorder, off := inspect.Start()
	server := serving.NewServer(recorder.Serve(token))
	klog.FromContext(ctx).Info("Recording each step of each object, for development; this costs time",
		"address", listener.Addr().String())
	go server.Serve(serving.Limit(listener)) //nolint:errcheck // it ends by stop
	return func() { off(); server.Close() }, nil
}
