package neutrontest

import (
	"cmp"
	"net/http"
	"slices"
)

// maxTagLength is Neutron's limit on a tag, in characters.
const maxTagLength = 255

// tags answers what is below /{collection}/{id}/tags; tag is empty for all of them. A change that changes something
// moves the revision of the resource, one that does not leaves it.
func (k *resources[R]) tags(req *request, id, tag string) *apiError {
	var wanted []string
	if req.Method == http.MethodPut && tag == "" {
		body, err := req.body()
		if err != nil {
			return err
		}
		list, given := body["tags"]
		if !given {
			return invalidInput("Invalid tags body")
		}
		if reason := areUniqueStrings(maxTagLength)(list); reason != "" {
			return invalidInput("%s", reason)
		}
		for _, item := range list.([]any) {
			wanted = append(wanted, item.(string))
		}
	}
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	r, ok := k.table.byID[id]
	if !ok && k.server.since(TagsOfGoneAre500) {
		return internalError()
	}
	if k.server.since(TagsOfOthersAre403) && !k.mayTag(req, r) {
		verb := map[string]string{http.MethodPut: "update", http.MethodDelete: "delete"}[req.Method]
		return disallowed("rule:" + cmp.Or(verb, "get") + "_" + k.schema.singular + ":tags")
	}
	if !ok || !k.schema.seenBy(k.view(req), r) {
		return refuse(http.StatusNotFound, "TagResourceNotFound", "Resource %s %s could not be found.",
			k.schema.plural, id)
	}
	current := r.common().tags
	missing := refuse(http.StatusNotFound, "TagNotFound", "Tag %s could not be found.", tag)
	switch {
	case req.Method == http.MethodGet && tag == "":
		writeJSON(req.w, http.StatusOK, map[string]any{"tags": current})
	case req.Method == http.MethodGet:
		if !slices.Contains(current, tag) {
			return missing
		}
		req.w.WriteHeader(http.StatusNoContent)
	case req.Method == http.MethodPut && tag == "":
		k.retag(r, wanted)
		writeJSON(req.w, http.StatusOK, map[string]any{"tags": append([]string{}, wanted...)})
	case req.Method == http.MethodPut:
		if !slices.Contains(current, tag) {
			k.retag(r, append(slices.Clone(current), tag))
		}
		writeJSON(req.w, http.StatusCreated, nil)
	case req.Method == http.MethodDelete && tag == "":
		k.retag(r, nil)
		req.w.WriteHeader(http.StatusNoContent)
	case req.Method == http.MethodDelete:
		if !slices.Contains(current, tag) {
			return missing
		}
		k.retag(r, slices.DeleteFunc(slices.Clone(current), func(t string) bool { return t == tag }))
		req.w.WriteHeader(http.StatusNoContent)
	default:
		return hidden()
	}
	return nil
}

// mayTag is whether the policy lets the caller read or write the tags of a resource. A network's owner passes for the
// subnets of others there, which are hidden afterwards.
func (k *resources[R]) mayTag(req *request, r R) bool {
	if sub, ok := any(r).(*subnet); ok && sub.network.project == req.caller.project {
		return true
	}
	return req.Method == http.MethodGet && k.schema.seenBy(k.view(req), r) || k.own(req.caller, "update", r) == nil
}

// retag sets the tags, which are kept sorted.
func (k *resources[R]) retag(r R, tags []string) {
	tags = append([]string{}, tags...)
	slices.Sort(tags)
	if slices.Equal(tags, r.common().tags) {
		return
	}
	k.server.begin().bump(r.common())
	r.common().tags = tags
}
