package neutrontest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// apiError is a refusal as Neutron words it: the HTTP status and the three fields of the NeutronError object.
type apiError struct {
	status  int
	kind    string // NeutronError.type, the name of the exception that the real service raises
	message string
	detail  string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.kind, e.message) }

func refuse(status int, kind, format string, args ...any) *apiError {
	return &apiError{status: status, kind: kind, message: fmt.Sprintf(format, args...)}
}

// badRequest is how Neutron's API layer refuses a request before any plugin has seen it.
func badRequest(format string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "HTTPBadRequest", format, args...)
}

// invalidInput is how converters and the core plugin refuse a value that is well formed but makes no sense.
func invalidInput(format string, args ...any) *apiError {
	reason := fmt.Sprintf(format, args...)
	return refuse(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: %s.", reason)
}

// badResource is the BadRequest exception that names the resource it is about.
func badResource(resource, format string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, "BadRequest", "Bad %s request: %s.", resource, fmt.Sprintf(format, args...))
}

// internalError is what a request answers on which the real server stumbles.
func internalError() *apiError {
	return refuse(http.StatusInternalServerError, "HTTPInternalServerError",
		"Request Failed: internal server error while processing your request.")
}

func networkNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", id)
}

func subnetNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "SubnetNotFound", "Subnet %s could not be found.", id)
}

func portNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", id)
}

func subnetPoolNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "SubnetPoolNotFound", "Subnet pool %s could not be found.", id)
}

func routerNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "RouterNotFound", "Router %s could not be found", id)
}

// hidden is what a caller sees of a resource that exists but is none of its business: nothing.
func hidden() *apiError {
	return refuse(http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
}

// disallowed is the refusal of the policy engine; rule is the policy expression as the real one prints it.
func disallowed(rule string) *apiError {
	return refuse(http.StatusForbidden, "PolicyNotAuthorized", "%s is disallowed by policy", rule)
}

func revisionMismatch(want, have int) *apiError {
	return &apiError{
		status: http.StatusPreconditionFailed, kind: "RevisionNumberConstraintFailed",
		message: fmt.Sprintf("Constrained to %d, but current revision is %d", want, have),
	}
}

func writeNeutronError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, map[string]any{
		"NeutronError": map[string]string{"type": e.kind, "message": e.message, "detail": e.detail},
	})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBody(w, status, data)
}

func writeBody(w http.ResponseWriter, status int, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	// A client that went away is no concern of the server's.
	_, _ = w.Write(data)
}

// pyString renders a decoded JSON value as Python's str() does, because Neutron's messages quote what they were sent.
func pyString(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return pyRepr(v)
}

// pyRepr renders a decoded JSON value as Python's repr() does. The keys of an object come in the order of the
// alphabet, since their order in the request is not kept.
func pyRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			return `"` + v + `"`
		}
		return "'" + strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), "'", `\'`) + "'"
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = pyRepr(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = pyRepr(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range sortedKeys(v) {
			parts = append(parts, pyRepr(key)+": "+pyRepr(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}
