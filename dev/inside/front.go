package inside

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// Front is a proxy between the controller and the API server. It can have the watch of Networks miss something.
type Front struct {
	proxy      *proxy.Proxy
	kubeconfig string
}

// expired is what the API server answers to a watch from a resourceVersion that it has forgotten.
const expired = `{"apiVersion":"v1","kind":"Status","status":"Failure","code":410,"reason":"Expired",` +
	`"message":"too old resource version"}`

// StartFront starts a proxy in front of the API server of the kubeconfig of, and writes to path a kubeconfig for it
// with the same rights. Close MUST be called.
func StartFront(of, path string) (*Front, error) {
	config, err := clientcmd.BuildConfigFromFlags("", of)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	f := &Front{kubeconfig: path, proxy: proxy.Start(proxy.Options{
		Target: target, Transport: transport, TLS: true, Shape: proxy.KubeShape,
		// The transport logs in with what the kubeconfig has.
		Ask: func(r *http.Request) { r.Header.Del("Authorization") },
	})}
	// The proxy lends its rights to nobody else on this machine.
	f.proxy.Break(func(c proxy.Call) bool { return c.Request.Header.Get("Authorization") != "Bearer "+token }, 0,
		proxy.Refuse(http.StatusUnauthorized, "{}"))
	const name = "front"
	err = clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{
			name: {Server: f.proxy.URL().String(), CertificateAuthorityData: f.proxy.CertificatePEM()}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the proxy, which cuts the controller off, and removes its kubeconfig.
func (f *Front) Close() {
	f.proxy.Close()
	_ = os.Remove(f.kubeconfig) // no server listens there now
}

// watches reports whether a call is a watch of all Networks.
func watches(c proxy.Call) bool {
	return c.Shape == "/apis/"+cloudteamv1.SchemeGroupVersion.String()+"/networks" && c.Query("watch") != ""
}

// Blind has the controller's watch of Networks miss what do does. The watch brings nothing meanwhile, and then breaks.
// It cannot go on where it was: the API server seems to have forgotten what came since. A real one forgets after some
// minutes. So the Reflector lists again.
func (f *Front) Blind(ctx context.Context, do func() error) error {
	thaw := f.proxy.Freeze(watches)
	if err := do(); err != nil {
		thaw()
		return err
	}
	gone := f.proxy.Break(func(c proxy.Call) bool { return watches(c) && c.Query("sendInitialEvents") == "" }, 1,
		proxy.Refuse(http.StatusGone, expired))
	defer gone.Mend()
	if f.proxy.Cut(watches) == 0 {
		return errors.New("the controller has no watch of the Networks: wait until it runs")
	}
	select {
	case <-gone.Hit():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
