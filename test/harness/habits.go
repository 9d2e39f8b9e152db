package harness

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Habits is a transport to a cloud that answers as some other clouds do. Who does not use it sees the cloud as it is.
type Habits struct {
	neutrontest.Habits
	// Next sends requests to the cloud; nil is http.DefaultTransport.
	Next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h *Habits) RoundTrip(r *http.Request) (*http.Response, error) {
	var failed error
	recorder := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := cmp.Or(h.Next, http.DefaultTransport).RoundTrip(r)
		if failed = err; err != nil {
			return
		}
		defer response.Body.Close()
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.StatusCode)
		_, failed = io.Copy(w, response.Body)
	})).ServeHTTP(recorder, r)
	if failed != nil {
		return nil, failed
	}
	return recorder.Result(), nil
}

// possible are the habits with which everything is possible and stays as it is declared.
var possible = []neutrontest.Habit{
	neutrontest.NoStatus, neutrontest.TextNumbers, neutrontest.AcceptedCreates, neutrontest.VendorAttributes,
	neutrontest.NullLists, neutrontest.UpperCaseIPv6, neutrontest.DownStatus, neutrontest.OldNetworks,
	neutrontest.ProtocolNames, neutrontest.LostDeletes, neutrontest.SilentUpdates,
	neutrontest.NoDate, neutrontest.SkewedDates, neutrontest.InternalLinks, neutrontest.ShortPages,
}

// Choose sets none, one or two habits with which everything is possible. number is what a sequence has drawn for other
// things: one more draw would make others of all sequences.
func (h *Habits) Choose(t *rapid.T, number int) {
	t.Helper()
	sets := [][]neutrontest.Habit{nil}
	for i, one := range possible {
		sets = append(sets, []neutrontest.Habit{one})
		for _, other := range possible[:i] {
			sets = append(sets, []neutrontest.Habit{one, other})
		}
	}
	habits := sets[(7*number)%len(sets)] // neighbours have little in common
	t.Logf("the cloud has the habits %v", habits)
	expect.NoError(t, h.Set(habits...))
}
