package kubectl

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTheClientsTellTheAPIServersClock(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion": "v1.36.1"}`))
	}))
	defer server.Close()
	f := &factory{config: genericclioptions.NewConfigFlags(true)}
	f.config.APIServer = &server.URL
	f.config.KubeConfig = new("/dev/null")
	kube, _, err := f.connect()
	expect.NoError(t, err)
	if f.ahead().Known {
		t.Error("the time is known before the first answer")
	}
	if _, err := kube.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if ahead := f.ahead(); !ahead.Known || ahead.Least.Round(time.Minute) != time.Hour {
		t.Errorf("the clock is ahead by %+v, want an hour", ahead)
	}
}
