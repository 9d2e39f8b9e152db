package rights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// auditPolicy has kube-apiserver log the accounts' requests, and of objects with owners what they create.
func auditPolicy() string {
	var users []string
	for _, account := range accounts {
		users = append(users, userOf(account))
	}
	list := strings.Join(users, ", ")
	return `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: [` + list + `]
    verbs: [create]
    resources:
      - {group: apps}
      - {group: cloudteam.ztgame.com}
      - {group: k8s.cni.cncf.io}
  - level: Metadata
    users: [` + list + `]
  - level: None
`
}

// entry is an entry of the audit log, as far as it is read here.
type entry struct {
	User       struct{ Username string }
	Verb       string
	RequestURI string
	ObjectRef  *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// RequestObject is what was created.
	RequestObject  *metav1.PartialObjectMetadata
	ResponseStatus struct {
		Code    int
		Message string
	}
}

// entries reads the audit log.
func entries(t *testing.T) []entry {
	t.Helper()
	file, err := os.Open(auditLog)
	expect.NoError(t, err)
	defer file.Close()
	var all []entry
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // kube-apiserver is writing the rest
		}
		var e entry
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			t.Fatalf("reading %s: %v", auditLog, err)
		}
		all = append(all, e)
	}
}

// uses are the rights that a request takes.
func (e entry) uses() []right {
	if e.ObjectRef == nil {
		return nil // such as discovery, which everybody may use
	}
	used := right{
		Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
	}
	if e.ObjectRef.Subresource != "" {
		used.Resource += "/" + e.ObjectRef.Subresource
	}
	if used.Resource == "namespaces" {
		used.Namespace = "" // kube-apiserver says that a Namespace is in itself
	}
	all := []right{used}
	if e.RequestObject == nil {
		return all
	}
	for _, owner := range e.RequestObject.OwnerReferences {
		if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
			all = append(all, right{
				Verb: "update", Group: schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).Group,
				Resource:  strings.ToLower(owner.Kind) + "s/finalizers",
				Namespace: e.ObjectRef.Namespace, Name: owner.Name,
			})
		}
	}
	return all
}

// String is the request in words.
func (e entry) String() string {
	return fmt.Sprintf("%s: %s %s: %d %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Code,
		e.ResponseStatus.Message)
}
