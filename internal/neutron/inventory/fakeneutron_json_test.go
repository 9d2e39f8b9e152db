package inventory

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// recorded is a ResponseWriter that keeps the body.
type recorded struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) WriteHeader(int)             {}
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }

// sortedJSON gives a document with the keys of its objects in order.
func sortedJSON(text []byte) string {
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	var sorted bytes.Buffer
	encoder := json.NewEncoder(&sorted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		panic(err)
	}
	return sorted.String()
}
