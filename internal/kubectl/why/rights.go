package why

import (
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// whoElse says that somebody else has to run commands that the user may not run; empty if there are none.
func (w *walk) whoElse(commands []string) string {
	if w.May == nil {
		return ""
	}
	var not []string
	for _, command := range commands {
		if does, known := attributesOf(command); known && !w.May(w.ctx, does) {
			not = append(not, command)
		}
	}
	switch len(not) {
	case 0:
		return ""
	case len(commands):
		return " You may not do this: ask an administrator."
	}
	return " Ask an administrator to run what you may not run: " + strings.Join(not, "; ") + "."
}

// verbs are those of the API that kubectl's commands need first.
var verbs = map[string]string{
	"get": "get", "describe": "get", "logs": "get", "edit": "patch", "label": "patch", "annotate": "patch",
	"delete": "delete", "apply": "create",
}

// groupOf gives the group of the API by resource; empty for one of the core group.
func groupOf(resource string) string {
	if resource == "customresourcedefinitions" {
		return "apiextensions.k8s.io"
	}
	for _, s := range spellings() {
		if s.resource == resource {
			return s.group
		}
	}
	return ""
}

// attributesOf returns what a command of kubectl does first; false for other commands.
func attributesOf(command string) (does authorizationv1.ResourceAttributes, known bool) {
	words := strings.Fields(command)
	if len(words) < 3 || words[0] != "kubectl" {
		return does, false
	}
	if at := slices.Index(words, "-n"); at > 0 && at+1 < len(words) {
		does.Namespace = words[at+1]
		words = slices.Delete(words, at, at+2)
	}
	does.Verb, known = verbs[words[1]]
	if !known || len(words) < 3 {
		return does, false
	}
	kind, name, _ := strings.Cut(words[2], "/")
	if name == "" && len(words) > 3 && !strings.HasPrefix(words[3], "-") {
		name = words[3]
	}
	kind, _, _ = strings.Cut(kind, ",")
	kind, _, _ = strings.Cut(kind, ".")
	switch words[1] {
	case "apply": // manifests of config, as an administrator's
		kind, name = "customresourcedefinition", ""
	case "logs":
		kind, name, does.Subresource = "pod", "", "log"
	}
	if does.Resource = kind; !strings.HasSuffix(kind, "s") || strings.HasSuffix(kind, "class") {
		does.Resource = plural(kind)
	}
	does.Group, does.Name = groupOf(does.Resource), name
	if does.Verb == "get" && name == "" && does.Subresource == "" {
		does.Verb = "list"
	}
	return does, true
}
