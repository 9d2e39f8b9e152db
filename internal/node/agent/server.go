package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
)

// listen opens the plugin's socket, for root only.
func listen(path string) (net.Listener, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("--socket: %w", err)
	}
	// What an earlier agent left.
	if found, err := os.Lstat(path); err == nil && found.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("--socket: %w", err)
		}
	}
	before := unix.Umask(0o177)
	listener, err := net.Listen("unix", path)
	unix.Umask(before)
	if err != nil {
		return nil, fmt.Errorf("--socket: %w", err)
	}
	// An agent that stops late must not remove the socket of its successor.
	if socket, ok := listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false)
	}
	return listener, nil
}

type peerKey struct{}

// withPeer notes which user is at the other end of a connection: the kernel tells (SO_PEERCRED).
func withPeer(ctx context.Context, c net.Conn) context.Context {
	uid, err := peer(c)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, uid)
}

func peer(c net.Conn) (uint32, error) {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return credentials.Uid, nil
}

// handler serves the plugin. uid is the only user that may ask.
func (a *Agent) handler(uid uint32) http.Handler {
	mux := http.NewServeMux()
	post := func(path string, serve func(context.Context, agentapi.Request) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var request agentapi.Request
			if err := json.NewDecoder(io.LimitReader(r.Body, agentapi.MaxMessage)).Decode(&request); err != nil {
				answer(w, path, nil, agentapi.Errorf(agentapi.CodeInternal, "the request cannot be read: %v", err))
				return
			}
			logger := klog.FromContext(r.Context()).WithValues("path", path, "namespace", request.PodNamespace,
				"pod", request.PodName, "interface", request.IfName)
			logger.V(2).Info("Asked")
			began := time.Now()
			result, err := serve(r.Context(), request)
			if err != nil {
				logger.Info("Refused", "err", err)
			}
			durations.WithLabelValues(path).Observe(time.Since(began).Seconds())
			answer(w, path, result, err)
		})
	}
	post(agentapi.PathPrepare, func(ctx context.Context, r agentapi.Request) (any, error) { return a.prepare(ctx, r) })
	post(agentapi.PathPlug, func(ctx context.Context, r agentapi.Request) (any, error) { return nil, a.plug(ctx, r) })
	post(agentapi.PathUnplug, func(ctx context.Context, r agentapi.Request) (any, error) { return nil, a.unplug(ctx, r) })
	post(agentapi.PathCheck, func(ctx context.Context, r agentapi.Request) (any, error) { return a.check(ctx, r) })
	post(agentapi.PathGC, func(ctx context.Context, _ agentapi.Request) (any, error) { return nil, a.repair(ctx) })
	mux.HandleFunc("GET "+agentapi.PathStatus, func(w http.ResponseWriter, r *http.Request) {
		result, err := a.status(r.Context())
		answer(w, agentapi.PathStatus, result, err)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := r.Context().Value(peerKey{}).(uint32); !ok || who != uid {
			answer(w, r.URL.Path, nil, agentapi.Errorf(agentapi.CodeForbidden,
				"only the user %d may ask the agent; this is the user %d; have the container runtime run the plugin", uid, who))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// answer writes a result, or an error as the plugin expects it.
func answer(w http.ResponseWriter, path string, result any, err error) {
	w.Header().Set("Content-Type", "application/json")
	status, code := http.StatusOK, uint(0)
	if err != nil {
		refusal := &agentapi.Error{}
		if !errors.As(err, &refusal) {
			refusal = agentapi.Errorf(agentapi.CodeInternal, "%v", err)
		}
		result, status, code = refusal, http.StatusConflict, refusal.Code
		if code == agentapi.CodeForbidden {
			status = http.StatusForbidden
		}
	}
	requests.WithLabelValues(path, strconv.FormatUint(uint64(code), 10)).Inc()
	w.WriteHeader(status)
	if result == nil {
		result = struct{}{}
	}
	_ = json.NewEncoder(w).Encode(result)
}

// serve serves the plugin at a listener until ctx is done. Running requests have a moment to end.
func (a *Agent) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: a.handler(0), ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ending)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
