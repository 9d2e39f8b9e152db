package harness

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// idleConnections is how many connections a proxy keeps open to its target. With fewer than there are callers at a
// time, it would open one for nearly each call. A Neutron with one worker serves a hundred connections, and those that
// are open and silent are among them: what all proxies keep has to stay below that.
const idleConnections = 48

// idleFor is how long such a connection is kept that nobody uses.
const idleFor = 5 * time.Second

// FrontKube starts a proxy in front of kube-apiserver and writes a kubeconfig of the controller's ServiceAccount for
// it. What the options say of target, transport, TLS and shape is FrontKube's to set. The proxy has no rights
// itself: the caller's token goes along. It MUST be closed.
func (s *Surroundings) FrontKube(kubeconfig string, o proxy.Options) (*proxy.Proxy, error) {
	var err error
	if o.Target, err = url.Parse(s.Admin.Host); err != nil {
		return nil, err
	}
	if o.Transport, err = rest.TransportFor(rest.AnonymousClientConfig(s.Admin)); err != nil {
		return nil, err
	}
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	o.TLS, o.Shape = o.Listener == nil, proxy.KubeShape
	p := proxy.Start(o)
	for _, cluster := range config.Clusters {
		if cluster.Server = p.URL().String(); !o.TLS {
			continue
		}
		cluster.CertificateAuthority = ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate()})
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// ActAs has a kubeconfig log in as another one does.
func ActAs(path, other string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	as, err := clientcmd.LoadFromFile(other)
	if err != nil {
		return err
	}
	config.AuthInfos = as.AuthInfos
	return clientcmd.WriteToFile(*config, path)
}

// FrontCloud starts a proxy in front of Keystone, whose catalog then names the other one as Neutron, and one in front
// of the Neutron at endpoint. It reads cloudsFile and writes a clouds.yaml for them to path, for the clouds
// of the given names, which have one Keystone. Target, shape and, where it is nil, transport are FrontCloud's to set,
// and for Keystone what counts as a read. Both proxies MUST be closed.
func FrontCloud(
	cloudsFile, path string, names []string, endpoint string, forKeystone, forNeutron proxy.Options,
) (keystone, neutron *proxy.Proxy, err error) {
	content, err := os.ReadFile(cloudsFile)
	if err != nil {
		return nil, nil, err
	}
	var file struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", cloudsFile, err)
	}
	var identity *url.URL
	var auths []map[string]any
	for _, name := range names {
		auth, _ := file.Clouds[name]["auth"].(map[string]any)
		address, _ := auth["auth_url"].(string)
		if identity, err = url.Parse(address); err != nil || address == "" {
			return nil, nil, fmt.Errorf("%s: the cloud %q has no auth_url", cloudsFile, name)
		}
		auths = append(auths, auth)
	}
	if forNeutron.Target, err = url.Parse(endpoint); err != nil {
		return nil, nil, err
	}
	few := &http.Transport{MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleFor}
	if h, has := forNeutron.Transport.(*Habits); has && h.Next == nil {
		h.Next = few
	} else if forNeutron.Transport == nil {
		forNeutron.Transport = few
	}
	forNeutron.Shape = proxy.NeutronShape
	neutron = proxy.Start(forNeutron)
	forKeystone.Target, forKeystone.Shape = identity, func(path string) string { return path }
	// A log-in changes nothing.
	forKeystone.Reads = func(proxy.Call) bool { return true }
	answered := forKeystone.Answered
	forKeystone.Answered = func(call proxy.Call, a *proxy.Answer) {
		a.Body = proxy.RedirectCatalog(a.Body, neutron.URL())
		if answered != nil {
			answered(call, a)
		}
	}
	keystone = proxy.Start(forKeystone)
	front := *identity
	front.Host = keystone.URL().Host
	for _, auth := range auths {
		auth["auth_url"] = front.String()
	}
	if content, err = yaml.Marshal(file); err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		keystone.Close()
		neutron.Close()
		return nil, nil, err
	}
	return keystone, neutron, nil
}
